"""Reads one range of a partition into record batches, on an executor.

Plain blocking sockets: no ZooKeeper session and no gevent, whose threads would starve in a Spark worker.
"""

from __future__ import annotations

import contextlib
import logging
import time
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Self

from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.consumer.threads import in_thread
from kafka2011.errors import BrokerConnectionError, InvalidMessageError, OffsetOutOfRangeError
from kafka2011.message.columns import MessageColumns
from kafka2011.message.compression import decompress
from kafka2011.message.header import LENGTH, LENGTH_BYTES
from kafka2011.message.message_set import complete_prefix_bytes, decode, scan
from kafka2011.spark.batches import source_batch
from kafka2011.spark.errors import BrokerAwayError, CorruptMessageError, DataLossError
from kafka2011.spark.offset_ranges import log_bounds, next_boundary, walk
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition

    from kafka2011.message.message_set import Wrapper
    from kafka2011.spark.offset_ranges import OffsetRange
    from kafka2011.spark.options import ReadOptions
    from zk.clock import Clock
    from zk.cluster import Broker

logger = logging.getLogger(__name__)

FIRST_WAIT_S = 0.1
LONGEST_WAIT_S = 2.0
MAX_CORRUPT_LOGGED = 10


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """What an executor needs to know of the options."""

    fetch_bytes: int
    socket_timeout_ms: int
    away_timeout_ms: int
    fail_on_data_loss: bool
    corrupt_messages: str
    max_message_bytes: int = 64 * 1024 * 1024

    @classmethod
    def of(cls, options: ReadOptions) -> Self:
        """Take them out of the options."""
        return cls(
            options.fetch_size,
            options.socket_timeout_ms,
            options.poll_timeout_ms,
            options.fail_on_data_loss,
            options.corrupt_messages,
            options.max_message_bytes,
        )


class PlannedRange(NamedTuple):
    """A range that one task reads, and where from. Pickled to an executor."""

    offset_range: OffsetRange
    broker: Broker


class _Ahead(NamedTuple):
    """A fetch that is under way before anybody has asked for it."""

    offset: int
    max_bytes: int
    data: Future[bytes]


def read_partition(partition: InputPartition, settings: ReadSettings) -> Iterator[pa.RecordBatch]:
    """Read one task's range; nothing for the partition without a range that Spark adds when none was planned."""
    if isinstance(partition.value, PlannedRange):
        yield from RangeReader(*partition.value, settings).batches()


