"""Cleaning of a Delta table by the library's own means: what nothing names any more goes. Loads go on meanwhile."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from deltalake import CommitProperties
from deltalake.exceptions import CommitFailedError

from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.table.delta.data_files import DATE, is_hidden
from kafka2011.warehouse.table.delta.delta_table import DATA, HOOKS
from kafka2011.warehouse.table.delta.history import LOG, note_of

if TYPE_CHECKING:
    from kafka2011.warehouse.table.delta.delta_table import TopicTable

logger = logging.getLogger(__name__)

ORPHAN_LIFETIME_S = 24 * 3600.0
"""Files that no entry names belong to a load that is running, unless they are as old as this."""
ENTRY_LIFETIME_S = 30 * 24 * 3600.0
"""How long entries stay in the log at least: the library's own default, and the one way to change it."""


class Cleaned(NamedTuple):
    """How many files of rows were removed, how large they were, and how many entries of the log went."""

    files: int = 0
    size_bytes: int = 0
    entries: int = 0


def clean(table: TopicTable, older_than_s: float = ORPHAN_LIFETIME_S) -> Cleaned:
    """Remove files that no entry names, or that a compaction has replaced, once they are so old; in whole hours.

    A load must not take longer than that: it would fail when it commits. Entries of the log go when the library finds
    them old, and the newest commit is kept among the table's properties before.
    """
    table.newest()  # of a table that was rolled back nothing goes: that may be undone yet
    delta = table.delta()
    hours = max(0, math.ceil(older_than_s / 3600))
    with table.translated_errors():
        old = _old_directories(table, older_than_s)
        try:
            unnamed = delta.vacuum(hours, dry_run=True, enforce_retention_duration=False, full=True)
            sizes = [_size_bytes(Path(table.path, each)) for each in unnamed]
            if unnamed:
                delta.vacuum(
                    hours,
                    dry_run=False,
                    enforce_retention_duration=False,
                    full=True,
                    post_commithook_properties=HOOKS,
                )
            for directory in old:
                if not _has_rows(directory):
                    table.files.delete(str(directory))
            for each in Path(table.path, LOG).glob("*#*"):  # an entry whose writer died before it had its name
                if table.clock.wall_s() - _modified_s(each) > older_than_s:
                    each.unlink(missing_ok=True)
            entries = _remove_entries(table)
        except CommitFailedError as error:
            raise WarehouseError(f"{table.where} was changed by others just now, cleaning failed: {error}") from error
    return Cleaned(len(unnamed), sum(sizes), entries)


def _remove_entries(table: TopicTable) -> int:
    """Remove entries of the log that are old, behind a checkpoint, and return how many."""
    before = _entries(table)
    if not before or table.clock.wall_s() - before[0].stat().st_mtime < ENTRY_LIFETIME_S:
        return 0
    newest = table.newest()
    delta = table.delta()
    if newest is not None:
        delta.alter.set_table_properties(
            note_of(newest),
            raise_if_not_exists=False,
            commit_properties=CommitProperties(max_commit_retries=0),  # another one may have added columns
            post_commithook_properties=HOOKS,
        )
        delta = table.delta()
    delta.create_checkpoint()
    delta.cleanup_metadata()
    removed = set(before) - set(_entries(table))
    logger.info("%s: %d entries of the log were removed", table.where, len(removed))
    return len(removed)


def _entries(table: TopicTable) -> list[Path]:
    return sorted(Path(table.path, LOG).glob("*.json"))


def _old_directories(table: TopicTable, older_than_s: float) -> list[Path]:
    """Return the directories of attempts, and of dates, in which nothing was written for so long."""
    before_s = table.clock.wall_s() - older_than_s
    every = [*Path(table.path, DATA).glob("*"), *Path(table.path).glob(f"{DATE}=*")]
    return [each for each in every if max(map(_modified_s, [each, *each.rglob("*")])) < before_s]


def _has_rows(directory: Path) -> bool:
    """Say whether a directory has a file that the library could name: not what Spark left of tasks that died."""
    names = (str(each.relative_to(directory)) for each in directory.rglob("*.parquet"))
    return not all(is_hidden(name) for name in names)


def _modified_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return math.inf  # it was there just now: somebody is at it


def _size_bytes(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
