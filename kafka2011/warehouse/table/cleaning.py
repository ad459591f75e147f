"""Cleaning of a table by the library's own means: what nothing names any more goes. Loads go on meanwhile.

The library only says what is not in the table; what is removed is decided here, see `given_up`.
"""

from __future__ import annotations

import logging
import math
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from deltalake import CommitProperties
from deltalake.exceptions import CommitFailedError

from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.table.counts_store import CountsStore
from kafka2011.warehouse.table.data_files import DATE, is_hidden
from kafka2011.warehouse.table.dataset import live_files
from kafka2011.warehouse.table.forgetting import keep
from kafka2011.warehouse.table.given_up import giving_up
from kafka2011.warehouse.table.history import LOG, note_of
from kafka2011.warehouse.table.topic_table import DATA, HOOKS, attempt_in, attempt_of

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from kafka2011.warehouse.table.commits import Commit
    from kafka2011.warehouse.table.files import FileStatus
    from kafka2011.warehouse.table.topic_table import TopicTable

logger = logging.getLogger(__name__)

ORPHAN_LIFETIME_S = 24 * 3600.0
"""Files that no entry names belong to a load that is running, unless they are as old as this."""
RUNNING_S = 3600.0
"""For so long, whatever age is asked for: a running load writes something in this time, and commits what it has."""
KEPT_ENTRIES = 500
"""So many entries stay in the log at least: versions that can be read and restored."""
MOST_ENTRIES = 700
"""Where there are more, some go. On a local disk whoever opens a table lists them all: 2 us each, many times."""

_CHECKPOINT = "checkpoint.parquet"
_DIGITS = 20
_TRIES = 100
"""Loads that commit all the time may come first so often: a try is only an entry of the log."""
_DELETERS = 8
"""Stores take many requests at once, and each takes long."""


class Cleaned(NamedTuple):
    """How many files of rows were removed, how large they were, and how many entries of the log went."""

    files: int = 0
    size_bytes: int = 0
    entries: int = 0


def clean(table: TopicTable, older_than_s: float = ORPHAN_LIFETIME_S, *, at_rest: bool = False) -> Cleaned:
    """Remove files that a compaction or a swap has replaced, and what loads that died have left, once they are so old.

    What no entry has named yet may be a running load's, and is spared for an hour after the last write beside it at
    least, unless the table is `at_rest`. A load or compaction that is slower than that fails with a GivenUpError; rows
    that were committed stay in any case. Ages count in whole hours. Entries of the log go when there are many; the
    newest commit is kept among the table's properties before, and of the others what `forgetting` keeps.
    Raises WarehouseError.
    """
    table.newest()  # of a table that was rolled back nothing goes: that may be undone yet
    delta = table.delta()
    unnamed_s = older_than_s if at_rest else max(older_than_s, RUNNING_S)
    with table.translated_errors():
        found = _found(table, delta, older_than_s, unnamed_s)
        try:
            found = _give_up(table, delta, found)
            sizes = {file.path: file.size_bytes for file in table.files.walk(table.path)} if found.paths else {}
            gone = [path for path in (f"{table.path}/{path}" for path in found.paths) if path in sizes]
            with ThreadPoolExecutor(_DELETERS) as threads:
                list(threads.map(table.files.delete, gone))
            for directory in found.directories:
                if not _has_rows(table, directory):
                    table.files.delete(directory)
            _remove_counts(table, older_than_s, unnamed_s)
            for file in table.files.walk(f"{table.path}/{LOG}"):
                is_old = table.clock.wall_s() - file.modified_s > unnamed_s
                if is_old and "#" in file.path:  # an entry whose writer died before it had its name
                    table.files.delete(file.path)
            entries = _remove_entries(table)
        except CommitFailedError as error:
            raise WarehouseError(f"{table.where} was changed by others just now, cleaning failed: {error}") from error
    return Cleaned(len(gone), sum(sizes[path] for path in gone), entries)


