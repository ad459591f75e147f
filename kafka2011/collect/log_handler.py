"""A handler for Python's logging: records become messages (0.7 had an appender for log4j)."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka2011.collect.counts import DeliveryCounts
from kafka2011.collect.delivery import RETRY_S, Delivery
from kafka2011.collect.lines import cut_line
from kafka2011.config import ProducerConfig
from kafka2011.errors import ConfigError, KafkaError
from kafka2011.message.topic import validate_topic
from kafka2011.outages import Outages
from kafka2011.producer.producer import Producer
from zk import forks
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

logger = logging.getLogger(__name__)

DEFAULTS: dict[str, object] = {"producer.type": "async", "confirm": True, "queue.time": 100}
"""Settings of the handler's producer, unless others are given."""

_OWN_LOGGERS = frozenset({"kafka2011", "zk", "kazoo"})
_TAKEN = 1000
_MOMENT_S = 0.05


@dataclass(slots=True)
class LogCounts(DeliveryCounts):
    """What a log handler counts: each record is a line, and `dropped` counts those for which there was no room."""

    dropped: int = 0


class KafkaLogHandler(logging.Handler):
    """Publishes each record as one message, from a thread of its own.

        logging.getLogger().addHandler(KafkaLogHandler({"zk.connect": "localhost:2181"}, "app-log"))

    The payload is the formatter's output in UTF-8, or what `encode` returns for the record. A payload over
    max.message.size is cut, with a mark. Up to `max_records` wait, and are retried while the cluster or ZooKeeper is
    down. Beyond that, logging waits for up to `max_wait_ms`; then records are dropped and counted. Logging never
    raises: an error with one record goes to `handleError`, and drops are logged to the other handlers. Records of this
    package, and of the ZooKeeper client under it, are left out, since sending makes more of them.

    `flush` and `close` wait for up to `flush_timeout_ms` until everything is confirmed; a `close` after a flush that
    timed out, as in `logging.shutdown`, does not wait again unless something was confirmed meanwhile. A forked child
    starts with nothing waiting and its own producer. `config` is that of an asynchronous `Producer`. Raises ConfigError
    and InvalidTopicError; does not check that there is a cluster.

    `level` is the handler's level, as in `logging`.
    """

    def __init__(
        self,
        config: ProducerConfig | Mapping[str, object],
        topic: str,
        *,
        level: int | str = logging.NOTSET,
        encode: Callable[[logging.LogRecord], bytes] | None = None,
        max_records: int = 10_000,
        max_wait_ms: int = 0,
        flush_timeout_ms: int = 5000,
    ) -> None:
        super().__init__(level)
        validate_topic(topic)
        self._config = config if isinstance(config, ProducerConfig) else ProducerConfig.of({**DEFAULTS, **config})
        if self._config.producer_type != "async":
            raise ConfigError("a log handler needs producer.type=async: logging must not wait for brokers")
        self._topic = topic
        self._encode = encode or self._formatted
        self._max_records = max_records
        self._max_wait_s = max_wait_ms / 1000
        self._flush_timeout_s = flush_timeout_ms / 1000
        self.addFilter(_is_of_the_application)
        self._begin()
        forks.register(self)

    def _begin(self) -> None:
        self.counts = LogCounts()
        self._waiting: deque[bytes] = deque()
        self._unfinished = 0  # waiting, or sent but not confirmed
        self._flushing = 0  # how many wait for that
        self._is_stuck = False  # a flush timed out, and nothing was confirmed since
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._close_at_s: float | None = None
        self._told_dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a log record; returns at once unless the queue is full."""
        try:
            payload = self._encode(record)
            max_bytes = self._config.max_message_size
            if len(payload) > max_bytes:
                payload = cut_line(payload, len(payload), max_bytes)
            self._take(payload)
        except Exception:  # noqa: BLE001  # an application must not fail because it logs
            self.handleError(record)

    def flush(self) -> None:
        """Wait until what was logged is confirmed, for at most flush_timeout_ms milliseconds."""
        with self._changed:
            self._flushing += 1
            self._changed.notify_all()
            is_over = self._changed.wait_for(
                lambda: not self._unfinished or self._thread is None, self._flush_timeout_s
            )
            self._is_stuck = not is_over
            self._flushing -= 1

    def close(self) -> None:
        """Send what is waiting, for at most flush_timeout_ms milliseconds, and stop; may be called twice."""
        with self._changed:
            if self._close_at_s is None:
                self._close_at_s = time.monotonic() + (0.0 if self._is_stuck else self._flush_timeout_s)
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(max(self._close_at_s - time.monotonic(), 0) + _MOMENT_S)
            self._thread = None
            self._tell_dropped()
            if self._unfinished:
                logger.warning("%d log records for topic %s were not confirmed", self._unfinished, self._topic)
        super().close()

    def _formatted(self, record: logging.LogRecord) -> bytes:
        return self.format(record).encode("utf-8", "backslashreplace")

    def _take(self, payload: bytes) -> None:
        with self._changed:
            if self._unfinished >= self._max_records and self._max_wait_s:
                self._changed.wait_for(lambda: self._unfinished < self._max_records, self._max_wait_s)
            if self._unfinished >= self._max_records or self._close_at_s is not None:
                self.counts.add(dropped=1)
                return
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="kafka2011-log-handler", daemon=True)
                thread.start()
                self._thread = thread
            self._unfinished += 1
            self._waiting.append(payload)
            if len(self._waiting) == 1:
                self._changed.notify_all()

    # In the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        producer = self._open_producer()
        if producer is None:
            return
        delivery = Delivery(
            lambda payloads: producer.send(self._topic, payloads), producer.flush, self.counts, SYSTEM_CLOCK
        )
        while not self._is_over():
            try:
                self._step(delivery, producer)
            except Exception:
                logger.exception("sending log records for topic %s failed unexpectedly", self._topic)
                time.sleep(RETRY_S)
        producer.close()

    def _open_producer(self) -> Producer | None:
        """Retry until a producer opens; None when it is time to stop."""
        outages = Outages(logger, later=logging.DEBUG)
        while not self._is_over():
            try:
                return Producer(self._config)
            except KafkaError as error:
                outages.failed("log records for topic %s wait: %s", self._topic, error)
                with self._changed:
                    self._changed.wait(RETRY_S)
        return None

    def _is_over(self) -> bool:
        if self._close_at_s is None:
            return False
        return not self._unfinished or time.monotonic() >= self._close_at_s

    def _step(self, delivery: Delivery, producer: Producer) -> None:
        payloads: list[bytes] = []
        with self._changed:
            if not self._waiting and delivery.is_empty and self._close_at_s is None:
                self._changed.wait()
            while delivery.has_room and self._waiting and len(payloads) < _TAKEN:
                payloads.append(self._waiting.popleft())
        if payloads:
            delivery.send(payloads, "the log", lambda: self._ended(len(payloads)))
        delivery.settle()
        if not payloads and not delivery.is_empty:
            if self._flushing or self._close_at_s is not None:
                producer.flush(0)  # do not wait for a batch to fill
            if not delivery.wait(_MOMENT_S):
                time.sleep(_MOMENT_S)
        if self._unfinished < self._max_records:
            self._tell_dropped()

    def _ended(self, count: int) -> None:
        with self._changed:
            self._unfinished -= count
            self._is_stuck = False
            self._changed.notify_all()

    def _tell_dropped(self) -> None:
        """Log what was dropped since the last such log."""
        dropped = self.counts.dropped
        if dropped > self._told_dropped:
            logger.warning(
                "%d log records for topic %s were dropped: the queue is full", dropped - self._told_dropped, self._topic
            )
            self._told_dropped = dropped

    def forget_after_fork(self) -> None:
        """In a forked child: leave the parent's records, thread and producer alone."""
        close_at_s = self._close_at_s
        self._begin()
        self._close_at_s = close_at_s


def _is_of_the_application(record: logging.LogRecord) -> bool:
    return record.name.partition(".")[0] not in _OWN_LOGGERS
