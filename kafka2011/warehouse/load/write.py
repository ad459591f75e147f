"""The Spark jobs of a load: write decoded rows as Parquet files, read back what was written, gather what was refused.

Runs on the driver, in a session of its own on the application's Spark context, so that its settings are nobody else's.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 (everybody's name for it)
from pyspark.sql.pandas.types import from_arrow_schema

from kafka2011.spark.errors import BrokerAwayError, CorruptMessageError, DataLossError
from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.load.coverage import Run
from kafka2011.warehouse.load.tasks import (
    COUNT_COLUMNS,
    PLACES,
    REFUSED_COLUMNS,
    RUN_COLUMNS,
    LoadTasks,
    counts_in,
    runs_in,
)
from kafka2011.warehouse.rows.columns import MICROS, OWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, Row, SparkSession

_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.enabled": "true",
    "spark.sql.adaptive.optimizeSkewsInRebalancePartitions.enabled": "true",
    "spark.sql.sources.partitionOverwriteMode": "static",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.caseSensitive": "false",
}
_SHUFFLED_PER_WRITTEN = 4
"""How many bytes of shuffled rows make about one byte of a Parquet file."""


class PartitionBy(StrEnum):
    """What has a directory of its own in a load."""

    DAY = "day"
    HOUR = "hour"

    @property
    def columns(self) -> list[str]:
        """The names of the directories."""
        return ["date"] if self is PartitionBy.DAY else ["date", "hour"]


class QuarantinedMessage(NamedTuple):
    """A message for quarantine."""

    broker_id: int
    partition: int
    start: int
    end: int
    number: int
    corrupt: bool
    line: str


def session_for(spark: SparkSession, target_file_bytes: int) -> SparkSession:
    """Return a session with the settings that a load needs."""
    session = spark.newSession()
    for key, value in _SETTINGS.items():
        session.conf.set(key, value)
    advisory_bytes = target_file_bytes * _SHUFFLED_PER_WRITTEN
    session.conf.set("spark.sql.adaptive.advisoryPartitionSizeInBytes", str(advisory_bytes))
    return session


def write_rows(session: SparkSession, work: LoadTasks, staging: str, partition_by: PartitionBy) -> None:
    """Read the ranges, decode them, and write the rows below `staging`, sorted by time within each file.

    Raises what reading raises: DataLossError, BrokerAwayError; WarehouseError for anything else.
    """
    schema = from_arrow_schema(work.decoder.schema)
    _write(_tasks(session, work).mapInArrow(work.rows, schema), work.topic, staging, partition_by)


def write_table(session: SparkSession, topic: str, rows: pa.Table, staging: str, partition_by: PartitionBy) -> None:
    """Write rows that are in memory, as `write_rows` does."""
    with _translated(topic):
        frame = session.createDataFrame(rows)
    _write(frame, topic, staging, partition_by)


def _write(rows: DataFrame, topic: str, staging: str, partition_by: PartitionBy) -> None:
    rows = rows.withColumn("date", F.date_format("time", "yyyy-MM-dd"))
    if partition_by is PartitionBy.HOUR:
        rows = rows.withColumn("hour", F.date_format("time", "HH"))
    columns = partition_by.columns
    sorted_rows = rows.hint("rebalance", *columns).sortWithinPartitions(*columns, "time")
    writer = sorted_rows.write.partitionBy(*columns).mode("append").option("compression", "zstd")
    with _translated(topic):
        writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").parquet(_uri(staging))
    if staging.startswith("/"):
        for checksum in Path(staging).rglob(".*.crc"):  # Hadoop's own, which nobody else reads
            checksum.unlink()


def read_runs(session: SparkSession, topic: str, staging: str) -> Iterator[Run]:
    """Read the places of all rows that were written below `staging`, and yield the runs that they make."""
    schema = from_arrow_schema(OWN)
    with _translated(topic):
        written = session.read.schema(schema).parquet(_uri(staging)).select(*PLACES)
        for row in written.mapInArrow(runs_in, RUN_COLUMNS).collect():
            yield Run._make([*row[:6], row.hashes % 2**64])


def read_counts(session: SparkSession, topic: str, staging: str) -> Iterator[Row]:
    """Read what the audit counts of all rows that were written below `staging`; see `tasks.counts_in`."""
    schema = from_arrow_schema(pa.schema([*OWN, pa.field("published_at", MICROS), pa.field("id", pa.string())]))
    with _translated(topic):
        written = session.read.schema(schema).parquet(_uri(staging)).select("published_at", "id", *PLACES)
        yield from written.mapInArrow(counts_in, COUNT_COLUMNS).toLocalIterator(prefetchPartitions=True)


def read_quarantined(session: SparkSession, work: LoadTasks) -> Iterator[QuarantinedMessage]:
    """Read the ranges again, and yield what cannot be decoded."""
    with _translated(work.topic):
        found = _tasks(session, work).mapInArrow(work.refused, REFUSED_COLUMNS)
        for row in found.toLocalIterator(prefetchPartitions=True):
            yield QuarantinedMessage(*row)


def _uri(path: str) -> str:
    """Return a local path as a URI: Spark's default may be another file system."""
    return Path(path).as_uri() if path.startswith("/") else path


def _tasks(session: SparkSession, work: LoadTasks) -> DataFrame:
    """Return the numbers of the tasks, each in a partition of its own."""
    return session.range(0, len(work.tasks), 1, len(work.tasks))


class _translated:  # noqa: N801 (a context manager that reads like a function)
    """Turns what Spark says of a failed task into the error that the task raised."""

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def __enter__(self) -> None:
        return None

    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: object) -> None:
        if not isinstance(exc, PySparkException | Py4JError):
            return
        text = str(exc)
        for kind in (DataLossError, BrokerAwayError, CorruptMessageError):
            _, found, rest = text.partition(f"{kind.__module__}.{kind.__qualname__}: ")
            if found:
                raise kind(rest.splitlines()[0]) from exc
        raise WarehouseError(f"topic {self._topic}: Spark could not do it: {_last_words(text)}") from exc


def _last_words(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if "Error: " in line or "Exception: " in line]
    return (named or lines or ["nothing said"])[-1][:500]
