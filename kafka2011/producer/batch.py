"""The batch: messages of one partition that are queued, sent, confirmed, sent again, and end together.

Whatever a producer bounds, counts or fails is a batch. It is also the future that every send into it returns.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka2011.producer.appending import Room
from kafka2011.wire.protocol import ANY_PARTITION

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.message.message_set import MessageSet
    from zk.cluster import TopicPartition


class Receipt(NamedTuple):
    """Tells where a batch went, how many messages it had, and how often it was sent again.

    `confirmed` says that the broker was proven to have handled it; without confirm=true it was only handed to the
    operating system. `partition` is -1 where the broker chose it. Of a ready MessageSet a compressed message counts as
    one, since nobody opens it here.
    """

    topic: str
    broker_id: int
    partition: int
    messages: int
    confirmed: bool
    resends: int


class FailedBatch(NamedTuple):
    """Holds messages that were given up, as `on_failure` gets them; a message without a key has None.

    `messages` are payloads, or the MessageSet if one was sent, with one key for all of it.
    """

    topic: str
    messages: list[bytes] | MessageSet
    keys: list[object]
    error: Exception


class Bound(Room):
    """How much more a queue may hold, in messages and bytes. Guarded by the accumulator's lock."""

    __slots__ = ("max_bytes", "max_messages")

    def __init__(self, max_messages: int, max_bytes: int) -> None:
        self.max_messages = self.room_messages = max_messages
        self.max_bytes = self.room_bytes = max_bytes

    @property
    def is_unused(self) -> bool:
        """Whether nothing is held."""
        return self.room_messages == self.max_messages

    def fits(self, messages: int, size_bytes: int) -> bool:
        """Say whether this much more may be held; anything may where nothing is held, since it is already in memory."""
        return self.is_unused or (messages <= self.room_messages and size_bytes <= self.room_bytes)


_ENDING = threading.Lock()
"""Held for the two checks that decide in which thread a future ends."""


class SendFuture(Future[Receipt]):
    """A future that cannot be cancelled, and whose callbacks never run in a thread that sends."""

    def __init__(self) -> None:
        super().__init__()
        self._has_callbacks = False
        self._is_ending = False

    def cancel(self) -> bool:
        """Return False: what was queued is sent."""
        return False

    def add_done_callback(self, fn: Callable[[Future[Receipt]], object]) -> None:
        """Call `fn` with this future once it is done, from a thread that may send and wait."""
        with _ENDING:
            if not self._is_ending:
                self._has_callbacks = True
        if self._is_ending:
            wait([self])  # only a moment: it is just being ended
        super().add_done_callback(fn)

    def may_end_here(self) -> bool:
        """Say whether a sending thread may end it itself, because it has no callbacks."""
        with _ENDING:
            self._is_ending = not self._has_callbacks
            return self._is_ending

    def end(self, receipt: Receipt, error: Exception | None) -> None:
        """Be done, with either."""
        if error is None:
            self.set_result(receipt)
        else:
            self.set_exception(error)


_MAKING = threading.Lock()
"""Held while a DoneFuture makes what it needs."""


class DoneFuture(SendFuture):
    """A future that is done from the beginning. What a future consists of is made once somebody looks at it.

    That costs more than a whole synchronous send, and applications seldom look: the send has returned.
    """

    _is_ending = True

    def __init__(self, receipt: Receipt) -> None:
        self._receipt = receipt

    def __getattr__(self, name: str) -> Any:
        """Make what is missing, all of it at once, so that nobody sees a future that is not done yet."""
        done = SendFuture()
        done._is_ending = True
        done.set_result(self._receipt)
        with _MAKING:
            if "_has_callbacks" not in vars(self):
                vars(self).update(vars(done))
        return object.__getattribute__(self, name)


class Batch(SendFuture, Room):
    """Messages for one partition, and the future that every sender of one of them has.

    Open, it takes more messages; closed, it waits to be sent. `movable` ones, whose messages have no key and name no
    partition, may go to another broker when theirs is lost.
    """

    def __init__(
        self,
        where: TopicPartition,
        bound: Bound,
        room_messages: int,
        room_bytes: int,
        due_s: float,
        *,
        movable: bool,
    ) -> None:
        super().__init__()
        self.where = where
        self.bound = bound
        self.movable = movable
        self.payloads: list[bytes] = []
        self.keys: list[object] = []  # as many as payloads, or none where there are no keys
        self.ready_set: MessageSet | None = None  # sent as it is, instead of payloads
        self.messages = 0  # known once it is closed
        self.size_bytes = 0  # of the payloads, likewise
        self.room_messages = room_messages  # what it may still take
        self.room_bytes = room_bytes
        self.due_s = due_s  # when it closes, full or not
        self.list_future: ListFuture | None = None
        # Once it is on its way:
        self.data = b""  # the encoded set
        self.deadline_s = float("inf")
        self.tries = 0
        self.failed_tries = 0  # of an unconfirmed one: what counts against the retries
        self.refusals = 0
        self.suspect = False  # was on a connection that ended: it may be the one that the broker refuses

    def __str__(self) -> str:
        topic, broker_id, partition = self.where
        return f"{topic} on broker {broker_id}" if partition == ANY_PARTITION else str(self.where)

    def let_go(self) -> None:
        """Forget the messages: an application may keep the future for long."""
        self.payloads, self.keys, self.ready_set, self.data = [], [], None, b""

    def count_failed_try(self) -> int:
        """Count one more against the retries; return how many there were."""
        self.failed_tries += 1
        return self.failed_tries

    def receipt(self, *, confirmed: bool) -> Receipt:
        """Return what became of it."""
        topic, broker_id, partition = self.where
        return Receipt(topic, broker_id, partition, self.messages, confirmed, max(self.tries - 1, 0))


class ListFuture(SendFuture):
    """The future of one send that became several batches: done when all of them are."""

    def __init__(self, messages: int, batches: int) -> None:
        super().__init__()
        self._messages = messages
        self._open_batches = batches
        self._resends = 0
        self._error: Exception | None = None
        self._lock = threading.Lock()

    def ended(self, receipt: Receipt, error: Exception | None) -> tuple[Receipt, Exception | None] | None:
        """Note the end of one of the batches; return how all of it ended when it was the last."""
        with self._lock:
            self._open_batches -= 1
            self._resends += receipt.resends
            self._error = self._error or error
            if self._open_batches:
                return None
            return receipt._replace(messages=self._messages, resends=self._resends), self._error
