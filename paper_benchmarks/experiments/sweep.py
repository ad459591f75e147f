"""Which settings make a line quicker: every value that the table of tuned settings has tried, one setting at a time.

The other settings of a line meanwhile have the values of the table. So a row says what its setting alone is worth, and
whether the table still has the best value.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from paper_benchmarks.experiments import systems
from paper_benchmarks.experiments.experiment import Experiment, Size
from paper_benchmarks.measuring.samples import Spread
from paper_benchmarks.pages.tables import brackets, table, text
from paper_benchmarks.systems import tuned

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from paper_benchmarks.clients.measure import Run
    from paper_benchmarks.experiments.experiment import Bench
    from paper_benchmarks.systems.system import Kind, Line, System
    from paper_benchmarks.systems.tuned import Setting

_ROUNDS = 2
_SMALL_S = 3.0
_NOISE = 1.05
"""A value that is quicker by less is no better."""


class Trial(NamedTuple):
    """One value of one setting of a line; the others are those of the table."""

    kind: Kind
    line: Line
    setting: Setting
    value: object

    def __str__(self) -> str:
        return f"{self.kind.name}, {self.line.do}, {self.line}, {self.setting.key}={self.value}"

    def settings(self) -> systems.Settings:
        """Return those of the client and of the server."""
        of_client, of_server = tuned.tuned(self.kind.name, self.line.do, self.line.client)
        changed = {self.setting.key: self.value}
        if self.setting.of_server:
            return systems.Settings(of_client, of_server | changed)
        return systems.Settings(of_client | changed, of_server)


class Group(NamedTuple):
    """Trials that have one server: a producer's alone, as each fills the disk; all consumers' of a kind together."""

    name: str
    trials: tuple[Trial, ...]

    def __str__(self) -> str:
        return self.name


def groups(kinds: Sequence[Kind]) -> Iterator[Group]:
    """Return all values of all settings, each with the first line that it is of."""
    for kind in kinds:
        yield from (Group(str(trial), (trial,)) for trial in _trials(kind, tuned.PRODUCE))
        if consumers := tuple(_trials(kind, tuned.CONSUME)):
            yield Group(f"{kind.name}, {tuned.CONSUME}", consumers)


def _trials(kind: Kind, do: str) -> Iterator[Trial]:
    for setting in (each for each in tuned.SETTINGS[do] if each.kind == kind.name):
        line = next(each for each in kind.lines if each.do == do and each.client in setting.clients)
        yield from (Trial(kind, line, setting, value) for value in setting.tried)


def measure(bench: Bench) -> dict[str, Any]:
    """Measure every value once in each of two rounds, as long as a line of a long run; for 3 s at size small."""
    planned = list(groups(bench.kinds))
    if bench.size is Size.TOY:
        planned = [Group(group.name, group.trials[:2]) for group in planned[-1:]]
    extent = systems.extent_of(replace(bench, size=Size.PAPER, seconds=_SMALL_S) if bench.size is Size.SMALL else bench)

    def once(group: Group) -> dict[str, dict[str, float]]:
        first = group.trials[0]
        with bench.start(first.kind, first.settings().of_server) as system:
            return {str(trial): _figures(run) for trial, run in _runs(group, system, extent)}

    found = bench.in_turn(planned, once, bench.sized(toy=1, small=1, paper=_ROUNDS))
    return {
        "lines": [
            _facts(trial, [each[str(trial)] for each in rounds])
            for group, rounds in found.items()
            for trial in group.trials
        ]
    }


def _runs(group: Group, system: System, extent: systems.Extent) -> Iterator[tuple[Trial, Run]]:
    first = group.trials[0]
    if first.line.do == tuned.PRODUCE:
        yield first, systems.produce_line(first.kind, system, first.line, first.settings(), extent)
        return
    filler, shipped = systems.filler_of(first.kind), systems.Settings({}, {})
    sent = systems.produce_line(first.kind, system, filler, shipped, extent, first.kind.topic_messages)
    for trial in group.trials:
        yield trial, systems.consume_line(trial.kind, system, trial.line, trial.settings(), sent, extent)


def _figures(run: Run) -> dict[str, float]:
    return {"rate": run.rate, "cpu_us": run.client_cpu_us + (run.server_cpu_us or 0.0)}


def _facts(trial: Trial, rounds: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    return {
        "kind": trial.kind.name,
        "do": trial.line.do,
        "client": trial.line.client,
        "line": f"{trial.kind.title}, {trial.line}",
        "setting": trial.setting.key,
        "value": trial.value,
        "shipped": trial.value == trial.setting.tried[0],
        "rate": [each["rate"] for each in rounds],
        "cpu_us": [each["cpu_us"] for each in rounds],
    }


# The report ----------------------------------------------------------------------------------------------------------

TEXT = """\
Every value that was tried, one setting at a time; the line's other settings are those of the table
(`paper_benchmarks/systems/tuned.py`). *Used* is the value that the table has. *Better* marks a value that is quicker
than that one by 5% and more, in the median: the table then needs another look."""


def chapter(body: Mapping[str, Any], _pictures: Path) -> str:
    """Put every value into a table, and mark what the table of tuned settings has."""
    quickest = {_of(line): statistics.median(line["rate"]) for line in body["lines"] if _is_used(line)}

    def mark(line: Mapping[str, Any]) -> str:
        if _is_used(line):
            return "used"
        is_better = statistics.median(line["rate"]) > quickest.get(_of(line), 0.0) * _NOISE
        return "**better**" if is_better else ""

    columns = [
        ("line", text("line")),
        ("setting", text("setting")),
        ("value", lambda line: f"{line['value']}{' (ships)' if line['shipped'] else ''}"),
        ("millions of messages/s", lambda line: brackets(Spread.of(rate / 1e6 for rate in line["rate"]))),
        ("CPU us, client and server", lambda line: brackets(Spread.of(line["cpu_us"]))),
        ("", mark),
    ]
    return f"{TEXT}\n\n{table(body['lines'], columns)}"


def _of(line: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(line[key] for key in ("kind", "do", "client", "setting"))


def _is_used(line: Mapping[str, Any]) -> bool:
    rows = tuned.rows(line["kind"], line["do"], line["client"])
    return any((row.key, row.value) == (line["setting"], line["value"]) for row in rows)


EXPERIMENT = Experiment(
    "sweep",
    "Settings, one at a time",
    "whoever tunes one of these systems: what each value of each setting is worth",
    measure,
    chapter,
)
