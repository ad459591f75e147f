"""Small files of one hour become few: which ones, rewritten how, and swapped in one snapshot.

A minute's load has a file for each hour that it saw, so a table that is loaded every minute has 60 an hour. Rows are
the same afterwards, those that somebody has deleted since left out.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import pyarrow.parquet as pq
from pyiceberg.exceptions import ValidationException
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, parquet_file_to_data_file

from kafka2011.warehouse.errors import OvertakenError, WarehouseError
from kafka2011.warehouse.table.iceberg.footers import TIME

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask, Table, Transaction

TARGET_BYTES = 128 * 2**20
"""Files that are nearly as large stay as they are."""

_SMALL = 0.75
_MAX_ROWS = 4_000_000  # one file's rows are sorted in memory
_HOUR_MS = 3600 * 1000
_ORDER = (TIME, "kafka2011_broker_id", "kafka2011_partition", "kafka2011_offset", "kafka2011_index_in_set")


class Group(NamedTuple):
    """Files of one hour, since the epoch, that become one."""

    hour: int
    tasks: tuple[FileScanTask, ...]


class Rewritten(NamedTuple):
    """The files of a group, and the one in their place; None when all of their rows were deleted."""

    before: tuple[DataFile, ...]
    after: DataFile | None

    @property
    def rows(self) -> int:
        """How many rows it has now."""
        return self.after.record_count if self.after else 0

    @property
    def size_bytes(self) -> int:
        """How large it is now."""
        return self.after.file_size_in_bytes if self.after else 0


def plan(table: Table, before_ms: int, target_bytes: int = TARGET_BYTES) -> list[Group]:
    """Choose the files to rewrite: small ones of hours that ended by then, several at a time."""
    hours: dict[int, list[FileScanTask]] = {}
    for task in table.scan().plan_files():
        if task.file.spec_id != table.spec().spec_id or task.file.file_size_in_bytes >= _SMALL * target_bytes:
            continue
        hour = task.file.partition[0]
        if isinstance(hour, int) and (hour + 1) * _HOUR_MS <= before_ms:
            hours.setdefault(hour, []).append(task)
    return [
        Group(hour, tasks)
        for hour in sorted(hours)
        for tasks in _packed(sorted(hours[hour], key=lambda task: str(task.file.file_path)), target_bytes)
        if len(tasks) > 1
    ]


def rewrite(table: Table, groups: Sequence[Group], location: str) -> list[Rewritten]:
    """Write the rows of each group into one sorted file below `location`. Raises WarehouseError if some are missing."""
    return [_rewrite(table, group, f"{location}/{_path(group.hour)}/{i:05d}.parquet") for i, group in enumerate(groups)]


def counts(rewritten: Sequence[Rewritten]) -> dict[str, int]:
    """Return how many files there were, and how many there are now."""
    return {
        "files_before": sum(len(each.before) for each in rewritten),
        "files_after": sum(each.after is not None for each in rewritten),
    }


def swap(transaction: Transaction, rewritten: Sequence[Rewritten], note: dict[str, str]) -> None:
    """Put the new files in place of the old ones. Raises OvertakenError when another one has removed some."""
    try:
        with transaction.update_snapshot(snapshot_properties=note).overwrite() as update:
            for each in rewritten:
                for file in each.before:
                    update.delete_data_file(file)
                if each.after is not None:
                    update.append_data_file(each.after)
    except ValidationException as error:
        raise OvertakenError(f"another one has rewritten the same files: {error}") from error


def _packed(tasks: Sequence[FileScanTask], target_bytes: int) -> Iterator[tuple[FileScanTask, ...]]:
    packed: list[FileScanTask] = []
    size_bytes = rows = 0
    for task in tasks:
        file = task.file
        if packed and (size_bytes + file.file_size_in_bytes > target_bytes or rows + file.record_count > _MAX_ROWS):
            yield tuple(packed)
            packed, size_bytes, rows = [], 0, 0
        packed.append(task)
        size_bytes += file.file_size_in_bytes
        rows += file.record_count
    yield tuple(packed)


def _rewrite(table: Table, group: Group, path: str) -> Rewritten:
    before = tuple(task.file for task in group.tasks)
    rows = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue()).to_table(group.tasks)
    expected = sum(file.record_count for file in before)
    if rows.num_rows != expected and not any(task.delete_files for task in group.tasks):
        raise WarehouseError(f"{path}: {rows.num_rows} rows were read for it, and {expected} are known")
    if not rows.num_rows:
        return Rewritten(before, None)
    rows = rows.sort_by([(name, "ascending") for name in _ORDER if name in rows.column_names])
    # Without Arrow's own schema in the file: it would say large_string, which is what the scan makes of all text.
    with table.io.new_output(path).create() as file:
        pq.write_table(rows, file, compression="zstd", store_schema=False, coerce_timestamps="us")
    return Rewritten(before, parquet_file_to_data_file(table.io, table.metadata, path))


def _path(hour: int) -> str:
    return datetime.fromtimestamp(hour * _HOUR_MS / 1000, UTC).strftime("date=%Y-%m-%d/hour=%H")
