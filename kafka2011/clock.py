"""The two clocks: one that never jumps, for intervals, and the wall's, for times that people and files use."""

from __future__ import annotations

import time
from typing import Protocol

_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """What a component may ask about time; tests pass one that they move by hand."""

    def monotonic_ms(self) -> float:
        """Milliseconds since some fixed moment; goes on while the machine sleeps, where it can."""

    def wall_ms(self) -> float:
        """Milliseconds since the epoch, as the machine believes; may jump."""


class SystemClock:
    """The machine's own clocks."""

    def monotonic_ms(self) -> float:
        """Milliseconds since some fixed moment."""
        return time.clock_gettime(_STEADY) * 1000

    def wall_ms(self) -> float:
        """Milliseconds since the epoch."""
        return time.time() * 1000
