"""Small files of a Delta table become few: which ones, rewritten how, and swapped in one entry of the log.

The library's own `optimize.compact` is not used. It tries again behind whatever came first, and takes another
compaction for nothing that it read: of two at once (deltalake 1.6.6) both put the rows in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from deltalake import CommitProperties
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import RemoveAction

from kafka2011.warehouse.errors import OvertakenError, WarehouseError
from kafka2011.warehouse.table.delta.data_files import DATE
from kafka2011.warehouse.table.delta.dataset import check_whole, live_files
from kafka2011.warehouse.table.delta.delta_table import HOOKS
from kafka2011.warehouse.table.delta.history import COMPACTION
from kafka2011.warehouse.table.files import FileStatus
from kafka2011.warehouse.table.parquet.merge import merge
from kafka2011.warehouse.table.parquet.snapshot import SnapshotFiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from deltalake.transaction import AddAction

    from kafka2011.warehouse.table.commits import Commit
    from kafka2011.warehouse.table.delta.dataset import LiveFile
    from kafka2011.warehouse.table.delta.delta_table import TopicTable

TARGET_BYTES = 128 * 2**20
"""Files that are nearly as large stay as they are."""

_SMALL = 0.75
_TRIES = 100
"""Loads that commit all the time may come first so often: a try is only an entry of the log."""


class Rewritten(NamedTuple):
    """How many files a compaction has replaced, and by how many."""

    files_before: int = 0
    files_after: int = 0


def compact(table: TopicTable, target_bytes: int = TARGET_BYTES) -> Rewritten:
    """Rewrite the small files of each date into few, sorted by time; about `target_bytes` of them in one entry.

    Rows and offsets are the same afterwards, and loads may commit meanwhile. Raises OvertakenError when another
    compaction has rewritten the same files.
    """
    newest = table.newest()
    if newest is None:
        return Rewritten()
    total = Rewritten()
    delta = table.delta()
    check_whole(delta, table.path)
    for files in _chosen(live_files(delta), target_bytes):
        after = _rewrite(table, newest, files, target_bytes)
        total = Rewritten(total.files_before + len(files), total.files_after + after)
    return total


def _chosen(files: Sequence[LiveFile], target_bytes: int) -> Iterator[list[LiveFile]]:
    """Yield the small files of each date, as many together as fill one file; none alone."""
    small = [each for each in files if each.size_bytes < _SMALL * target_bytes]
    chosen: list[LiveFile] = []
    for each in small:
        is_full = sum(file.size_bytes for file in chosen) + each.size_bytes > target_bytes
        if chosen and (is_full or each.date != chosen[0].date):
            if len(chosen) > 1:
                yield chosen
            chosen = []
        chosen.append(each)
    if len(chosen) > 1:
        yield chosen


def _rewrite(table: TopicTable, newest: Commit, files: Sequence[LiveFile], target_bytes: int) -> int:
    """Write the rows of some files into new ones, swap them in, and return how many there are."""
    staging = table.begin()
    try:
        actions = _merged(table, newest, files, staging, target_bytes)
    except BaseException:
        table.abandon(staging)
        raise
    try:
        _swap(table, files, actions)
    except OvertakenError:  # after any other error they may have been swapped in all the same
        table.abandon(staging)
        raise
    return len(actions)


def _merged(
    table: TopicTable, newest: Commit, files: Sequence[LiveFile], staging: str, target_bytes: int
) -> list[AddAction]:
    schema = pa.schema([field for field in pa.schema(table.delta().schema()) if field.name != DATE])
    paths = [FileStatus(f"{table.path}/{each.path}", each.size_bytes, 0.0) for each in files]
    parts = [SnapshotFiles(newest, [each]) for each in paths]
    with table.translated_errors():
        try:
            rows = merge(parts, staging, staging.rpartition("/")[2], target_bytes=target_bytes, schema=schema)
        except pa.ArrowException as error:
            raise WarehouseError(f"{table.where} cannot be rewritten: {error}") from error
        found = table.staged(staging)
    expected = sum(each.rows for each in files)
    if not rows == expected == sum(each.rows for each in found):
        raise WarehouseError(f"{table.where}: {rows} rows were read for {staging}, and {expected} are known")
    return [each.action for each in found]


def _swap(table: TopicTable, files: Sequence[LiveFile], actions: Sequence[AddAction]) -> None:
    """Put the new files in place of the old ones, behind whatever has come first, if that left them there."""
    now_ms = int(table.clock.wall_s() * 1000)
    for each in actions:
        each.data_change = False
    gone = [RemoveAction(each.path, False, now_ms, each.size_bytes, {DATE: each.date.isoformat()}) for each in files]
    for _ in range(_TRIES):
        delta = table.delta()
        live = {each.path for each in live_files(delta)}
        if live.issuperset(each.path for each in actions):
            return  # a store that asks again after a lost answer meets its own work
        if not live.issuperset(each.path for each in files):
            raise OvertakenError(f"{table.where}: another one has rewritten or removed the same files")
        try:
            with table.translated_errors():
                delta.create_write_transaction(
                    [*actions, *gone],
                    "append",
                    delta.schema(),
                    [DATE],
                    commit_properties=CommitProperties({COMPACTION: str(len(gone))}, max_commit_retries=0),
                    post_commithook_properties=HOOKS,
                )
        except CommitFailedError:
            continue
        table.sync_log(delta.version(), delta.version() + 1)
        return
    raise OvertakenError(f"{table.where}: {_TRIES} loads came before its compaction")
