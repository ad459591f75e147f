"""Writes the rows of several commits into few files, sorted by `time`: one date or hour at a time, few in memory."""

from __future__ import annotations

import sys
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from kafka2011.warehouse.table.parquet.dataset import dataset_of, directory_of
from kafka2011.warehouse.table.parquet.snapshot import SnapshotFiles, newest_schema_first

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafka2011.warehouse.table.files import FileStatus
    from kafka2011.warehouse.table.parquet.dataset import TableDirectory

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
    replaced: Sequence[SnapshotFiles],
    staging: str,
    prefix: str,
    *,
    target_bytes: int,
    max_rows: int = MAX_ROWS_IN_MEMORY,
    schema: pa.Schema | None = None,
) -> int:
    """Write the rows of commits into files of about `target_bytes` below a directory, and return how many there are.

    About `max_rows` are in memory at a time. No column is lost, not even one that the newest schema no longer has;
    `schema` has them all, if it is given.
    """
    if schema is None:
        schema = every_column(replaced)
    rows = 0
    for place, files in sorted(by_place(replaced).items(), key=lambda each: each[1][0].path):
        directory = Path(staging, place.directory)
        directory.mkdir(parents=True)
        dataset = dataset_of([SnapshotFiles(replaced[0].commit, files)], schema)
        row_count = dataset.count_rows()
        bytes_per_row = sum(each.size_bytes for each in files) / max(row_count, 1)
        rows_per_file = max(1, int(target_bytes / max(bytes_per_row, 1)))
        writer = RowWriter(directory, prefix, schema, rows_per_file)
        with writer:
            for part in slices(place, -(-row_count // max_rows)):
                table = dataset.to_table(columns=schema.names, filter=part)
                writer.write(table.sort_by(IN_ORDER))
        rows += writer.rows
    return rows


class RowWriter:
    """Writes files of so many rows each, one after the other."""

    def __init__(self, directory: Path, prefix: str, schema: pa.Schema, rows_per_file: int = sys.maxsize) -> None:
        self._directory = directory
        self._prefix = prefix
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
                path = self._directory / f"{self._prefix}-{self._files:05d}.parquet"
                self._file = pq.ParquetWriter(path, self._schema, compression="zstd")
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


def by_place(replaced: Sequence[SnapshotFiles]) -> dict[TableDirectory, list[FileStatus]]:
    """Return the files of commits by the date or hour that they hold."""
    found: dict[TableDirectory, list[FileStatus]] = defaultdict(list)
    for commit in replaced:
        for each in commit.files:
            found[directory_of(each.path)].append(each)
    return found


def every_column(replaced: Sequence[SnapshotFiles]) -> pa.Schema:
    """Return the newest schema with, after it, the columns that only older ones have."""
    fields: dict[str, pa.Field] = {}
    for each in newest_schema_first(replaced):
        for field in pq.read_schema(each.files[0].path):
            fields.setdefault(field.name, field.with_nullable(True).remove_metadata())
    return pa.schema(list(fields.values()))


def slices(place: TableDirectory, count: int) -> Iterator[ds.Expression | None]:
    """Cut a date or an hour into so many parts of one length; the first and the last have no end outwards."""
    if count <= 1:
        yield None
        return
    start = datetime(place.date.year, place.date.month, place.date.day, place.hour or 0, tzinfo=UTC)
    length = timedelta(days=1) if place.hour is None else timedelta(hours=1)
    cuts = [pa.scalar(start + length * n / count, pa.timestamp("us", tz="UTC")) for n in range(1, count)]
    time = ds.field("time")
    yield time < cuts[0]
    for earlier, later in pairwise(cuts):
        yield (time >= earlier) & (time < later)
    yield time >= cuts[-1]