class RangeReader:
    """Reads each message of one range once, in order. For one use; an iterator of record batches.

    Raises CorruptMessageError, DataLossError, BrokerAwayError, each with topic, partition and offset.
    """

    def __init__(
        self,
        offset_range: OffsetRange,
        broker: Broker,
        settings: ReadSettings,
        consumer: SimpleConsumer | None = None,
        clock: Clock = SYSTEM_CLOCK,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._range = offset_range
        self._partition = offset_range.topic_partition
        self._settings = settings
        self._clock = clock
        self._sleep = sleep
        if consumer is None:
            sockets = {"socket.timeout.ms": settings.socket_timeout_ms, "fetch.size": settings.fetch_bytes}
            consumer = SimpleConsumer.of(broker, sockets)
        self._consumer = consumer
        self._offset = offset_range.start
        self._columns = MessageColumns(*self._partition)
        self._trusted_until = offset_range.start
        self._ahead: _Ahead | None = None
        self.corrupt_messages = 0
        self.corrupt_bytes = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the range."""
        with self._consumer:
            fetch_bytes = self._settings.fetch_bytes
            while self._offset < self._range.end:
                asked_bytes = min(fetch_bytes, self._range.end - self._offset)
                data = self._fetch(self._offset, asked_bytes)
                if not data:
                    self._offset = self._after_loss()
                    continue
                start = self._offset
                self._fetch_ahead(data, asked_bytes)
                yield from self._read(data, asked_bytes)
                fetch_bytes = self._settings.fetch_bytes
                if self._offset == start:  # not even one whole message
                    fetch_bytes = max(fetch_bytes, LENGTH_BYTES + _length_at(data, 0))
            if len(self._columns):
                yield source_batch(self._columns.take())
        if self.corrupt_messages:
            logger.warning(
                "%d corrupt messages, %d bytes in all, between offsets %d and %d of %s; all that a wrong length hides"
                " counts as one message",
                self.corrupt_messages,
                self.corrupt_bytes,
                self._range.start,
                self._range.end,
                self._partition,
            )

    def _read(self, data: bytes, asked_bytes: int) -> Iterator[pa.RecordBatch]:
        """Take the whole messages of fetched bytes, which start at the reader's offset, and move it past them."""
        columns, base, position = self._columns, self._offset, 0
        while True:
            position = columns.add_run(data, position, base)
            self._offset = base + position
            if columns.is_full:
                yield source_batch(columns.take())
                continue
            if position == len(data):
                return
            scanned = scan(data, position, max_messages=1)
            if scanned.messages:
                yield from self._open(data[position : scanned.end], scanned.wrappers)
                position = scanned.end
            elif scanned.fault is not None:
                position = self._pass_corrupt(scanned.fault) - base
            elif fault := self._cannot_end(data, position, asked_bytes):
                position = self._pass_corrupt(fault) - base
            else:
                return
            self._offset = base + position
            if columns.is_full:
                yield source_batch(columns.take())
            if position >= len(data):
                return

    def _open(self, message: bytes, wrappers: list[Wrapper]) -> Iterator[pa.RecordBatch]:
        """Take one good message that is not plain: mostly a compressed set, the only one of `wrappers`."""
        topic, broker_id, partition = self._partition
        try:
            for wrapper in wrappers:
                opened = decompress(wrapper.codec, message[wrapper.payload_start - wrapper.start :])
                if self._columns.add_opened(opened, self._offset, self._offset + len(message)):
                    return
            for row in decode(message, topic, broker_id, partition, self._offset):
                self._columns.add(row)
                if self._columns.is_full:
                    yield source_batch(self._columns.take())
        except InvalidMessageError as error:
            self._note_corrupt(str(error), self._offset + len(message))

    def _cannot_end(self, data: bytes, position: int, asked_bytes: int) -> str | None:
        """Say why the message that begins at a position has no end; None when more bytes may bring it."""
        length = _length_at(data, position)
        if LENGTH_BYTES + length > self._settings.max_message_bytes:
            return f"length {length} makes more than {self._settings.max_message_bytes} bytes (maxMessageBytes)"
        if self._offset + LENGTH_BYTES + length > self._range.end:
            return f"length {length} leads past offset {self._range.end}, where the range ends"
        if len(data) < asked_bytes:  # a fetch ends early only where a segment does, and no message lies across that
            return f"length {length} leads past offset {self._offset - position + len(data)}, where its segment ends"
        return None

    # Corruption

    def _pass_corrupt(self, fault: str) -> int:
        """Note a corrupt message at the reader's offset; return where the next one starts."""
        if self._settings.corrupt_messages == "fail":
            hint = ""
            if self._offset == self._range.start:
                hint = (
                    "; if it was given as an offset to start from, it is not one at which a message starts: offsets are"
                    " positions in bytes here, not counts of messages"
                )
            raise CorruptMessageError(f"corrupt message in {self._partition} at offset {self._offset}: {fault}{hint}")
        following = self._after_corrupt()
        self._note_corrupt(fault, following)
        return following

    def _note_corrupt(self, fault: str, following: int) -> None:
        kind = self._settings.corrupt_messages
        if kind == "fail":
            raise CorruptMessageError(f"corrupt message in {self._partition} at offset {self._offset}: {fault}")
        if self.corrupt_messages < MAX_CORRUPT_LOGGED:
            logger.warning("corrupt in %s from offset %d to %d: %s", self._partition, self._offset, following, fault)
        self.corrupt_messages += 1
        self.corrupt_bytes += following - self._offset
        if kind == "null":
            self._columns.add_corrupt(self._offset, following)

    def _after_corrupt(self) -> int:
        """Return where to read on after a corrupt message.

        That is where its length says, if lengths lead from there exactly to the next boundary that is certain, a
        segment's start or the end of the range; else that boundary.
        """
        limit = self._range.end
        if self._offset >= self._trusted_until:
            boundary = next_boundary(log_bounds(self._consumer, self._partition).boundaries, self._offset)
            limit = min(limit, boundary or limit)
        step = walk(self._fetch, self._offset, self._offset + LENGTH_BYTES, self._settings.fetch_bytes)
        if step.following is None or step.following > limit:
            return limit
        if self._offset < self._trusted_until:
            return step.following
        rest = walk(self._fetch, step.following, limit, self._settings.fetch_bytes)
        if rest.offset != limit:
            return limit
        self._trusted_until = limit
        return step.following

    # Fetching

    def _fetch_ahead(self, data: bytes, asked_bytes: int) -> None:
        """Have what most likely follows the data on its way while they are decoded, if the reader is far behind."""
        offset = self._offset + complete_prefix_bytes(data)
        if 2 * len(data) >= asked_bytes and self._offset < offset < self._range.end:
            max_bytes = min(self._settings.fetch_bytes, self._range.end - offset)
            self._ahead = _Ahead(offset, max_bytes, in_thread(partial(self._ask, offset, max_bytes)))

    def _ask(self, offset: int, max_bytes: int) -> bytes:
        """Fetch bytes; none where the log does not have that offset. Raises BrokerConnectionError."""
        topic, _, partition = self._partition
        with contextlib.suppress(OffsetOutOfRangeError):
            return self._consumer.fetch(topic, partition, offset, max_bytes).data
        return b""

    def _fetched_ahead(self, offset: int, max_bytes: int) -> bytes | None:
        """Wait for what was asked for ahead; None if that is something else. Raises BrokerConnectionError."""
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            return None
        if (ahead.offset, ahead.max_bytes) == (offset, max_bytes):
            return ahead.data.result()
        wait([ahead.data])
        return None

    def _fetch(self, offset: int, max_bytes: int) -> bytes:
        """Fetch bytes from an offset, waiting for a broker that is away; none when it no longer has that offset."""
        deadline_s = self._clock.monotonic_s() + self._settings.away_timeout_ms / 1000
        wait_s = FIRST_WAIT_S
        while True:
            try:
                data = self._fetched_ahead(offset, max_bytes)
                if data is None:
                    data = self._ask(offset, max_bytes)
                if data or not self._is_there(offset):
                    return data
                problem: object = "the broker sends nothing, though there are messages"
            except BrokerConnectionError as error:
                problem = error
            if self._clock.monotonic_s() >= deadline_s:
                raise BrokerAwayError(
                    f"broker {self._partition.broker_id} was unavailable for {self._settings.away_timeout_ms} ms"
                    f" (kafkaConsumer.pollTimeoutMs) while {self._partition} was read at offset {offset}: {problem}"
                )
            logger.warning("retrying %s at offset %d: %s", self._partition, offset, problem)
            self._sleep(wait_s)
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)

    def _is_there(self, offset: int) -> bool:
        bounds = log_bounds(self._consumer, self._partition)
        return bounds.earliest <= offset < bounds.latest

    def _after_loss(self) -> int:
        """Return where to read on when the reader's offset is gone, if the options allow. Raises DataLossError."""
        bounds = log_bounds(self._consumer, self._partition)
        what = (
            f"{self._partition} holds offsets {bounds.earliest} to {bounds.latest}, and {self._offset} was to be read"
        )
        if self._settings.fail_on_data_loss:
            raise DataLossError(f"{what}: retention or a broken disk removed it (failOnDataLoss is true)")
        logger.warning("data loss: %s", what)
        return bounds.earliest if self._offset < bounds.earliest < self._range.end else self._range.end


def _length_at(data: bytes, position: int) -> int:
    """Return the length of the message at a position, 0 if it is not there yet."""
    return int(LENGTH.unpack_from(data, position)[0]) if len(data) - position >= LENGTH_BYTES else 0
