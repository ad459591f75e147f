"""How long a broker has a request in hand, by type: from when it begins with it until it was handled and answered."""

from __future__ import annotations

from typing import Final

from kafka2011.metrics.histogram import Histogram

EVERY: Final = 15
"""One of so many is measured, which costs each a tenth of a microsecond. Odd, since clients send pairs of requests."""
TYPES: Final = ("produce", "fetch", "multifetch", "multiproduce", "offsets")
"""By the number of a type."""


class RequestTimes:
    """A histogram for each type of request; what a request waits at the end of a log or for a quota is left out.

    Only those are measured of which `is_next` says so.
    """

    __slots__ = ("_by_number", "_left")

    def __init__(self) -> None:
        self._by_number = [Histogram() for _ in TYPES]
        self._left = 1

    def is_next(self) -> bool:
        """Say whether the request that comes now is to be measured."""
        self._left -= 1
        if self._left:
            return False
        self._left = EVERY
        return True

    def note(self, number: int, seconds: float, requests: int = 1) -> None:
        """Count requests of a type; those that were handled together each took as long as all.

        Fetches of replicas, of no type above, are left out.
        """
        if number < len(TYPES):
            self._by_number[number].observe(seconds, requests)

    def by_type(self) -> dict[str, Histogram]:
        """Return the histograms by the names of the types."""
        return dict(zip(TYPES, self._by_number, strict=True))
