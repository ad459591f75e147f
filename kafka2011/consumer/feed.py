"""PartitionFeed: one owned partition's way into its stream, from the fetch until the application has come back.

Fetchers reserve room and deliver chunks, the stream hands them out, the connector rewinds, and the rebalance releases.
"""

from __future__ import annotations

import enum
import logging
import math
import threading
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.message.message_set import complete_prefix_bytes
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.consumer.chunk_queue import ChunkQueue
    from kafka2011.consumer.group_registries import Lease
    from kafka2011.errors import KafkaError
    from kafka2011.message.message_set import Message
    from zk.clock import Clock

logger = logging.getLogger(__name__)

RESTART_PAUSE_S = 0.2
"""Time until the next fetch of a partition whose bytes were wrong."""


class State(enum.Enum):
    """Where a partition stands between being taken and being given up."""

    ACTIVE = "active"
    RELEASING = "releasing"  # nothing new is handed out until the application has come back
    RELEASED = "released"


class Chunk:
    """A fetched set; its complete messages end at `end_offset`. Once it is open, also what the application has of it.

    It takes the `room` of so many sets of fetch.size in the queue.
    A set that was fetched in an earlier epoch of its feed no longer moves any offset.
    """

    __slots__ = (
        "data",
        "end_offset",
        "epoch",
        "error",
        "feed",
        "flows_until_s",
        "in_hand",
        "is_within_set",
        "list_offset",
        "offset",
        "reader",
        "room",
    )

    def __init__(
        self,
        feed: PartitionFeed,
        epoch: int,
        offset: int,
        end_offset: int,
        data: bytes,
        room: int = 1,
        error: KafkaError | None = None,
    ) -> None:
        self.feed = feed
        self.epoch = epoch
        self.offset = offset
        self.end_offset = end_offset
        self.data = data
        self.room = room
        self.error = error  # which the application gets in place of messages
        self.in_hand: Message | StoredSet | Stretch | None = (
            None  # the last one that the application has not come back from
        )
        self.list_offset: int | None = None  # where the list that is in hand starts, if it is one
        self.reader: threading.Thread | None = None  # the thread that has it; an object, since ids are reused
        self.is_within_set = False  # the application came back inside a compressed set: there is more of it
        self.flows_until_s = 0.0  # until then messages are handed out without another check

    @property
    def is_current(self) -> bool:
        """False once its partition was given up or rewound."""
        return self.feed.epoch == self.epoch and self.feed.state is not State.RELEASED

    @property
    def is_wanted(self) -> bool:
        """Whether its messages are to be handed out; of a partition being released, only the rest of a set."""
        feed = self.feed
        return feed.epoch == self.epoch and (
            feed.state is State.ACTIVE or (feed.state is State.RELEASING and self.is_within_set)
        )

    @property
    def is_busy(self) -> bool:
        """Whether the application has a message of it, or is within a compressed set of it."""
        return self.feed.epoch == self.epoch and (self.in_hand is not None or self.is_within_set)

    def refused(self) -> KafkaError:
        """Return its error, for the application; what it stands for is fetched again when that goes on."""
        assert self.error is not None
        self.feed.restart(self.feed.consumed_offset)
        return self.error

    def come_back(self) -> None:
        """Count what is in hand as consumed, unless the partition was given up or rewound meanwhile."""
        message, feed = self.in_hand, self.feed
        if message is not None and self.is_current:
            self.is_within_set = message.next_offset == message.offset
            feed.consumed_offset = (
                message.next_offset
            )  # before clearing what is in hand, which is read without the lock
            if feed.state is State.RELEASING:
                feed.queue.changed.notify_all()
        self.in_hand = None
        self.list_offset = None


class Stretch(NamedTuple):
    """Where the messages of a record batch lie in their log: from `offset` to `next_offset`."""

    offset: int
    next_offset: int


@dataclass(frozen=True, slots=True)
class StoredSet:
    """Holds whole messages of one partition as its log has them, from `offset` to `next_offset`; sets stay compressed.

    Only lengths have been checked: CRCs are checked by whoever opens `data` or makes a MessageSet of it.
    """

    topic: str
    broker_id: int
    partition: int
    offset: int
    next_offset: int
    data: bytes = field(repr=False)
    chunk: Chunk | None = field(default=None, repr=False, compare=False)

    @property
    def where(self) -> TopicPartition:
        """Return the partition that it is from."""
        return TopicPartition(self.topic, self.broker_id, self.partition)

    @property
    def is_current(self) -> bool:
        """Return False once the partition was given up or rewound after this set was delivered."""
        return self.chunk is None or self.chunk.is_current

    def put_back(self, offset: int) -> Callable[[], None] | None:
        """Stop deliveries and fetches of its partition until the returned function is called.

        Then the partition goes on at `offset`, a message of this set. None, with nothing done, when the set was not
        handed out by a stream or is no longer current.
        """
        return None if self.chunk is None else self.chunk.feed.hold(self.chunk.epoch, offset)


