"""Clocks that a test moves by hand."""

from __future__ import annotations


class ManualClock:
    """Both clocks of `zk.clock.Clock`, standing still until somebody moves them, by seconds or by milliseconds."""

    def __init__(self, now_s: float = 0.0, wall_lead_s: float = 0.0) -> None:
        self.now_ms = now_s * 1000  # kept in these, so that ages of whole milliseconds are exact
        self.wall_lead_ms = wall_lead_s * 1000

    @property
    def now_s(self) -> float:
        """Where the steady clock stands."""
        return self.now_ms / 1000

    @now_s.setter
    def now_s(self, now_s: float) -> None:
        self.now_ms = now_s * 1000

    def monotonic_s(self) -> float:
        """Return where the steady clock stands."""
        return self.now_s

    def wall_s(self) -> float:
        """Return where the wall clock stands: `wall_lead_ms` ahead of the steady one."""
        return (self.now_ms + self.wall_lead_ms) / 1000

    def sleep(self, seconds: float) -> None:
        """Pass time as `time.sleep` does, without waiting."""
        self.now_s += seconds
