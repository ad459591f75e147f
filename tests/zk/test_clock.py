"""The machine's clocks."""

from __future__ import annotations

import time

from zk.clock import SYSTEM_CLOCK


def test_the_steady_clock_does_not_go_back() -> None:
    """And also runs while the machine sleeps, where the system can tell."""
    first_s = SYSTEM_CLOCK.monotonic_s()
    assert SYSTEM_CLOCK.monotonic_s() >= first_s


def test_the_wall_clock_is_the_machines() -> None:
    """In seconds since the epoch."""
    before_s = time.time()
    assert before_s <= SYSTEM_CLOCK.wall_s() <= time.time()
