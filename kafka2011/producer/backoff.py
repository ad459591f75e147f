"""When a broker that cannot be reached is tried again: after 50 ms at first, and after twice as long each time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zk.clock import Clock

FIRST_BACKOFF_S = 0.05
MAX_BACKOFF_S = 1.0


class Backoff:
    """How long one broker is left alone; at most `longest_s`."""

    def __init__(self, longest_s: float, clock: Clock) -> None:
        self._longest_s = longest_s
        self._clock = clock
        self._wait_s = 0.0
        self.is_down = False
        self.next_try_s = 0.0

    def failed(self) -> None:
        """Note that the broker could not be reached."""
        self.is_down = True
        self._wait_s = min(max(self._wait_s * 2, FIRST_BACKOFF_S), self._longest_s)
        self.next_try_s = self._clock.monotonic_s() + self._wait_s

    def succeeded(self) -> None:
        """Note that it can be reached."""
        self.is_down = False
        self._wait_s = 0.0

    def rest_s(self) -> float:
        """Return the time until the next try."""
        return max(self.next_try_s - self._clock.monotonic_s(), 0.0)
