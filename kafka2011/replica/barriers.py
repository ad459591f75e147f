"""Confirmed sends: a barrier is answered when all that its connection appended before it can be read.

They belong to one epoch of one leader. When that ends, so do all connections of clients, barriers unanswered: offsets
that were given out in it may hold other messages in the next one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.replica.in_sync import LeadLostError

if TYPE_CHECKING:
    from collections.abc import Callable

    from zk.cluster import TopicPartition


class ClientAppends:
    """What one client's connection has appended in an epoch. `has_ended` says whether that is over."""

    def __init__(self, has_ended: Callable[[], bool]) -> None:
        self._has_ended = has_ended
        self._ends: dict[TopicPartition, int] = {}

    def appended(self, where: TopicPartition, end: int) -> None:
        """Note a produce and the offset after it. Raises LeadLostError: the connection is to be closed."""
        self._check()
        self._ends[where] = end

    def barrier(self) -> Barrier:
        """Return a barrier that has just arrived. Raises LeadLostError."""
        self._check()
        return Barrier(self, dict(self._ends))

    def forget(self, barrier: Barrier) -> None:
        """Drop what an answered barrier has shown to be readable."""
        for where, end in barrier.ends.items():
            if self._ends.get(where) == end:
                del self._ends[where]

    def _check(self) -> None:
        if self._has_ended():
            raise LeadLostError("the lead was lost since the client connected")

    def is_due(self, barrier: Barrier, readable: Callable[[TopicPartition], int]) -> bool:
        """Say whether a barrier is to be answered. Raises LeadLostError."""
        self._check()
        return all(readable(where) >= end for where, end in barrier.ends.items())


class Barrier:
    """A request whose answer says that all appended before it can be read; `ends` is what has to be readable."""

    def __init__(self, connection: ClientAppends, ends: dict[TopicPartition, int]) -> None:
        self._connection = connection
        self.ends = ends

    def is_due(self, readable: Callable[[TopicPartition], int]) -> bool:
        """Say whether it is to be answered now. Raises LeadLostError: the connection is to be closed, unanswered."""
        if not self._connection.is_due(self, readable):
            return False
        self._connection.forget(self)
        return True
