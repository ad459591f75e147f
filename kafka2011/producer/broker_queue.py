"""What waits to be sent to one broker, and when there is enough of it to go."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.producer.errors import ProducerClosedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.producer.parcel import Parcel, PartitionSet


class Batch(NamedTuple):
    """What a sender takes at once: sets that came from another broker, and parcels behind them."""

    moved: list[PartitionSet]
    parcels: list[Parcel]

    def __bool__(self) -> bool:
        return bool(self.moved or self.parcels)


class Urgency:
    """Says that nobody should wait for batches to fill, because somebody waits for what is queued."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiters = 0

    @property
    def pressing(self) -> bool:
        """Whether there is such a waiter."""
        return self._waiters > 0

    def add(self, number: int) -> None:
        """Count waiters in (1) and out (-1)."""
        with self._lock:
            self._waiters += number


class BrokerQueue:
    """Parcels in sending order, taken in batches of about `batch_messages`, or after `linger_ms`.

    Many threads put, one takes. It has no bound of its own: room is taken from a QueueBound before.
    """

    def __init__(self, batch_messages: int, linger_ms: int, urgency: Urgency) -> None:
        self._batch_messages = batch_messages
        self._linger_s = linger_ms / 1000
        self._urgency = urgency
        self._parcels: deque[Parcel] = deque()
        self._moved: list[PartitionSet] = []
        self._messages = 0
        self._wake_at = 0  # how many messages the taker waits for; 0 when it does not wait
        self._first_s: float | None = None  # since when the oldest parcel waits, as far as the taker has seen
        self._hurried = False
        self._closed = False
        self._lock = threading.Lock()
        self._ready = threading.Condition(self._lock)

    @property
    def closed(self) -> bool:
        """Whether nothing will be put any more."""
        return self._closed

    @property
    def has_batch(self) -> bool:
        """Whether a batch can be taken without waiting; a hint, for it takes no lock."""
        return bool(self._moved) or self._messages >= self._batch_messages or (self._hurried and bool(self._parcels))

    def put(self, parcels: list[Parcel]) -> None:
        """Add parcels behind all others. Raises ProducerClosedError when nobody would take them any more."""
        with self._lock:
            if self._closed:
                raise ProducerClosedError("the producer is closed")
            for parcel in parcels:
                self._parcels.append(parcel)
                # An empty set counts too, or nobody would ever come for it.
                self._messages += parcel.messages or 1
            if 0 < self._wake_at <= self._messages:
                self._ready.notify()

    def put_moved(self, sets: list[PartitionSet]) -> None:
        """Add sets that were another broker's, ahead of all parcels."""
        with self._lock:
            self._moved += sets
            self._ready.notify()

    def hurry(self) -> None:
        """Have what is queued now taken without waiting for more."""
        with self._lock:
            if self._parcels:
                self._hurried = True
                self._ready.notify()

    def close(self) -> None:
        """Have the rest taken at once, and nobody wait when there is none."""
        with self._lock:
            self._closed = True
            self._ready.notify()

    def take(self, wait_s: float | None = 0.0) -> Batch:
        """Take a batch as soon as one is full or has waited long enough; an empty one when `wait_s` have passed.

        None waits until there is one, or the queue is closed and empty.
        """
        ends_s = None if wait_s is None else time.monotonic() + wait_s
        with self._lock:
            while True:
                now_s = time.monotonic()
                rest_s = self._rest_s(now_s)
                if rest_s == 0:
                    return self._taken(self._batch_messages)
                if self._closed and rest_s is None:
                    return Batch([], [])
                if ends_s is not None:
                    if ends_s <= now_s:
                        return Batch([], [])
                    rest_s = ends_s - now_s if rest_s is None else min(rest_s, ends_s - now_s)
                self._wake_at = self._batch_messages if self._parcels else 1
                self._ready.wait(rest_s)
                self._wake_at = 0

    def take_all(self) -> Batch:
        """Take everything there is."""
        with self._lock:
            return self._taken(None)

    def take_out(self, wanted: Callable[[Parcel], bool]) -> list[Parcel]:
        """Take some parcels out from among the others."""
        with self._lock:
            taken = [parcel for parcel in self._parcels if wanted(parcel)]
            if taken:
                self._parcels = deque(parcel for parcel in self._parcels if not wanted(parcel))
                self._messages = sum(parcel.messages or 1 for parcel in self._parcels)
            return taken

    def _rest_s(self, now_s: float) -> float | None:
        """Return how long to wait for more: 0 when a batch should go, None when there is nothing at all."""
        if self._moved:
            return 0
        if not self._parcels:
            self._first_s = None
            return None
        if self._messages >= self._batch_messages or self._closed or self._hurried or self._urgency.pressing:
            return 0
        if self._first_s is None:
            self._first_s = now_s
        return max(self._first_s + self._linger_s - now_s, 0)

    def _taken(self, max_messages: int | None) -> Batch:
        parcels: list[Parcel] = []
        queue = self._parcels
        messages = 0
        while queue and (max_messages is None or messages < max_messages):
            parcel = queue.popleft()
            messages += parcel.messages or 1
            parcels.append(parcel)
        moved, self._moved = self._moved, []
        self._messages -= messages
        self._first_s = None
        if not queue:
            self._hurried = False
        return Batch(moved, parcels)
