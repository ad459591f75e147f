"""One cap on what all connections make the broker hold: `queued.max.bytes`.

Connections take from the budget as bytes arrive. Who finds it empty waits; while somebody waits, connections that stand
still with part of a request are closed, and as a last resort the newest of those that wait, so that the others go on.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import gevent
from gevent.event import Event

from kafka2011.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

DEFAULT_PATIENCE_S = 1.0


class MemoryRefusedError(KafkaError):
    """The budget cannot give a connection what it needs."""


class MemoryClaim:
    """What one connection holds of the budget, in bytes. `evict` is called when it must go for others' sake."""

    __slots__ = ("_budget", "changed_at_s", "evict", "held_bytes", "name", "refused", "released", "waiting_for_bytes")

    def __init__(self, budget: MemoryBudget, name: str, evict: Callable[[], None]) -> None:
        self._budget = budget
        self.name = name
        self.evict = evict
        self.held_bytes = 0
        self.waiting_for_bytes = 0
        self.changed_at_s = 0.0
        self.refused = False
        self.released = Event()

    def resize(self, held_bytes: int) -> None:
        """Hold this many bytes from now on; waits where the budget is used up.

        Raises MemoryRefusedError when others were preferred, or there will never be enough.
        """
        if held_bytes != self.held_bytes:
            self._budget.resize(self, held_bytes)


class MemoryBudget:
    """Shares a number of bytes among connections; `refused` counts those that had to go."""

    def __init__(self, max_bytes: int, patience_s: float = DEFAULT_PATIENCE_S) -> None:
        self.max_bytes = max_bytes
        self.held_bytes = 0
        self.peak_bytes = 0
        self.refused = 0
        self._patience_s = patience_s
        self._claims: set[MemoryClaim] = set()
        self._waiting: list[MemoryClaim] = []

    def claim(self, name: str, evict: Callable[[], None]) -> MemoryClaim:
        """Return a claim of 0 bytes for the connection called `name`."""
        return MemoryClaim(self, name, evict)

    def resize(self, claim: MemoryClaim, held_bytes: int) -> None:
        """Let a claim hold `held_bytes`. See MemoryClaim.resize."""
        growth_bytes = held_bytes - claim.held_bytes
        if growth_bytes > 0 and (self._waiting or self.held_bytes + growth_bytes > self.max_bytes):
            self._wait(claim, growth_bytes)
        self.held_bytes += growth_bytes
        self.peak_bytes = max(self.peak_bytes, self.held_bytes)
        claim.held_bytes = held_bytes
        claim.changed_at_s = time.monotonic()
        if held_bytes:
            self._claims.add(claim)
        else:
            self._claims.discard(claim)
        if growth_bytes < 0 and self._waiting:
            self._waiting[0].released.set()

    def _wait(self, claim: MemoryClaim, growth_bytes: int) -> None:
        claim.waiting_for_bytes = growth_bytes
        self._waiting.append(claim)
        try:
            while self._waiting[0] is not claim or self.held_bytes + growth_bytes > self.max_bytes:
                claim.released.clear()
                if claim.released.wait(self._patience_s) or self._waiting[0] is not claim:
                    if claim.refused:
                        raise MemoryRefusedError(f"no memory left for {growth_bytes} more bytes from {claim.name}")
                    continue
                self._make_room(claim)
        finally:
            claim.waiting_for_bytes = 0
            self._waiting.remove(claim)
            if self._waiting:
                self._waiting[0].released.set()

    def _make_room(self, claim: MemoryClaim) -> None:
        """Close one connection in favour of the first that waits."""
        standing_before_s = time.monotonic() - self._patience_s
        idle = [
            other
            for other in self._claims
            if other is not claim and not other.waiting_for_bytes and other.changed_at_s < standing_before_s
        ]
        if idle:
            victim = min(idle, key=lambda other: other.changed_at_s)
        elif len(self._waiting) > 1:
            victim = self._waiting[-1]
        elif self._claims - {claim}:
            return  # somebody is still being served; room will come
        else:
            victim = claim
        self.refused += 1
        logger.warning(
            "queued.max.bytes %d is used up: closing %s, which holds %d bytes and does not go on (%d closed so far)",
            self.max_bytes,
            victim.name,
            victim.held_bytes,
            self.refused,
        )
        victim.refused = True
        if victim.waiting_for_bytes:
            victim.released.set()
        if victim is claim:
            raise MemoryRefusedError(f"{claim.waiting_for_bytes} bytes more than queued.max.bytes can ever give")
        victim.evict()
        gevent.sleep(0)