class _Found(NamedTuple):
    """What a cleaning may remove: files by their paths in the table, and directories. Both may be gone already."""

    replaced: frozenset[str]
    """An entry has removed them from the table."""
    unnamed: frozenset[str]
    """No entry has named them."""
    directories: tuple[str, ...]

    @property
    def paths(self) -> list[str]:
        """All files, in order."""
        return sorted(self.replaced | self.unnamed)


def _found(table: TopicTable, delta: DeltaTable, older_than_s: float, unnamed_s: float) -> _Found:
    """Return what was replaced so long ago, and what no entry names where nothing was written for so long."""
    replaced = frozenset(_vacuumed(table, delta, older_than_s, full=False))
    directories = _old_directories(table, unnamed_s)
    quiet = {attempt_of(directory) for directory in directories}
    committed = {attempt_in(file.path) for file in live_files(delta)}
    unnamed = frozenset(
        path
        for path in _vacuumed(table, delta, unnamed_s, full=True)
        if path not in replaced and ((attempt := attempt_in(path)) is None or attempt in quiet | committed)
    )
    return _Found(replaced, unnamed, tuple(directories))


def _vacuumed(table: TopicTable, delta: DeltaTable, older_than_s: float, *, full: bool) -> list[str]:
    """Return what the library would remove: all that is not in the table, or what was replaced."""
    hours = max(0, math.ceil(older_than_s / 3600))
    return table.asking(lambda: delta.vacuum(hours, dry_run=True, enforce_retention_duration=False, full=full))


def _give_up(table: TopicTable, delta: DeltaTable, found: _Found) -> _Found:
    """Write down which attempts are given up, and return what may be removed then.

    What was committed meanwhile is left out. Raises WarehouseError where others keep coming first.
    """
    known = table.history(delta).number
    for _ in range(_TRIES):
        live = {file.path for file in live_files(delta)}
        committed = {attempt_in(path) for path in live}
        newer = {commit.attempt for commit in table.history(delta).commits(known)}
        unnamed = frozenset(path for path in found.unnamed - live if attempt_in(path) not in newer)
        directories = tuple(path for path in found.directories if attempt_of(path) not in committed | newer)
        found = found._replace(unnamed=unnamed, directories=directories)
        named = {attempt_in(path) for path in found.replaced}  # these were committed once, and never will be again
        attempts = {attempt_in(path) for path in unnamed} | set(map(_attempt_at, directories))
        given_up = {attempt for attempt in attempts - committed - named if attempt is not None}
        if not given_up:
            return found
        try:
            table.write_entry(delta, [], giving_up(delta, given_up))
        except CommitFailedError:
            delta = table.delta()
            continue
        table.sync_log(delta.version())
        return found
    raise WarehouseError(f"{table.where}: {_TRIES} commits came before its cleaning")


def _attempt_at(directory: str) -> str | None:
    """Return the attempt whose directory that is; None for a directory of a date."""
    parent, _, name = directory.rpartition("/")
    return name if parent.endswith(f"/{DATA}") else None


def _remove_counts(table: TopicTable, older_than_s: float, unnamed_s: float) -> None:
    """Remove files of counts that were published so long ago, and those of attempts that died.

    An attempt that may still be committed has its directory of rows. Nothing goes while the newest commit does not say
    what was published.
    """
    stored = CountsStore(table.files, table.path).stored()
    newest = table.newest() if stored else None
    if newest is None or newest.counts is None:
        return
    published, now_s = newest.counts.published, table.clock.wall_s()
    running = set(table.files.names(f"{table.path}/{DATA}"))
    committed = {(commit.number, commit.attempt) for commit in table.commits(after=published)}
    for file in stored:
        is_wanted = (file.number, file.attempt) in committed or file.attempt in running
        kept_s = older_than_s if file.number <= published else math.inf if is_wanted else unnamed_s
        if now_s - file.modified_s > kept_s:
            table.files.delete(file.path)


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
