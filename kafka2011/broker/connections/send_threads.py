"""Sends large answers in threads, so that a second core serves: sendfile(2) needs no Python, and the loop goes on."""

from __future__ import annotations

import logging
from threading import Thread
from typing import TYPE_CHECKING, Any, Protocol

import gevent
from gevent.hub import Waiter

from kafka2011 import c_code
from kafka2011.errors import BrokerConnectionError

if TYPE_CHECKING:
    from kafka2011.broker.connections.sending import Part

logger = logging.getLogger(__name__)

LEAST_BYTES = 64 * 1024
"""A smaller answer is sent sooner than a thread wakes."""
_READ = 1  # libev's number for it


class SenderCode(Protocol):
    """What C does."""

    def add(self, out_fd: int, parts: tuple[Part, ...], sent_bytes: int, size: int, /) -> None:
        """Have threads send all parts, of which `sent_bytes` were sent before. Raises OSError and ValueError."""

    def take(self) -> list[tuple[int, int, int]]:
        """Return those that are done: socket, how many bytes are sent, and what `send_parts` would return."""

    def cancel(self, out_fd: int, /) -> None:
        """Have nothing more sent to a socket; no thread uses it, or the files, after that."""

    def sent(self, out_fd: int, /) -> int:
        """Return how many bytes are sent by now."""

    def fileno(self) -> int:
        """Return what can be read when there is something to take."""

    def serve(self) -> None:
        """Send, as one of the threads, until `stop`."""

    def stop(self) -> None:
        """Have all threads return."""


compiled: Any = c_code.load("broker.connections._send_threads")


class SendThreads:
    """Threads that send what connections hand over. Made and used in one thread, that of the event loop.

    The threads start with the first answer that they are wanted for.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._threads: list[Thread] = []
        self._sender: SenderCode | None = None
        self._watcher: Any = None
        self._waiters: dict[int, Waiter[tuple[int, int]]] = {}
        self._last_fd = -1
        self._is_over = False

    @classmethod
    def of(cls, count: int) -> SendThreads | None:
        """Return `count` threads; None where there is no C code, or none are wanted."""
        return cls(count) if count and compiled is not None else None

    def is_wanted(self, out_fd: int) -> bool:
        """Say whether an answer is one of several at a time. The loop itself sends sooner to the only reader.

        Without descriptors or memory for threads, the loop sends all.
        """
        is_alone = self._last_fd in {-1, out_fd} and not self._waiters
        self._last_fd = out_fd
        if is_alone or self._is_over:
            return False
        if self._sender is None:
            self._start()
        return self._sender is not None

    def send(
        self, out_fd: int, parts: tuple[Part, ...], sent_bytes: int, size: int, stall_timeout_s: float
    ) -> tuple[int, int]:
        """Send on, and let others run meanwhile; return how many bytes are sent, and an errno as `send_parts` does.

        Raises BrokerConnectionError when the client takes nothing for `stall_timeout_s`.
        """
        sender = self._sender
        assert sender is not None, "is_wanted says so"
        waiter: Waiter[tuple[int, int]] = Waiter()
        try:
            sender.add(out_fd, parts, sent_bytes, size)
        except OSError as error:
            raise BrokerConnectionError(f"sending an answer failed: {error}") from error
        self._waiters[out_fd] = waiter
        try:
            while True:
                timeout = gevent.Timeout(stall_timeout_s)
                try:
                    with timeout:
                        return waiter.get()
                except gevent.Timeout as error:
                    before_bytes, sent_bytes = sent_bytes, sender.sent(out_fd)
                    if error is not timeout:
                        raise
                    if sent_bytes == before_bytes:
                        raise BrokerConnectionError("the client does not read its answer: timed out") from error
        except BaseException:
            sender.cancel(out_fd)
            raise
        finally:
            del self._waiters[out_fd]

    def stop(self) -> None:
        """End the threads, once nothing is sent any more; may be called twice."""
        self._is_over = True
        if self._sender is not None:
            self._watcher.close()
            self._sender.stop()
            for thread in self._threads:
                thread.join()
            self._sender = None

    def _start(self) -> None:
        try:
            sender: SenderCode = compiled.Sender()
            for number in range(self._count):
                thread = Thread(target=sender.serve, name=f"send-{number}", daemon=True)
                thread.start()
                self._threads.append(thread)
        except (OSError, RuntimeError) as error:
            self._is_over = not self._threads
            logger.warning("%d threads send large answers, not %d: %s", len(self._threads), self._count, error)
            if self._is_over:
                return
        self._sender = sender
        self._watcher = gevent.get_hub().loop.io(sender.fileno(), _READ)
        self._watcher.start(self._take, sender)

    def _take(self, sender: SenderCode) -> None:
        for out_fd, sent_bytes, error in sender.take():
            if (waiter := self._waiters.get(out_fd)) is not None:
                waiter.switch((sent_bytes, error))
