"""Tables of Delta, written by hand as a load writes them, and read without the code under test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars
import pyarrow as pa

from tests.support.tables import PARTITION, ROW_BYTES, SCHEMA, commit_of, rows_of, write_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka2011.warehouse.table.commits import Commit
    from kafka2011.warehouse.table.delta.delta_table import TopicTable

_FINGERPRINT = pa.field("kafka2011_schema", pa.string(), nullable=False)


def staged(
    table: TopicTable,
    number: int,
    times_ms: Sequence[int],
    first: int = 0,
    schema: pa.Schema = SCHEMA,
    **columns: Any,
) -> str:
    """Write the rows of a commit where `begin` says, one file for each date: those of messages `first` and so on."""
    plain = schema.set(schema.get_field_index(_FINGERPRINT.name), _FINGERPRINT)
    columns = {_FINGERPRINT.name: ["00" * 8] * len(times_ms)} | columns
    staging = table.begin()
    write_rows(staging, rows_of(number, first, times_ms, plain, **columns))
    return staging


def load(table: TopicTable, times_ms: Sequence[int], schema: pa.Schema = SCHEMA, **columns: Any) -> Commit:
    """Commit a load of rows that go on where the newest commit ends."""
    newest = table.newest()
    number, start = (newest.number + 1, newest.offsets[PARTITION]) if newest else (1, 0)
    staging = staged(table, number, times_ms, start // ROW_BYTES, schema, **columns)
    commit = commit_of(number, start + ROW_BYTES * len(times_ms), start=start, rows=len(times_ms))
    table.commit(staging, commit)
    return commit


def rows_in(table: TopicTable) -> pa.Table:
    """Return the rows that Polars reads, in order of their offsets."""
    return polars.scan_delta(table.path).sort("kafka2011_offset").collect().to_arrow()


def offsets_in(table: TopicTable) -> list[int]:
    """Return the offsets of the rows, in order."""
    found: list[int] = rows_in(table)["kafka2011_offset"].to_pylist()
    return found
