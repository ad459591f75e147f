"""The experiments that integration tests leave out, at toy size: those with Spark, and the longest of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from integration.paper_benchmarks.toys import LONGEST, WITH_SPARK, run_toy

if TYPE_CHECKING:
    from pathlib import Path

TIMEOUT_S = 600


@pytest.mark.timeout(TIMEOUT_S + 10)
@pytest.mark.parametrize("name", [*WITH_SPARK, *LONGEST])
def test_an_experiment_runs_and_makes_a_chapter(name: str, tmp_path: Path) -> None:
    """Its document, its pictures and its part of the report."""
    run_toy(name, tmp_path, TIMEOUT_S)
