"""A table as a PyArrow dataset, over the files that one version of it names."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds

from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.table.data_files import DATE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from deltalake import DeltaTable

    from kafka2011.warehouse.table.files import Files


_DAY = timedelta(1)
_TIME = pa.timestamp("us", tz="UTC")
_COLUMNS = ("path", "size_bytes", "num_records", f"partition.{DATE}", "modification_time")


class LiveFile(NamedTuple):
    """A file of a version: its path in the table, its size, its rows, the date of all of them, and when it was made."""

    path: str
    size_bytes: int
    rows: int
    date: date
    made_ms: int


def live_files(table: DeltaTable) -> list[LiveFile]:
    """Return the files of the version that was opened, sorted by date and path."""
    actions = pa.table(table.get_add_actions(flatten=True))
    columns = (actions[name].to_pylist() for name in _COLUMNS)
    return sorted((LiveFile(*row) for row in zip(*columns, strict=True)), key=lambda file: (file.date, file.path))


def check_whole(table: DeltaTable, path: str) -> None:
    """Raise WarehouseError where rows were deleted inside files: whoever reads the files would see them again."""
    features = table.protocol().reader_features or []
    if "deletionVectors" in features:
        raise WarehouseError(
            f"{path} has deletion vectors: read it with Spark or deltalake's `scan`, compact it with Spark"
        )


def dataset_of(table: DeltaTable, path: str, files: Files) -> ds.Dataset:
    """Return the rows of the version that was opened of the table at a path; see `open_table`."""
    check_whole(table, path)
    return dataset_over(live_files(table), path, files, pa.schema(table.schema()))


def dataset_over(live: Iterable[LiveFile], path: str, files: Files, schema: pa.Schema) -> ds.Dataset:
    """Return the rows of files of the table at a path, with the columns of a schema."""
    file_format, file_system, root = ds.ParquetFileFormat(), files.file_system, files.inside(path)
    fragments = [
        file_format.make_fragment(f"{root}/{file.path}", file_system, partition_expression=_known_of(file.date))
        for file in live
    ]
    return ds.FileSystemDataset(fragments, schema, file_format, file_system)


@lru_cache(4096)
def _known_of(day: date) -> ds.Expression:
    """Return what is true of all rows of a date, so that a filter on `date` or `time` opens no file of another one.

    What is true of all rows of the month stands first: a filter passes over all files of a month at once.
    """
    return _known_of_month(day.replace(day=1)) & (ds.field(DATE) == day) & _between(day, day + _DAY)


@lru_cache(1024)
def _known_of_month(first: date) -> ds.Expression:
    end = (first + 31 * _DAY).replace(day=1)
    return (ds.field(DATE) >= first) & (ds.field(DATE) < end) & _between(first, end)


def _between(first: date, end: date) -> ds.Expression:
    """Return that `time` is in some days, the last of which is not in them."""
    start_us, end_us = (
        int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1_000_000 for day in (first, end)
    )
    start, last = (pa.scalar(time_us, pa.int64()).cast(_TIME) for time_us in (start_us, end_us - 1))
    return (ds.field("time") >= start) & (ds.field("time") <= last)
