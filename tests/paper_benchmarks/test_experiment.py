"""Results that are written system by system, and one that is measured again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from paper_benchmarks.experiment import Bench, Experiment, Size, run
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