class PartitionFeed:
    """One partition's way into the queue of its stream, in the session whose `lease` it was claimed under.

    Offsets are where to go on: `fetch_offset` for the next fetch, `consumed_offset` for the group. `epoch` counts
    rewinds. Fields are guarded by the queue's lock, and all public methods take it.
    """

    def __init__(
        self, where: TopicPartition, stream_id: str, lease: Lease, queue: ChunkQueue[Chunk], clock: Clock
    ) -> None:
        self.where = where
        self.stream_id = stream_id
        self.lease = lease
        self.queue = queue
        self.fetch_offset: int | None = None  # None until the start is known
        self._consumed_offset: int | None = None  # while nothing is in hand
        self.state = State.ACTIVE
        self.epoch = 0
        self.not_before_s = 0.0  # the fetcher leaves the partition alone until then
        self.open_chunk: Chunk | None = None  # the one that is being handed out
        self.lacks_room = False  # `reserve` found none
        self.waits_for_fetches = False  # but fetches of the same broker hold some
        self._is_fetched = False  # and counted as one of its broker's in the queue
        self._reserved = 0
        self._pause_s = 0.0  # the last one of `back_off`
        self._now_s = clock.monotonic_s

    def __repr__(self) -> str:
        return f"<PartitionFeed of {self.where} into {self.stream_id}>"

    @property
    def consumed_offset(self) -> int | None:
        """Where the group goes on: at the message in hand, so nothing has to be noted for each message."""
        chunk = self.open_chunk
        if chunk is None or chunk.in_hand is None or chunk.epoch != self.epoch:
            return self._consumed_offset
        return chunk.in_hand.offset if chunk.list_offset is None else chunk.list_offset

    @consumed_offset.setter
    def consumed_offset(self, offset: int | None) -> None:
        self._consumed_offset = offset

    # What fetchers do --------------------------------------------------------------------------------------------

    def reserve(self) -> tuple[int, int] | None:
        """Return (offset, epoch) if a fetch should be made now; `deliver` or `cancel` must follow."""
        queue, broker_id = self.queue, self.where.broker_id
        with queue.lock:
            self.lacks_room = self.waits_for_fetches = False
            if self.state is not State.ACTIVE or self.fetch_offset is None or self._now_s() < self.not_before_s:
                return None
            if not self._is_fetched:
                self._is_fetched = True
                queue.join(broker_id)
            if not queue.reserve(broker_id):
                self.lacks_room = True
                self.waits_for_fetches = queue.is_reserved(broker_id)
                return None
            self._reserved += 1
            return self.fetch_offset, self.epoch

    def cancel(self) -> None:
        """Give back what `reserve` took, because nothing came."""
        with self.queue.lock:
            self._give_back()

    def recall(self) -> None:
        """Give back all that is reserved: its fetcher must stop, and may never answer."""
        with self.queue.lock:
            self._give_back(self._reserved)

    def deliver(self, epoch: int, offset: int, data: bytes, complete_bytes: int | None = None, room: int = 1) -> None:
        """Queue what a fetch brought that has reserved its `room`, unless the partition was given up or rewound since.

        `complete_bytes` of it are whole messages; they are counted where the caller does not know.
        """
        if complete_bytes is None:
            complete_bytes = complete_prefix_bytes(data)
        with self.queue.lock:
            self._give_back(room)
            # Another offset: a second fetcher, at the broker's new address, was there first.
            is_current = epoch == self.epoch and offset == self.fetch_offset and self.state is State.ACTIVE
            if self.queue.is_closed or not is_current:
                return
            end_offset = offset + complete_bytes
            if not self.queue.put(Chunk(self, epoch, offset, end_offset, data, room), self.where.broker_id):
                return
            if complete_bytes:
                self.fetch_offset = end_offset
            else:  # less than one message: the application must be told before anything else is fetched
                self.not_before_s = math.inf

    def refuse(self, epoch: int, error: KafkaError) -> None:
        """Queue an error that the application must be told, unless the partition was given up or rewound since.

        Fetch nothing until it was.
        """
        with self.queue.lock:
            if self.queue.is_closed or epoch != self.epoch or self.state is not State.ACTIVE:
                return
            offset = self.fetch_offset or 0
            if self.queue.put(Chunk(self, epoch, offset, offset, b"", 1, error), self.where.broker_id):
                self.not_before_s = math.inf

    @property
    def is_postponed(self) -> bool:
        """Whether the partition is to be left alone just now."""
        with self.queue.lock:
            return self._now_s() < self.not_before_s

    @property
    def resumes_in_s(self) -> float:
        """After how long the partition may be fetched again that is left alone just now; infinite where none is."""
        with self.queue.lock:
            pause_s = self.not_before_s - self._now_s()
            return pause_s if pause_s > 0 and self.state is State.ACTIVE else math.inf

    def postpone(self, pause_s: float) -> None:
        """Fetch nothing for a while."""
        with self.queue.lock:
            self.not_before_s = max(self.not_before_s, self._now_s() + pause_s)

    def back_off(self, shortest_s: float, longest_s: float) -> None:
        """Fetch nothing for a while, each time for twice as long as the time before, until there is a start."""
        with self.queue.lock:
            self._pause_s = min(max(shortest_s, 2 * self._pause_s), max(shortest_s, longest_s))
            self.not_before_s = max(self.not_before_s, self._now_s() + self._pause_s)

    # What the application does -----------------------------------------------------------------------------------

    def hold(self, epoch: int, offset: int) -> Callable[[], None] | None:
        """Drop what was fetched, and go on at an offset once the function that this returns is called.

        None, and nothing done, when the partition is being given up, or was rewound after that `epoch`.
        """
        with self.queue.lock:
            if self.state is not State.ACTIVE or epoch != self.epoch:
                return None
            self.restart(offset)
            self.consumed_offset = offset
            self.not_before_s = math.inf
            return partial(self._resume, self.epoch)

    def _resume(self, epoch: int) -> None:
        with self.queue.lock:
            if epoch == self.epoch:
                self.not_before_s = 0.0

    # What the connector and the rebalance do ---------------------------------------------------------------------

    def start_at(self, offset: int, epoch: int | None = None) -> bool:
        """Start fetching at an offset, which also counts as consumed so far; drop anything queued.

        False, and nothing done, when the partition is being given up, or was rewound after that `epoch`.
        """
        with self.queue.lock:
            if self.state is not State.ACTIVE or epoch not in (None, self.epoch):
                return False
            self.restart(offset)
            self.consumed_offset = offset
            self.not_before_s = self._pause_s = 0.0
            return True

    def begin_release(self) -> None:
        """Hand out nothing new from now on."""
        with self.queue.lock:
            if self.state is State.ACTIVE:
                self._leave_active(State.RELEASING)
                self.queue.drop_unwanted()

    def end_release(self, deadline_s: float) -> None:
        """Wait until the application has come back, or the deadline, and give the partition up.

        A thread that itself has the message in hand does not wait.
        """
        with self.queue.lock:
            while (
                self._is_busy
                and (chunk := self.open_chunk) is not None
                and chunk.reader is not threading.current_thread()
                and (remaining_s := deadline_s - self._now_s()) > 0
            ):
                self.queue.changed.wait(remaining_s)
            self._give_up()

    def abandon(self) -> None:
        """Give the partition up at once, because it is no longer ours."""
        with self.queue.lock:
            self._give_up()
            self.queue.drop_unwanted()

    # With the lock held ------------------------------------------------------------------------------------------

    def restart(self, offset: int | None) -> None:
        """Forget what was fetched, and fetch from this offset on after a pause. The stream calls it, under the lock."""
        self._stop_flow()
        self.epoch += 1
        self.fetch_offset = offset
        self.not_before_s = self._now_s() + RESTART_PAUSE_S
        self.queue.drop_unwanted()

    @property
    def _is_busy(self) -> bool:
        return self.open_chunk is not None and self.open_chunk.is_busy

    def _give_up(self) -> None:
        if self._is_busy and self.state is not State.RELEASED:
            self.queue.unfinished_releases += 1
            logger.warning(
                "%s: the application has not finished the message of %s at offset %s: it will be redelivered",
                self.stream_id,
                self.where,
                self.consumed_offset,
            )
        self._leave_active(State.RELEASED)

    def _leave_active(self, state: State) -> None:
        self.state = state
        self._stop_flow()
        if self._is_fetched:
            self._is_fetched = False
            self.queue.part(self.where.broker_id)

    def _stop_flow(self) -> None:
        if self.open_chunk is not None:
            self.open_chunk.flows_until_s = 0.0
            self._consumed_offset = self.consumed_offset  # the message in hand no longer counts

    def _give_back(self, room: int = 1) -> None:
        room = min(room, self._reserved)  # which is nothing after `recall`
        self._reserved -= room
        self.queue.give_back(self.where.broker_id, room)
