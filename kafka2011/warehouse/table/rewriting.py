"""Columns of a table that become wider: all files that have them are rewritten, and swapped in one entry of the log.

Delta's own widening of types cannot be read by deltalake, DuckDB and Polars. So the entry overwrites the table with
files of the wider columns: readers see all of the one or all of the other. Rows, their order and the offsets stay.
Files without these columns get one more name, or are copied where that is not possible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, Schema
from deltalake.exceptions import CommitFailedError

from kafka2011.events.columns.held_columns import HeldColumns
from kafka2011.events.columns.kinds import LARGEST_EXACT, takes
from kafka2011.warehouse.errors import GivenUpError, OvertakenError, WarehouseError
from kafka2011.warehouse.rows.columns import held_in, kind_of
from kafka2011.warehouse.rows.widening import is_json, widened, widened_schema
from kafka2011.warehouse.table.data_files import DATE, data_file
from kafka2011.warehouse.table.dataset import check_whole, live_files
from kafka2011.warehouse.table.files import bring
from kafka2011.warehouse.table.history import COMPACTION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from deltalake import DeltaTable
    from deltalake.transaction import AddAction

    from kafka2011.events.columns.held_columns import Widening
    from kafka2011.warehouse.table.commits import Commit
    from kafka2011.warehouse.table.dataset import LiveFile
    from kafka2011.warehouse.table.topic_table import TopicTable

_TRIES = 100
"""Compactions may come first so often: only what they have written is rewritten again."""


class _Rewritten(NamedTuple):
    """A file with wider columns, which is in no table yet."""

    path: str
    made_ms: int
    brought_bytes: int | None
    """The size of the file that it is a copy of, if it is one."""
    metadata: pq.FileMetaData
    columns: pa.Schema


def held_columns(table: TopicTable, newest: Commit | None) -> HeldColumns | None:
    """Return the columns of a table with this newest commit, None before the first. Raises WarehouseError."""
    delta = None if newest is None else table.kept()
    return None if newest is None or delta is None else _held(delta, newest.schema)


def columns_beside(table: TopicTable) -> tuple[TopicTable, HeldColumns] | None:
    """Return the table of the topic's own name and its columns, if this is one beside it. Raises WarehouseError."""
    own = None if table.name == table.topic else table.own()
    delta = None if own is None else own.opened()
    return None if own is None or delta is None else (own, _held(delta, 0))


def _held(delta: DeltaTable, schema_number: int) -> HeldColumns:
    columns = pa.schema([field for field in pa.schema(delta.schema()) if field.name != DATE])
    return HeldColumns(held_in(columns), schema_number, frozenset(field.name for field in columns if is_json(field)))


def inexact(table: TopicTable, wider: Mapping[str, Widening]) -> frozenset[str]:
    """Return those of some columns that have a value which would be another one. Raises WarehouseError."""
    if not wider:
        return frozenset()
    delta = table.delta()
    actions = pa.table(delta.get_add_actions(flatten=True))
    bounds = {row["path"]: row for row in actions.to_pylist()}
    return frozenset(name for name, to in wider.items() if not _is_exact(table, delta, bounds, name, to))


def _is_exact(
    table: TopicTable, delta: DeltaTable, bounds: Mapping[str, Mapping[str, Any]], name: str, to: Widening
) -> bool:
    """Say whether all values of a column stay as they are; files are read only where the log does not tell."""
    if to.is_json or not _has_longs(pa.schema(delta.schema()).field(name).type):
        return True
    for path, known in bounds.items():
        least, largest = known.get(f"min.{name}"), known.get(f"max.{name}")
        if least is not None and largest is not None and least >= -LARGEST_EXACT and largest <= LARGEST_EXACT:
            continue
        with table.translated_errors(), _opened(table, path) as parquet:
            if name not in parquet.schema_arrow.names:
                continue
            for group in range(parquet.num_row_groups):
                try:
                    widened(parquet.read_row_group(group, [name]).column(name), to)
                except pa.ArrowInvalid:
                    return False
    return True


