"""Results that are written system by system, and one that is measured again."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from xml.dom import minidom

import pytest

from paper_benchmarks.experiments.experiment import Bench, Experiment, Size, run, write_document
from paper_benchmarks.pages.pictures import picture
from paper_benchmarks.systems.kinds import KINDS

if TYPE_CHECKING:
    from pathlib import Path


def bench(data: Path, *names: str, size: Size = Size.SMALL) -> Bench:
    return Bench(size, [KINDS[name] for name in names], [], {}, data, print)


def experiment(value: int, fails_at: str = "") -> Experiment:
    def measure(part: Bench) -> dict[str, Any]:
        if any(kind.name == fails_at for kind in part.kinds):
            raise RuntimeError(fails_at)
        return {"lines": [{"title": kind.title, "value": value} for kind in part.kinds]}

    return Experiment("some", "Some", measure, lambda *_: "", system_by_system=True)


def values(document: dict[str, Any]) -> dict[str, int]:
    return {line["title"]: line["value"] for line in document["body"]["lines"]}


def test_what_a_system_gave_is_written_before_the_next_one_starts(tmp_path: Path) -> None:
    """An hour of one is not lost by the fault of another."""
    output = tmp_path / "some.json"
    with pytest.raises(RuntimeError, match="redis"):
        run(experiment(1, fails_at="redis"), bench(tmp_path, "kafka2011", "redis"), output)
    assert values(json.loads(output.read_text(encoding="utf-8"))) == {"kafka2011": 1}


def test_one_is_measured_again_among_the_others(tmp_path: Path) -> None:
    """Its lines take the place of its earlier ones, with when and at which size; without `keep` it is alone."""
    output = tmp_path / "some.json"
    run(experiment(1), bench(tmp_path, "kafka2011", "redis"), output)
    again = run(experiment(2), bench(tmp_path, "kafka2011", size=Size.PAPER), output, keep=True)
    assert values(again) == {"kafka2011": 2, "Redis Streams": 1}
    assert [(each["systems"], each["size"]) for each in again["runs"]] == [
        (["Redis Streams"], "small"),
        (["kafka2011"], "paper"),
    ]
    assert json.loads(output.read_text(encoding="utf-8")) == again
    assert values(run(experiment(3), bench(tmp_path, "kafka2011"), output)) == {"kafka2011": 3}


def test_figures_that_mean_nothing_do_not_stand_beside_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor those of another machine; it is said that they go."""
    output = tmp_path / "some.json"
    run(experiment(1), bench(tmp_path, "redis", size=Size.TOY), output)
    assert values(run(experiment(2), bench(tmp_path, "kafka2011"), output, keep=True)) == {"kafka2011": 2}
    assert "are replaced" in capsys.readouterr().out
    document = json.loads(output.read_text(encoding="utf-8"))
    output.write_text(json.dumps({**document, "machine": {"cores": 64}}), encoding="utf-8")
    assert values(run(experiment(3), bench(tmp_path, "redis"), output, keep=True)) == {"Redis Streams": 3}


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

    assert bench(tmp_path).in_turn(["a", "b"], measure) == {"a": [1, 3, 5], "b": [2, 4, 6]}
    assert order == ["a", "b"] * 3
    assert bench(tmp_path, size=Size.TOY).in_turn(["a"], measure) == {"a": [7]}


def test_a_picture_changes_by_few_lines(tmp_path: Path) -> None:
    """A curve is on one line, and coordinates have two digits."""
    with picture(tmp_path / "some.svg") as axes:
        axes.plot([number / 7 for number in range(1000)], [number % 13 for number in range(1000)])
    text = (tmp_path / "some.svg").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 120
    assert not re.search(r"\d\.\d{3}", text)
    minidom.parseString(text)
