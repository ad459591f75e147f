"""Time for every part of the system: one protocol, in seconds, and the machine's clocks that implement it."""

from __future__ import annotations

import functools
import time
from typing import Protocol

_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """What a component may ask about time; tests pass one that they set by hand."""

    def monotonic_s(self) -> float:
        """Seconds since some fixed moment, never jumping; they also pass while the machine sleeps, where it can."""

    def wall_s(self) -> float:
        """Seconds since the epoch, as the machine believes; may jump."""


class SystemClock:
    """The machine's own clocks. Both calls go straight into C: one of them is made for every message."""

    monotonic_s = staticmethod(functools.partial(time.clock_gettime, _STEADY))
    wall_s = staticmethod(time.time)


SYSTEM_CLOCK: Clock = SystemClock()
"""The clock of everything that is not given a different one."""