def _has_longs(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(_has_longs(field.type) for field in kind)
    if pa.types.is_list(kind):
        return _has_longs(kind.value_type)
    return _has_longs(kind.item_type) if pa.types.is_map(kind) else bool(pa.types.is_int64(kind))


def widen(table: TopicTable, wider: Mapping[str, Widening]) -> bool:
    """Rewrite columns of a table, as far as they are not as wide already; say whether that was to be done.

    Nothing has changed when it raises OvertakenError (others keep changing the table), GivenUpError or WarehouseError.
    """
    if not wider or not _left(table, table.delta(), wider):
        return False
    staging = table.begin()
    try:
        _widen(table, wider, staging)
    except (OvertakenError, GivenUpError):  # after any other error it may be there all the same
        table.abandon(staging)
        raise
    return True


def _widen(table: TopicTable, wider: Mapping[str, Widening], staging: str) -> None:
    rewritten: dict[str, _Rewritten] = {}
    for _ in range(_TRIES):
        delta = table.delta()
        left = _left(table, delta, wider)
        if not left:
            return
        live = live_files(delta)
        for file in live:
            if file.path not in rewritten:
                target = f"{staging}/{DATE}={file.date}/{len(rewritten):06d}-{file.path.rpartition('/')[2]}"
                rewritten[file.path] = _rewritten(table, file, left, target)
        actions = _actions(table, [rewritten[file.path] for file in live], staging)
        columns = Schema.from_arrow(widened_schema(pa.schema(delta.schema()), left))
        try:
            with table.translated_errors():
                note = CommitProperties({COMPACTION: str(len(live))}, max_commit_retries=0)
                table.write_entry(delta, actions, note, columns)
        except CommitFailedError:
            continue
        table.sync_log(delta.version(), delta.version() + 1)
        return
    raise OvertakenError(f"{table.where}: others keep changing the table, its columns were not rewritten")


def _left(table: TopicTable, delta: DeltaTable, wider: Mapping[str, Widening]) -> dict[str, Widening]:
    """Return what is still to be rewritten in the table as it was opened."""
    check_whole(delta, table.path)
    held = {field.name: field for field in pa.schema(delta.schema())}
    return {
        name: to
        for name, to in wider.items()
        if name in held
        and not (is_json(held[name]) if to.is_json else takes(kind_of(held[name].type), to.type, grown=True))
    }


def _actions(table: TopicTable, rewritten: Sequence[_Rewritten], staging: str) -> list[AddAction]:
    """Return what adds the files, once they are on disk."""
    with table.translated_errors():
        sizes = {status.path: status.size_bytes for status in table.files.secure(staging)} if rewritten else {}
    for file in rewritten:
        if file.brought_bytes is not None and sizes[file.path] != file.brought_bytes:
            raise WarehouseError(f"{file.path} is a copy of {file.brought_bytes} bytes, and has {sizes[file.path]}")
    prefix = f"{table.path}/"
    return [
        data_file(file.path.removeprefix(prefix), sizes[file.path], file.made_ms, file.metadata, file.columns).action
        for file in rewritten
    ]


def _rewritten(table: TopicTable, file: LiveFile, wider: Mapping[str, Widening], target: str) -> _Rewritten:
    """Write a file with wider columns. Raises WarehouseError."""
    with table.translated_errors():
        table.files.make_directory(target.rpartition("/")[0])
        with _opened(table, file.path) as parquet:
            before = parquet.schema_arrow
            if not wider.keys() & set(before.names):
                bring(table.files, f"{table.path}/{file.path}", table.files, target)
                metadata, after, brought_bytes = parquet.metadata, before, file.size_bytes
            else:
                brought_bytes = None
                after = widened_schema(before, wider).remove_metadata()
                metadata = _write(table, parquet, after, wider, target)
    return _Rewritten(target, file.made_ms, brought_bytes, metadata, after)


def _write(
    table: TopicTable, parquet: pq.ParquetFile, after: pa.Schema, wider: Mapping[str, Widening], target: str
) -> pq.FileMetaData:
    metadata: list[pq.FileMetaData] = []
    files = table.files
    try:
        with pq.ParquetWriter(
            files.inside(target), after, filesystem=files.file_system, compression="zstd", metadata_collector=metadata
        ) as writer:
            for group in range(parquet.num_row_groups):
                rows = parquet.read_row_group(group)
                columns = [
                    widened(column, wider[name]) if name in wider else column
                    for name, column in zip(rows.column_names, rows.columns, strict=True)
                ]
                writer.write_table(pa.table(columns, schema=after))
    except pa.ArrowException as error:
        raise WarehouseError(f"{table.where}: {target} cannot be rewritten: {error}") from error
    return metadata[0]


def _opened(table: TopicTable, path: str) -> pq.ParquetFile:
    return pq.ParquetFile(table.files.inside(f"{table.path}/{path}"), filesystem=table.files.file_system)
