"""Percentiles of latencies, from single times to the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from paper_benchmarks.experiments.latency import chapter, percentile_ms
from paper_benchmarks.workers.latency import quantiles

if TYPE_CHECKING:
    from pathlib import Path

BODY: dict[str, Any] = {
    "seconds": 1,
    "lines": [
        {
            "flush": "every message",
            "backoff_ms": 10,
            "rate": rate,
            "messages": 1000,
            "latencies_ms": [list(each) for each in quantiles([float(rate + ms) for ms in range(1000)])],
            "late_ms": 0.1,
            "broker_cores": 0.1,
            "client_cores": 0.2,
        }
        for rate in (100, 1000)
    ],
}


def test_a_quantile_has_its_share_of_the_values_below() -> None:
    """In whatever order they came; with few values the highest stands for the last ones."""
    assert dict(quantiles([float(value) for value in range(999, -1, -1)]))[0.99] == 990
    assert dict(quantiles([3.0, 1.0, 2.0]))[0.5] == 2.0
    assert dict(quantiles([3.0, 1.0, 2.0]))[0.999] == 3.0


def test_a_percentile_is_that_of_its_flush_setting_and_rate() -> None:
    """In milliseconds; not of another line."""
    assert percentile_ms(BODY["lines"][1], 0.5) == pytest.approx(1500)
    assert percentile_ms(BODY["lines"][0], 0.999) == pytest.approx(1099)


def test_lines_beside_kafka_are_a_table_of_their_own(tmp_path: Path) -> None:
    """Results of before have none."""
    figures = ("p50_ms", "p99_ms", "late_ms", "server_cores", "client_cores")
    lines = [{"line": "ours", "rate": 10_000, **{key: [1.0, 2.0, 3.0] for key in figures}}]
    text = chapter({**BODY, "beside": {"lines": lines}}, tmp_path)
    assert "| ours | 10,000 | 2.00 (1.00 to 3.00) |" in text
    assert "### Delivery" not in chapter(BODY, tmp_path)


def test_the_chapter_has_a_plot_for_each_rate_and_a_row_for_each_line(tmp_path: Path) -> None:
    """In milliseconds."""
    text = chapter(BODY, tmp_path)
    assert (tmp_path / "latency.svg").exists()
    assert "| every message | 1,000 | 10 | 1,500 |" in text
