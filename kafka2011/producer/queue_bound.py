"""How many messages an asynchronous producer may hold for one destination."""

from __future__ import annotations

import threading
import time

from kafka2011.producer.errors import ProducerClosedError, QueueFullError

# Waiting sends are woken once there is room for many: waking one for every batch that leaves costs more than the batch.
# Where that does not come about, they find what room there is by looking now and then.
_LOOK_S = 0.02


class QueueBound:
    """Room for `size` messages (queue.size), taken when they are queued and given back when they are done with.

    A send that is larger than that waits until there is nothing else, since its payloads are in memory already.
    """

    def __init__(self, name: str, size: int) -> None:
        self._name = name
        self._size = size
        self._wake_at = size * 3 // 4
        self._held = 0
        self._waiting = 0
        self._closed = False
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)

    @property
    def held(self) -> int:
        """How many messages are in it."""
        return self._held

    def acquire(self, messages: int, timeout_ms: int) -> None:
        """Take room, waiting for it up to `timeout_ms`; -1 waits for ever, 0 not at all.

        Raises QueueFullError when there is none in time, ProducerClosedError when the producer is closed meanwhile.
        """
        with self._lock:
            held = self._held
            if held and held + messages > self._size:
                self._wait_for_room(messages, timeout_ms)
            self._held += messages

    def release(self, messages: int) -> None:
        """Give room back."""
        with self._lock:
            self._held -= messages
            if self._waiting and self._held <= self._wake_at:
                self._room.notify_all()

    def close(self) -> None:
        """Let nobody wait any more."""
        with self._lock:
            self._closed = True
            self._room.notify_all()

    def _wait_for_room(self, messages: int, timeout_ms: int) -> None:
        ends_s = time.monotonic() + timeout_ms / 1000
        self._waiting += 1
        try:
            while self._held and self._held + messages > self._size:
                if self._closed:
                    raise ProducerClosedError("the producer was closed while a send waited for room in its queue")
                rest_s = None if timeout_ms < 0 else ends_s - time.monotonic()
                if rest_s is not None and rest_s <= 0:
                    raise QueueFullError(
                        f"no room for {messages} messages in the queue of {self._name} within {timeout_ms} ms:"
                        f" {self._held} wait there, and queue.size is {self._size}; none of this send was queued"
                    )
                self._room.wait(_LOOK_S if rest_s is None else min(rest_s, _LOOK_S))
        finally:
            self._waiting -= 1
