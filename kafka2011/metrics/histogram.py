"""How often something took how long, in a few numbers: to count is a search among some ten bounds, and two sums."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import NamedTuple

UP_TO_SECONDS = (0.0001, 0.00025, 0.001, 0.0025, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0)
"""Bounds of what takes from a tenth of a millisecond to seconds."""
UP_TO_MINUTES = (0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0, 30.0, 60.0, 300.0)
"""Bounds of what may take minutes."""


class Distribution(NamedTuple):
    """What a histogram held at one time: how many were at most each bound, the last endless, and the sum of all."""

    bounds: tuple[float, ...]
    at_most: tuple[int, ...]
    total: float

    def plus(self, other: Distribution) -> Distribution:
        """Return both together; they have the same bounds."""
        at_most = tuple(a + b for a, b in zip(self.at_most, other.at_most, strict=True))
        return Distribution(self.bounds, at_most, self.total + other.total)


class Histogram:
    """Counts observations by upper bounds. For one thread, or for readers that bear with the last one missing."""

    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, bounds: tuple[float, ...] = UP_TO_SECONDS) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count an observation, or several that were alike."""
        self._counts[bisect_left(self._bounds, value)] += times
        self._total += value * times

    def distribution(self) -> Distribution:
        """Return what was counted up to now."""
        return Distribution((*self._bounds, float("inf")), tuple(accumulate(self._counts)), self._total)
