"""One cap on what all connections make the broker hold: `queued.max.bytes`.

Connections take from the budget as bytes arrive. A connection that finds it empty waits in line. While any waits,
connections that have stalled with part of a request are closed; when all that hold memory wait, the newest of them is
closed, so that the others can go on. A connection may have several claims, for what it has sent and for what that opens
to; they are lost together.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from gevent.event import Event

from kafka2011.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

DEFAULT_PATIENCE_S = 1.0


class MemoryRefusedError(KafkaError):
    """The budget cannot give a connection what it needs."""


class MemoryClaim:
    """What the connection `name` holds of the budget for one purpose, in bytes.

    `evict` is called when it must make room for others; `refused` says why.
    """

    __slots__ = ("budget", "changed_at_s", "evict", "held_bytes", "name", "refused", "released", "waiting_for_bytes")

    def __init__(self, budget: MemoryBudget, name: str, evict: Callable[[], None]) -> None:
        self.budget = budget
        self.name = name
        self.evict = evict
        self.held_bytes = 0
        self.waiting_for_bytes = 0
        self.changed_at_s = 0.0
        self.refused = False
        self.released = Event()

    def resize(self, held_bytes: int) -> None:
        """Hold this many bytes from now on; waits while the budget is exhausted.

        Raises MemoryRefusedError when others came first, or when there can never be enough.
        """
        if held_bytes != self.held_bytes:
            self.budget.resize(self, held_bytes)

    def refuse(self) -> None:
        """Let it have no more from now on; if it waits, that ends."""
        self.refused = True
        self.released.set()


class MemoryBudget:
    """Shares a number of bytes among connections; `refused` counts those that had to go."""

    def __init__(self, max_bytes: int, patience_s: float = DEFAULT_PATIENCE_S) -> None:
        self.max_bytes = max_bytes
        self.held_bytes = 0
        self.peak_bytes = 0
        self.refused = 0
        self.patience_s = patience_s
        self.claims: set[MemoryClaim] = set()
        self.waiting: list[MemoryClaim] = []

    def claim(self, name: str, evict: Callable[[], None]) -> MemoryClaim:
        """Return a claim of 0 bytes for the connection called `name`, which may have others."""
        return MemoryClaim(self, name, evict)

    def resize(self, claim: MemoryClaim, held_bytes: int) -> None:
        """Let a claim hold `held_bytes`. See MemoryClaim.resize."""
        growth_bytes = held_bytes - claim.held_bytes
        if growth_bytes > 0 and claim.refused:  # bytes that arrived before it was evicted
            raise MemoryRefusedError(f"the memory of {claim.name} was needed by others")
        if growth_bytes > 0 and (self.waiting or self.held_bytes + growth_bytes > self.max_bytes):
            self._wait(claim, growth_bytes)
        self.held_bytes += growth_bytes
        self.peak_bytes = max(self.peak_bytes, self.held_bytes)
        claim.held_bytes = held_bytes
        claim.changed_at_s = time.monotonic()
        if held_bytes:
            self.claims.add(claim)
        else:
            self.claims.discard(claim)
        if growth_bytes < 0 and self.waiting:
            self.waiting[0].released.set()

    def _wait(self, claim: MemoryClaim, growth_bytes: int) -> None:
        own_bytes = self._held_by(claim.name)
        if own_bytes + growth_bytes > self.max_bytes:
            self._note_refused(claim.name)
            raise MemoryRefusedError(
                f"{claim.name} holds {own_bytes} bytes: {growth_bytes} more cannot be allocated within"
                f" queued.max.bytes {self.max_bytes}"
            )
        claim.waiting_for_bytes = growth_bytes
        self.waiting.append(claim)
        try:
            while self.waiting[0] is not claim or self.held_bytes + growth_bytes > self.max_bytes:
                claim.released.clear()
                is_woken = claim.released.wait(self.patience_s)
                if claim.refused:
                    raise MemoryRefusedError(f"no memory left for {growth_bytes} more bytes from {claim.name}")
                if not is_woken and self.waiting[0] is claim:
                    self._make_room()
        finally:
            claim.waiting_for_bytes = 0
            self.waiting.remove(claim)
            if self.waiting:
                self.waiting[0].released.set()

    def _make_room(self) -> None:
        """Close one connection in favour of the first that waits, unless those that hold memory make progress.

        Those that do not wait cannot grow now, so each of them soon gives memory back or stalls.
        """
        waiting = {claim.name for claim in self.waiting}
        changed_at_s: dict[str, float] = {}
        for claim in self.claims:
            if claim.name not in waiting and not claim.refused:
                changed_at_s[claim.name] = max(claim.changed_at_s, changed_at_s.get(claim.name, 0.0))
        if changed_at_s:
            oldest = min(changed_at_s, key=changed_at_s.__getitem__)
            if changed_at_s[oldest] < time.monotonic() - self.patience_s:
                self._evict(oldest)
            return
        for claim in self.waiting[:0:-1]:
            if self._held_by(claim.name):
                self._evict(claim.name)
                return

    def _evict(self, name: str) -> None:
        self._note_refused(name)
        claims = [claim for claim in {*self.claims, *self.waiting} if claim.name == name]
        for claim in claims:
            claim.refuse()
        claims[0].evict()

    def _note_refused(self, name: str) -> None:
        self.refused += 1
        logger.warning(
            "queued.max.bytes %d is exhausted: closing %s, which holds %d bytes and has stalled (%d closed so far)",
            self.max_bytes,
            name,
            self._held_by(name),
            self.refused,
        )

    def _held_by(self, name: str) -> int:
        return sum(claim.held_bytes for claim in self.claims if claim.name == name)
