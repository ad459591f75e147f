"""The data source that Spark makes for the format `kafka2011`, and its batch reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from kafka2011.errors import ConfigError
from kafka2011.spark.options import BatchOptions, StreamOptions, WriteOptions
from kafka2011.spark.source_columns import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

    from kafka2011.spark.sink import BatchWriter, StreamWriter
    from kafka2011.spark.stream_reader import StreamReader
    from zk.cluster import TopicPartition

_PLACES = {("topic",), ("brokerId",), ("partition",)}


class Kafka2011DataSource(DataSource):
    """Topics of a Kafka 0.7 cluster. See the options' dataclasses for what it takes.

    A reader or writer is imported when Spark asks for it, since Spark makes this object in separate processes.
    """

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "kafka2011"

    def schema(self) -> StructType:
        """Return the columns that are read."""
        return SCHEMA

    def reader(self, schema: StructType) -> SparkBatchReader:
        """Return what reads a batch. Raises ConfigError."""
        _check_schema(schema)
        options = BatchOptions.from_options(self.options)
        return FilteringReader(options) if options.push_filters else SparkBatchReader(options)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 (Spark's name)
        """Return what reads a stream. Raises ConfigError."""
        from kafka2011.spark.stream_reader import StreamReader  # noqa: PLC0415

        _check_schema(schema)
        return StreamReader(StreamOptions.from_options(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Return what writes a batch. Raises ConfigError."""
        from kafka2011.spark.sink import open_batch_writer  # noqa: PLC0415

        if overwrite:
            raise ConfigError("a topic can only be appended to: write with mode append")
        return open_batch_writer(WriteOptions.from_options(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 (Spark's)
        """Return what writes a stream. Raises ConfigError."""
        from kafka2011.spark.sink import open_stream_writer  # noqa: PLC0415

        if overwrite:
            raise ConfigError("a topic can only be appended to: use the output mode append or update")
        return open_stream_writer(WriteOptions.from_options(self.options), schema)


class SparkBatchReader(DataSourceReader):
    """Plans on the driver and reads on executors, to which it is pickled."""

    def __init__(self, options: BatchOptions) -> None:
        from kafka2011.spark.reader import ReadSettings  # noqa: PLC0415

        self._options = options
        self._settings = ReadSettings.of(options)

    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks. Raises what `resolve_offsets` raises."""
        from kafka2011.spark.lookup import OffsetLookup  # noqa: PLC0415 (not on executors)
        from kafka2011.spark.plan import DataLoss, plan, resolve_batch  # noqa: PLC0415

        with OffsetLookup(self._options) as lookup:
            ranges = resolve_batch(self._options, lookup, self.keeps)
            max_bytes = self._options.max_bytes_per_partition
            tasks = plan(lookup, ranges, self._options.min_partitions, DataLoss(self._options), max_bytes)
        return [InputPartition(task) for task in tasks]

    def keeps(self, partition: TopicPartition) -> bool:  # noqa: ARG002 (FilteringReader's matter)
        """Say whether a partition is to be read."""
        return True

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one task's range."""
        from kafka2011.spark.reader import read_partition  # noqa: PLC0415

        return read_partition(partition, self._settings)


class FilteringReader(SparkBatchReader):
    """Leaves out partitions in which no row can pass a filter.

    A separate class, since Spark fails every filtered read of a reader that has `pushFilters` unless its own setting
    allows it.
    """

    def __init__(self, options: BatchOptions) -> None:
        super().__init__(options)
        self._filters: list[tuple[str, frozenset[object]]] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 (Spark's name)
        """Take filters that name partitions; return the others, which Spark applies to rows."""
        for condition in filters:
            wanted = _wanted_values(condition)
            if wanted is None:
                yield condition
            else:
                self._filters.append((condition.attribute[0], wanted))

    def keeps(self, partition: TopicPartition) -> bool:
        """Say whether rows of a partition can pass the filters that were taken."""
        columns = {"topic": partition.topic, "brokerId": partition.broker_id, "partition": partition.partition}
        return all(columns[name] in wanted for name, wanted in self._filters)


def _wanted_values(one: Filter) -> frozenset[object] | None:
    """Return which values of its column a filter leaves, if it is one of those that say where a row comes from."""
    from pyspark.sql.datasource import EqualNullSafe, EqualTo, In  # noqa: PLC0415 (later than the others)

    if not isinstance(one, EqualTo | EqualNullSafe | In) or one.attribute not in _PLACES:
        return None
    return frozenset(one.value if isinstance(one, In) else [one.value])


def _check_schema(schema: StructType) -> None:
    if schema != SCHEMA:
        raise ConfigError(f"the kafka2011 source has columns of its own, {SCHEMA.simpleString()}: give no schema")
