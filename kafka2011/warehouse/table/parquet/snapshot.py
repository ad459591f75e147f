"""Which rows of a Parquet table are live: those of commits that no newer compaction has rewritten."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.table.commits import Operation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafka2011.warehouse.table.commits import Commit
    from kafka2011.warehouse.table.files import FileStatus
    from kafka2011.warehouse.table.parquet.parquet_table import ParquetTable

_TRIES = 10


class SnapshotFiles(NamedTuple):
    """One live commit and its Parquet files, sorted by path."""

    commit: Commit
    files: list[FileStatus]


def snapshot_commits(commits: Iterable[Commit]) -> list[Commit]:
    """Return those whose rows count, in order. A redrive `replaces` no rows: the loads it names had none."""
    commits = list(commits)
    rewritten = {number for each in commits if each.operation is Operation.COMPACT for number in each.replaces}
    return [each for each in commits if each.number not in rewritten]


def snapshot_files(table: ParquetTable) -> list[SnapshotFiles]:
    """Return the live commits of this moment with their files, in order.

    Raises WarehouseError when files are missing or were changed, and as `ParquetTable.commits` does.
    """
    for _ in range(_TRIES):
        commits = table.commits()
        if not commits:
            return []
        live = [SnapshotFiles(each, rows_in(table, each)) for each in snapshot_commits(commits)]
        # Nothing is removed before a commit says so: as long as none has come that does, all of it was there.
        if _still_newest(live, commits[-1], table.commits(after=commits[-1].number - 1)):
            for each in live:
                _check_whole(table, each)
            return live
    raise WarehouseError(f"topic {table.topic}: {table.path} was rewritten {_TRIES} times while it was listed")


def rows_in(table: ParquetTable, commit: Commit) -> list[FileStatus]:
    """Return the Parquet files in the directory of a commit."""
    return [each for each in table.files.walk(table.directory(commit.number)) if each.path.endswith(".parquet")]


def newest_schema_first(live: Iterable[SnapshotFiles]) -> list[SnapshotFiles]:
    """Return those that have rows, by the schema that they were written with, newest first."""
    return sorted((each for each in live if each.files), key=_schema_age, reverse=True)


def _schema_age(live: SnapshotFiles) -> tuple[int, int]:
    return live.commit.schema, live.commit.number


def _still_newest(live: Sequence[SnapshotFiles], newest: Commit, since: Sequence[Commit]) -> bool:
    """Say whether it is the same table still, and has no later commit that rewrote one of these."""
    rewritten = {number for each in since[1:] if each.operation is Operation.COMPACT for number in each.replaces}
    return since[:1] == [newest] and rewritten.isdisjoint(each.commit.number for each in live)


def _check_whole(table: ParquetTable, live: SnapshotFiles) -> None:
    found = sum(each.size_bytes for each in live.files)
    if found != live.commit.size_bytes:
        raise WarehouseError(
            f"topic {table.topic}: the files in {table.directory(live.commit.number)} have {found} bytes, and its"
            f" commit wrote {live.commit.size_bytes}: some are missing or were changed"
        )
