"""Writes rows to topics. Each task ends when brokers have confirmed all its rows, so every row arrives at least once.

Columns: `value`, binary or text; `topic`, unless the option gives one; optionally `key`, binary or text, which chooses
the partition by its hash; or instead `partition`, `{broker id}-{partition}` as text, or a number beside `brokerId`.
Rows without either go anywhere. Other columns are not written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, DataType, IntegerType, LongType, ShortType, StringType

from kafka2011.errors import ConfigError
from kafka2011.spark.placement import Placement, plan_placement

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kafka2011.spark.options import WriteOptions

_BYTES = (BinaryType, StringType)
_INTEGERS = (ShortType, IntegerType, LongType)


@dataclass(frozen=True, slots=True)
class Columns:
    """At which positions the columns stand that the sink takes; None for one that is not there."""

    value: int
    topic: int | None
    key: int | None
    partition: int | None
    broker_id: int | None

    @classmethod
    def of(cls, schema: StructType, options: WriteOptions) -> Columns:
        """Find them in a DataFrame's schema. Raises ConfigError for a missing or unfit one."""
        value = _position(schema, "value", _BYTES)
        if value is None:
            raise ConfigError(f"the kafka2011 sink needs a column value; there is {schema.simpleString()}")
        topic = None if options.topic else _position(schema, "topic", (StringType,))
        if topic is None and not options.topic:
            raise ConfigError("the kafka2011 sink needs the option topic, or a column topic")
        key = _position(schema, "key", _BYTES)
        partition = _position(schema, "partition", (StringType, *_INTEGERS))
        broker_id = None
        if partition is not None and not isinstance(schema[partition].dataType, StringType):
            broker_id = _position(schema, "brokerId", _INTEGERS)
            if broker_id is None:
                raise ConfigError(
                    "each broker counts its partitions from 0, so a column partition that is a number needs a column"
                    ' brokerId beside it; or give text like "0-1"'
                )
        if key is not None and partition is not None:
            raise ConfigError("the columns key and partition both say where a row goes: leave one out")
        return cls(value, topic, key, partition, broker_id)


class Written(WriterCommitMessage):
    """What one task wrote."""

    def __init__(self, rows: int) -> None:
        self.rows = rows


class BatchWriter(DataSourceArrowWriter):
    """Pickled to executors, with all they need to know."""

    def __init__(self, options: WriteOptions, columns: Columns, placement: Placement) -> None:
        self._options = options
        self._columns = columns
        self._placement = placement

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows."""
        return _write(self._options, self._columns, self._placement, iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    """The same for each micro-batch of a stream."""

    def __init__(self, options: WriteOptions, columns: Columns, placement: Placement) -> None:
        self._options = options
        self._columns = columns
        self._placement = placement

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows."""
        return _write(self._options, self._columns, self._placement, iterator)


def open_batch_writer(options: WriteOptions, schema: StructType) -> BatchWriter:
    """Plan a write on the driver."""
    return BatchWriter(options, Columns.of(schema, options), plan_placement(options))


def open_stream_writer(options: WriteOptions, schema: StructType) -> StreamWriter:
    """Plan the write of a micro-batch on the driver. Spark asks for this before each, and again to commit it."""
    return StreamWriter(options, Columns.of(schema, options), plan_placement(options))


def _write(
    options: WriteOptions, columns: Columns, placement: Placement, batches: Iterator[pa.RecordBatch]
) -> WriterCommitMessage:
    from kafka2011.spark.row_sender import RowSender  # noqa: PLC0415 (only executors send)

    with RowSender(options, columns, placement) as sender:
        for batch in batches:
            sender.send(batch)
    return Written(sender.rows)


def _position(schema: StructType, name: str, types: tuple[type[DataType], ...]) -> int | None:
    """Return where a column stands, named without regard to case as Spark does it."""
    for position, field in enumerate(schema.fields):
        if field.name.lower() == name.lower():
            if not isinstance(field.dataType, types):
                wanted = " or ".join(each.typeName() for each in types)
                raise ConfigError(f"column {name} is {field.dataType.simpleString()}; the sink takes {wanted}")
            return position
    return None
