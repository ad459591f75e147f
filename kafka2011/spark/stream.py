"""The streaming reader: Spark asks it on the driver how far each micro-batch goes, and on executors to read."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, SupportsTriggerAvailableNow

from kafka2011.spark.range_reader import ReadSettings
from kafka2011.spark.source import read_partition

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.streaming.datasource import ReadLimit

    from kafka2011.spark.options import StreamOptions
    from kafka2011.spark.stream_planner import StreamPlanner

logger = logging.getLogger(__name__)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's side of a stream: offsets are `{"topic": {"0-1": 123}}`. What they are is the StreamPlanner's business.

    One object lives as long as the query, in a planner process of its own; others are pickled to executors to read.
    """

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._settings = ReadSettings.of(options)
        self._planner: StreamPlanner | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's names, here and below)
        """Return where a new query begins."""
        return self._planning().initial()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return how much a micro-batch may read."""
        if self._options.max_bytes_per_trigger:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return where the micro-batch that begins at `start` ends."""
        return self._planning().end(start, limit.max_bytes if isinstance(limit, ReadMaxBytes) else None)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Note where the logs end now; the query goes no further."""
        self._planning().stop_at_latest()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return where the logs ended when last looked at, for the query's progress."""
        return self._planning().latest()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a micro-batch."""
        return self._planning().tasks(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one task's range."""
        return read_partition(partition, self._settings)

    def commit(self, end: dict[str, Any]) -> None:
        """Commit to the consumer group, where one was given, that all before `end` was processed."""
        if self._options.commit_offsets:
            self._planning().commit(end)

    def stop(self) -> None:
        """Close what planning has open; the end of its process does so too."""
        if self._planner is not None:
            self._planner.close()
            self._planner = None

    def _planning(self) -> StreamPlanner:
        from kafka2011.spark.stream_planner import StreamPlanner  # noqa: PLC0415 (not on executors)

        if self._planner is None:
            self._planner = StreamPlanner(self._options)
        return self._planner
