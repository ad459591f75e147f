"""Results that are written system by system, and one that is measured again."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from xml.dom import minidom

import pytest

from paper_benchmarks.experiments.experiment import Bench, Experiment, Size, run, write_document
from paper_benchmarks.measuring.journal import Journal
from paper_benchmarks.measuring.samples import FEW, LESS, MORE, OVERLAP, Sample, Spread
from paper_benchmarks.pages.pictures import picture

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def bench(data: Path, size: Size = Size.SMALL) -> Bench:
    return Bench(size, [], {}, data, print)


def experiment(measure: Callable[[Bench], dict[str, Any]]) -> Experiment:
    return Experiment("some", "Some", "all", measure, lambda *_: "")


def sample(value: float) -> Sample:
    return Sample(amount=value, wall_s=1.0, cpu_s=0.5)


def test_a_run_that_was_interrupted_goes_on_where_it_was(tmp_path: Path) -> None:
    """Samples and other values keep their rounds; the journal goes once the document is written."""
    output, asked = tmp_path / "some.json", []

    def measure(part: Bench, fails_at: int = 0) -> dict[str, Any]:
        def once(line: str) -> Sample:
            asked.append(line)
            if len(asked) == fails_at:
                raise RuntimeError(line)
            return sample(len(asked))

        found = part.in_turn(["a", "b"], once, 2)
        facts = part.in_turn(["a"], lambda _: {"n": len(asked)}, 1, "others")
        return {"rates": {line: [each.rate for each in several] for line, several in found.items()}, "facts": facts}

    with pytest.raises(RuntimeError):
        run(experiment(lambda part: measure(part, fails_at=3)), bench(tmp_path), output)
    assert not output.exists()
    document = run(experiment(measure), bench(tmp_path), output)
    assert asked == ["a", "b", "a", "a", "b"]
    assert document["body"] == {"rates": {"a": [1.0, 4.0], "b": [2.0, 5.0]}, "facts": {"a": [{"n": 5}]}}
    assert [path.name for path in tmp_path.iterdir()] == ["some.json"]


def test_samples_of_another_size_or_of_other_code_are_not_taken_up(tmp_path: Path) -> None:
    """They would not be what is measured now."""
    path = tmp_path / "some.jsonl"
    journal = Journal(path, {"size": "small"})
    journal.add("a", 1)
    path.write_text(path.read_text(encoding="utf-8") + '["b", {"cut o', encoding="utf-8")
    again = Journal(path, {"size": "small"})
    assert (len(again), again.get("a"), again.get("b")) == (1, 1, None)
    assert len(Journal(path, {"size": "paper"})) == 0
    assert len(Journal(path, {"size": "small"})) == 0


@pytest.mark.parametrize("others", [[10.0] * 7, [9.0, 11.0] * 4])
def test_a_verdict_needs_spreads_that_do_not_overlap(others: list[float]) -> None:
    """And five rounds of both."""
    theirs, most = Spread.of(others), max(others)
    assert Spread.of([most + 1] * 7).against(theirs) == MORE
    assert Spread.of([1.0] * 7).against(theirs) == LESS
    assert Spread.of([most, *[most + 9] * 6]).against(theirs) == OVERLAP
    assert Spread.of([most + 1] * 4).against(theirs) == FEW
    assert Spread.of([2.0] * 7).against_figure(1.5) == MORE


def test_a_document_changes_by_few_lines(tmp_path: Path) -> None:
    """What fits is one line, and so is a curve however long it is; other objects have a line for each key."""
    curve = [[number, number * 1000.0] for number in range(100)]
    document = {"benchmark": "some", "body": {"lines": [{"title": "a", "rate": [1.0, 2.0, 3.0], "curve": curve}]}}
    output = tmp_path / "some.json"
    write_document(output, document)
    text = output.read_text(encoding="utf-8")
    assert json.loads(text) == document
    assert [line.strip()[:9] for line in text.splitlines() if line.strip(" []{},")] == [
        '"benchmar',
        '"body": {',
        '"lines": ',
        '"title": ',
        '"rate": [',
        '"curve": ',
    ]


def test_lines_are_measured_in_turn(tmp_path: Path) -> None:
    """Each once in a round, so that what else runs meets all alike; a line keeps its rounds in order."""
    order: list[str] = []

    def measure(line: str) -> int:
        order.append(line)
        return len(order)

    assert bench(tmp_path).in_turn(["a", "b"], measure, 3) == {"a": [1, 3, 5], "b": [2, 4, 6]}
    assert order == ["a", "b"] * 3
    assert bench(tmp_path, Size.TOY).in_turn(["a"], measure) == {"a": [7]}


def test_a_picture_changes_by_few_lines(tmp_path: Path) -> None:
    """A curve is on one line, and coordinates have two digits."""
    with picture(tmp_path / "some.svg") as axes:
        axes.plot([number / 7 for number in range(1000)], [number % 13 for number in range(1000)])
    text = (tmp_path / "some.svg").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 120
    assert not re.search(r"\d\.\d{3}", text)
    minidom.parseString(text)
