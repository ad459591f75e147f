"""Sends one task's rows, on an executor, and waits until all of them are confirmed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import pyarrow as pa
import pyarrow.compute as pc

from kafka2011.errors import ConfigError, KafkaError
from kafka2011.producer.async_producer import AsyncProducer
from kafka2011.spark.placement import open_router
from zk.cluster import TopicPartition
from zk.errors import ZkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType

    from kafka2011.producer.parcel import FailedSend
    from kafka2011.spark.options import WriteOptions
    from kafka2011.spark.placement import Placement
    from kafka2011.spark.sink import Columns

SEND_ROWS = 200
"""Rows that are given to the producer at once: they stay together, so few enough to spread over partitions."""


class RowSender:
    """One task's producer. A context manager: leaving it in order waits for confirmations. For one thread.

    Raises the first KafkaError that a row failed with, as soon as it is known.
    """

    def __init__(self, options: WriteOptions, columns: Columns, placement: Placement) -> None:
        self._columns = columns
        self._topic = options.topic
        config = options.producer_config(placement.brokers)
        self._router = open_router(placement, options)
        self._send_rows = min(SEND_ROWS, config.queue_size)
        self._failed: FailedSend | None = None
        self._producer = AsyncProducer(config, on_failure=self._note, router=self._router)
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
            self._producer.send(topic, payloads[first : first + self._send_rows], where)

    def _placer(self, topic: str, batch: pa.RecordBatch) -> Iterator[TopicPartition | None] | None:
        """Return where each row goes, None for anywhere; or None when all may go anywhere."""
        columns = self._columns
        if columns.key is not None:
            keys = batch.column(columns.key).to_pylist()
            return map(_remembered(lambda key: self._router.choose(topic, key)), keys)
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
        self._router.check_place(topic, where)
        return where

    def _note(self, failed: FailedSend) -> None:
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
        raise ConfigError(f"column {name} holds nulls: a message has a payload, if an empty one")
    return column.cast(pa.binary()).to_pylist()  # type: ignore[no-any-return]


def _groups(column: pa.Array, name: str) -> Iterator[tuple[str, pa.Array]]:
    """Return the rows of each distinct value, in order."""
    if column.null_count:
        raise ConfigError(f"column {name} holds nulls, and there is no option {name}")
    for value in pc.unique(column):
        yield value.as_py(), pc.indices_nonzero(pc.equal(column, value))
