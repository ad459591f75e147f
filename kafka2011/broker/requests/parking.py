"""Parking: requests whose answer waits for something, and costs nothing meanwhile; no sockets and no event loop here.

A parked request ends once, by whatever comes first: what it waits for is there, its time is up, its client has gone or
sends more, the broker stops. Nothing looks after it until then: logs tell of what can be read, the wheel of time, and
the connection of its client.
"""

from __future__ import annotations

import enum
import math
from collections import Counter
from typing import TYPE_CHECKING, Protocol

from kafka2011.broker.requests.timer_wheel import TimerWheel

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from kafka2011.log.log import Log
    from zk.clock import Clock

MAX_WAIT_S = 60.0
"""No request is parked for longer, whatever it asks for."""
PART_BYTES = 512
"""About what a partition that a parked request waits for takes in memory."""

PartitionKey = tuple[str, int]


class WaitEnd(enum.Enum):
    """Why a parked request no longer waits; the values are the names of what is counted."""

    READY = "parked_ready"
    LATE = "parked_late"
    GONE = "parked_gone"
    MORE = "parked_more"
    STOPPED = "parked_stopped"


class Awaited(Protocol):
    """What a parked request waits for."""

    @property
    def partitions(self) -> Collection[PartitionKey]:
        """Topics and partitions whose logs may bring it."""

    def begin(self) -> bool:
        """Begin to wait; say whether it is there by now."""

    def is_there(self, log: Log) -> bool:
        """Say whether it is there, now that more of this log can be read."""


class ParkedRequest:
    """A request that waits. `end` says why it no longer does; `resume` is called then, and must not wait itself."""

    __slots__ = ("awaited", "end", "resume", "tick")

    def __init__(self, awaited: Awaited, resume: Callable[[], object]) -> None:
        self.awaited = awaited
        self.resume = resume
        self.end: WaitEnd | None = None
        self.tick = 0


class Parking:
    """All parked requests of a broker, with room for so many partitions that they wait for.

    `new_deadline` is called when the next one is due earlier than what it was before.
    """

    def __init__(self, max_parts: int, clock: Clock, new_deadline: Callable[[], None] = lambda: None) -> None:
        self._room_parts = max_parts
        self._clock = clock
        self._new_deadline = new_deadline
        self._wheel: TimerWheel[ParkedRequest] = TimerWheel()
        self._deadline_s = math.inf
        self._waiting: dict[PartitionKey, set[ParkedRequest]] = {}
        self.counts: Counter[str] = Counter()

    def park(self, awaited: Awaited, max_wait_s: float, resume: Callable[[], object]) -> ParkedRequest | None:
        """Park a request; None when it must be answered at once, as there is no room."""
        if len(awaited.partitions) > self._room_parts:
            self.counts["parked_refused"] += 1
            return None
        self.counts["parked"] += 1
        parked = ParkedRequest(awaited, resume)
        self._room_parts -= len(awaited.partitions)
        for key in awaited.partitions:
            self._waiting.setdefault(key, set()).add(parked)
        parked.tick = self._wheel.put(parked, self._clock.monotonic_s() + min(max_wait_s, MAX_WAIT_S))
        deadline_s = self._wheel.next_s
        if deadline_s is not None and deadline_s < self._deadline_s:
            self._deadline_s = deadline_s
            self._new_deadline()
        if awaited.begin():
            self.end(parked, WaitEnd.READY)
        return parked

    def end(self, parked: ParkedRequest, why: WaitEnd) -> None:
        """End the wait of a request, unless it has ended."""
        if parked.end is not None:
            return
        parked.end = why
        self.counts[why.value] += 1
        self._room_parts += len(parked.awaited.partitions)
        for key in parked.awaited.partitions:
            waiting = self._waiting[key]
            waiting.discard(parked)
            if not waiting:
                del self._waiting[key]
        self._wheel.take_out(parked, parked.tick)
        parked.resume()

    def is_awaited(self, log: Log) -> bool:
        """Say whether a request waits for a log."""
        return (log.topic, log.partition) in self._waiting

    def note_readable(self, log: Log) -> None:
        """End the waits of those for whom enough of a log can be read now."""
        self.note((log.topic, log.partition), log)

    def note(self, key: PartitionKey, log: Log) -> None:
        """End the waits of those who wait under a key, and have what they wait for, now that a log has changed."""
        waiting = self._waiting.get(key)
        if waiting is not None:
            for parked in list(waiting):
                if parked.awaited.is_there(log):
                    self.end(parked, WaitEnd.READY)

    def end_late(self) -> float | None:
        """End the waits whose time is up; return the seconds until this must be called again, None without any."""
        now_s = self._clock.monotonic_s()
        for parked in self._wheel.take_due(now_s):
            self.end(parked, WaitEnd.LATE)
        deadline_s = self._wheel.next_s
        self._deadline_s = math.inf if deadline_s is None else deadline_s
        return None if deadline_s is None else max(0.0, deadline_s - now_s)
