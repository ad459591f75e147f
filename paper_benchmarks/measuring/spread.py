"""Samples of several rounds, and what a document keeps of them: the lowest, the middle and the highest."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Spread(NamedTuple):
    """The lowest, the middle and the highest of several values."""

    lowest: float
    median: float
    highest: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Return that of values, of which there is one at least."""
        found = list(values)
        return cls(min(found), statistics.median(found), max(found))


def spread_of_known(values: Iterable[float | None]) -> Spread | None:
    """Return that of all values that are known; None when none is."""
    known = [value for value in values if value is not None]
    return Spread.of(known) if known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """So many messages, rows or bytes in so much time: by the clock, and of the processors of client and server."""

    amount: float
    wall_s: float
    cpu_s: float
    server_cpu_s: float | None = None

    @property
    def rate(self) -> float:
        """So many a second."""
        return self.amount / self.wall_s

    @property
    def client_cpu_us(self) -> float:
        """CPU time of the client for each."""
        return self.cpu_s / self.amount * 1e6

    @property
    def server_cpu_us(self) -> float | None:
        """CPU time of the server for each, where it is known."""
        return None if self.server_cpu_s is None else self.server_cpu_s / self.amount * 1e6


def figures(samples: Sequence[Sample]) -> dict[str, Spread | None]:
    """Return what a document keeps of the samples of one line."""
    return {
        "rate": Spread.of(each.rate for each in samples),
        "client_cpu_us": Spread.of(each.client_cpu_us for each in samples),
        "server_cpu_us": spread_of_known(each.server_cpu_us for each in samples),
    }


def ratio(ours: Iterable[Sample], others: Iterable[Sample]) -> Spread:
    """Return how many times as fast one line was as another in the same round."""
    return Spread.of(our.rate / other.rate for our, other in zip(ours, others, strict=True))
