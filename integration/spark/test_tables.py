"""Tables of Parquet files as Spark reads them, and rows that Spark has written as `open_table` reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql.pandas.types import from_arrow_schema

from kafka2011.warehouse import open_table
from kafka2011.warehouse.table.parquet.compact import compact
from kafka2011.warehouse.table.parquet.parquet_table import ParquetTable
from tests.support.tables import EVENT, FIRST_MS, OWN, TOPIC, commit_of, load

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

LONG = pa.unify_schemas([EVENT, pa.schema([("status", pa.int64())]), OWN])
INT = pa.unify_schemas([EVENT, pa.schema([("status", pa.int32())]), OWN])
NEW = pa.unify_schemas([EVENT, pa.schema([("status", pa.int64()), ("referrer", pa.string())]), OWN])
ROWS = [(0, 200, None), (100, 404, None), (200, 2**40, "/a"), (300, 5, "/b")]
COLUMNS = ["kafka2011_offset", "status", "referrer"]


def evolved(warehouse: Path, old: pa.Schema) -> ParquetTable:
    """Write a table whose second load has a new column, and perhaps a wider one."""
    made = ParquetTable(warehouse, TOPIC)
    load(made, [FIRST_MS, FIRST_MS + 1], schema=1, arrow=old, status=[200, 404])
    load(made, [FIRST_MS + 86_400_000, FIRST_MS], schema=2, arrow=NEW, status=[2**40, 5], referrer=["/a", "/b"])
    return made


def selected(rows: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, rows.select(COLUMNS).collect()))


def test_spark_needs_merge_schema(spark: SparkSession, tmp_path: Path) -> None:
    """With it all columns are there; after a compaction also without."""
    table = evolved(tmp_path, LONG)
    assert selected(spark.read.option("mergeSchema", "true").parquet(table.path)) == ROWS
    compact(table, before_ms=FIRST_MS + 1, grace_s=0)
    assert selected(spark.read.parquet(table.path)) == ROWS


def test_spark_merges_no_int_with_a_long(spark: SparkSession, tmp_path: Path) -> None:
    """So loads write every int as a long. The schema of `open_table` helps with tables of others."""
    table = evolved(tmp_path, INT)
    with pytest.raises(Py4JJavaError, match="CANNOT_MERGE_SCHEMAS"):
        spark.read.option("mergeSchema", "true").parquet(table.path)
    schema = from_arrow_schema(open_table(tmp_path, TOPIC).schema)
    assert selected(spark.read.schema(schema).parquet(table.path)) == ROWS


def test_rows_that_spark_wrote_are_read(spark: SparkSession, tmp_path: Path) -> None:
    """Beside those of others, with times in UTC."""
    table = evolved(tmp_path, LONG)
    staging = table.begin()
    rows = spark.createDataFrame([(2011, 77, "web-9")], "number long, status long, server string").selectExpr(
        f"timestamp_millis({FIRST_MS}) as time",
        "server",
        "status",
        "cast(900 as long) as kafka2011_offset",
        "date'2011-06-12' as date",
    )
    rows.write.mode("append").partitionBy("date").option("compression", "zstd").parquet(staging)
    table.commit(staging, commit_of(3, 1000, rows=1, schema=1))
    found = open_table(tmp_path, TOPIC).to_table(columns=["time", "kafka2011_offset", "server", "referrer"])
    [row] = [each for each in found.to_pylist() if each["kafka2011_offset"] == 900]
    assert row["time"].timestamp() == FIRST_MS / 1000
    assert (row["server"], row["referrer"]) == ("web-9", None)
