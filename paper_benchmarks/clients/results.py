"""From samples to the rows of the table."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from paper_benchmarks.clients.run import YARDSTICK_SYSTEM
from paper_benchmarks.samples import Spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paper_benchmarks.clients.lines import Line, Targets, Yardstick
    from paper_benchmarks.samples import Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a line came to: CPU time a message, its target, rates, and those in multiples of the yardsticks'.

    A multiple compares two samples of one round. The broker's lines have CPU time alone.
    """

    system: str
    code: str
    line: str
    title: str
    cpu_us: Spread
    target_us: float | None = None
    rate: Spread | None = None
    multiples: dict[str, Spread]

    @property
    def of_target(self) -> float | None:
        """The least CPU time as a multiple of the target: more than 1 misses it."""
        return None if self.target_us is None else self.cpu_us.lowest / self.target_us

    def facts(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {**asdict(self), "of_target": self.of_target}


def results(samples: Sequence[Sample], lines: Sequence[Line], yardsticks: Sequence[Yardstick]) -> list[Result]:
    """Return the yardsticks' results, then each system's with each code, lines in their order, the broker's last."""
    own = {(each.round, each.line): each for each in samples if each.system == YARDSTICK_SYSTEM}
    found = [
        _result(yardstick, list_of, yardsticks, own)
        for yardstick in yardsticks
        if (list_of := [each for each in own.values() if each.line == yardstick.name])
    ]
    groups: dict[tuple[str, str], list[Sample]] = {}
    for sample in samples:
        if sample.system != YARDSTICK_SYSTEM:
            groups.setdefault((sample.system, sample.code), []).append(sample)
    for group in groups.values():
        by_line = [(line, [each for each in group if each.line == line.name]) for line in lines]
        found += [_result(line, measured, yardsticks, own, line.targets) for line, measured in by_line if measured]
        for line, measured in by_line:
            broker = Spread.of(each.broker_cpu_us_per_message for each in measured)
            if line.broker_title and broker is not None:
                found.append(_broker_result(line, measured[0], broker))
    return found


def _result(
    line: Line | Yardstick,
    measured: Sequence[Sample],
    yardsticks: Sequence[Yardstick],
    own: dict[tuple[int, str], Sample],
    targets: Targets | None = None,
) -> Result:
    cpu_us = Spread.of(each.cpu_us_per_message for each in measured)
    assert cpu_us is not None
    multiples: dict[str, Spread] = {}
    for yardstick in yardsticks:
        pairs = [(each, own[each.round, yardstick.name]) for each in measured if (each.round, yardstick.name) in own]
        spread = Spread.of(each.messages_per_s / unit.messages_per_s for each, unit in pairs)
        if spread is not None:
            multiples[yardstick.name] = spread
    code = measured[0].code
    return Result(
        system=measured[0].system,
        code=code,
        line=line.name,
        title=line.title,
        cpu_us=cpu_us,
        target_us=None if targets is None else targets.of(code),
        rate=Spread.of(each.messages_per_s for each in measured),
        multiples=multiples,
    )


def _broker_result(line: Line, sample: Sample, cpu_us: Spread) -> Result:
    return Result(
        system=sample.system,
        code=sample.code,
        line=f"broker-{line.name}",
        title=line.broker_title,
        cpu_us=cpu_us,
        target_us=None if line.broker_targets is None else line.broker_targets.of(sample.code),
        multiples={},
    )
