"""The experiments, at toy size and with our own broker alone; those with Spark are in proof/."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from integration.paper_benchmarks.toys import LONGEST, WITH_SPARK, WITHOUT_WAITS, run_toy
from paper_benchmarks.experiments.catalogue import EXPERIMENTS

if TYPE_CHECKING:
    from pathlib import Path

TIMEOUT_S = 170
ELSEWHERE = {*WITH_SPARK, *LONGEST, "events"}
"""In proof/, and in a unit test."""


@pytest.mark.timeout(TIMEOUT_S + 10)
@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name not in ELSEWHERE])
def test_an_experiment_runs_and_makes_a_chapter(name: str, tmp_path: Path) -> None:
    """Its document, its pictures and its part of the report."""
    run_toy(name, tmp_path, TIMEOUT_S, program=WITHOUT_WAITS)
