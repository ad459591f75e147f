"""Ours beside the best of all others, way by way: by the clock, and by processor time."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any, NamedTuple

from paper_benchmarks.measuring.samples import FEW, LESS, MORE, OVERLAP, Spread, ratio
from paper_benchmarks.pages.tables import brackets, table, text
from paper_benchmarks.systems.kafka2011 import OWN
from paper_benchmarks.systems.system import Way

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Line = Mapping[str, Any]

RIVALS_OF = {Way.SEND_LISTS: (Way.SEND_LISTS, Way.SEND_EACH), Way.READ_LISTS: (Way.READ_LISTS, Way.READ_EACH)}
"""Who has no lists is compared with what it has."""
_BETTER = {MORE: "ours is faster", LESS: "**ours is slower**", OVERLAP: OVERLAP, FEW: FEW}
_CHEAPER = {LESS: "ours costs less", MORE: "**ours costs more**", OVERLAP: OVERLAP, FEW: FEW}


class Pair(NamedTuple):
    """Our best line of a way, and the best of all others."""

    way: str
    ours: Line
    other: Line


def cpu_us(line: Line) -> list[float]:
    """Return what a message costs client and server together, in each round."""
    server = line["server_cpu_us"]
    return [client + (other or 0.0) for client, other in zip(line["client_cpu_us"], server, strict=True)]


def rates(line: Line) -> list[float]:
    """Return messages a second, in each round."""
    found: list[float] = line["rate"]
    return found


def best(lines: Sequence[Line], figures: Callable[[Line], list[float]], *, most: bool) -> Line | None:
    """Return the line of the highest, or the lowest, median."""
    choose = max if most else min
    return choose(lines, key=lambda line: statistics.median(figures(line))) if lines else None


def pairs(body: Mapping[str, Any], figures: Callable[[Line], list[float]], *, most: bool) -> list[Pair]:
    """Return a pair for each way in which both were measured."""
    found = []
    for way in Way:
        ours = [line for line in body["lines"] if line["kind"] == OWN and line["way"] == way]
        ways = RIVALS_OF.get(way, (way,))
        others = [line for line in body["lines"] if not line["kind"].startswith(OWN) and line["way"] in ways]
        own, other = best(ours, figures, most=most), best(others, figures, most=most)
        if own is not None and other is not None:
            found.append(Pair(way, own, other))
    return found


def tables(body: Mapping[str, Any]) -> list[str]:
    """Return the tables of both; none where there is nobody beside ours."""
    return [
        f"**{title}**\n\n{_table(found, unit, figures, verdicts)}"
        for title, unit, figures, most, verdicts in (
            ("By the clock", "messages/s", rates, True, _BETTER),
            ("By processor time, client and server together", "CPU us", cpu_us, False, _CHEAPER),
        )
        if (found := pairs(body, figures, most=most))
    ]


def _table(
    found: Sequence[Pair], unit: str, figures: Callable[[Line], list[float]], verdicts: Mapping[str, str]
) -> str:
    def spread(line: Line) -> Spread:
        return Spread.of(figures(line))

    is_whole = figures is rates
    return table(
        found,
        [
            ("way", text(0)),
            ("ours", lambda pair: pair.ours["line"]),
            (unit, lambda pair: brackets(spread(pair.ours), whole=is_whole)),
            ("best other", lambda pair: f"{pair.other['title']}, {pair.other['line']}"),
            (unit, lambda pair: brackets(spread(pair.other), whole=is_whole)),
            ("ours/other, same rounds", lambda pair: brackets(ratio(figures(pair.ours), figures(pair.other)))),
            ("", lambda pair: verdicts[spread(pair.ours).against(spread(pair.other))]),
        ],
    )
