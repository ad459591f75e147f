"""Shares of physical limits, from the flows of each round."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from paper_benchmarks.experiments.limits import PARTS, TITLES, chapter, multifetch_request, shares

if TYPE_CHECKING:
    from pathlib import Path


def flow(rate_mb: float, server_cpu_s: float | None = None) -> dict[str, Any]:
    return {"bytes": rate_mb * 1e6, "wall_s": 1.0, "cpu_s": 0.5, "server_cpu_s": server_cpu_s}


def round_of(produce_mb: float, sink_mb: float) -> dict[str, Any]:
    return {
        **{name: flow(1.0) for name in TITLES},
        "produce": flow(produce_mb, 0.5),
        "sink": flow(sink_mb, 0.1),
    }


BODY = {"messages": 1000, "rounds": [round_of(100, 1000), round_of(300, 1000), round_of(90, 300)]}


def test_a_share_is_the_median_of_the_ratios_of_each_round() -> None:
    """Not the ratio of medians, which would compare different rounds."""
    assert shares(BODY)["produce", "sink"].rate == pytest.approx(0.3)


def test_the_cost_of_both_servers_is_compared_for_each_byte() -> None:
    """Nothing is compared where only one of both has a server."""
    assert shares(BODY)["produce", "sink"].server_cpu == pytest.approx((0.5 / 300) / (0.1 / 1000))
    assert shares(BODY)["produce", "write"].server_cpu is None


def test_a_multifetch_asks_for_eight_parts() -> None:
    """In a whole request of type 2."""
    request = multifetch_request("abcdefgh")
    assert int.from_bytes(request[:4]) == len(request) - 4
    assert int.from_bytes(request[4:6]) == 2
    assert int.from_bytes(request[6:8]) == PARTS


def test_the_chapter_has_a_picture_and_a_row_for_each_pair(tmp_path: Path) -> None:
    """Shares as percentages."""
    text = chapter(BODY, tmp_path)
    assert (tmp_path / "limits.svg").exists()
    assert "| 30% |" in text
