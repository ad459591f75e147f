"""Shares of physical limits, from the flows of each round."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from paper_benchmarks.experiments.experiment import plain
from paper_benchmarks.experiments.limits import PARTS, TITLES, chapter, multifetch_request, summary
from paper_benchmarks.measuring.spread import Sample

if TYPE_CHECKING:
    from pathlib import Path


def flow(rate_mb: float, server_cpu_s: float | None = None) -> Sample:
    return Sample(amount=rate_mb, wall_s=1.0, cpu_s=0.5, server_cpu_s=server_cpu_s)


FOUND = {
    **{name: [flow(1.0)] * 3 for name in TITLES},
    "produce": [flow(rate_mb, 0.5) for rate_mb in (100, 300, 90)],
    "sink": [flow(rate_mb, 0.1) for rate_mb in (1000, 1000, 300)],
}
PAIRS = {(pair["ours"], pair["limit"]): pair for pair in summary(FOUND)["pairs"]}


def test_a_share_is_the_median_of_the_ratios_of_each_round() -> None:
    """Not the ratio of medians, which would compare different rounds."""
    assert PAIRS["produce", "sink"]["share"].median == pytest.approx(0.3)


def test_the_cost_of_both_servers_is_compared_for_each_byte() -> None:
    """Nothing is compared where only one of both has a server."""
    assert PAIRS["produce", "sink"]["server_cpu"].median == pytest.approx((0.5 / 300) / (0.1 / 1000))
    assert PAIRS["produce", "write"]["server_cpu"] is None


def test_a_multifetch_asks_for_eight_parts() -> None:
    """In a whole request of type 2."""
    request = multifetch_request("abcdefgh")
    assert int.from_bytes(request[:4]) == len(request) - 4
    assert int.from_bytes(request[4:6]) == 2
    assert int.from_bytes(request[6:8]) == PARTS


def test_the_chapter_has_a_picture_and_a_row_for_each_pair(tmp_path: Path) -> None:
    """Shares as percentages."""
    text = chapter(plain(summary(FOUND)), tmp_path)
    assert (tmp_path / "limits.svg").exists()
    assert "| 30% |" in text
