"""Rows of Parquet files in a store, read by Spark's tasks with PyArrow: Spark needs no jars for the store then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql.pandas.types import to_arrow_schema

from kafka2011.warehouse.table.locations import files_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyarrow.fs import FileSystem
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def rows_in(spark: SparkSession, paths: Sequence[str], columns: StructType) -> DataFrame:
    """Return these columns of files of one store; one that a file does not have is null in its rows."""
    files = files_of(paths[0])
    reading = _Reading(files.file_system, to_arrow_schema(columns, timezone="UTC"))
    tasks = min(len(paths), spark.sparkContext.defaultParallelism)
    every = spark.createDataFrame([(files.inside(path),) for path in paths], "path string").repartition(tasks)
    return every.mapInArrow(reading.rows, columns)


class _Reading:
    """What a task reads files with; it pickles, and finds out who may read where it runs."""

    def __init__(self, file_system: FileSystem, schema: pa.Schema) -> None:
        self._file_system = file_system
        self._schema = schema

    def rows(self, names: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the files that are named. Raises OSError."""
        for batch in names:
            paths = batch.column(0).to_pylist()
            dataset = ds.dataset(paths, schema=self._schema, format="parquet", filesystem=self._file_system)
            yield from dataset.to_batches()
