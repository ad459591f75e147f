"""What an experiment is, and what it runs with: a measurement into a document, and a chapter made from that."""

from __future__ import annotations

import datetime
import json
from contextlib import contextmanager
from dataclasses import asdict, dataclass, is_dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.machine import Neighbours, describe
from paper_benchmarks.systems.kafka2011 import OWN
from paper_benchmarks.systems.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from paper_benchmarks.systems.kafka2011 import KafkaBroker
    from paper_benchmarks.systems.system import Flush, Kind, System

_T = TypeVar("_T")
_Line = TypeVar("_Line")
RESULTS = Path(__file__).parents[1] / "results"
"""Where documents lie, and pictures below them."""
_LINE_CHARACTERS = 150


class Size(StrEnum):
    """How much is measured."""

    TOY = "toy"
    """Seconds: it shows that everything works, and its figures mean nothing."""
    SMALL = "small"
    """A few minutes."""
    PAPER = "paper"
    """As much as in the paper: 10 million messages a system."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What an experiment runs with. `others` are brokers that speak 0.7 and run elsewhere; `say` tells what comes next.

    `left_out` has the reasons why other kinds of systems are not measured, by their titles.
    """

    size: Size
    kinds: Sequence[Kind]
    others: Sequence[KafkaBroker]
    left_out: Mapping[str, str]
    data: Path
    say: Callable[[str], object]

    def sized(self, *, toy: _T, small: _T, paper: _T) -> _T:
        """Return that of the size that is measured."""
        return {Size.TOY: toy, Size.SMALL: small, Size.PAPER: paper}[self.size]

    def in_turn(
        self, lines: Iterable[_Line], measure: Callable[[_Line], _T], rounds: int | None = None
    ) -> dict[_Line, list[_T]]:
        """Measure all lines once in each round, so that whatever else runs affects all of them alike.

        Returns what each gave in the first round, in the second, and so on; 1, 3 or 5 rounds if nothing is said.
        """
        rounds = rounds or self.sized(toy=1, small=3, paper=5)
        found: dict[_Line, list[_T]] = {line: [] for line in lines}
        for number in range(1, rounds + 1):
            for line, samples in found.items():
                self.say(f"round {number} of {rounds}: {line}")
                samples.append(measure(line))
        return found

    @contextmanager
    def start(self, kind: Kind, flush: Flush) -> Iterator[System]:
        """Run a server of a kind with its data in a new directory, which goes with it."""
        self.say(f"{kind.title}, {flush} flush: start")
        with kind.start(self.data, flush) as system:
            yield system


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment. `measure` returns what JSON can hold (dataclasses too); `chapter` makes Markdown of that.

    `chapter` gets the body and where pictures go, and writes those that its text names.
    `system_by_system` says that the body has `lines`, each of one system, measured without the others: what one gave is
    written before the next begins, and one can be measured again among the results of others.
    """

    name: str
    title: str
    measure: Callable[[Bench], Mapping[str, Any]]
    chapter: Callable[[Mapping[str, Any], Path], str]
    system_by_system: bool = False


def make_bench(
    size: Size,
    names: Sequence[str],
    others: Sequence[KafkaBroker],
    data: Path,
    say: Callable[[str], object],
) -> Bench:
    """Return a bench of the kinds that are named, all when none is, without those that cannot run here.

    Raises BenchmarkError when one that is named cannot.
    """
    kinds, left_out = [], {}
    for kind in KINDS.values():
        if names and kind.name not in names:
            continue
        reason = kind.missing()
        if reason is None:
            kinds.append(kind)
        elif kind.name in names or kind.name == OWN:
            raise BenchmarkError(f"{kind.title} cannot be measured: {reason}")
        else:
            left_out[kind.title] = reason
    return Bench(size, kinds, others, left_out, data, say)


def run(experiment: Experiment, bench: Bench, output: Path, *, keep: bool = False) -> dict[str, Any]:
    """Measure, write the document, and return it.

    `keep` has lines of other systems stay in a document that is there already, of the same machine, if the experiment
    goes system by system.
    """
    if not experiment.system_by_system:
        document = _measured(experiment, bench)
        write_document(output, document)
        return document
    document = _earlier(output, bench) if keep else {}
    for part in _parts(bench):
        measured = _measured(experiment, part)
        document = _joined(document, measured) if document else measured
        write_document(output, document)
    return document


def _measured(experiment: Experiment, bench: Bench) -> dict[str, Any]:
    started = datetime.datetime.now(datetime.UTC)
    neighbours = Neighbours()
    body = experiment.measure(bench)
    facts = {
        "systems": [each.title for each in bench.kinds] + [each.name for each in bench.others],
        "size": bench.size,
        "started": started.isoformat(timespec="seconds"),
        **neighbours.facts(),
    }
    return {
        "benchmark": experiment.name,
        "machine": describe(bench.data),
        "zookeeper": "on the same machine, with its data in the same file system",
        "runs": [facts],
        "left_out": dict(bench.left_out),
        "body": plain(body),
    }


def _parts(bench: Bench) -> Iterator[Bench]:
    for kind in bench.kinds:
        yield replace(bench, kinds=[kind], others=[])
    for other in bench.others:
        yield replace(bench, kinds=[], others=[other])


def is_toy(document: Mapping[str, Any]) -> bool:
    """Say whether figures of a document mean nothing."""
    return any(run["size"] == Size.TOY for run in document["runs"])


def _earlier(output: Path, bench: Bench) -> dict[str, Any]:
    """Return what was measured before, as far as it can stand beside what this bench measures; else nothing."""
    if not output.exists():
        return {}
    found: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
    if is_toy(found) == (bench.size is Size.TOY) and found["machine"] == describe(bench.data):
        return found
    bench.say(f"{output}: results of another machine, or of toy size, are replaced")
    return {}


def _joined(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with the lines of both, those of a system from where it was measured last."""
    [run] = later["runs"]
    runs = [each for each in earlier["runs"] if each["systems"] != run["systems"]]
    kept = [line for line in earlier["body"]["lines"] if line["title"] not in run["systems"]]
    measured = {line["title"] for line in kept} | set(run["systems"])
    left_out = {**earlier["left_out"], **later["left_out"]}
    return {
        **later,
        "runs": [*runs, run],
        "left_out": {title: reason for title, reason in left_out.items() if title not in measured},
        "body": {**earlier["body"], **later["body"], "lines": [*kept, *later["body"]["lines"]]},
    }


# Documents -----------------------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """Return what JSON can hold: dataclasses as objects, tuples as lists, eight digits of a number."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return float(f"{value:.8g}") if isinstance(value, float) else value


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


def beside(results: Path) -> Path:
    """Return the directory of the reports that are written from a directory of results."""
    return results.parent if results == RESULTS else results
