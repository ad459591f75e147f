"""What an experiment is, and what it runs with: a measurement into a document, and a chapter made from that."""

from __future__ import annotations

import datetime
import json
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.journal import Journal
from paper_benchmarks.measuring.machine import Neighbours, describe
from paper_benchmarks.measuring.samples import LEAST_ROUNDS, Sample, Spread
from paper_benchmarks.systems.kafka2011 import OWN
from paper_benchmarks.systems.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from paper_benchmarks.systems.system import Kind, System

_T = TypeVar("_T")
_Line = TypeVar("_Line")
RESULTS = Path(__file__).parents[1] / "results"
"""Where documents lie, and pictures below them."""
_LINE_CHARACTERS = 150
LEAST_S = 10.0


class Size(StrEnum):
    """How much is measured."""

    TOY = "toy"
    """Seconds: it shows that everything works, and its figures mean nothing."""
    SMALL = "small"
    """A few minutes."""
    PAPER = "paper"
    """As much as in the paper, or as it needs to be steady; lines of systems side by side run for 10 s and 2 GB."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What an experiment runs with; `say` tells what comes next.

    `seconds` is how long a line of a long run takes at least; `rounds` is how often each is measured, in place of what
    an experiment does by itself.
    `left_out` has the reasons why other kinds of systems are not measured, by their titles. `others` is how many cores
    other processes kept busy during each sample.
    """

    size: Size
    kinds: Sequence[Kind]
    left_out: Mapping[str, str]
    data: Path
    say: Callable[[str], object]
    seconds: float = LEAST_S
    rounds: int | None = None
    journal: Journal | None = None
    others: list[float] = field(default_factory=list)

    def sized(self, *, toy: _T, small: _T, paper: _T) -> _T:
        """Return that of the size that is measured."""
        return {Size.TOY: toy, Size.SMALL: small, Size.PAPER: paper}[self.size]

    def in_turn(
        self, lines: Iterable[_Line], measure: Callable[[_Line], _T], rounds: int | None = None, name: str = ""
    ) -> dict[_Line, list[_T]]:
        """Measure all lines once in each round, so that whatever else runs affects all of them alike.

        Returns what each gave in the first round, in the second, and so on; 1 round, 7, or 5 at paper size if nothing
        is said. What is measured, a Sample or what JSON can hold, is kept in the journal by `name`, and not measured
        again.
        """
        rounds = self.rounds or rounds or self.sized(toy=1, small=7, paper=LEAST_ROUNDS)
        found: dict[_Line, list[_T]] = {line: [] for line in lines}
        for number in range(1, rounds + 1):
            began_s = time.monotonic()
            for line, samples in found.items():
                samples.append(self._sample(f"{name} {number} {line}", f"round {number} of {rounds}", line, measure))
            left_min = (time.monotonic() - began_s) * (rounds - number) / 60
            if left_min >= 1:
                self.say(f"round {number} of {rounds} is done; the others take about {left_min:.0f} minutes")
        return found

    def _sample(self, key: str, when: str, line: _Line, measure: Callable[[_Line], _T]) -> _T:
        kept = self.journal and self.journal.get(key)
        if kept:
            self.others.append(kept["others"])
            value = kept["value"]
            return Sample(**value["sample"]) if isinstance(value, dict) and "sample" in value else value  # type: ignore[return-value]
        self.say(f"{when}: {line}")
        neighbours = Neighbours()
        found = measure(line)
        self.others.append(neighbours.cores())
        if self.journal is not None:
            value = {"sample": _plain_sample(found)} if isinstance(found, Sample) else plain(found)
            self.journal.add(key, {"others": self.others[-1], "value": value})
        return found

    @contextmanager
    def start(self, kind: Kind, settings: Mapping[str, object] | None = None) -> Iterator[System]:
        """Run a server of a kind, as shipped or with settings, with its data in a new directory, which goes with it."""
        self.say(f"{kind.title}: start")
        with kind.start(self.data, settings) if settings else kind.start(self.data) as system:
            yield system


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment. `measure` returns what JSON can hold (dataclasses too); `chapter` makes Markdown of that.

    `chapter` gets the body and where pictures go, and writes those that its text names. `tells` says what, and whom.
    """

    name: str
    title: str
    tells: str
    measure: Callable[[Bench], Mapping[str, Any]]
    chapter: Callable[[Mapping[str, Any], Path], str]


def choose_kinds(names: Sequence[str], others: Sequence[Kind]) -> tuple[list[Kind], dict[str, str]]:
    """Return the kinds that are named, and the `others`; those that can run here when none is named.

    Also why some are left out, by title. Raises BenchmarkError when one that is named cannot run here.
    """
    kinds, left_out = [], {}
    for kind in KINDS.values():
        if kind.name not in names if names else kind.asked:
            continue
        reason = kind.missing()
        if reason is None:
            kinds.append(kind)
        elif kind.name in names or kind.name == OWN:
            raise BenchmarkError(f"{kind.title} cannot be measured: {reason}")
        else:
            left_out[kind.title] = reason
    return [*kinds, *others], left_out


def run(experiment: Experiment, bench: Bench, output: Path) -> dict[str, Any]:
    """Measure, write the document, and return it."""
    machine = describe(bench.data)
    what = {
        "size": bench.size,
        "seconds": bench.seconds,
        "rounds": bench.rounds,
        "machine": machine,
        "kinds": [kind.name for kind in bench.kinds],
    }
    journal = Journal(output.with_suffix(".part.jsonl"), what)
    if len(journal):
        bench.say(f"{experiment.name} was interrupted: {len(journal)} samples are there already")
    bench = replace(bench, journal=journal, others=[])
    started, neighbours = datetime.datetime.now(datetime.UTC), Neighbours()
    body = plain(experiment.measure(bench))
    document = {
        "benchmark": experiment.name,
        "size": bench.size,
        "seconds": bench.seconds,
        "started": started.isoformat(timespec="seconds"),
        "machine": machine,
        **neighbours.facts(),
        "cores_used_by_others": list(Spread.of(bench.others or [neighbours.cores()])[:3]),
        "left_out": dict(bench.left_out),
        "body": body,
    }
    write_document(output, document)
    journal.finish()
    return document


def _plain_sample(sample: Sample) -> dict[str, float | None]:
    return {name: plain(getattr(sample, name)) for name in ("amount", "wall_s", "cpu_s", "server_cpu_s")}


# Documents -----------------------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """Return what JSON can hold: dataclasses as objects, tuples as lists, six digits of a number."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Write a document, in place of an older one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_json(document) + "\n", encoding="utf-8")


def _json(value: Any, indent: str = "") -> str:
    """Return JSON with as much on a line as fits; figures of one curve are one line, however many they are."""
    line = json.dumps(value)
    is_curve = isinstance(value, list) and not any(isinstance(each, dict) for each in value)
    if len(indent) + len(line) <= _LINE_CHARACTERS or is_curve or not isinstance(value, dict | list):
        return line
    inner = indent + " "
    if isinstance(value, dict):
        parts, ends = [f"{json.dumps(key)}: {_json(each, inner)}" for key, each in value.items()], "{}"
    else:
        parts, ends = [_json(each, inner) for each in value], "[]"
    return f"{ends[0]}\n" + ",\n".join(inner + part for part in parts) + f"\n{indent}{ends[1]}"


def pages_of(results: Path) -> Path:
    """Return the directory of the reports that are written from a directory of results."""
    return results.parent if results == RESULTS else results
