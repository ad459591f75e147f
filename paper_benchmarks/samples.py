"""One measurement, and the arithmetic of many."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What one run of one line took. `code` is what worked on messages, `C` or `Python`."""

    round: int
    system: str
    code: str
    line: str
    messages: int
    cpu_s: float
    wall_s: float
    broker_cpu_s: float | None = None

    @property
    def cpu_us_per_message(self) -> float:
        """CPU time of the client's process, user and system."""
        return self.cpu_s / self.messages * 1e6

    @property
    def broker_cpu_us_per_message(self) -> float | None:
        """The same of the broker's process."""
        return None if self.broker_cpu_s is None else self.broker_cpu_s / self.messages * 1e6

    @property
    def messages_per_s(self) -> float:
        """By the clock on the wall."""
        return self.messages / self.wall_s


@dataclass(frozen=True, slots=True)
class Spread:
    """The lowest, the middle and the highest of several values."""

    lowest: float
    median: float
    highest: float

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Self | None:
        """Return that of all values that are known; None when none is."""
        known = [value for value in values if value is not None]
        return cls(min(known), statistics.median(known), max(known)) if known else None
