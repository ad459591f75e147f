"""A Spark source written in Python that has its rows in memory: the most that any such source could give."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from kafka2011.message.columns import MAX_BATCH_ROWS
from kafka2011.spark import batches
from kafka2011.spark.source_columns import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructType

FORMAT = "rows-from-memory"


class RowsFromMemory(DataSource):
    """Options `rows`, `tasks` and `bytes`: so many rows in all, in the columns of our source, one batch repeated."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the same columns as those of our source."""
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 (it is ours)
        """Return what reads them."""
        return _Reader(*(int(self.options[key]) for key in ("rows", "tasks", "bytes")))


class _Reader(DataSourceReader):
    def __init__(self, rows: int, tasks: int, payload_bytes: int) -> None:
        self._rows = rows
        self._tasks = tasks
        self._payload_bytes = payload_bytes

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        left = self._rows // self._tasks + (partition.value < self._rows % self._tasks)
        batch = rows(min(left, MAX_BATCH_ROWS), self._payload_bytes)
        while left > 0:
            yield batch.slice(0, left)
            left -= len(batch)


def rows(count: int, payload_bytes: int) -> pa.RecordBatch:
    """Return a batch of random payloads."""
    values = [os.urandom(payload_bytes) for _ in range(count)]
    offsets = np.arange(count + 1, dtype=np.int64) * (payload_bytes + 10)
    zeros = pa.array(np.zeros(count, np.int32))
    columns = [
        pa.array(values, pa.binary()),
        pa.repeat(pa.scalar("topic", pa.string()), count),
        zeros,
        zeros,
        pa.array(offsets[:-1]),
        pa.array(offsets[1:]),
        zeros,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batches.SCHEMA)
