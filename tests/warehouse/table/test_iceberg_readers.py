"""Who reads a table in Iceberg sees each row once, with the newest columns, and nothing of what was compacted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars
import pyarrow as pa
import pytest

from kafka2011.warehouse.table.iceberg.iceberg_table import IcebergTable
from tests.support.iceberg_tables import load, staged
from tests.support.tables import FIRST_MS, HOUR_MS, SCHEMA, TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyiceberg.table import Table

EXPECTED = [(0, None), (100, None), (200, "/"), (300, "/"), (400, "/"), (500, "/")]


def by_pyiceberg(table: Table) -> list[tuple[int, str | None]]:
    rows = table.scan(selected_fields=("kafka2011_offset", "referrer")).to_arrow()
    return [(row["kafka2011_offset"], row["referrer"]) for row in rows.to_pylist()]


def by_pandas(table: Table) -> list[tuple[int, str | None]]:
    rows = table.scan(selected_fields=("kafka2011_offset", "referrer")).to_pandas()
    return [(int(offset), referrer) for offset, referrer in zip(rows.kafka2011_offset, rows.referrer, strict=True)]


def by_duckdb(table: Table) -> list[tuple[int, str | None]]:
    """Its own `iceberg_scan` is an extension that it fetches over the network."""
    with table.scan().to_duckdb("events") as connection:
        return connection.execute("select kafka2011_offset, referrer from events").fetchall()


def by_polars(table: Table) -> list[tuple[int, str | None]]:
    return polars.scan_iceberg(table).select("kafka2011_offset", "referrer").collect().rows()


def by_polars_from_the_metadata(table: Table) -> list[tuple[int, str | None]]:
    return polars.scan_iceberg(table.metadata_location).select("kafka2011_offset", "referrer").collect().rows()


@pytest.mark.parametrize("read", [by_pyiceberg, by_pandas, by_duckdb, by_polars, by_polars_from_the_metadata])
def test_readers_see_each_row_once(
    read: Callable[[Table], list[tuple[int, str | None]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows from before a column was there have null in it; what was not committed is not there."""
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")  # it warns that another package would plan faster
    table = IcebergTable(tmp_path, TOPIC)
    newer = SCHEMA.append(pa.field("referrer", pa.string()))
    load(table, [FIRST_MS, FIRST_MS + HOUR_MS])
    load(table, [FIRST_MS, FIRST_MS + HOUR_MS], newer, referrer=["/"] * 2)
    table.compact(before_ms=FIRST_MS + HOUR_MS)
    load(table, [FIRST_MS, FIRST_MS + HOUR_MS], newer, referrer=["/"] * 2)
    staged(table, 5, [FIRST_MS], 9)
    assert sorted(read(table.iceberg())) == EXPECTED
