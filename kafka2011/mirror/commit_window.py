"""Tracks what was sent to the target but not settled, and so how far each source partition may be committed. Pure.

A partition may be committed up to the first set that is not confirmed, however many after it are. What waits for one
broker of the target has a share of the window, which may grow to as much as is left free: so a broker that is away,
or several, leave room for what goes to the others.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from concurrent.futures import Future

    from kafka2011.message.message_set import MessageSet
    from kafka2011.producer.batch import Receipt
    from zk.clock import Clock
    from zk.cluster import TopicPartition

OVERHEAD_BYTES = 1024
"""What a set takes beside its bytes: there may be many small ones."""
STUCK_S = 1.0
"""A broker that confirms nothing for so long, though something waits for it, is away or next to it."""


@dataclass(frozen=True, slots=True, eq=False)
class SentSet:
    """Messages of a source partition, from `offset` to `next_offset`, on their way into the target.

    Without a `future` they are settled: they were left out, and `message_set` is None. `broker_id` is the target's
    broker that confirms them, None where any may.
    """

    where: TopicPartition
    offset: int
    next_offset: int
    message_set: MessageSet | None
    future: Future[Receipt] | None
    broker_id: int | None = None

    @property
    def size_bytes(self) -> int:
        """About how much memory it holds."""
        return self.next_offset - self.offset + OVERHEAD_BYTES

    @property
    def is_done(self) -> bool:
        """Whether it is known how it ended."""
        return self.future is None or self.future.done()


class _Partition:
    """The sets of one partition that are not settled, in order; and up to where they are, and were committed."""

    __slots__ = ("committed_offset", "sent", "settled_offset")

    def __init__(self, offset: int) -> None:
        self.sent: deque[SentSet] = deque()
        self.settled_offset = offset
        self.committed_offset = offset

    @property
    def uncommitted_bytes(self) -> int:
        """How many bytes of the log were sent, settled or not, after what was committed."""
        return (self.sent[-1].next_offset if self.sent else self.settled_offset) - self.committed_offset


@dataclass(slots=True)
class _Share:
    """What of the window waits for one broker, and when that last became less, or began."""

    bytes: int = 0
    moved_s: float = 0.0


class CommitWindow:
    """At most about `max_bytes` in all partitions together, and one set more for each broker. Thread-safe.

    The oldest sets of a partition are settled one after the other: take those of `done`, and give each to `settle`.
    """

    def __init__(self, max_bytes: int, clock: Clock = SYSTEM_CLOCK) -> None:
        self._max_bytes = max_bytes
        self._now_s = clock.monotonic_s
        self._bytes = 0
        self._shares: defaultdict[int | None, _Share] = defaultdict(_Share)
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._lock = threading.Lock()

    def fits(self, size_bytes: int, broker_id: int | None = None) -> bool:
        """Say whether there is room for a set of so many bytes, for which that broker would have to be waited for.

        There is for one where nothing waits for the broker, and else if no more waits for it than is left free then.
        """
        size_bytes += OVERHEAD_BYTES
        with self._lock:
            share_bytes = self._shares[broker_id].bytes
            free_bytes = self._max_bytes - self._bytes - size_bytes
            return not share_bytes or share_bytes + size_bytes <= free_bytes

    def is_stuck(self, broker_id: int | None) -> bool:
        """Say whether something waits for a broker that has confirmed nothing for a while."""
        with self._lock:
            share = self._shares[broker_id]
            return bool(share.bytes) and self._now_s() - share.moved_s >= STUCK_S

    def add(self, sent: SentSet) -> None:
        """Add a set after those of its partition."""
        with self._lock:
            partition = self._partitions.get(sent.where)
            if partition is None:
                partition = self._partitions[sent.where] = _Partition(sent.offset)
            partition.sent.append(sent)
            self._bytes += sent.size_bytes
            if sent.future is not None:
                share = self._shares[sent.broker_id]
                if not share.bytes:
                    share.moved_s = self._now_s()
                share.bytes += sent.size_bytes

    def oldest(self) -> list[SentSet]:
        """Return the first set of each partition: only their ends make room."""
        with self._lock:
            return [partition.sent[0] for partition in self._partitions.values() if partition.sent]

    def awaited(self, broker_id: int | None) -> list[Future[Receipt]]:
        """Return the futures of those of them whose ends can make room in a broker's share."""
        with self._lock:
            return [
                partition.sent[0].future
                for partition in self._partitions.values()
                if any(sent.broker_id == broker_id for sent in partition.sent) and partition.sent[0].future is not None
            ]

    def futures_of(self, partitions: Iterable[TopicPartition]) -> list[Future[Receipt]]:
        """Return the futures of all sets of some partitions."""
        with self._lock:
            known = [self._partitions[where] for where in partitions if where in self._partitions]
            return [sent.future for partition in known for sent in partition.sent if sent.future is not None]

    def done(self) -> Iterator[SentSet]:
        """Yield the first set of each partition while it is done, and the next one once that was settled."""
        for oldest in self.oldest():
            first: SentSet | None = oldest
            while first is not None and first.is_done:
                yield first
                before, first = first, self._first(first.where)
                if first is before:
                    break

    def settle(self, sent: SentSet) -> None:
        """Note that the first set of a partition needs nothing more; ignored when the partition was dropped."""
        with self._lock:
            partition = self._partitions.get(sent.where)
            if partition is None or not partition.sent or partition.sent[0] is not sent:
                return
            partition.sent.popleft()
            partition.settled_offset = sent.next_offset
            self._leave(sent)

    def due(self) -> dict[TopicPartition, int]:
        """Return the offset to commit of each partition where it has moved."""
        with self._lock:
            return {
                where: partition.settled_offset
                for where, partition in self._partitions.items()
                if partition.settled_offset != partition.committed_offset
            }

    def committed(self, where: TopicPartition, offset: int) -> None:
        """Note what was committed."""
        with self._lock:
            if where in self._partitions:
                self._partitions[where].committed_offset = offset

    def drop(self, where: TopicPartition) -> int:
        """Forget a partition that goes to another; return how many bytes of it were sent and not committed.

        So much may come twice.
        """
        with self._lock:
            partition = self._partitions.pop(where, None)
            if partition is None:
                return 0
            for sent in partition.sent:
                self._leave(sent)
            return partition.uncommitted_bytes

    def cut(self, where: TopicPartition) -> int:
        """Forget the sets of a partition that are not settled; return how many bytes they are.

        So much may come twice. What is settled can still be committed.
        """
        with self._lock:
            partition = self._partitions.get(where)
            if partition is None:
                return 0
            sets, partition.sent = partition.sent, deque()
            for sent in sets:
                self._leave(sent)
            return sum(sent.next_offset - sent.offset for sent in sets)

    def _leave(self, sent: SentSet) -> None:
        self._bytes -= sent.size_bytes
        if sent.future is not None:
            share = self._shares[sent.broker_id]
            share.bytes -= sent.size_bytes
            share.moved_s = self._now_s()

    def _first(self, where: TopicPartition) -> SentSet | None:
        with self._lock:
            partition = self._partitions.get(where)
            return partition.sent[0] if partition is not None and partition.sent else None
