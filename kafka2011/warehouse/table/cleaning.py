"""Cleaning of a table by the library's own means: what nothing names any more goes. Loads go on meanwhile."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, NamedTuple

from deltalake import CommitProperties
from deltalake.exceptions import CommitFailedError

from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.table.data_files import DATE, is_hidden
from kafka2011.warehouse.table.forgetting import keep
from kafka2011.warehouse.table.history import LOG, note_of
from kafka2011.warehouse.table.topic_table import DATA, HOOKS

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from kafka2011.warehouse.table.commits import Commit
    from kafka2011.warehouse.table.files import FileStatus
    from kafka2011.warehouse.table.topic_table import TopicTable

logger = logging.getLogger(__name__)

ORPHAN_LIFETIME_S = 24 * 3600.0
"""Files that no entry names belong to a load that is running, unless they are as old as this."""
KEPT_ENTRIES = 500
"""So many entries stay in the log at least: versions that can be read and restored."""
MOST_ENTRIES = 700
"""Where there are more, some go. On a local disk whoever opens a table lists them all: 2 us each, many times."""

_CHECKPOINT = "checkpoint.parquet"
_DIGITS = 20


class Cleaned(NamedTuple):
    """How many files of rows were removed, how large they were, and how many entries of the log went."""

    files: int = 0
    size_bytes: int = 0
    entries: int = 0


def clean(table: TopicTable, older_than_s: float = ORPHAN_LIFETIME_S) -> Cleaned:
    """Remove files that no entry names, or that a compaction has replaced, once they are so old; in whole hours.

    A load must not take longer than that: it would fail when it commits. Entries of the log go when there are many; the
    newest commit is kept among the table's properties before, and of the others what `forgetting` keeps.
    """
    table.newest()  # of a table that was rolled back nothing goes: that may be undone yet
    delta = table.delta()
    hours = max(0, math.ceil(older_than_s / 3600))
    with table.translated_errors():
        old = _old_directories(table, older_than_s)
        try:
            unnamed = _vacuum(table, delta, hours, dry_run=True)
            sizes = {file.path: file.size_bytes for file in table.files.walk(table.path)} if unnamed else {}
            if unnamed:
                _vacuum(table, delta, hours, dry_run=False)
            for directory in old:
                if not _has_rows(table, directory):
                    table.files.delete(directory)
            for file in table.files.walk(f"{table.path}/{LOG}"):
                is_old = table.clock.wall_s() - file.modified_s > older_than_s
                if is_old and "#" in file.path:  # an entry whose writer died before it had its name
                    table.files.delete(file.path)
            entries = _remove_entries(table)
        except CommitFailedError as error:
            raise WarehouseError(f"{table.where} was changed by others just now, cleaning failed: {error}") from error
    return Cleaned(len(unnamed), sum(sizes.get(f"{table.path}/{path}", 0) for path in unnamed), entries)


def _vacuum(table: TopicTable, delta: DeltaTable, hours: int, *, dry_run: bool) -> list[str]:
    return table.asking(
        lambda: delta.vacuum(
            hours, dry_run=dry_run, enforce_retention_duration=False, full=True, post_commithook_properties=HOOKS
        )
    )


def _remove_entries(table: TopicTable) -> int:
    """Remove entries of the log that are behind an old checkpoint, where there are many; return how many."""
    files = _log_files(table)
    if sum(file.path.endswith(".json") for file in files.values()) <= MOST_ENTRIES:
        return 0
    delta = table.delta()
    table.asking(delta.create_checkpoint)
    last = delta.version() - KEPT_ENTRIES
    first = max((version for version, kind in files if kind == _CHECKPOINT and version <= last), default=0)
    gone = sorted(file.path for (version, _), file in files.items() if version < first)
    commits = table.history(delta).commits_before(first)
    if commits:
        newest = table.newest()
        if commits[-1] == newest:
            _note(table, delta, newest)
            table.asking(table.delta().create_checkpoint)
        keep(table.files, table.path, commits)
    for path in gone:  # the oldest first: what is left has no gap, whatever is killed
        table.files.delete(path)
    removed = sum(path.endswith(".json") for path in gone)
    logger.info("%s: %d entries of the log were removed", table.where, removed)
    return removed


def _note(table: TopicTable, delta: DeltaTable, newest: Commit) -> None:
    table.asking(
        lambda: delta.alter.set_table_properties(
            note_of(newest),
            raise_if_not_exists=False,
            commit_properties=CommitProperties(max_commit_retries=0),  # another one may have added columns
            post_commithook_properties=HOOKS,
        )
    )


def _log_files(table: TopicTable) -> dict[tuple[int, str], FileStatus]:
    """Return the files of the log that have a version, by that and what comes behind it."""
    files = {}
    for file in table.files.walk(f"{table.path}/{LOG}"):
        version, _, kind = file.path.rpartition("/")[2].partition(".")
        if len(version) == _DIGITS and version.isdecimal():
            files[int(version), kind] = file
    return files


def _old_directories(table: TopicTable, older_than_s: float) -> list[str]:
    """Return the directories of attempts, and of dates, in which nothing was written for so long."""
    before_s = table.clock.wall_s() - older_than_s
    attempts = table.files.old_directories(f"{table.path}/{DATA}", "", before_s)
    return [*attempts, *table.files.old_directories(table.path, f"{DATE}=", before_s)]


def _has_rows(table: TopicTable, directory: str) -> bool:
    """Say whether a directory has a file that the library could name: not what Spark left of tasks that died."""
    names = (file.path.removeprefix(f"{directory}/") for file in table.files.walk(directory))
    return not all(is_hidden(name) for name in names if name.endswith(".parquet"))
