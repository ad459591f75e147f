"""What each reader makes of a table whose schema has changed: a column was added, and an int became a long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from kafka2011.warehouse import open_table
from kafka2011.warehouse.table.parquet.parquet_table import ParquetTable
from tests.support.tables import EVENT, FIRST_MS, OWN, TOPIC, load

if TYPE_CHECKING:
    from pathlib import Path

OLD = pa.unify_schemas([EVENT, pa.schema([("status", pa.int32())]), OWN])
NEW = pa.unify_schemas([EVENT, pa.schema([("status", pa.int64()), ("referrer", pa.string())]), OWN])
ROWS = [(0, 200, None), (100, 404, None), (200, 2**40, "/a"), (300, 5, "/b")]
COLUMNS = ["kafka2011_offset", "status", "referrer"]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write two loads, the second one with a wider and a new column."""
    root = tmp_path_factory.mktemp("warehouse")
    table = ParquetTable(root, TOPIC)
    load(table, [FIRST_MS, FIRST_MS + 1], schema=1, arrow=OLD, status=[200, 404])
    load(table, [FIRST_MS + 86_400_000, FIRST_MS], schema=2, arrow=NEW, status=[2**40, 5], referrer=["/a", "/b"])
    return root


@pytest.fixture(scope="module")
def schema(warehouse: Path) -> pa.Schema:
    """Give the newest schema."""
    return open_table(warehouse, TOPIC).schema


def select(columns: str, source: str) -> list[tuple[Any, ...]]:
    """Ask DuckDB."""
    with duckdb.connect() as connection:
        return connection.execute(f"select {columns} from {source}").fetchall()


def rows(columns: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return rows in the order of their offsets."""
    return sorted(zip(*(columns[name] for name in COLUMNS), strict=True))


def test_open_table_gives_all(warehouse: Path) -> None:
    """To PyArrow, and through it to pandas, Polars and DuckDB."""
    table = open_table(warehouse, TOPIC)
    assert rows(table.to_table().to_pydict()) == ROWS
    assert rows(table.to_table(columns=COLUMNS).to_pandas().to_dict("list")) == ROWS
    assert rows(pl.scan_pyarrow_dataset(table).select(COLUMNS).collect().to_dict(as_series=False)) == ROWS
    with duckdb.connect() as connection:
        connection.register("views", table)
        assert sorted(connection.execute(f"select {', '.join(COLUMNS)} from views").fetchall()) == ROWS


def test_pyarrow_needs_the_schema(warehouse: Path, schema: pa.Schema) -> None:
    """Without it the first file's counts: newer columns are left out in silence, and too large values fail."""
    path = warehouse / TOPIC
    plain = ds.dataset(path, partitioning="hive")
    assert "referrer" not in plain.schema.names
    with pytest.raises(pa.ArrowInvalid, match="not in range"):
        plain.to_table()
    assert rows(ds.dataset(path, schema=schema, partitioning="hive").to_table().to_pydict()) == ROWS


def test_pandas_needs_the_schema(warehouse: Path, schema: pa.Schema) -> None:
    """It is PyArrow underneath."""
    path = warehouse / TOPIC
    assert "referrer" not in pd.read_parquet(path, columns=["id"], filters=[("load_id", "=", 1)]).columns
    with pytest.raises(pa.ArrowInvalid, match="not in range"):
        pd.read_parquet(path)
    assert rows(pd.read_parquet(path, schema=schema).to_dict("list")) == ROWS


def test_duckdb_needs_union_by_name(warehouse: Path) -> None:
    """Then it has every column and the widest types."""
    files = f"{warehouse / TOPIC}/**/*.parquet"
    plain, union = f"read_parquet('{files}')", f"read_parquet('{files}', union_by_name=true)"
    assert "referrer" not in {name for name, *_ in select("*", f"(describe from {plain})")}
    with pytest.raises(duckdb.ConversionException):
        select("status", plain)
    assert sorted(select(", ".join(COLUMNS), union)) == ROWS


def test_polars_says_what_does_not_fit_until_it_has_the_schema(warehouse: Path, schema: pa.Schema) -> None:
    """And may insert columns and widen integers."""
    files = f"{warehouse / TOPIC}/**/*.parquet"
    with pytest.raises(pl.exceptions.SchemaError):
        pl.scan_parquet(files).collect()
    found = pl.scan_parquet(
        files,
        schema=pl.DataFrame(schema.empty_table()).schema,
        missing_columns="insert",
        cast_options=pl.ScanCastOptions(integer_cast="upcast"),
    )
    assert rows(found.select(COLUMNS).collect().to_dict(as_series=False)) == ROWS
