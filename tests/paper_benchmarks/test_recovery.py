"""How long brokers need to start, from samples to the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from paper_benchmarks.experiments.recovery import chapter, checked_mb_per_s, line

if TYPE_CHECKING:
    from pathlib import Path


def start(serves_s: float) -> dict[str, float]:
    return {"serves_s": serves_s, "registered_s": serves_s + 1, "cpu_s": serves_s / 2}


LINES: list[dict[str, Any]] = [
    line(0, "killed", [start(0.5)]),
    line(0, "stopped", [start(0.5)]),
    line(100, "killed", [start(serves_s) for serves_s in (1.0, 9.0, 1.5)]),
    line(100, "stopped", [start(0.5)]),
]


def test_figures_are_medians_by_size_and_by_how_the_broker_ended() -> None:
    """One slow start does not change them; how soon it served is kept for every round."""
    slow = {"mb": 100, "stop": "killed", "serves_s": [1.0, 9.0, 1.5], "registered_s": 2.5, "cpu_s": 0.75}
    assert LINES[2] == slow
    assert LINES[3]["serves_s"] == [0.5]


def test_the_rate_of_checking_leaves_out_the_start_of_an_empty_broker() -> None:
    """It is not known where a larger log took no longer."""
    assert checked_mb_per_s(LINES, 100, "killed") == pytest.approx(100)
    assert checked_mb_per_s(LINES, 100, "stopped") is None


def test_the_chapter_has_a_row_for_each_size_and_end(tmp_path: Path) -> None:
    """And a picture."""
    text = chapter({"lines": LINES}, tmp_path)
    assert (tmp_path / "recovery.svg").exists()
    assert "| 100 | killed | 1.50 (1.00 to 9.00) | 0.750 | 2.50 | 100 |" in text
