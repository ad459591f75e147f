"""TimerWheel: very many things that are due later, most of which are taken out before; no clock and no timer here."""

from __future__ import annotations

import heapq
import math
from typing import Generic, TypeVar

ThingT = TypeVar("ThingT")

TICK_S = 0.02
"""Nothing is due earlier than it should be, nor much more than this later."""


class TimerWheel(Generic[ThingT]):
    """Things by the tick in which they are due: one goes in or out at the same cost, however many there are.

    Times are those of one steady clock, in seconds.
    """

    def __init__(self, tick_s: float = TICK_S) -> None:
        self._tick_s = tick_s
        self._slots: dict[int, set[ThingT]] = {}
        self._ticks: list[int] = []  # a heap of those that have a slot

    def put(self, thing: ThingT, due_s: float) -> int:
        """Let a thing be due at a time; return the tick by which it is taken out again."""
        tick = math.ceil(due_s / self._tick_s)
        slot = self._slots.get(tick)
        if slot is None:
            self._slots[tick] = slot = set()
            heapq.heappush(self._ticks, tick)
        slot.add(thing)
        return tick

    def take_out(self, thing: ThingT, tick: int) -> None:
        """Let a thing not be due, if it is not yet."""
        slot = self._slots.get(tick)
        if slot is not None:
            slot.discard(thing)

    @property
    def next_s(self) -> float | None:
        """When to look again; None while there is nothing."""
        while self._ticks:
            tick = self._ticks[0]
            if self._slots[tick]:
                return tick * self._tick_s
            heapq.heappop(self._ticks)
            del self._slots[tick]
        return None

    def take_due(self, now_s: float) -> list[ThingT]:
        """Take out what is due."""
        due: list[ThingT] = []
        while self._ticks and self._ticks[0] * self._tick_s <= now_s:
            due += self._slots.pop(heapq.heappop(self._ticks))
        return due
