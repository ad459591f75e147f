"""MessageStream: the endless iterator that an application reads (paper, section 3: the consumer API).

What "consumed" means is decided here: a message is consumed when the application comes back for the next one. So at any
time at most one message of a stream is *in hand*, and nothing that was merely fetched is ever counted.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Self

from kafka2011.consumer.owned_partition import State
from kafka2011.errors import KafkaError
from kafka2011.message import Message, complete_prefix_bytes, decode, decode_shallow

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from kafka2011.consumer.owned_partition import OwnedPartition

logger = logging.getLogger(__name__)

LEASE_POLL_S = 0.05
"""How soon a stream notices that the lease, which ZooKeeper's silence took, is held again."""
RESTART_PAUSE_S = 0.2
"""Time to the next fetch of a partition whose bytes were wrong."""


class Chunk(NamedTuple):
    """A fetched set that waits for the application."""

    owned: OwnedPartition
    epoch: int
    offset: int
    data: bytes


class MessageStream:
    """Messages of the partitions that one stream of a group owns, as they come: an iterator that blocks.

    It belongs to one thread. Iteration ends when consumer.timeout.ms passes without a message, or after `shutdown`;
    in the first case, and after an error, the stream can be iterated again. Raises InvalidMessageError at a
    corrupt message, which is fetched again when iteration goes on, and InvalidMessageSizeError when fetch.size is too
    small for a message; `rewind` of the connector can step over either.
    """

    def __init__(
        self,
        stream_id: str,
        *,
        max_chunks: int,
        timeout_ms: int,
        shallow: bool,
        clock: Callable[[], float],
    ) -> None:
        self.stream_id = stream_id
        self._max_chunks = max_chunks
        self._timeout_s = None if timeout_ms < 0 else timeout_ms / 1000
        self._decode = decode_shallow if shallow else decode
        self._clock = clock
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._chunks: deque[Chunk] = deque()
        self._reserved = 0  # fetches under way, each of which may bring one chunk
        self._is_full = False  # a fetch was not made for want of room
        self._closed = False
        # The chunk that is being handed out, the message of it that the application has, and whose hand it is in.
        self._owned: OwnedPartition | None = None
        self._epoch = 0
        self._chunk_end = 0
        self._messages: Iterator[Message] = iter(())
        self._in_hand: Message | None = None
        self._within_set = False  # inside a compressed set, of which messages are still to come
        self._thread_id = 0
        self.room_made: Callable[[], None] = lambda: None
        self.delivered_messages = 0
        self.unfinished_releases = 0

    def __repr__(self) -> str:
        return f"<MessageStream {self.stream_id}>"

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        with self._lock:
            self._come_back()
            self._thread_id = threading.get_ident()
            message = self._next_of_chunk()
            return self._await_message() if message is None else message

    # What the application does -----------------------------------------------------------------------------------

    def count_in_hand_as_done(self) -> None:
        """Count the message in hand as consumed, if it is this thread that has it."""
        with self._lock:
            if self._thread_id == threading.get_ident():
                self._come_back()

    def _come_back(self) -> None:
        message, owned = self._in_hand, self._owned
        if message is None:
            return
        self._in_hand = None
        assert owned is not None
        if owned.epoch == self._epoch and owned.state is not State.RELEASED:
            owned.consumed_offset = message.next_offset
            if owned.state is State.RELEASING:
                self._changed.notify_all()

    def _next_of_chunk(self) -> Message | None:
        """Hand out the next message of the chunk begun; None if there is none, or it may not be handed out now."""
        owned = self._owned
        if owned is None:
            return None
        if owned.epoch != self._epoch or not (
            owned.state is State.ACTIVE or (owned.state is State.RELEASING and self._within_set)
        ):
            self._drop_chunk()
            return None
        if self._clock() >= owned.lease.until_s:
            return None
        try:
            for message in self._messages:
                self._in_hand = message
                self._within_set = message.next_offset == message.offset
                self.delivered_messages += 1
                return message
        except KafkaError:
            # Fetched anew when the application goes on: what the network did will be mended then.
            self._restart(owned, owned.consumed_offset)
            raise
        owned.consumed_offset = self._chunk_end
        self._drop_chunk()
        return None

    def _await_message(self) -> Message:
        """Wait for a message that may be handed out. Raises StopIteration after the timeout and after the end."""
        deadline_s = None if self._timeout_s is None else self._clock() + self._timeout_s
        while not self._closed:
            if self._owned is None and self._chunks:
                self._begin_chunk(self._chunks.popleft())
            message = self._next_of_chunk()
            if message is not None:
                return message
            if self._owned is None and self._chunks:
                continue
            wait_s = None if self._owned is None else LEASE_POLL_S
            if deadline_s is not None:
                remaining_s = deadline_s - self._clock()
                if remaining_s <= 0:
                    break
                wait_s = remaining_s if wait_s is None else min(wait_s, remaining_s)
            self._changed.wait(wait_s)
        raise StopIteration

    def _begin_chunk(self, chunk: Chunk) -> None:
        self._make_room()
        owned = chunk.owned
        if chunk.epoch != owned.epoch or owned.state is not State.ACTIVE:
            return
        where = owned.where
        self._owned = owned
        self._epoch = chunk.epoch
        self._chunk_end = chunk.offset + complete_prefix_bytes(chunk.data)
        self._messages = self._decode(chunk.data, where.topic, where.broker_id, where.partition, chunk.offset)

    def _drop_chunk(self) -> None:
        owned, self._owned = self._owned, None
        self._messages = iter(())
        self._within_set = False
        if owned is not None and owned.state is State.RELEASING:
            self._changed.notify_all()

    # What the fetchers do ----------------------------------------------------------------------------------------

    def reserve(self, owned: OwnedPartition) -> tuple[int, int] | None:
        """Return (offset, epoch) if a fetch of this partition should be made now; `deliver` or `cancel` must follow."""
        with self._lock:
            if (
                self._closed
                or owned.state is not State.ACTIVE
                or owned.fetch_offset is None
                or self._clock() < owned.not_before_s
            ):
                return None
            if len(self._chunks) + self._reserved >= self._max_chunks:
                self._is_full = True
                return None
            self._reserved += 1
            return owned.fetch_offset, owned.epoch

    def cancel(self) -> None:
        """Give back what `reserve` took, because nothing came."""
        with self._lock:
            self._reserved -= 1

    def deliver(self, chunk: Chunk) -> None:
        """Queue what a reserved fetch brought, unless the partition was given up or rewound meanwhile."""
        complete_bytes = complete_prefix_bytes(chunk.data)
        owned = chunk.owned
        with self._lock:
            self._reserved -= 1
            if self._closed or chunk.epoch != owned.epoch or owned.state is not State.ACTIVE:
                return
            if complete_bytes:
                owned.fetch_offset = chunk.offset + complete_bytes
            else:  # less than a message: the application must hear of it before anything else is fetched
                owned.not_before_s = math.inf
            self._chunks.append(chunk)
            self._changed.notify_all()

    # What the connector does -------------------------------------------------------------------------------------

    def start_at(self, owned: OwnedPartition, offset: int) -> None:
        """Let a partition be fetched from an offset, where what was consumed ends; anything queued of it goes."""
        with self._lock:
            if owned.state is State.ACTIVE:
                self._restart(owned, offset)
                owned.consumed_offset = offset
                owned.explicit_offset = None
                owned.not_before_s = 0.0

    def begin_release(self, partitions: Collection[OwnedPartition]) -> None:
        """Hand out nothing new of these partitions from now on."""
        with self._lock:
            for owned in partitions:
                if owned.state is State.ACTIVE:
                    owned.state = State.RELEASING
            self._forget_chunks()

    def end_release(self, partitions: Collection[OwnedPartition], deadline_s: float) -> None:
        """Wait until the application has come back from these partitions, or the deadline, and give them up.

        A thread that has the message in hand itself does not wait for itself.
        """
        with self._lock:
            while self._is_busy_with(partitions) and self._thread_id != threading.get_ident():
                remaining_s = deadline_s - self._clock()
                if remaining_s <= 0:
                    break
                self._changed.wait(remaining_s)
            if self._is_busy_with(partitions):
                assert self._owned is not None
                self.unfinished_releases += 1
                logger.warning(
                    "%s: the application has not come back from %s at offset %s: it will be delivered again",
                    self.stream_id,
                    self._owned.where.full_name,
                    self._owned.consumed_offset,
                )
            for owned in partitions:
                owned.state = State.RELEASED

    def abandon(self, partitions: Collection[OwnedPartition]) -> None:
        """Give partitions up at once, because they are ours no longer."""
        with self._lock:
            for owned in partitions:
                owned.state = State.RELEASED
            self._forget_chunks()

    def close(self) -> None:
        """End the iteration, in whatever thread it goes on."""
        with self._lock:
            self._closed = True
            self._chunks.clear()
            self._changed.notify_all()

    def _is_busy_with(self, partitions: Collection[OwnedPartition]) -> bool:
        owned = self._owned
        return (
            owned is not None
            and owned in partitions
            and owned.epoch == self._epoch
            and (self._in_hand is not None or self._within_set)
        )

    def _restart(self, owned: OwnedPartition, offset: int | None) -> None:
        """Forget what was fetched of a partition, and fetch it from this offset on after a pause."""
        owned.epoch += 1
        owned.fetch_offset = offset
        owned.not_before_s = self._clock() + RESTART_PAUSE_S
        self._forget_chunks()

    def _forget_chunks(self) -> None:
        """Drop queued chunks that will not be handed out, and make their room free."""
        kept = [
            chunk for chunk in self._chunks if chunk.owned.state is State.ACTIVE and chunk.epoch == chunk.owned.epoch
        ]
        if len(kept) < len(self._chunks):
            self._chunks = deque(kept)
            self._make_room()
        self._changed.notify_all()

    def _make_room(self) -> None:
        """Wake the fetchers if one of them found no room."""
        if self._is_full:
            self._is_full = False
            self.room_made()
