"""Who reads a table in Delta sees each row once, with all columns, and nothing of what was compacted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from kafka2011.warehouse import open_table
from kafka2011.warehouse.table.delta.cleaning import clean
from kafka2011.warehouse.table.delta.compaction import compact
from kafka2011.warehouse.table.delta.delta_table import TopicTable
from tests.support.delta_tables import load, staged
from tests.support.tables import FIRST_MS, HOUR_MS, SCHEMA, TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EXPECTED = [(0, None), (100, None), (200, "/"), (300, "/"), (400, "/"), (500, "/")]
COLUMNS = ["kafka2011_offset", "referrer"]

Rows = list[tuple[int, str | None]]


def by_open_table(warehouse: Path) -> Rows:
    rows = open_table(warehouse, TOPIC).to_table(columns=COLUMNS)
    return [(row["kafka2011_offset"], row["referrer"]) for row in rows.to_pylist()]


def by_pandas(warehouse: Path) -> Rows:
    rows = open_table(warehouse, TOPIC).to_table(columns=COLUMNS).to_pandas()
    return [(int(offset), referrer) for offset, referrer in zip(rows.kafka2011_offset, rows.referrer, strict=True)]


def by_pyarrow_from_names_of_files(warehouse: Path) -> Rows:
    """As whoever has `deltalake` and none of this package."""
    parts = [pq.ParquetFile(path).read() for path in DeltaTable(warehouse / TOPIC).file_uris()]
    rows = pa.concat_tables(parts, promote_options="default")
    return [(row["kafka2011_offset"], row["referrer"]) for row in rows.to_pylist()]


def by_polars(warehouse: Path) -> Rows:
    return polars.scan_delta(str(warehouse / TOPIC)).select(COLUMNS).collect().rows()


def by_duckdb(warehouse: Path) -> Rows:
    """Its own `delta_scan` is an extension that it fetches over the network."""
    with duckdb.connect() as connection:
        connection.register("views", open_table(warehouse, TOPIC))
        return connection.execute("select kafka2011_offset, referrer from views").fetchall()


@pytest.mark.parametrize("read", [by_open_table, by_pandas, by_pyarrow_from_names_of_files, by_polars, by_duckdb])
def test_readers_see_each_row_once(read: Callable[[Path], Rows], tmp_path: Path) -> None:
    """Rows from before a column was there have null in it; what was not committed is not there."""
    table = TopicTable(tmp_path, TOPIC)
    newer = SCHEMA.append(pa.field("referrer", pa.string()))
    load(table, [FIRST_MS, FIRST_MS + HOUR_MS])
    load(table, [FIRST_MS, FIRST_MS + 24 * HOUR_MS], newer, referrer=["/"] * 2)
    compact(table)
    load(table, [FIRST_MS, FIRST_MS + HOUR_MS], newer, referrer=["/"] * 2)
    staged(table, 5, [FIRST_MS], 9)
    assert sorted(read(tmp_path)) == EXPECTED
    clean(table, older_than_s=-1)
    assert sorted(read(tmp_path)) == EXPECTED
