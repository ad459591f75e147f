"""Samples of several rounds: what a document keeps of them, and what may be said of two lines.

A document keeps every round. A spread is the lowest, the middle and the highest; a verdict needs spreads that do not
overlap.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Figures = dict[str, list[float] | None]

MORE, LESS, OVERLAP, FEW = "more", "less", "spreads overlap", "too few rounds"
LEAST_ROUNDS = 5
"""With fewer there is no verdict."""


class Spread(NamedTuple):
    """The lowest, the middle and the highest of `n` values."""

    lowest: float
    median: float
    highest: float
    n: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Return that of values, of which there is one at least."""
        found = list(values)
        return cls(min(found), statistics.median(found), max(found), len(found))

    def against(self, other: Spread) -> str:
        """Say whether these are MORE or LESS than others, or OVERLAP; or that there are too FEW."""
        if min(self.n, other.n) < LEAST_ROUNDS:
            return FEW
        if self.lowest > other.highest:
            return MORE
        return LESS if self.highest < other.lowest else OVERLAP

    def against_figure(self, figure: float) -> str:
        """Say the same of one figure."""
        return self.against(Spread(figure, figure, figure, self.n))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """So many messages, rows or bytes in so much time: by the clock, and of the processors of client and server."""

    amount: float
    wall_s: float
    cpu_s: float
    server_cpu_s: float | None = None

    @property
    def rate(self) -> float:
        """So many a second: the whole run, until the last one was handled."""
        return self.amount / self.wall_s

    @property
    def client_cpu_us(self) -> float:
        """CPU time of the client for each."""
        return self.cpu_s / self.amount * 1e6

    @property
    def server_cpu_us(self) -> float | None:
        """CPU time of the server for each, where it is known."""
        return None if self.server_cpu_s is None else self.server_cpu_s / self.amount * 1e6


def figures(samples: Sequence[Sample]) -> Figures:
    """Return what a document keeps of the samples of one line: a figure for each round."""
    server = [each.server_cpu_us for each in samples]
    return {
        "rate": [each.rate for each in samples],
        "client_cpu_us": [each.client_cpu_us for each in samples],
        "server_cpu_us": None if None in server else [us for us in server if us is not None],
    }


def ratio(ours: Iterable[float], others: Iterable[float]) -> Spread:
    """Return how many times another line's figures ours were, each in the same round.

    Rounds that only one of them has do not count.
    """
    return Spread.of(our / other for our, other in zip(ours, others, strict=False))
