"""Ours beside the best of all others, way by way: by the clock, and by processor time, as shipped and tuned."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any, NamedTuple

from paper_benchmarks.measuring.samples import FEW, LESS, MORE, OVERLAP, Spread, ratio
from paper_benchmarks.pages.tables import brackets, table, text
from paper_benchmarks.systems.kafka2011 import OWN
from paper_benchmarks.systems.system import Way

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from paper_benchmarks.pages.tables import Column

    Line = Mapping[str, Any]

_SLOWER, _DEARER = "**ours is slower**", "**ours costs more**"
_BETTER = {MORE: "ours is faster", LESS: _SLOWER, OVERLAP: OVERLAP, FEW: FEW}
_CHEAPER = {LESS: "ours costs less", MORE: _DEARER, OVERLAP: OVERLAP, FEW: FEW}


class Pair(NamedTuple):
    """Our best line of a way, and the best of all others."""

    ours: Line
    other: Line


class Measure(NamedTuple):
    """What lines are compared by: figures in a `unit` of so much, and what is said of more and less."""

    title: str
    figures: Callable[[Line], list[float]]
    unit: float
    most: bool
    verdicts: Mapping[str, str]

    def shown(self, line: Line) -> str:
        """Return a line's figures and its name."""
        return f"{brackets(Spread.of(value / self.unit for value in self.figures(line)))} {name_of(line)}"

    def times(self, pair: Pair) -> Spread:
        """Return ours as a multiple of the other's, in the same rounds."""
        return ratio(self.figures(pair.ours), self.figures(pair.other))

    def verdict(self, pair: Pair) -> str:
        """Say which is better, where spreads do not overlap."""
        return self.verdicts[Spread.of(self.figures(pair.ours)).against(Spread.of(self.figures(pair.other)))]


def name_of(line: Line) -> str:
    """Return system and client; ours without the system."""
    return str(line["line"]) if line["kind"] == OWN else f"{line['title']}, {line['line']}"


def cpu_us(line: Line) -> list[float]:
    """Return what a message costs client and server together, in each round."""
    server = line["server_cpu_us"]
    return [client + (other or 0.0) for client, other in zip(line["client_cpu_us"], server, strict=True)]


def rates(line: Line) -> list[float]:
    """Return messages a second, in each round."""
    found: list[float] = line["rate"]
    return found


CLOCK = Measure("By the clock, millions of messages a second", rates, 1e6, most=True, verdicts=_BETTER)
PROCESSOR = Measure(
    "By processor time, microseconds a message, client and server together", cpu_us, 1.0, most=False, verdicts=_CHEAPER
)


def variants(body: Mapping[str, Any]) -> list[str]:
    """Return with which settings lines were measured, those of all lines first."""
    return list(dict.fromkeys(line["variant"] for line in body.get("lines", ())))


def lines_of(body: Mapping[str, Any], variant: str = "") -> list[Line]:
    """Return the lines of a variant, the first one by default; one that is best as shipped stands in every variant."""
    found: dict[object, Line] = {}
    first, *_ = variants(body) or [""]
    for line in body.get("lines", ()):
        if line["variant"] in {first, variant or first}:
            found[line["kind"], line["do"], line["line"]] = line
    return list(found.values())


def best(lines: Sequence[Line], figures: Callable[[Line], list[float]], *, most: bool) -> Line | None:
    """Return the line of the highest, or the lowest, median."""
    choose = max if most else min
    return choose(lines, key=lambda line: statistics.median(figures(line))) if lines else None


def pairs(body: Mapping[str, Any], by: Measure, variant: str = "") -> dict[str, Pair]:
    """Return a pair for each way in which both were measured."""
    found, lines = {}, lines_of(body, variant)
    for way in Way:
        ours = [line for line in lines if line["kind"] == OWN and line["way"] == way]
        others = [line for line in lines if not line["kind"].startswith(OWN) and line["way"] == way]
        own, other = (best(several, by.figures, most=by.most) for several in (ours, others))
        if own is not None and other is not None:
            found[str(way)] = Pair(own, other)
    return found


def tables(body: Mapping[str, Any]) -> list[str]:
    """Return the tables of both, and where ours is behind; nothing where there is nobody beside ours."""
    if not pairs(body, CLOCK):
        return []
    return [*(f"**{by.title}**\n\n{_table(body, by)}" for by in (CLOCK, PROCESSOR)), _behind(body)]


def _table(body: Mapping[str, Any], by: Measure) -> str:
    several = {variant: pairs(body, by, variant) for variant in variants(body)}
    columns: list[Column] = [("way", text(0))]
    for variant, found in several.items():
        columns += [
            (f"ours, {variant}", lambda row, found=found: by.shown(found[row[0]].ours)),  # type: ignore[misc]
            (f"best other, {variant}", lambda row, found=found: by.shown(found[row[0]].other)),  # type: ignore[misc]
            (
                "ours/other, same rounds",
                lambda row, found=found: (  # type: ignore[misc]
                    f"{brackets(by.times(found[row[0]]))} {by.verdict(found[row[0]])}"
                ),
            ),
        ]
    return table([(way,) for way in next(iter(several.values()))], columns)


def _behind(body: Mapping[str, Any]) -> str:
    """Return a list of all in which another system is better than our best."""
    found = [
        f"- {way}, {variant}: {name_of(pair.other)}; ours is {brackets(by.times(pair))} times as much"
        f" {'a second' if by is CLOCK else 'processor time'}"
        for by in (CLOCK, PROCESSOR)
        for variant in variants(body)
        for way, pair in pairs(body, by, variant).items()
        if by.verdict(pair) in {_SLOWER, _DEARER}
    ]
    head = "**Where ours is behind**\n\n"
    return head + ("\n".join(found) if found else "In no row beyond the spreads.")
