"""How long brokers need to start, from samples to the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from paper_benchmarks.experiments.recovery import chapter, checked_mb_per_s, figures

if TYPE_CHECKING:
    from pathlib import Path


def sample(mb: float, stop: str, serves_s: float) -> dict[str, Any]:
    return {"mb": mb, "stop": stop, "serves_s": serves_s, "registered_s": serves_s + 1, "cpu_s": serves_s / 2}


BODY = {
    "samples": [
        *(sample(0, stop, 0.5) for stop in ("killed", "stopped")),
        *(sample(100, "killed", serves_s) for serves_s in (1.0, 9.0, 1.5)),
        sample(100, "stopped", 0.5),
    ]
}


def test_figures_are_medians_by_size_and_by_how_the_broker_ended() -> None:
    """One slow start does not change them."""
    assert figures(BODY)[100, "killed"] == {"serves_s": 1.5, "registered_s": 2.5, "cpu_s": 0.75}
    assert figures(BODY)[100, "stopped"]["serves_s"] == 0.5


def test_the_rate_of_checking_leaves_out_the_start_of_an_empty_broker() -> None:
    """It is not known where a larger log took no longer."""
    found = figures(BODY)
    assert checked_mb_per_s(found, 100, "killed") == pytest.approx(100)
    assert checked_mb_per_s(found, 100, "stopped") is None


def test_the_chapter_has_a_row_for_each_size_and_end(tmp_path: Path) -> None:
    """And a picture."""
    text = chapter(BODY, tmp_path)
    assert (tmp_path / "recovery.svg").exists()
    assert "| 100 | killed | 1.50 | 0.750 | 2.50 | 100 |" in text
