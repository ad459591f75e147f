"""Have Spark do a little of all that tests have it do, so that its JVM has loaded the classes for it.

Prints the process id of the JVM. The argument is a directory for files.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import psutil
from pyspark.sql import Observation, SparkSession, Window
from pyspark.sql import functions as sql
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition, SimpleDataSourceStreamReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

ROWS = [(number, f"text {number % 7}") for number in range(50)]


class Rows(DataSource):  # type: ignore[misc]  # PySpark has no types for mypy here
    """A source in Python, as the format kafka2011 is one."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "rows"

    def schema(self) -> str:
        """Return the columns."""
        return "number int, text string"

    def reader(self, schema: object) -> DataSourceReader:
        """Return what reads a batch."""
        return RowsReader()

    def simpleStreamReader(self, schema: object) -> SimpleDataSourceStreamReader:  # noqa: N802 (Spark's)
        """Return what reads a stream."""
        return RowsStreamReader()


class RowsReader(DataSourceReader):  # type: ignore[misc]  # PySpark has no types for mypy here
    """Reads all rows in each of two partitions."""

    def partitions(self) -> list[InputPartition]:
        """Return two."""
        return [InputPartition(0), InputPartition(1)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, str]]:
        """Return all rows."""
        return iter(ROWS)


class RowsStreamReader(SimpleDataSourceStreamReader):  # type: ignore[misc]  # PySpark has no types for mypy here
    """Reads all rows once."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 (Spark's name)
        """Return the beginning."""
        return {"offset": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[int, str]], dict[str, int]]:
        """Return what there is from an offset, and the next offset."""
        return iter(ROWS[start["offset"] :]), {"offset": len(ROWS)}

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[tuple[int, str]]:  # noqa: N802
        """Return what is between offsets."""
        return iter(ROWS[start["offset"] : end["offset"]])


def work(spark: SparkSession, directory: str) -> None:
    """Read and write, in batches and as a stream."""
    spark.dataSource.register(Rows)
    rows = spark.read.format("rows").load()
    timed = rows.withColumn("at", sql.timestamp_seconds(sql.col("number") * 60))
    timed.write.partitionBy("text").parquet(f"{directory}/parquet")
    table = spark.read.parquet(f"{directory}/parquet").cache()
    newest = Window.partitionBy("text").orderBy(sql.col("at").desc())
    table.withColumn("n", sql.row_number().over(newest)).where("n = 1").select(
        sql.to_json(sql.struct("number", "at"))
    ).collect()
    seen = Observation()
    table.join(rows.select("number"), "number").observe(seen, sql.count(sql.lit(1)).alias("rows")).groupBy("text").agg(
        sql.count_distinct("number"), sql.max("at")
    ).orderBy("text").coalesce(1).write.json(f"{directory}/json")
    stream = spark.readStream.format("rows").load().withColumn("at", sql.current_timestamp())
    counted = stream.withWatermark("at", "1 minute").groupBy(sql.window("at", "10 seconds"), "text").count()
    query = (
        counted.writeStream.option("checkpointLocation", f"{directory}/checkpoint")
        .outputMode("update")
        .foreachBatch(_collect)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)


def _collect(batch: DataFrame, _: int) -> None:
    batch.collect()


def main() -> None:
    """Work, and say which JVM did."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    spark = builder.config("spark.sql.shuffle.partitions", 2).getOrCreate()
    [jvm] = [child.pid for child in psutil.Process().children() if "java" in child.name()]
    work(spark, sys.argv[1])
    spark.stop()
    print(jvm)  # noqa: T201


if __name__ == "__main__":
    main()
