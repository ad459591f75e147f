"""MessageStream: the endless iterator that an application reads (paper, section 3: the consumer API).

What "consumed" means is decided here: a message is consumed when the application comes back for the next one. So at any
time at most one message of a stream is *in hand*, and nothing that was merely fetched is ever counted.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Self

from kafka2011.consumer.owned_partition import State
from kafka2011.errors import KafkaError
from kafka2011.message import Message, complete_prefix_bytes, decode, decode_shallow

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from kafka2011.consumer.owned_partition import OwnedPartition
    from zk.clock import Clock

logger = logging.getLogger(__name__)

BATCH_MESSAGES = 100
"""Messages decoded ahead: enough to make each one cheap, few enough to cost little memory."""
LOOK_INTERVAL_S = 0.1
"""How long messages are handed out on one look at the lease; also how soon a stream sees that it is held again."""
BREATH_S = 0.001
"""A pause before each look, so that an application of greenlets that never pauses itself does not starve the lease."""
RESTART_PAUSE_S = 0.2
"""Time to the next fetch of a partition whose bytes were wrong."""


class Chunk(NamedTuple):
    """A fetched set that waits for the application; its complete messages end at `end_offset`."""

    owned: OwnedPartition
    epoch: int
    offset: int
    end_offset: int
    data: bytes


class MessageStream:
    """Messages of the partitions that one stream of a group owns, as they come: an iterator that blocks.

    It belongs to one thread. Iteration ends when consumer.timeout.ms passes without a message, or after `shutdown`;
    in the first case, and after an error, the stream can be iterated again. Raises InvalidMessageError at a
    corrupt message, which is fetched again when iteration goes on, and InvalidMessageSizeError when fetch.size is too
    small for a message; `rewind` of the connector can step over either.

    `room_made` is called when a fetch that found no room would find some now; it must only set events.
    """

    def __init__(
        self,
        stream_id: str,
        *,
        max_chunks: int,
        timeout_ms: int,
        shallow: bool,
        clock: Clock,
        room_made: Callable[[], None] = lambda: None,
    ) -> None:
        self.stream_id = stream_id
        self._max_chunks = max_chunks
        self._timeout_s = None if timeout_ms < 0 else timeout_ms / 1000
        self._decode = decode_shallow if shallow else decode
        self._now_s = clock.monotonic_s  # called for every message
        self._room_made = room_made
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._chunks: deque[Chunk] = deque()
        self._reserved = 0  # fetches under way, each of which may bring one chunk
        self._is_full = False  # a fetch was not made for want of room
        self._closed = False
        # The chunk that is being handed out; what of it is decoded; the message that the application has, and whose
        # hand it is in.
        self._begun: Chunk | None = None
        self._messages: Iterator[Message] = iter(())
        self._ready: deque[Message] = deque()
        self._error: KafkaError | None = None  # stands behind the messages that are ready
        self._in_hand: Message | None = None
        self._within_set = False  # the application came back inside a compressed set: more of it is to come
        self._thread_id = 0
        self._flowing: OwnedPartition | None = None  # whose messages are ready, while nothing stands in their way
        self._look_at_s = 0.0  # until then the lease is surely held
        self._decoded_messages = 0
        self.unfinished_releases = 0

    def __repr__(self) -> str:
        return f"<MessageStream {self.stream_id}>"

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        try:
            with self._lock:
                self._thread_id = threading.get_ident()
                flowing = self._flowing
                if flowing is not None and self._ready:
                    if self._now_s() < self._look_at_s:
                        if self._in_hand is not None:
                            flowing.consumed_offset = self._in_hand.next_offset
                        self._in_hand = message = self._ready.popleft()
                        return message
                else:
                    return self._await_message()
            time.sleep(BREATH_S)
            with self._lock:
                return self._await_message()
        except (StopIteration, KafkaError):
            raise
        except BaseException:  # KeyboardInterrupt, say: the application did not get what was on its way to it
            self._start_over()
            raise

    @property
    def delivered_messages(self) -> int:
        """How many messages were handed out so far."""
        return self._decoded_messages - len(self._ready)

    # What the application does -----------------------------------------------------------------------------------

    def count_in_hand_as_done(self) -> None:
        """Count the message in hand as consumed, if it is this thread that has it."""
        with self._lock:
            if self._thread_id == threading.get_ident():
                self._come_back()

    def _come_back(self) -> None:
        message = self._in_hand
        if message is None:
            return
        self._in_hand = None
        assert self._begun is not None
        owned = self._begun.owned
        if owned.epoch == self._begun.epoch and owned.state is not State.RELEASED:
            self._within_set = message.next_offset == message.offset
            owned.consumed_offset = message.next_offset
            if owned.state is State.RELEASING:
                self._changed.notify_all()

    def _await_message(self) -> Message:
        """Wait for a message that may be handed out. Raises StopIteration after the timeout and after the end."""
        self._come_back()
        deadline_s = None if self._timeout_s is None else self._now_s() + self._timeout_s
        while not self._closed:
            wait_s = None
            if self._begun is None:
                if self._chunks:
                    self._begin(self._chunks.popleft())
                    continue
            elif not self._may_go_on(self._begun):
                self._drop_begun()
                continue
            elif self._look():
                message = self._next_of(self._begun)
                if message is not None:
                    return message
                continue
            else:
                wait_s = LOOK_INTERVAL_S
            if deadline_s is not None:
                remaining_s = deadline_s - self._now_s()
                if remaining_s <= 0:
                    break
                wait_s = remaining_s if wait_s is None else min(wait_s, remaining_s)
            self._changed.wait(wait_s)
        raise StopIteration

    def _begin(self, chunk: Chunk) -> None:
        """Hand out a chunk next; one that was rewound or given up will not get far."""
        self._make_room()
        self._begun = chunk
        where = chunk.owned.where
        self._messages = self._decode(chunk.data, where.topic, where.broker_id, where.partition, chunk.offset)
        if self._may_go_on(chunk):
            self._flowing = chunk.owned

    def _may_go_on(self, chunk: Chunk) -> bool:
        owned = chunk.owned
        return owned.epoch == chunk.epoch and (
            owned.state is State.ACTIVE or (owned.state is State.RELEASING and self._within_set)
        )

    def _look(self) -> bool:
        """Say whether the session surely lives, and note for how long that is known."""
        assert self._begun is not None
        now_s, until_s = self._now_s(), self._begun.owned.session.lease.until_s
        self._look_at_s = min(until_s, now_s + LOOK_INTERVAL_S)
        return now_s < until_s

    def _next_of(self, chunk: Chunk) -> Message | None:
        """Hand out the next message of the chunk begun; None when it has no more."""
        owned = chunk.owned
        if not self._ready and self._error is None:
            try:
                self._ready.extend(islice(self._messages, BATCH_MESSAGES))  # keeps what came before an error
            except KafkaError as error:
                self._error = error
            finally:
                self._decoded_messages += len(self._ready)
        if self._ready:
            self._in_hand = message = self._ready.popleft()
            return message
        if self._error is not None:
            # Fetched anew when the application goes on: what the network did will be mended then.
            fault, self._error = self._error, None
            self._restart(owned, owned.consumed_offset)
            raise fault
        owned.consumed_offset = chunk.end_offset
        self._drop_begun()
        return None

    def _drop_begun(self) -> None:
        begun, self._begun = self._begun, None
        self._messages = iter(())
        self._decoded_messages -= len(self._ready)
        self._ready.clear()
        self._error = None
        self._within_set = False
        self._flowing = None
        if begun is not None and begun.owned.state is State.RELEASING:
            self._changed.notify_all()

    def _start_over(self) -> None:
        """Forget what was on its way to the application, and fetch it again."""
        with self._lock:
            self._in_hand = None
            if self._begun is not None:
                owned = self._begun.owned
                if owned.epoch == self._begun.epoch and owned.state is State.ACTIVE:
                    self._restart(owned, owned.consumed_offset)
                self._drop_begun()

    # What the fetchers do ----------------------------------------------------------------------------------------

    def reserve(self, owned: OwnedPartition) -> tuple[int, int] | None:
        """Return (offset, epoch) if a fetch of this partition should be made now; `deliver` or `cancel` must follow."""
        with self._lock:
            if (
                self._closed
                or owned.state is not State.ACTIVE
                or owned.fetch_offset is None
                or self._now_s() < owned.not_before_s
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

    def deliver(self, owned: OwnedPartition, epoch: int, offset: int, data: bytes) -> None:
        """Queue what a reserved fetch brought, unless the partition was given up or rewound meanwhile."""
        complete_bytes = complete_prefix_bytes(data)
        with self._lock:
            self._reserved -= 1
            # Another offset: a second fetcher, at the broker's new address, was there first.
            if self._closed or epoch != owned.epoch or offset != owned.fetch_offset or owned.state is not State.ACTIVE:
                return
            if complete_bytes:
                owned.fetch_offset = offset + complete_bytes
            else:  # less than a message: the application must hear of it before anything else is fetched
                owned.not_before_s = math.inf
            self._chunks.append(Chunk(owned, epoch, offset, offset + complete_bytes, data))
            self._changed.notify_all()

    def is_postponed(self, owned: OwnedPartition) -> bool:
        """Say whether a partition is to be left alone just now."""
        with self._lock:
            return self._now_s() < owned.not_before_s

    def postpone(self, owned: OwnedPartition, pause_s: float) -> None:
        """Fetch nothing of a partition for a while."""
        with self._lock:
            owned.not_before_s = max(owned.not_before_s, self._now_s() + pause_s)

    # What the connector does -------------------------------------------------------------------------------------

    def start_at(self, owned: OwnedPartition, offset: int, epoch: int | None = None) -> bool:
        """Let a partition be fetched from an offset, where what was consumed ends; anything queued of it goes.

        False, and nothing done, when it is being given up, or was rewound since it had that `epoch`.
        """
        with self._lock:
            if owned.state is not State.ACTIVE or epoch not in (None, owned.epoch):
                return False
            self._restart(owned, offset)
            owned.consumed_offset = offset
            owned.explicit_offset = offset
            owned.not_before_s = 0.0
            return True

    def begin_release(self, partitions: Collection[OwnedPartition]) -> None:
        """Hand out nothing new of these partitions from now on."""
        with self._lock:
            for owned in partitions:
                if owned.state is State.ACTIVE:
                    self._leave_active(owned, State.RELEASING)
            self._forget_chunks()

    def end_release(self, partitions: Collection[OwnedPartition], deadline_s: float) -> None:
        """Wait until the application has come back from these partitions, or the deadline, and give them up.

        A thread that has the message in hand itself does not wait for itself.
        """
        with self._lock:
            while self._busy_with(partitions) and self._thread_id != threading.get_ident():
                remaining_s = deadline_s - self._now_s()
                if remaining_s <= 0:
                    break
                self._changed.wait(remaining_s)
            self._give_up(partitions)

    def abandon(self, partitions: Collection[OwnedPartition]) -> None:
        """Give partitions up at once, because they are ours no longer."""
        with self._lock:
            self._give_up(partitions)
            self._forget_chunks()

    def close(self) -> None:
        """End the iteration, in whatever thread it goes on."""
        with self._lock:
            self._closed = True
            self._chunks.clear()
            self._flowing = None
            self._changed.notify_all()

    def _busy_with(self, partitions: Collection[OwnedPartition]) -> OwnedPartition | None:
        """Return which of these the application has a message of, or is within a compressed set of."""
        begun = self._begun
        if begun is None or begun.owned.epoch != begun.epoch or begun.owned not in partitions:
            return None
        return begun.owned if self._in_hand is not None or self._within_set else None

    def _give_up(self, partitions: Collection[OwnedPartition]) -> None:
        busy = self._busy_with(partitions)
        if busy is not None and busy.state is not State.RELEASED:
            self.unfinished_releases += 1
            logger.warning(
                "%s: the application has not come back from %s at offset %s: it will be delivered again",
                self.stream_id,
                busy.where,
                busy.consumed_offset,
            )
        for owned in partitions:
            self._leave_active(owned, State.RELEASED)

    def _leave_active(self, owned: OwnedPartition, state: State) -> None:
        owned.state = state
        if self._flowing is owned:
            self._flowing = None

    def _restart(self, owned: OwnedPartition, offset: int | None) -> None:
        """Forget what was fetched of a partition, and fetch it from this offset on after a pause."""
        owned.epoch += 1
        owned.fetch_offset = offset
        owned.not_before_s = self._now_s() + RESTART_PAUSE_S
        if self._flowing is owned:
            self._flowing = None
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
            self._room_made()
