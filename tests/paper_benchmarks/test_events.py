"""The experiment of events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paper_benchmarks.experiments.events import chapter, measure, works
from paper_benchmarks.experiments.experiment import Bench, Size, plain

if TYPE_CHECKING:
    from pathlib import Path


def test_every_line_is_measured_in_every_round(tmp_path: Path) -> None:
    """The table has the lines, with their processor time."""
    said: list[str] = []
    body = plain(measure(Bench(Size.TOY, [], {}, tmp_path, said.append)))
    names = list(works(1))
    assert [line["line"] for line in body["lines"]] == names
    assert said == [f"round 1 of 1: {name}" for name in names]
    assert all(line["client_cpu_us"][0] > 0 for line in body["lines"])
    assert all(f"| {name} |" in chapter(body, tmp_path) for name in names)
