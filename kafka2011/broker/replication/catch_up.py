"""CatchUp: how fast a leader gives followers what they lack, so that consumers at the tail do not notice.

Those in sync get all there is at once: clients wait for them. No event loop here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kafka2011.replica.state import Replica

STEP_S = 0.25
"""What is given at once is what so much time pays for, and no answer is held back for longer."""


class CatchUpTurn(NamedTuple):
    """How long to wait before an answer, and how many bytes of logs it may have then."""

    wait_s: float
    max_bytes: int


class CatchUp:
    """At most so many bytes a second for each follower; 0: as fast as can be."""

    def __init__(self, bytes_per_s: int) -> None:
        self._bytes_per_s = bytes_per_s
        self._paid_s: dict[Replica, float] = {}

    def turn(self, follower: Replica, now_s: float) -> CatchUpTurn | None:
        """Return when a follower that is not in sync gets how much; None if nothing limits it."""
        if not self._bytes_per_s:
            return None
        wait_s = self._paid_s.get(follower, now_s) - now_s
        if wait_s > STEP_S:
            return CatchUpTurn(STEP_S, 0)
        return CatchUpTurn(max(wait_s, 0), max(1, int(self._bytes_per_s * STEP_S)))

    def given(self, follower: Replica, size_bytes: int, now_s: float) -> None:
        """Note what it got."""
        if self._bytes_per_s and size_bytes:
            self._paid_s[follower] = max(self._paid_s.get(follower, now_s), now_s) + size_bytes / self._bytes_per_s
