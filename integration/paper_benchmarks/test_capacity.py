"""The model of registries beside a real cluster."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from paper_benchmarks.capacity.page import is_close
from paper_benchmarks.capacity.registries import Registries
from paper_benchmarks.capacity.simulation import simulate

BY_CHANCE = "reads"
"""Audits fall into a short interval or not, and conflicts cost reads."""


@pytest.mark.timeout(170)
def test_zookeeper_counts_what_the_model_says() -> None:
    """Znodes to the last one, watches and writes but for claims that failed."""
    registries = Registries(brokers=2, topics=2, partitions=3, members=3, topics_of_group=2, commit_interval_s=1.0)
    found = simulate(registries, 5.0, print)
    assert len(found.checks) == 10
    for check in found.checks:
        if check.what == "znodes":
            assert check.counted == check.predicted
        elif check.what == "watches":
            assert check.predicted <= check.counted <= check.predicted + check.conflicts
        elif not check.what.startswith(BY_CHANCE):
            assert is_close(asdict(check)), check
