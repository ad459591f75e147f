"""Writes the rows of several files of one date into few files, sorted by `time`, with few of them in memory."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Self

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

    from pyarrow.fs import FileSystem

MAX_ROWS_IN_MEMORY = 4_000_000
_ROW_GROUP_ROWS = 256 * 1024
IN_ORDER = [
    (name, "ascending")
    for name in (
        "time",
        "kafka2011_broker_id",
        "kafka2011_partition",
        "kafka2011_offset",
        "kafka2011_index_in_set",
    )
]


def merge(
    rows: ds.Dataset,
    size_bytes: int,
    day: date,
    directory: str,
    prefix: str,
    file_system: FileSystem,
    *,
    target_bytes: int,
    max_rows: int = MAX_ROWS_IN_MEMORY,
) -> int:
    """Write the rows of a date, `size_bytes` in all, into files of about `target_bytes`; return how many there are.

    About `max_rows` are in memory at a time.
    """
    row_count = rows.count_rows()
    rows_per_file = max(1, int(target_bytes / max(size_bytes / max(row_count, 1), 1)))
    with _RowWriter(directory, prefix, file_system, rows.schema, rows_per_file) as writer:
        for part in _slices(day, -(-row_count // max_rows)):
            writer.write(rows.to_table(filter=part).sort_by(IN_ORDER))
    return writer.rows


class _RowWriter:
    """Writes files of so many rows each, one after the other."""

    def __init__(
        self, directory: str, prefix: str, file_system: FileSystem, schema: pa.Schema, rows_per_file: int
    ) -> None:
        self._directory = directory
        self._prefix = prefix
        self._file_system = file_system
        self._schema = schema
        self._rows_per_file = rows_per_file
        self._file: pq.ParquetWriter | None = None
        self._files = 0
        self._rows_in_file = 0
        self.rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._close()

    def write(self, table: pa.Table) -> None:
        """Write rows that come after all before."""
        written = 0
        while written < table.num_rows:
            if self._file is None:
                path = f"{self._directory}/{self._prefix}-{self._files:05d}.parquet"
                self._file = pq.ParquetWriter(path, self._schema, filesystem=self._file_system, compression="zstd")
            count = min(self._rows_per_file - self._rows_in_file, table.num_rows - written)
            self._file.write_table(table.slice(written, count), row_group_size=_ROW_GROUP_ROWS)
            written += count
            self.rows += count
            self._rows_in_file += count
            if self._rows_in_file == self._rows_per_file:
                self._close()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
            self._files += 1
            self._rows_in_file = 0


def _slices(day: date, count: int) -> Iterator[ds.Expression | None]:
    """Cut a date into so many parts of one length; the first and the last have no end outwards."""
    if count <= 1:
        yield None
        return
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    cuts = [pa.scalar(start + timedelta(days=1) * n / count, pa.timestamp("us", tz="UTC")) for n in range(1, count)]
    time = ds.field("time")
    yield time < cuts[0]
    for earlier, later in pairwise(cuts):
        yield (time >= earlier) & (time < later)
    yield time >= cuts[-1]
