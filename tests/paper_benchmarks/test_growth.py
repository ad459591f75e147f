"""What grows, from the lines of each part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from paper_benchmarks.experiments.growth import chapter, growth, tail_ms

if TYPE_CHECKING:
    from pathlib import Path


def line(count: int, broker_cpu_us: float) -> dict[str, Any]:
    costs = {"rate": 1000.0, "client_cpu_us": 1.0, "broker_cpu_us": broker_cpu_us, "broker_memory_mb": 50.0}
    return {"count": count, **costs}


def tail(beside: str, p50_ms: float, p99_ms: float) -> dict[str, Any]:
    latencies_ms = [[0.5, p50_ms], [0.99, p99_ms], [0.999, 9.0]]
    return {"beside": beside, "latencies_ms": latencies_ms, "broker_cores": 0.25}


BODY = {
    "messages": 1000,
    **{kind: [line(100, 3.0), line(1, 2.0)] for kind in ("partitions", "connections", "brokers")},
    "behind": [tail("nobody", 1, 2), tail("a reader far behind", 3, 4)],
}


def test_growth_is_from_the_least_to_the_most() -> None:
    """In whatever order they were measured."""
    assert growth(BODY, "partitions") == pytest.approx(1.5)


def test_the_tail_is_compared_with_itself_alone() -> None:
    """At the same share of messages."""
    assert tail_ms(BODY, 0.99) == (2, 4)


def test_the_chapter_has_a_table_for_each_part(tmp_path: Path) -> None:
    """And a picture."""
    text = chapter(BODY, tmp_path)
    assert (tmp_path / "growth.svg").exists()
    assert text.count("| --- |") == 4
    assert "| a reader far behind | 3.00 | 4.00 | 9.00 | 0.25 |" in text
