"""Small files of a table become few: which ones, rewritten how, and swapped in one entry of the log.

The library's own `optimize.compact` is not used. It tries again behind whatever came first, and takes another
compaction for nothing that it read: of two at once (deltalake 1.6.6) both put the rows in.
"""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from deltalake import CommitProperties
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import RemoveAction

from kafka2011.warehouse.errors import GivenUpError, OvertakenError, WarehouseError
from kafka2011.warehouse.table.data_files import DATE
from kafka2011.warehouse.table.dataset import check_whole, dataset_over, live_files
from kafka2011.warehouse.table.history import COMPACTION
from kafka2011.warehouse.table.merge import merge

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from deltalake.transaction import AddAction

    from kafka2011.warehouse.table.dataset import LiveFile
    from kafka2011.warehouse.table.topic_table import TopicTable

TARGET_BYTES = 128 * 2**20
"""Files that are nearly as large stay as they are."""

MANY = 16
"""So many files of one size are rewritten together while rows still come."""
QUIET_MS = 3_600_000
"""A date to which nothing has come for so long is over, as far as anybody can tell."""

_SMALL = 0.75
_TIER = 8.0
"""Files of one tier differ by less than this factor."""
_TRIES = 100
"""Loads that commit all the time may come first so often: a try is only an entry of the log."""


class Rewritten(NamedTuple):
    """How many files a compaction has replaced, and by how many."""

    files_before: int = 0
    files_after: int = 0


def compact(table: TopicTable, target_bytes: int = TARGET_BYTES) -> Rewritten:
    """Rewrite the small files of each date into few, sorted by time; about `target_bytes` of them in one entry.

    Rows and offsets are the same afterwards, and loads may commit meanwhile. Raises OvertakenError when another
    compaction has rewritten the same files, and GivenUpError when a cleaning took its files for those of a dead one.
    """
    if table.newest() is None:
        return Rewritten()
    total = Rewritten()
    delta = table.delta()
    check_whole(delta, table.path)
    for files in _chosen(live_files(delta), target_bytes):
        after = rewrite(table, files, target_bytes)
        total = Rewritten(total.files_before + len(files), total.files_after + after)
    return total


def compact_some(table: TopicTable, target_bytes: int = TARGET_BYTES) -> Rewritten:
    """Rewrite the files of one date that are most in need of it; nothing where none are.

    Of a date to which rows still come, as many files as make a difference, of about one size: so each row is rewritten
    a few times until its file is large enough. Of a date that has been quiet, all that are small. Raises as `compact`.
    """
    delta = table.delta()
    check_whole(delta, table.path)
    due = _due(live_files(delta), target_bytes, int(table.clock.wall_s() * 1000))
    return Rewritten(len(due), rewrite(table, due, target_bytes)) if due else Rewritten()


def _due(files: Sequence[LiveFile], target_bytes: int, now_ms: int) -> list[LiveFile]:
    best: list[LiveFile] = []
    for _, of_date in groupby(files, key=lambda file: file.date):
        every = list(of_date)
        if now_ms - max(live_file.made_ms for live_file in every) > QUIET_MS:
            groups = list(_chosen(every, target_bytes))
        else:
            tiers: dict[int, list[LiveFile]] = defaultdict(list)
            for live_file in every:
                if live_file.size_bytes < _SMALL * target_bytes:
                    tiers[int(math.log(live_file.size_bytes + 1, _TIER))].append(live_file)
            groups = [group for tier in tiers.values() if len(tier) >= MANY for group in _chosen(tier, target_bytes)]
        best = max([best, *groups], key=len)
    return best


def _chosen(files: Sequence[LiveFile], target_bytes: int) -> Iterator[list[LiveFile]]:
    """Yield the small files of each date, as many together as fill one file; none alone."""
    small = [file for file in files if file.size_bytes < _SMALL * target_bytes]
    chosen: list[LiveFile] = []
    for candidate in small:
        is_full = sum(file.size_bytes for file in chosen) + candidate.size_bytes > target_bytes
        if chosen and (is_full or candidate.date != chosen[0].date):
            if len(chosen) > 1:
                yield chosen
            chosen = []
        chosen.append(candidate)
    if len(chosen) > 1:
        yield chosen


def rewrite(table: TopicTable, files: Sequence[LiveFile], target_bytes: int) -> int:
    """Write the rows of some files into new ones, swap them in, and return how many there are."""
    staging = table.begin()
    try:
        actions = _merged(table, files, staging, target_bytes)
    except BaseException:
        table.abandon(staging)
        raise
    try:
        _swap(table, files, actions)
    except (OvertakenError, GivenUpError):  # after any other error they may have been swapped in all the same
        table.abandon(staging)
        raise
    return len(actions)


def _merged(table: TopicTable, files: Sequence[LiveFile], staging: str, target_bytes: int) -> list[AddAction]:
    columns = pa.schema([field for field in pa.schema(table.delta().schema()) if field.name != DATE])
    day = files[0].date
    directory = f"{staging}/{DATE}={day}"
    size_bytes = sum(file.size_bytes for file in files)
    with table.translated_errors():
        try:
            table.files.make_directory(directory)
            rows = merge(
                dataset_over(files, table.path, table.files, columns),
                size_bytes,
                day,
                table.files.inside(directory),
                staging.rpartition("/")[2],
                table.files.file_system,
                target_bytes=target_bytes,
            )
        except pa.ArrowException as error:
            raise WarehouseError(f"{table.where} cannot be rewritten: {error}") from error
        merged = table.staged(staging)
    expected = sum(file.rows for file in files)
    if not rows == expected == sum(file.rows for file in merged):
        raise WarehouseError(f"{table.where}: {rows} rows were read for {staging}, and {expected} are known")
    return [file.action for file in merged]


def _swap(table: TopicTable, files: Sequence[LiveFile], actions: Sequence[AddAction]) -> None:
    """Put the new files in place of the old ones, behind whatever has come first, if that left them there."""
    now_ms = int(table.clock.wall_s() * 1000)
    for action in actions:
        action.data_change = False
    gone = [RemoveAction(file.path, False, now_ms, file.size_bytes, {DATE: file.date.isoformat()}) for file in files]
    for _ in range(_TRIES):
        delta = table.delta()
        live = {file.path for file in live_files(delta)}
        if live.issuperset(action.path for action in actions):
            return  # a store that asks again after a lost answer meets its own work
        if not live.issuperset(file.path for file in files):
            raise OvertakenError(f"{table.where}: another one has rewritten or removed the same files")
        try:
            with table.translated_errors():
                note = CommitProperties({COMPACTION: str(len(gone))}, max_commit_retries=0)
                table.write_entry(delta, [*actions, *gone], note)
        except CommitFailedError:
            continue
        table.sync_log(delta.version(), delta.version() + 1)
        return
    raise OvertakenError(f"{table.where}: {_TRIES} loads came before its compaction")
