"""Holds waiting messages: one open batch for each partition, and the closed ones in a queue for each broker.

Everything here happens under one short lock, which is never held while waiting for a socket or ZooKeeper.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from typing import TYPE_CHECKING

from kafka2011.producer import appending
from kafka2011.producer.batch import Batch, Bound, ListFuture
from kafka2011.producer.encoder import MAX_SET_BYTES, measured, pieces
from kafka2011.producer.errors import ProducerClosedError, QueueFullError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.config import ProducerConfig
    from kafka2011.message.message_set import MessageSet
    from kafka2011.producer.batch import SendFuture
    from zk.clock import Clock
    from zk.cluster import TopicPartition

MAX_TAKEN_BYTES = 4 * 1024 * 1024
MAX_TAKEN_BATCHES = 1000
"""About how much a sender takes at a time, to join into one request."""


class BrokerQueue:
    """What waits for one broker; made, and changed, under the accumulator's lock."""

    def __init__(self, broker_id: int, lock: threading.Lock, bound: Bound) -> None:
        self.broker_id = broker_id
        self.bound = bound
        self.open: dict[int, Batch] = {}  # by identity, from the oldest to the newest
        self.ready: deque[Batch] = deque()
        self.has_work = threading.Condition(lock)
        self.has_room = threading.Condition(lock)
        self.waiting_for_room = 0
        self.sleeps_until_s: float | None = None  # its sender, when it waits
        self.is_closing = False
        self.is_retired = False  # its sender has ended

    @property
    def has_batch(self) -> bool:
        """Whether a batch could be sent at once."""
        return bool(self.ready)


