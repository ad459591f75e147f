"""The benchmark of events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from paper_benchmarks.cli import main
from paper_benchmarks.events import works

if TYPE_CHECKING:
    import pytest

DOCUMENT = (Path(__file__).parents[2] / "docs" / "benchmarks.md").read_text(encoding="utf-8")


def test_every_line_is_measured_in_every_round(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The table has the lines, the file the samples."""
    output = tmp_path / "events.json"
    assert main(["events", "--rounds", "2", "--events", "20", "--output", str(output)]) == 0
    names = [work.name for work in works(1)]
    printed = capsys.readouterr().out
    samples = json.loads(output.read_text())["samples"]
    assert [(each["round"], each["line"]) for each in samples] == [
        (number, name) for number in (1, 2) for name in names
    ]
    assert all(name in printed for name in names)


def test_every_line_is_explained() -> None:
    """In the document that the command names."""
    assert all(f"| `{work.name}` |" in DOCUMENT for work in works(1))
