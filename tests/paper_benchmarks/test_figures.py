"""Figures 4 and 5: what is read off their curves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from paper_benchmarks.clients.measure import tenths
from paper_benchmarks.experiments.figures_4_and_5 import EXPERIMENT, facts_of
from tests.paper_benchmarks.runs import run

if TYPE_CHECKING:
    from pathlib import Path


def line(
    title: str, do: str, rates: list[float], flush: str = "asynchronous", name: str = "a client"
) -> dict[str, Any]:
    """Give a line with 100 messages of 200 bytes between two points."""
    points, elapsed_s = [], 0.0
    for number, rate in enumerate(rates):
        elapsed_s += 100 / rate
        points.append((100 * (number + 1), elapsed_s))
    found = facts_of(run(do, 100.0 * len(rates), points=points, wall_s=elapsed_s), name)
    return {"kind": title, "title": title, "flush": flush, "version": "1", "settings": {}, **found}


def test_tenths_are_the_first_and_the_last_points() -> None:
    """Medians of them; what lies between does not matter. A tenth without a point has no rate."""
    rates = [10.0, 20.0, 30.0, *[1000.0] * 24, 4.0, 5.0, 6.0]
    assert list(tenths(list(enumerate(rates, 1)))) == pytest.approx([20.0, 5.0])
    assert list(tenths([(1, 10.0), (2, 20.0)])) == pytest.approx([0.0, 20.0])


def test_the_chapter_compares_few_with_many(tmp_path: Path) -> None:
    """A producer begins with few, a consumer with many; the first line of each, asynchronous, where there are both."""
    body = {
        "lines": [
            line("a", "produce", [200.0] * 2 + [1.0] * 16 + [100.0] * 2),
            line("a", "consume", [20.0] * 2 + [1.0] * 16 + [80.0] * 2),
            line("a", "produce", [7777.0] * 20, name="another client"),
            line("a", "produce", [8888.0] * 20, flush="shipped"),
            line("b", "produce", [9999.0] * 20),
        ]
    }
    text = EXPERIMENT.chapter(body, tmp_path)
    [section] = [part for part in text.split("### ") if part.startswith("Beside a backlog")]
    [row] = [each for each in section.splitlines() if each.startswith("| a ")]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells == ["a", "2,000", "200", "100", "0.50", "80.0", "20.0", "0.25"]
    assert "| b " not in section
    body["lines"] = body["lines"][-1:]
    assert "backlog" not in EXPERIMENT.chapter(body, tmp_path)
