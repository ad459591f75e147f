"""The model of registries beside a real cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from integration.paper_benchmarks.toys import run_toy
from paper_benchmarks.experiments.capacity import is_close

if TYPE_CHECKING:
    from pathlib import Path

TIMEOUT_S = 170
BY_CHANCE = "reads"
"""Audits fall into a short interval or not, and conflicts cost reads."""


@pytest.mark.timeout(TIMEOUT_S + 10)
def test_zookeeper_counts_what_the_model_says(tmp_path: Path) -> None:
    """Znodes to the last one, watches and writes but for claims that failed."""
    checks = run_toy("capacity", tmp_path, TIMEOUT_S)["checks"]
    assert len(checks) == 6
    for check in checks:
        if check["what"] == "znodes":
            assert check["counted"] == check["predicted"]
        elif check["what"] == "watches":
            assert check["predicted"] <= check["counted"] <= check["predicted"] + check["conflicts"]
        elif not check["what"].startswith(BY_CHANCE):
            assert is_close(check), check
