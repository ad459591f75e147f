"""Finds which commits have their rows in a table, as the audit must know it, in the log of the table.

A counted commit keeps the line of those before it, so only the entries behind the version that this line describes are
read: after a load that is the load's own entry. What is in the table is decided by the entries alone. A restore is
skipped together with what it took out. A swap begins a new line. Rows that others have deleted are a doubt, and so are
commits that nobody counted. Compactions change nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from kafka2011.audit.table_report import ListedCommit, TableDoubt
from kafka2011.warehouse.table.commits import Operation
from kafka2011.warehouse.table.counted import Line
from kafka2011.warehouse.table.history import LogEntry

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafka2011.warehouse.table.commits import Commit


class CommitLog(Protocol):
    """The log of a table as it was opened; `History` is one."""

    @property
    def version(self) -> int:
        """The version of the table."""

    @property
    def table_id(self) -> str:
        """The id of the table."""

    def entries(self) -> Iterator[LogEntry]:
        """Yield the entries that have made the table what it is, newest first."""

    def present(self) -> Commit | None:
        """Return the newest commit whose rows the table has."""

    def commits(self, after: int = 0) -> Sequence[Commit]:
        """Return the commits with larger numbers, oldest first."""


def line_of(history: CommitLog, now_ms: int) -> Line:
    """Return the line of a table as it was opened; what was removed may be of any event published before `now_ms`.

    Raises WarehouseError where rows may have come without offsets.
    """
    newer: list[LogEntry] = []
    base: Line | None = None
    for entry in history.entries():
        if base is not None and entry.version <= base.version:
            break
        newer.append(entry)
        if entry.commit is not None:
            if _begins(entry.commit):
                base = Line() if entry.commit.counts is None else entry.commit.counts.line
                break
            if base is None and entry.commit.counts is not None:
                base = entry.commit.counts.line
            elif base is None and entry.commit.was_counted:
                base = Line(is_whole=False, earlier=entry.commit.offsets)
                break
        if base is not None and entry.version <= base.version + 1:
            break  # the one before need not be read
    if base is None:
        noted = None if any(entry.commit for entry in newer) else history.present()
        if noted is not None:  # its entry was removed, and stands among the table's properties
            base = noted.counts.line if noted.counts is not None else Line()
            newer.append(LogEntry(history.version, noted))
        else:
            base = Line()
    return replace(_joined(base, newer, history.table_id, now_ms), version=history.version)


def _begins(commit: Commit) -> bool:
    """Say whether nothing that came before a commit is in the table any more."""
    return commit.operation is Operation.SWAP


def listed(commit: Commit) -> ListedCommit:
    """Return a commit as a table report lists it."""
    counts = commit.counts
    if counts is None:
        return ListedCommit(commit.number, commit.attempt)
    return ListedCommit(commit.number, commit.attempt, counts.parts, counts.last_ms)


def _joined(base: Line, newer: Sequence[LogEntry], table_id: str, now_ms: int) -> Line:
    line = base
    for entry in reversed(newer):
        if entry.removal:
            why = f"{entry.removal} has removed rows in its version {entry.version}"
            until_ms = max(now_ms, line.newest_ms)  # whatever clocks say
            line = line.doubted(TableDoubt(f"{table_id}@{entry.version}", until_ms, why, is_removal=True))
        if entry.commit is not None:
            line = line.followed_by(listed(entry.commit))
            if is_uncounted(entry.commit):
                why = f"nobody counted the rows of its commit {entry.commit.number}"
                line = line.doubted(TableDoubt(f"{table_id}/{entry.commit.number}", entry.commit.written_at_ms, why))
    return line


def complete_before(newest: Commit | None, line: Line) -> int | None:
    """Return up to when a table is complete, as its newest commit says; None once rows were removed since.

    `line` is what is in the table now.
    """
    return None if newest is None or has_lost_rows(newest, line) else newest.complete_through_ms


def has_lost_rows(newest: Commit, line: Line) -> bool:
    """Say whether rows were removed from a table since its newest commit knew of its line."""
    return not line.removals <= (set() if newest.counts is None else newest.counts.line.removals)


def is_uncounted(commit: Commit) -> bool:
    """Say whether a commit has brought rows that no tier of the audit counted."""
    return bool(commit.rows) and commit.counts is None and not commit.was_counted
