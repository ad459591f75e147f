"""Sends lists of payloads through a producer, and keeps each until it is confirmed, however long that takes."""

from __future__ import annotations

import logging
from collections import deque
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka2011.errors import ConfigError, KafkaError, MessageSizeTooLargeError
from kafka2011.events.errors import UnencodableEventError
from kafka2011.producer.errors import ProducerClosedError, SetRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.collect.counts import DeliveryCounts
    from kafka2011.producer.batch import Receipt
    from zk.clock import Clock

logger = logging.getLogger(__name__)

WINDOW_LINES = 50_000
WINDOW_BYTES = 16 * 1024 * 1024
"""How much may be unconfirmed."""
RETRY_S = 1.0
"""Time between two attempts while nothing can be sent."""

_REFUSALS = (SetRefusedError, MessageSizeTooLargeError, UnencodableEventError)


class DeliveryError(KafkaError):
    """Something could not be sent, and will not be retried."""


@dataclass(slots=True)
class _Sent:
    lines: list[bytes]
    size_bytes: int
    origin: str  # its name in errors
    on_confirmed: Callable[[], object]
    future: Future[Receipt] | None = None  # None: still to be sent, or sent again


class Delivery:
    """Lists sent and not yet confirmed, oldest first; for one thread.

    `publish` sends a list of payloads and returns its future, as an asynchronous, confirming `Producer.send` does;
    `flush` is that producer's. A failed list is sent again until it is confirmed or, with `tries_again` false,
    raises DeliveryError. A list that a broker refuses is sent line by line; lines refused then are logged, counted and
    given up. Each list's `on_confirmed` is called in the order of sending.
    """

    def __init__(
        self,
        publish: Callable[[list[bytes]], Future[Receipt]],
        flush: Callable[[], object],
        counts: DeliveryCounts,
        clock: Clock,
        *,
        tries_again: bool = True,
    ) -> None:
        self.publish = publish
        self._flush = flush
        self._counts = counts
        self._clock = clock
        self._tries_again = tries_again
        self._sent: deque[_Sent] = deque()
        self._lines = 0
        self._bytes = 0
        self._retry_at_s = 0.0

    @property
    def is_empty(self) -> bool:
        """Whether everything sent was confirmed or refused."""
        return not self._sent

    @property
    def has_room(self) -> bool:
        """Whether more may be sent now."""
        if self._clock.monotonic_s() < self._retry_at_s:
            return False
        return not self._sent or (self._lines < WINDOW_LINES and self._bytes < WINDOW_BYTES)

    def send(self, lines: list[bytes], origin: str, on_confirmed: Callable[[], object]) -> None:
        """Send a list; an empty one only calls `on_confirmed`, in order. Raises DeliveryError if nothing is retried."""
        sent = _Sent(lines, sum(map(len, lines)), origin, on_confirmed)
        self._sent.append(sent)
        self._lines += len(lines)
        self._bytes += sent.size_bytes
        self._counts.add(lines_sent=len(lines))
        self._try(sent)

    def settle(self) -> None:
        """Process confirmations, and send again what failed. Raises DeliveryError as `send` does."""
        while self._sent:
            oldest = self._sent[0]
            if oldest.future is None:
                if self._clock.monotonic_s() < self._retry_at_s:
                    return
                self._counts.add(lines_resent=len(oldest.lines))
                self._try(oldest)
                if oldest.future is None:
                    return
            if not oldest.future.done():
                return
            error = oldest.future.exception()
            if isinstance(error, _REFUSALS):
                self._send_singly(oldest)
                if oldest.lines:
                    return
            elif error is not None:
                self._failed(oldest, error)
                return
            self._counts.add(lines_confirmed=len(oldest.lines))
            self._lines -= len(oldest.lines)
            self._bytes -= oldest.size_bytes
            self._sent.popleft()
            oldest.on_confirmed()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the oldest list until it can be settled or time is up; False, at once, if it is not under way."""
        future = self._sent[0].future if self._sent else None
        if future is None:
            return False
        wait([future], timeout_s)
        return True

    def _try(self, sent: _Sent) -> None:
        if not sent.lines:
            sent.future = _done()
            return
        try:
            sent.future = self.publish(sent.lines)
        except (ConfigError, ProducerClosedError):
            raise
        except KafkaError as error:
            if isinstance(error, _REFUSALS):
                sent.future = _failed(error)
            else:
                self._failed(sent, error)

    def _failed(self, sent: _Sent, error: BaseException) -> None:
        if not self._tries_again or not isinstance(error, KafkaError):
            raise DeliveryError(f"{len(sent.lines)} messages of {sent.origin} are not confirmed: {error}") from error
        logger.warning("%d messages of %s will be sent again: %s", len(sent.lines), sent.origin, error)
        sent.future = None
        self._retry_at_s = self._clock.monotonic_s() + RETRY_S

    def _send_singly(self, refused: _Sent) -> None:
        """Send a refused list line by line, waiting for each; `refused` keeps what must be sent again."""
        lines, refused.lines = refused.lines, []
        self._lines -= len(lines)
        for index, line in enumerate(lines):
            try:
                self._flush()  # else it would share a batch, and its fate, with others
                future = self.publish([line])
                self._flush()
                future.result()
            except _REFUSALS as error:
                self._counts.add(lines_refused=1)
                logger.error("a message of %d bytes of %s is given up: %s", len(line), refused.origin, error)  # noqa: TRY400
            except KafkaError as error:
                refused.lines = lines[index:]
                self._lines += len(refused.lines)
                self._failed(refused, error)
                return
            else:
                self._counts.add(lines_confirmed=1)


def _done() -> Future[Receipt]:
    future: Future[Receipt] = Future()
    future.set_result(None)  # type: ignore[arg-type]  # nobody looks at it
    return future


def _failed(error: Exception) -> Future[Receipt]:
    future: Future[Receipt] = Future()
    future.set_exception(error)
    return future
