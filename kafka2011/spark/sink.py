"""Writes rows to topics. Each task ends when brokers have confirmed all its rows, so every row arrives at least once.

Columns: `value`, binary or text; `topic`, unless the option gives one; optionally `key`, binary or text, which chooses
the partition by its hash; or instead `partition`, `{broker id}-{partition}` as text, or a number beside `brokerId`.
Rows without either go anywhere. Other columns are not written. Where they go is planned on the driver from the
registry, and used on executors without one.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from kafka2011.errors import ConfigError, KafkaError
from kafka2011.producer.errors import InvalidPartitionError, NoBrokersError
from kafka2011.producer.partition_info import ListedBrokers, on_every_broker
from kafka2011.producer.partitioner import own_partitioner
from kafka2011.producer.producer import Producer
from kafka2011.producer.router import Router
from kafka2011.spark.source_columns import SinkColumns
from kafka2011.wire.protocol import ANY_PARTITION
from zk.clock import SYSTEM_CLOCK
from zk.cluster import Broker, TopicPartition
from zk.errors import ZkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import TracebackType

    from pyspark.sql.types import StructType

    from kafka2011.producer.batch import FailedBatch
    from kafka2011.producer.partition_info import BrokerPartitionInfo
    from kafka2011.spark.options import WriteOptions
    from zk.clock import Clock

logger = logging.getLogger(__name__)

BROKERS_INTERVAL_S = 1.0
"""How often the registry is read while it holds no broker."""

SEND_ROWS = 200
"""Rows given to the producer at once: they stay together, so there must be few enough to spread over partitions."""


class Written(WriterCommitMessage):
    """What one task wrote."""

    def __init__(self, rows: int) -> None:
        self.rows = rows


class _Writer:
    """Writes rows on executors; pickled with all they need to know."""

    def __init__(self, options: WriteOptions, columns: SinkColumns, placement: Placement) -> None:
        self._options = options
        self._columns = columns
        self._placement = placement

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows."""
        with RowSender(self._options, self._columns, self._placement) as sender:
            for batch in iterator:
                sender.send(batch)
        return Written(sender.rows)


class BatchWriter(_Writer, DataSourceArrowWriter):
    """The writer of a batch."""


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """The writer of each micro-batch of a stream."""


def open_batch_writer(options: WriteOptions, schema: StructType) -> BatchWriter:
    """Plan a write on the driver."""
    return BatchWriter(options, SinkColumns.of(schema, options), plan_placement(options))


def open_stream_writer(options: WriteOptions, schema: StructType) -> StreamWriter:
    """Plan the write of a micro-batch on the driver. Spark asks for this before each, and again to commit it."""
    return StreamWriter(options, SinkColumns.of(schema, options), plan_placement(options))


# Where rows go


@dataclass(frozen=True, slots=True)
class Placement:
    """Brokers, and the partitions of each topic, as they were when a batch was planned.

    A topic that did not exist is on partition 0 of every broker. `partitions_by_topic` is None when only the brokers
    are known.
    """

    brokers: tuple[Broker, ...]
    partitions_by_topic: Mapping[str, tuple[TopicPartition, ...]] | None

    def info(self) -> BrokerPartitionInfo:
        """Return it as a producer wants it."""
        if self.partitions_by_topic is None:
            return ListedBrokers(self.brokers)
        return PlannedPartitions(self.brokers, self.partitions_by_topic)


class PlannedPartitions:
    """Partitions that do not change while a task runs: it waits for a lost broker at its old address."""

    def __init__(
        self, brokers: tuple[Broker, ...], partitions_by_topic: Mapping[str, tuple[TopicPartition, ...]]
    ) -> None:
        self._brokers = {broker.id: broker for broker in brokers}
        self._partitions = partitions_by_topic

    def partitions(self, topic: str) -> tuple[TopicPartition, ...]:
        """Return a topic's partitions, sorted."""
        return self._partitions.get(topic) or on_every_broker(self._brokers, topic, 0)

    def lacks(self, partition: TopicPartition) -> bool:
        """Say whether the topic was there, without this partition."""
        known = self._partitions.get(partition.topic)
        return known is not None and partition not in known

    def choices(self, topic: str) -> tuple[TopicPartition, ...]:
        """Return the same; for a topic that did not exist, whichever partition a broker picks."""
        return self._partitions.get(topic) or on_every_broker(self._brokers, topic, ANY_PARTITION)

    def broker(self, broker_id: int) -> Broker | None:
        """Return where a broker listens."""
        return self._brokers.get(broker_id)

    def refresh(self) -> None:
        """Do nothing: nothing more can be known here."""

    def close(self) -> None:
        """Do nothing: there is nothing open."""


def open_router(placement: Placement, options: WriteOptions) -> Router:
    """Return the router of one task. Raises ConfigError."""
    return Router(placement.info(), own_partitioner(options), 0, SYSTEM_CLOCK)


def check_place(router: Router, where: TopicPartition) -> None:
    """Raise InvalidPartitionError unless the topic has the partition."""
    if where not in router.info.partitions(where.topic):
        raise InvalidPartitionError(f"topic {where.topic} has no partition {where.znode_name}")


