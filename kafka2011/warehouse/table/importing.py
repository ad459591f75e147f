"""Takes over a table of version 0.1.0: its rows, its offsets and its quarantine, in the first commit of a new table.

The commit has the number of the old table's newest one, so that `kafka2011_load_id` goes on. It is there whole or not
at all; begun again, it begins anew. The old table stays as it is, its files have one more name where that is possible.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.warehouse.errors import OvertakenError, WarehouseError
from kafka2011.warehouse.table.commits import Commit, Operation, together
from kafka2011.warehouse.table.files import LocalFiles, bring
from kafka2011.warehouse.table.locations import location_of, scheme_of
from kafka2011.warehouse.table.old_tables import COMMIT, live_files, read_commits
from kafka2011.warehouse.table.quarantine import awaiting, open_quarantine
from kafka2011.warehouse.table.topic_table import TopicTable, attempt_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafka2011.warehouse.table.quarantine import Quarantine
_IMPORTED = "imported_attempt"
"""The name, among a commit's extra fields, of the old commit that it goes on from."""


class Imported(NamedTuple):
    """What was taken over; without files it had been before."""

    number: int
    rows: int = 0
    quarantined: int = 0
    files: int = 0


def list_old_tables(warehouse: str) -> list[str]:
    """Return the names of the tables of version 0.1.0 in a local directory. Raises WarehouseError."""
    root = _local(warehouse)
    found = {each.parent.name for each in root.glob("*/load_id=*") if COMMIT.fullmatch(each.name)}
    return sorted(found)


def import_table(source: str, warehouse: str, name: str) -> Imported:
    """Take over the table of that name from the old warehouse `source`; a second time nothing is done.

    Raises WarehouseError where the old table is not all there, or the new one has commits of its own; nothing is
    imported then.
    """
    directory = _local(source) / name
    with _named(directory):
        commits = read_commits(directory)
    newest = commits[-1]
    table = TopicTable(warehouse, newest.topic, name=name)
    if (done := _done_before(table, newest)) is not None:
        return done
    quarantine = open_quarantine(warehouse, newest.topic)
    staging = table.begin()
    try:
        with _named(directory):
            files = live_files(directory, commits)
            for each in files:
                bring(LocalFiles(), str(each.path), table.files, f"{staging}/{each.place}")
            old_quarantine = open_quarantine(source, newest.topic)
            lines = list(old_quarantine.lines(awaiting(commits)))
            _check_unchanged(directory, commits)
        rows = sum(each.rows for each in files)
        commit = _commit_of(commits, rows, len(lines), int(table.clock.wall_s() * 1000))
        quarantine.write(commit.number, attempt_of(staging), lines)
    except BaseException:
        _clean(table, quarantine, newest.number, staging)
        raise
    try:
        table.commit(staging, commit)
    except OvertakenError:
        _clean(table, quarantine, newest.number, staging)
        raise
    return Imported(commit.number, commit.rows, commit.quarantined, len(files))


def _done_before(table: TopicTable, old: Commit) -> Imported | None:
    """Say what an import before this one has done; None without any. Raises WarehouseError for other commits."""
    if table.newest() is None:
        return None
    for each in table.commits():
        if each.operation is Operation.IMPORT and each.extra.get(_IMPORTED) == old.attempt:
            return Imported(each.number)
    raise WarehouseError(f"{table.where} has commits of its own: import into another warehouse")


def _check_unchanged(directory: Path, commits: Sequence[Commit]) -> None:
    if read_commits(directory) != commits:
        raise WarehouseError(f"{directory} has changed meanwhile: stop what loads or compacts it, and try again")


def _commit_of(commits: Sequence[Commit], rows: int, quarantined: int, now_ms: int) -> Commit:
    newest = commits[-1]
    return Commit(
        newest.topic,
        newest.number,
        Operation.IMPORT,
        now_ms,
        newest.offsets,
        together(its_range for each in commits for its_range in each.ranges),
        rows,
        quarantined,
        schema=max(each.schema for each in commits),
        complete_through_ms=newest.complete_through_ms,
        extra={**newest.extra, _IMPORTED: newest.attempt},
    )


def _clean(table: TopicTable, quarantine: Quarantine, number: int, staging: str) -> None:
    quarantine.remove(number, attempt_of(staging))
    table.abandon(staging)


def _local(warehouse: str) -> Path:
    location = location_of(warehouse)
    if scheme_of(location):
        raise WarehouseError(f"{warehouse} is not local: copy the tables, and their quarantine, to a local directory")
    return Path(location)


@contextmanager
def _named(directory: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, UnicodeDecodeError) as error:
        raise WarehouseError(f"{directory} cannot be read: {error}") from error
