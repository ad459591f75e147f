"""Clocks that a test moves by hand."""

from __future__ import annotations


class ManualClock:
    """Both clocks of `zk.clock.Clock`, standing still until `now_s` or `wall_lead_s` is moved."""

    def __init__(self, now_s: float = 0.0, wall_lead_s: float = 0.0) -> None:
        self.now_s = now_s
        self.wall_lead_s = wall_lead_s

    def monotonic_s(self) -> float:
        """Return where the steady clock stands."""
        return self.now_s

    def wall_s(self) -> float:
        """Return where the wall clock stands: `wall_lead_s` ahead of the steady one."""
        return self.now_s + self.wall_lead_s

    def sleep(self, seconds: float) -> None:
        """Pass time as `time.sleep` does, without waiting."""
        self.now_s += seconds