def plan_placement(
    options: WriteOptions, clock: Clock = SYSTEM_CLOCK, sleep: Callable[[float], object] = time.sleep
) -> Placement:
    """Read brokers and partitions, on the driver; waits for a broker for as long as a row may wait to be confirmed.

    Raises NoBrokersError, and ZkError without ZooKeeper.
    """
    from zk.brokers import BrokerRegistry  # noqa: PLC0415 (not on executors)
    from zk.connecting import connect  # noqa: PLC0415

    if options.broker_list:
        return Placement(options.broker_list, None)
    deadline_s = clock.monotonic_s() + options.confirm_timeout_ms / 1000
    with connect(options.zk_connect, options.zk_sessiontimeout_ms, options.zk_connectiontimeout_ms) as client:
        registry = BrokerRegistry(client)
        while not (live := registry.brokers()):
            if clock.monotonic_s() >= deadline_s:
                raise NoBrokersError(
                    f"no broker was registered in ZooKeeper at {options.zk_connect} for {options.confirm_timeout_ms} ms"
                    " (confirm.timeout.ms)"
                )
            logger.warning("no broker is registered in ZooKeeper at %s: waiting for one", options.zk_connect)
            sleep(BROKERS_INTERVAL_S)
        topics = [options.topic] if options.topic else registry.topics()
        counts = {topic: registry.partitions_of(topic) for topic in topics}
    partitions = {
        topic: tuple(where for where in TopicPartition.all_of(topic, of_topic) if where.broker_id in live)
        for topic, of_topic in counts.items()
    }
    return Placement(
        tuple(live.values()),
        {topic: partitions_of_topic for topic, partitions_of_topic in partitions.items() if partitions_of_topic},
    )


# Sending, on executors


class RowSender:
    """One task's producer. A context manager: leaving it in order waits for confirmations. For one thread.

    Raises the first KafkaError that a row failed with, as soon as it is known.
    """

    def __init__(self, options: WriteOptions, columns: SinkColumns, placement: Placement) -> None:
        self._columns = columns
        self._topic = options.topic
        config = options.producer_config(placement.brokers)
        self._router = open_router(placement, options)
        self._send_rows = min(SEND_ROWS, config.queue_size)
        self._failed: FailedBatch | None = None
        self._producer = Producer(config, on_failure=self._note, info=self._router.info)
        self.rows = 0

    def send(self, batch: pa.RecordBatch) -> None:
        """Queue the rows of a batch; rows of one partition keep their order."""
        payloads = _bytes_of(batch.column(self._columns.value), "value")
        if self._columns.topic is None:
            self._send_topic(self._topic, batch, payloads)
        else:
            for topic, rows in _groups(batch.column(self._columns.topic), "topic"):
                self._send_topic(topic, batch.take(rows), [payloads[row] for row in rows.to_pylist()])
        self.rows += batch.num_rows

    def _send_topic(self, topic: str, batch: pa.RecordBatch, payloads: list[bytes]) -> None:
        place = self._placer(topic, batch)
        if place is None:
            self._queue(topic, payloads, None)
            return
        by_place: dict[TopicPartition | None, list[bytes]] = {}
        for payload, where in zip(payloads, place, strict=True):
            by_place.setdefault(where, []).append(payload)
        for where, some in by_place.items():
            self._queue(topic, some, where)

    def _queue(self, topic: str, payloads: list[bytes], where: TopicPartition | None) -> None:
        for first in range(0, len(payloads), self._send_rows):
            self._check()
            self._producer.send(topic, payloads[first : first + self._send_rows], partition=where)

    def _placer(self, topic: str, batch: pa.RecordBatch) -> Iterator[TopicPartition | None] | None:
        """Return where each row goes, None for anywhere; or None when all may go anywhere."""
        columns = self._columns
        if columns.key is not None:
            keys = batch.column(columns.key).to_pylist()
            return map(_remembered(lambda key: self._router.by_key(topic, key)), keys)
        if columns.partition is None:
            return None
        names = batch.column(columns.partition).to_pylist()
        if columns.broker_id is None:
            return map(_remembered(lambda name: self._place(topic, name)), names)
        broker_ids = batch.column(columns.broker_id).to_pylist()
        place = _remembered(lambda pair: self._place(topic, f"{pair[0]}-{pair[1]}"))
        pairs: Iterable[object] = (None if None in pair else pair for pair in zip(broker_ids, names, strict=True))
        return map(place, pairs)

    def _place(self, topic: str, name: str) -> TopicPartition:
        try:
            where = TopicPartition.from_znode_name(topic, name)
        except ZkError:
            raise ConfigError(f"column partition: {name!r} is not {{broker id}}-{{partition}}") from None
        check_place(self._router, where)
        return where

    def _note(self, failed: FailedBatch) -> None:
        if self._failed is None:
            self._failed = failed

    def _check(self) -> None:
        if self._failed is not None:
            failed = self._failed
            raise KafkaError(
                f"{len(list(failed.messages))} rows for topic {failed.topic} were not confirmed: {failed.error}"
            ) from failed.error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._producer.close()
        if exc is None:
            self._check()


def _remembered(
    choose: Callable[..., TopicPartition],
) -> Callable[[object], TopicPartition | None]:
    """Choose once for each distinct key; a null goes anywhere."""
    known: dict[object, TopicPartition | None] = {None: None}

    def where(key: object) -> TopicPartition | None:
        if key not in known:
            known[key] = choose(key)
        return known[key]

    return where


def _bytes_of(column: pa.Array, name: str) -> list[bytes]:
    if column.null_count:
        raise ConfigError(f"column {name} holds nulls: a message needs a payload, even if it is empty")
    return column.cast(pa.binary()).to_pylist()  # type: ignore[no-any-return]


def _groups(column: pa.Array, name: str) -> Iterator[tuple[str, pa.Array]]:
    """Return the rows of each distinct value, in order."""
    if column.null_count:
        raise ConfigError(f"column {name} holds nulls, and there is no option {name}")
    for value in pc.unique(column):
        yield value.as_py(), pc.indices_nonzero(pc.equal(column, value))