class Accumulator:
    """Collects messages into batches, bounds them by broker, and hands closed batches to senders.

    A batch closes at batch.size messages, at max.message.size bytes or a megabyte, after queue.time, and when
    everything is to be sent; at once where sends are synchronous. `lock` guards all of it.
    """

    def __init__(self, config: ProducerConfig, clock: Clock, new_queue: Callable[[BrokerQueue], None]) -> None:
        self.lock = threading.Lock()
        self.append_payload: Callable[[str, bytes], Batch | None] = self._append_payload
        self._sends_at_once = config.producer_type == "sync"
        self._batch_messages = sys.maxsize if self._sends_at_once else config.batch_size
        self.open_batches: set[Batch] = set()  # and closed ones whose futures are not done
        self.queues: dict[int, BrokerQueue] = {}
        self.is_closed = False
        self._unkeyed: dict[str, Batch] = {}  # open ones, by topic
        if appending.compiled is not None:
            self.append_payload = appending.compiled.appender(self._unkeyed, self.lock.locked, self._append_payload)
        self._pinned: dict[TopicPartition, Batch] = {}  # and those of keys and of named partitions
        self._config = config
        self._clock = clock
        self._new_queue = new_queue  # called under the lock for each broker's first batch; it may start a sender
        self._batch_bytes = min(config.max_message_size, MAX_SET_BYTES)
        self._queue_time_s = config.queue_time / 1000
        self._confirm_timeout_s = config.confirm_timeout_ms / 1000 if config.confirm else float("inf")

    # Taking messages in ------------------------------------------------------------------------------------------

    def _append_payload(self, topic: str, payload: bytes) -> Batch | None:
        """Do as `append_unkeyed` for one payload: the most frequent case, for which `append_payload` may be in C.

        Where sends are synchronous, or the accumulator is closed, there is no open batch.
        """
        with self.lock:
            try:
                batch = self._unkeyed[topic]
            except KeyError:
                return None
            room_bytes = batch.room_bytes - len(payload)
            room_messages = batch.bound.room_messages
            if room_bytes < 0 or room_messages <= 0:
                return None
            batch.payloads.append(payload)
            batch.room_bytes = room_bytes
            batch.bound.room_messages = room_messages - 1
            batch.room_messages -= 1
            if batch.room_messages <= 0:
                self.close(batch)
            return batch

    def append_unkeyed(self, topic: str, payloads: list[bytes]) -> SendFuture | None:
        """Append to the open batch of a topic's messages without a key; None where there is none with room."""
        size_bytes, _ = measured(payloads)
        with self.lock:
            self._check_open()
            batch = self._unkeyed.get(topic)
            if batch is None or not self._has_room(batch, len(payloads), size_bytes):
                return None
            queue = self.queues[batch.where.broker_id]
            if not queue.bound.fits(len(payloads), size_bytes):
                return None
            self._append(batch, payloads, (), size_bytes)
            return batch

    def append(
        self, where: TopicPartition, payloads: list[bytes], key: object = None, *, movable: bool, timeout_ms: int
    ) -> SendFuture:
        """Append to a partition's open batch, or begin new ones; return the future that is done when the last one is.

        Waits up to `timeout_ms` for room in the broker's queue; -1 waits forever. Raises QueueFullError and
        ProducerClosedError, with nothing appended.
        """
        size_bytes, _ = measured(payloads)
        keys: tuple[object, ...] = () if movable else (key,) * len(payloads)
        with self.lock:
            queue = self._await_room(where.broker_id, len(payloads), size_bytes, timeout_ms)
            batch = self._open_batch(where, movable=movable)
            if batch is not None and not self._has_room(batch, len(payloads), size_bytes):
                self.close(batch)
                batch = None
            if len(payloads) <= self._batch_messages and size_bytes <= MAX_SET_BYTES:
                batch = batch or self._begin(queue, where, movable=movable)
                self._append(batch, payloads, keys, size_bytes)
                return batch
            cut = list(pieces(payloads, self._batch_messages))
            future = ListFuture(len(payloads), len(cut))
            for piece in cut:
                batch = self._begin(queue, where, movable=movable)
                batch.list_future = future
                self._append(batch, piece, keys[: len(piece)], measured(piece)[0])
                if id(batch) in queue.open:
                    self.close(batch)
            return future

    def append_set(
        self,
        where: TopicPartition,
        ready_set: MessageSet,
        key: object,
        *,
        movable: bool,
        timeout_ms: int,
    ) -> SendFuture:
        """Queue a ready set as a batch of its own, after what was sent to its partition before. Raises as `append`."""
        size_bytes, messages = len(bytes(ready_set)), ready_set.outer_messages
        with self.lock:
            queue = self._await_room(where.broker_id, messages, size_bytes, timeout_ms)
            before = self._open_batch(where, movable=movable)
            if before is not None:
                self.close(before)
            batch = self._begin(queue, where, movable=movable)
            batch.ready_set = ready_set
            batch.messages = messages
            batch.keys = [] if movable else [key]
            self._hold(batch, messages, size_bytes)
            self.close(batch)
            return batch

    def append_in_doubt(
        self, where: TopicPartition, payloads: list[bytes], key: object, *, movable: bool, sent_ms: float
    ) -> Batch:
        """Queue a set that was sent so long ago, and may have been handled or refused, as a batch of its own.

        It may exceed the bound, since it is already in memory, and it is sent even if the producer is being closed.
        """
        with self.lock:
            batch = self._begin(self.queue_of(where.broker_id), where, movable=movable)
            self._append(batch, payloads, () if movable else (key,) * len(payloads), measured(payloads)[0])
            batch.deadline_s -= sent_ms / 1000
            batch.tries = 1
            batch.suspect = True
            return batch

    def close(self, batch: Batch) -> None:
        """Close a batch, so that it can be sent. Needs the lock."""
        queue = self.queues[batch.where.broker_id]
        del queue.open[id(batch)]
        if batch.movable:
            del self._unkeyed[batch.where.topic]
        else:
            del self._pinned[batch.where]
        if batch.ready_set is None:
            batch.messages = len(batch.payloads)
            # The bytes are counted here, at once for all messages; the messages, one by one, when they came.
            batch.size_bytes = self._batch_bytes - batch.room_bytes
            queue.bound.room_bytes -= batch.size_bytes
        batch.deadline_s = self._clock.monotonic_s() + self._confirm_timeout_s
        self._enqueue(queue, batch)

    def _append(self, batch: Batch, payloads: list[bytes], keys: tuple[object, ...], size_bytes: int) -> None:
        batch.payloads += payloads
        batch.keys += keys
        batch.room_bytes -= size_bytes
        batch.room_messages -= len(payloads)
        batch.bound.room_messages -= len(payloads)
        if self._sends_at_once or batch.room_messages <= 0 or batch.room_bytes <= 0:
            self.close(batch)

    def _has_room(self, batch: Batch, messages: int, size_bytes: int) -> bool:
        return messages <= batch.room_messages and size_bytes <= batch.room_bytes

    def _open_batch(self, where: TopicPartition, *, movable: bool) -> Batch | None:
        if not movable:
            return self._pinned.get(where)
        # Another thread may have begun one for the topic meanwhile, at another partition.
        batch = self._unkeyed.get(where.topic)
        if batch is not None and batch.where != where:
            self.close(batch)
            batch = None
        return batch

    def _begin(self, queue: BrokerQueue, where: TopicPartition, *, movable: bool) -> Batch:
        now_s = self._clock.monotonic_s()
        room = self._batch_messages, self._batch_bytes
        batch = Batch(where, queue.bound, *room, now_s + self._queue_time_s, movable=movable)
        queue.open[id(batch)] = batch
        self.open_batches.add(batch)
        if movable:
            self._unkeyed[where.topic] = batch
        else:
            self._pinned[where] = batch
        if queue.sleeps_until_s is not None and queue.sleeps_until_s > batch.due_s:
            queue.has_work.notify()
        return batch

    def _hold(self, batch: Batch, messages: int, size_bytes: int) -> None:
        batch.size_bytes = size_bytes
        batch.bound.room_messages -= messages
        batch.bound.room_bytes -= size_bytes

    def _enqueue(self, queue: BrokerQueue, batch: Batch) -> None:
        queue.ready.append(batch)
        if queue.sleeps_until_s is not None:
            queue.has_work.notify()

    def _await_room(self, broker_id: int, messages: int, size_bytes: int, timeout_ms: int) -> BrokerQueue:
        self._check_open()
        queue = self.queue_of(broker_id)
        if queue.bound.fits(messages, size_bytes):
            return queue
        for batch in list(queue.open.values()):
            self.close(batch)  # a batch that is to make room must not wait for more messages
        deadline_s = self._clock.monotonic_s() + timeout_ms / 1000
        queue.waiting_for_room += 1
        try:
            while not queue.bound.fits(messages, size_bytes):
                rest_s = None if timeout_ms < 0 else deadline_s - self._clock.monotonic_s()
                if rest_s is not None and rest_s <= 0:
                    held = queue.bound.max_messages - queue.bound.room_messages
                    raise QueueFullError(
                        f"no room for {messages} messages in the queue of broker {broker_id} within {timeout_ms} ms:"
                        f" {held} wait there, queue.size is {self._config.queue_size} and queue.max.bytes"
                        f" {self._config.queue_max_bytes}; none of this send was queued"
                    )
                queue.has_room.wait(rest_s)
                self._check_open()
        finally:
            queue.waiting_for_room -= 1
        return queue

    def queue_of(self, broker_id: int) -> BrokerQueue:
        """Return the queue of a broker; open one if it has none or a retired one."""
        queue = self.queues.get(broker_id)
        if queue is None or queue.is_retired:
            bound = Bound(self._config.queue_size, self._config.queue_max_bytes)
            queue = self.queues[broker_id] = BrokerQueue(broker_id, self.lock, bound)
            queue.is_closing = self.is_closed
            self._new_queue(queue)
        return queue

    def _check_open(self) -> None:
        if self.is_closed:
            raise ProducerClosedError("the producer is closed")

    # Handing batches out -----------------------------------------------------------------------------------------

    def take(self, queue: BrokerQueue, wait_s: float | None) -> list[Batch]:
        """Return closed batches of a queue in order; waits up to `wait_s` for one, None for as long as it takes.

        Closes what has waited for queue.time. Returns nothing when the time is up, or the queue is closing and empty.
        """
        with self.lock:
            until_s = float("inf") if wait_s is None else self._clock.monotonic_s() + wait_s
            while True:
                next_due_s = self._close_due(queue)
                if queue.ready:
                    return self._taken(queue)
                rest_s = min(next_due_s, until_s) - self._clock.monotonic_s()
                if queue.is_closing or rest_s <= 0:
                    return []
                queue.sleeps_until_s = min(next_due_s, until_s)
                try:
                    queue.has_work.wait(rest_s)
                finally:
                    queue.sleeps_until_s = None

    def _close_due(self, queue: BrokerQueue) -> float:
        """Close the batches that are due, oldest first; return when the next one is."""
        while queue.open:
            oldest = next(iter(queue.open.values()))
            if oldest.due_s > self._clock.monotonic_s():
                return oldest.due_s
            self.close(oldest)
        # A batch that is begun now is due no sooner, so beginning it need not wake the sender.
        return self._clock.monotonic_s() + self._queue_time_s

    def _taken(self, queue: BrokerQueue) -> list[Batch]:
        taken: list[Batch] = []
        size_bytes = 0
        while queue.ready and len(taken) < MAX_TAKEN_BATCHES and size_bytes < MAX_TAKEN_BYTES:
            batch = queue.ready.popleft()
            size_bytes += batch.size_bytes
            taken.append(batch)
        return taken

    def move(self, batch: Batch, where: TopicPartition) -> None:
        """Queue a batch from another broker's queue; it may exceed the bound here, since it is already in memory."""
        with self.lock:
            self._release(batch)
            queue = self.queue_of(where.broker_id)
            batch.where = where
            batch.bound = queue.bound
            self._hold(batch, batch.messages, batch.size_bytes)
            self._enqueue(queue, batch)

    def close_movable(self, queue: BrokerQueue) -> None:
        """Close those open batches of a lost broker that may go elsewhere, so that they do."""
        with self.lock:
            for batch in [batch for batch in queue.open.values() if batch.movable]:
                self.close(batch)

    def unfinished(self, future: SendFuture) -> list[Batch]:
        """Return the batches that a future still waits for."""
        with self.lock:
            return [batch for batch in self.open_batches if future in (batch, batch.list_future)]

    def release(self, batch: Batch) -> None:
        """Give back the room of a batch that is ending."""
        with self.lock:
            self._release(batch)

    def done(self, batch: Batch) -> None:
        """Forget a batch whose future is done."""
        with self.lock:
            self.open_batches.discard(batch)

    def _release(self, batch: Batch) -> None:
        bound = batch.bound
        bound.room_messages += batch.messages
        bound.room_bytes += batch.size_bytes
        queue = self.queues[batch.where.broker_id]
        # Waking a waiting send for every batch that leaves costs more than the batch.
        if queue.waiting_for_room and bound.room_messages * 4 >= bound.max_messages:
            queue.has_room.notify_all()

    # The end -----------------------------------------------------------------------------------------------------

    def close_all(self) -> set[SendFuture]:
        """Close every open batch; return the futures that are not done."""
        with self.lock:
            for queue in self.queues.values():
                for batch in list(queue.open.values()):
                    self.close(batch)
            return {batch.list_future or batch for batch in self.open_batches}

    def retire(self, queue: BrokerQueue) -> bool:
        """Let a sender end, unless a batch was moved to it meanwhile."""
        with self.lock:
            queue.is_retired = not queue.ready
            return queue.is_retired

    def end(self, timeout_s: float | None = None) -> None:
        """Take no more messages, close what is open, and let every sender end once its queue is empty.

        With `timeout_s`, no batch has more time than that.
        """
        with self.lock:
            self.is_closed = True
            for queue in self.queues.values():
                for batch in list(queue.open.values()):
                    self.close(batch)
                queue.is_closing = True
                queue.has_work.notify_all()
                queue.has_room.notify_all()
            if timeout_s is not None:
                until_s = self._clock.monotonic_s() + timeout_s
                for batch in self.open_batches:
                    batch.deadline_s = min(batch.deadline_s, until_s)
