"""What connections may hold beside `queued.max.bytes`, so that small requests are served when large ones exhaust it.

Each connection has room there for the first 64 KiB of what it has sent and the broker has not handled, and all of them
together for a share of the budget. When that is used up, the connection whose request has been unfinished for longest
is closed, even if bytes of it keep dripping in; where none has been for long, the budget has to do.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

FREE_BYTES = 64 * 1024
"""What one connection may hold there."""
SHARE = 1 / 4
"""What all may hold there, as a part of `queued.max.bytes`."""
DEFAULT_PATIENCE_S = 1.0
"""How long a request may be unfinished in any case."""


class SmallClaim:
    """What the connection `name` holds of the share. `evict` is called when it must make room for others."""

    __slots__ = ("evict", "held_bytes", "is_unfinished", "name", "share")

    def __init__(self, share: SmallShare, name: str, evict: Callable[[], None]) -> None:
        self.share = share
        self.name = name
        self.evict = evict
        self.held_bytes = 0
        self.is_unfinished = False

    def hold(self, buffered_bytes: int) -> int:
        """Hold so many bytes from now on; return those that have no room here."""
        share = self.share
        held_bytes = buffered_bytes if buffered_bytes < FREE_BYTES else FREE_BYTES
        share.held_bytes += held_bytes - self.held_bytes
        self.held_bytes = held_bytes
        if share.held_bytes > share.max_bytes:
            share.make_room(self)
        return buffered_bytes - self.held_bytes

    def begin(self) -> None:
        """Note that the beginning of a request is there, and its end is not."""
        self.is_unfinished = True
        self.share.unfinished[self] = time.monotonic()

    def finish(self) -> None:
        """Note that it is there, or that nobody waits for it any more."""
        if self.is_unfinished:
            self.is_unfinished = False
            del self.share.unfinished[self]


class SmallShare:
    """Shares a number of bytes among connections; `refused` counts those that had to go."""

    def __init__(self, max_bytes: int, patience_s: float = DEFAULT_PATIENCE_S) -> None:
        self.max_bytes = max_bytes
        self.held_bytes = 0
        self.refused = 0
        self.unfinished: dict[SmallClaim, float] = {}  # and since when, oldest first
        self.patience_s = patience_s

    def claim(self, name: str, evict: Callable[[], None]) -> SmallClaim:
        """Return a claim of 0 bytes for the connection called `name`."""
        return SmallClaim(self, name, evict)

    def make_room(self, wanted_by: SmallClaim) -> None:
        """Close the connection that has been unfinished for longest; take from this one what has no room even so."""
        if self.unfinished:
            oldest, since_s = next(iter(self.unfinished.items()))
            age_s = time.monotonic() - since_s
            if age_s >= self.patience_s:
                self._evict(oldest, age_s)
        excess_bytes = min(max(0, self.held_bytes - self.max_bytes), wanted_by.held_bytes)
        wanted_by.held_bytes -= excess_bytes
        self.held_bytes -= excess_bytes

    def _evict(self, claim: SmallClaim, age_s: float) -> None:
        self.refused += 1
        logger.warning(
            "%d bytes beside queued.max.bytes are used up: closing %s, whose request has been unfinished for %.1f s,"
            " with %d bytes there (%d closed so far)",
            *(self.max_bytes, claim.name, age_s, claim.held_bytes, self.refused),
        )
        claim.finish()
        self.held_bytes -= claim.held_bytes
        claim.held_bytes = 0
        claim.evict()
