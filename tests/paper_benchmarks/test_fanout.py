"""What a copy costs, by the number of groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from paper_benchmarks.experiments.fanout import chapter, figures

if TYPE_CHECKING:
    from pathlib import Path


def sample(groups: int, wall_s: float, broker_cpu_s: float) -> dict[str, Any]:
    return {
        "groups": groups,
        "copies": groups * 1000,
        "wall_s": wall_s,
        "client_cpu_s": 0.002 * groups,
        "broker_cpu_s": broker_cpu_s,
        "written_bytes": 0,
    }


BODY = {
    "messages": 1000,
    "samples": [sample(1, 1, 0.001), sample(5, 1, 0.01), sample(1, 4, 0.003), sample(5, 2, 0.02), sample(1, 2, 0.002)],
}


def test_figures_are_medians_of_the_rounds_by_the_number_of_groups() -> None:
    """Costs are for each copy, whoever got it."""
    one, five = figures(BODY)
    assert (one["groups"], one["copies"], one["copies_per_s"]) == (1, 1, 500)
    assert one["mb_per_s"] == pytest.approx(0.105)
    assert one["broker_cpu_us"] == pytest.approx(2)
    assert five["copies"] == 5
    assert five["broker_cpu_us"] == pytest.approx(3)
    assert five["client_cpu_us"] == pytest.approx(2)


def test_the_chapter_has_a_row_for_each_number_of_groups(tmp_path: Path) -> None:
    """And a picture."""
    text = chapter(BODY, tmp_path)
    assert (tmp_path / "fanout.svg").exists()
    assert "| 5 | 5.00 | 3,750 |" in text
