"""Whether the wall clock may decide what is old: the rules by which retention believes it or not. Pure.

Ages are differences of wall clock times. Where the clock is wrong they are wrong, and deleting by them destroys data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka2011.log.retention import MAX_CLOCK_JUMP_MS, ClockJumpGuard

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zk.clock import Clock

DAY_MS = 86_400_000
MAX_DIFFERENCE_MS = MAX_CLOCK_JUMP_MS
"""How far the wall clock may be from ZooKeeper's."""
MAX_MOVE_MS = DAY_MS
"""How far the wall clock may have moved while the broker was down. Also the time for which it waits if it has."""
COMPARISON_LASTS_MS = DAY_MS
"""How long a comparison counts while ZooKeeper is unavailable."""
MOST_PERIODS = 16


class NotedClock(NamedTuple):
    """What the clocks said at a moment. `boot` names the boot of the machine, within which `steady_ms` counts on."""

    wall_ms: float
    steady_ms: float
    boot: str = ""


class WrongPeriod(NamedTuple):
    """Wall clock times that were shown while the clock was known to be wrong; `right_ms` is when it was set right.

    All in ms since the epoch. `right_ms` is 0 while it is still wrong.
    """

    from_ms: float
    to_ms: float
    right_ms: float = 0

    def has(self, time_ms: float) -> bool:
        """Say whether a time may be one that the wrong clock has shown."""
        return self.from_ms - _SLACK_MS <= time_ms <= self.to_ms + _SLACK_MS


_SLACK_MS = 3_600_000
"""What the clock showed between two notes of it, one of which a crash may have prevented."""


class Obstacle(NamedTuple):
    """Why nothing may be deleted by age now. `off_ms` is how far the clock is off, positive if ahead, where known."""

    kind: str
    text: str
    off_ms: float = 0


NOT_COMPARED = "not compared"
DIFFERS = "differs"
MOVED = "moved"
JUMPED = "jumped"


def moved_while_down_ms(noted: NotedClock, now: NotedClock) -> float:
    """Return how far the wall clock has moved, in ms, since it was noted before a stop; 0 for what is allowed.

    Within one boot of the machine its steady clock tells how long the stop was: then an hour is allowed. Else the
    length of the stop counts too, as nothing tells it apart from a move, and a day is allowed.
    """
    moved_ms = now.wall_ms - noted.wall_ms
    allowed_ms = MAX_MOVE_MS
    if noted.boot and noted.boot == now.boot and now.steady_ms >= noted.steady_ms:
        moved_ms -= now.steady_ms - noted.steady_ms
        allowed_ms = MAX_CLOCK_JUMP_MS
    return moved_ms if abs(moved_ms) > allowed_ms else 0


class ClockTrust:
    """Judges the wall clock by its own steps and, if it `is_compared`, by ZooKeeper's clock.

    `periods` are those known from earlier runs; the last may be unfinished.
    """

    def __init__(self, clock: Clock, *, is_compared: bool, periods: Iterable[WrongPeriod] = ()) -> None:
        self._clock = clock
        self._is_compared = is_compared
        self._guard = ClockJumpGuard(clock)
        self._began_ms = self._steady_ms()
        self._waits_for = ""
        self._difference_ms: float | None = None
        self._compared_ms = self._began_ms  # when, on the steady clock
        self._lead_ms = 0.0  # of the wall clock over the steady one, then
        self.periods = list(periods)

    # What it is told

    def wait(self, reason: str) -> None:
        """Delete nothing by age for a day from the start, since what happened before it is unknown.

        The wait ends earlier if ZooKeeper's clock differs and then agrees: it would not have differed if it were the
        same clock.
        """
        self._waits_for = reason

    def compare(self, other_ms: float) -> None:
        """Note what ZooKeeper's clock says now, in ms since the epoch."""
        wall_ms, steady_ms = self._wall_ms(), self._steady_ms()
        unseen_ms = steady_ms - self._compared_ms
        self._difference_ms = wall_ms - other_ms
        self._compared_ms = steady_ms
        self._lead_ms = wall_ms - steady_ms
        if abs(self._difference_ms) <= MAX_DIFFERENCE_MS:
            self._guard = ClockJumpGuard(self._clock)
            if self.is_period_open:
                last = self.periods[-1]
                self.periods[-1] = last._replace(to_ms=last.to_ms + unseen_ms, right_ms=wall_ms)
                self._waits_for = ""  # ZooKeeper's is another clock, or it would never have differed
            return
        # It may have been wrong ever since it was compared last, and then it has shown all times since.
        from_ms, to_ms = wall_ms - unseen_ms, wall_ms
        if self.is_period_open:
            last = self.periods.pop()
            from_ms, to_ms = min(last.from_ms, from_ms), max(last.to_ms, to_ms)
        self.periods = [*self.periods, WrongPeriod(from_ms, to_ms)][-MOST_PERIODS:]

    # What it says

    @property
    def difference_ms(self) -> float | None:
        """How far the wall clock is ahead of ZooKeeper's (negative: behind), by the last comparison; None before one.

        What the wall clock has jumped since then counts.
        """
        if self._difference_ms is None:
            return None
        return self._difference_ms + self._wall_ms() - self._steady_ms() - self._lead_ms

    @property
    def is_known_wrong(self) -> bool:
        """Whether it is further from ZooKeeper's clock than is allowed."""
        difference_ms = self.difference_ms
        return difference_ms is not None and abs(difference_ms) > MAX_DIFFERENCE_MS

    @property
    def is_waiting(self) -> bool:
        """Whether what happened before the start still stands in the way."""
        return bool(self._waits_for) and self._steady_ms() - self._began_ms < MAX_MOVE_MS

    @property
    def is_alone(self) -> bool:
        """Whether nothing but its own steps judges it: there is no ZooKeeper, or none for a day."""
        return not self._is_compared or self._steady_ms() - self._compared_ms > COMPARISON_LASTS_MS

    @property
    def is_period_open(self) -> bool:
        """Whether it was known to be wrong at the last comparison, here or in an earlier run."""
        return bool(self.periods) and not self.periods[-1].right_ms

    def obstacle(self) -> Obstacle | None:
        """Return why nothing may be deleted by age now; None if the wall clock is believed."""
        jump_ms = self._guard.jump_ms()
        difference_ms = self.difference_ms
        if difference_ms is not None and abs(difference_ms) > MAX_DIFFERENCE_MS:
            side = "ahead of" if difference_ms > 0 else "behind"
            text = f"the wall clock is {abs(difference_ms) / 1000:.0f} s {side} ZooKeeper's"
            return Obstacle(DIFFERS, text, difference_ms)
        if self.is_waiting:
            return Obstacle(MOVED, f"{self._waits_for}; nothing is deleted by age for the first 24 h of running")
        if self.is_alone:
            if abs(jump_ms) > MAX_CLOCK_JUMP_MS:
                return Obstacle(JUMPED, f"the wall clock has jumped by {jump_ms / 1000:.0f} s", jump_ms)
        elif difference_ms is None:
            return Obstacle(NOT_COMPARED, "the wall clock has not been compared with ZooKeeper's yet")
        return None

    def believed_ms(self, modified_ms: float) -> float | None:
        """Return when something was written at the latest that bears this time, in ms; None if the time is believed.

        A time that the clock has shown while it was known to be wrong is no later than when the clock was set right.
        """
        rights = [period.right_ms or self._wall_ms() for period in self.periods if period.has(modified_ms)]
        return max(rights, default=None)

    def _wall_ms(self) -> float:
        return self._clock.wall_s() * 1000

    def _steady_ms(self) -> float:
        return self._clock.monotonic_s() * 1000
