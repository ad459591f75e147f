"""The Parquet files of a commit as a Delta table takes them: their columns, and an action for each, with statistics."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.transaction import AddAction

from kafka2011.warehouse.errors import WarehouseError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka2011.warehouse.table.files import Files, FileStatus

DATE = "date"
"""The column that a table is partitioned by: in the directory's name, not in the files."""

_HIDDEN = (".", "_")
_DIRECTORY = re.compile(r"(?:^|/)date=(\d{4}-\d\d-\d\d)/[^/=]*$")  # below another one, Polars refuses to read it


class DataFile(NamedTuple):
    """One file: its rows, its columns as Arrow has them, and the action that adds it."""

    rows: int
    columns: pa.Schema
    action: AddAction


def read_data_file(file: FileStatus, table: str, files: Files) -> DataFile:
    """Read a file's footer. Raises WarehouseError, naming the file, when the table at a path could not take it."""
    try:
        with pq.ParquetFile(files.inside(file.path), filesystem=files.file_system) as parquet:
            metadata, schema = parquet.metadata, parquet.schema_arrow
    except (pa.ArrowException, OSError) as error:
        raise WarehouseError(f"{file.path}: {error}") from error
    path = file.path.removeprefix(f"{table}/")
    return data_file(path, file.size_bytes, int(file.modified_s * 1000), metadata, schema)


def data_file(path: str, size_bytes: int, modified_ms: int, metadata: pq.FileMetaData, schema: pa.Schema) -> DataFile:
    """Return a file of which this is known; its path is relative to the table's. Raises WarehouseError as above."""
    match = _DIRECTORY.search(path)
    if match is None:
        raise WarehouseError(f"{path} does not lie in a directory of a date, as what a load by day has written")
    action = AddAction(
        path=path,
        size=size_bytes,
        partition_values={DATE: match[1]},
        modification_time=modified_ms,
        data_change=True,
        stats=json.dumps(_statistics(metadata)),
    )
    return DataFile(metadata.num_rows, pa.schema([_plain(field, path) for field in schema]), action)


def is_hidden(path: str) -> bool:
    """Say whether a path in a directory of rows is none of theirs, as what Spark leaves beside them."""
    return any(part.startswith(_HIDDEN) for part in path.split("/"))


def columns_of(files: Sequence[DataFile]) -> pa.Schema:
    """Return the columns that some of the files have. Raises WarehouseError when they contradict each other."""
    seen: list[pa.Schema] = []
    for file in files:
        if file.columns not in seen:
            seen.append(file.columns)
    try:
        return pa.unify_schemas(seen)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise WarehouseError(f"{files[0].action.path} and others of one commit: {error}") from error


def _plain(field: pa.Field, path: str) -> pa.Field:
    if pa.types.is_null(field.type):
        raise WarehouseError(f"{path}: column {field.name} has no type, only nulls: Delta has no such columns")
    if pa.types.is_dictionary(field.type):  # readers of single files would find columns of two types
        raise WarehouseError(
            f"{path}: column {field.name} was written with Arrow's dictionary type: write text, which Parquet encodes"
            " with a dictionary anyway"
        )
    return pa.field(field.name, field.type)  # one that may be null: rows from before it was there are


def _statistics(metadata: pq.FileMetaData) -> dict[str, Any]:
    """Return what readers skip files by: of whole numbers and times the least and largest, of all flat columns nulls.

    Texts are left out: a writer may have cut the largest one short, which does not show.
    """
    least: dict[str, Any] = {}
    largest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    unknown: set[str] = set()
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for column in (group.column(index) for index in range(group.num_columns)):
            name, statistics = column.path_in_schema, column.statistics
            if statistics is None or not statistics.has_null_count:
                unknown.add(name)
                continue
            nulls[name] = nulls.get(name, 0) + statistics.null_count
            if statistics.has_min_max and _is_ordered(statistics.min):
                least[name] = min(statistics.min, least.get(name, statistics.min))
                largest[name] = max(statistics.max, largest.get(name, statistics.max))
            elif statistics.null_count < group.num_rows:
                unknown.add(name)
    flat = {name for name in nulls if "." not in name}
    ordered = flat & least.keys() - unknown
    return {
        "numRecords": metadata.num_rows,
        "minValues": {name: _as_json(least[name]) for name in sorted(ordered)},
        "maxValues": {name: _as_json(largest[name]) for name in sorted(ordered)},
        "nullCount": {name: nulls[name] for name in sorted(flat)},
    }


def _is_ordered(value: Any) -> bool:
    if isinstance(value, datetime):
        return value.tzinfo is not None
    return isinstance(value, int | date) and not isinstance(value, bool)


def _as_json(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date) else value
