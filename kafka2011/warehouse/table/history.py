"""Commits in the log of a Delta table: where they are noted, and which of them is the newest.

Each entry that a load makes has its commit as JSON in its information, and sets the number of the application
`kafka2011` to the commit's. Compactions and cleanings make entries too, which are no commits of ours: the newest one is
found by looking back, for the entry that has that number. The number survives checkpoints and the removal of old
entries; for the JSON a cleaning copies it into the table's properties before it removes any. A table that was restored
has a number that its rows do not reach.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka2011.warehouse.errors import RolledBackError, WarehouseError
from kafka2011.warehouse.table.commits import Commit
from kafka2011.warehouse.table.forgetting import kept_commits

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from deltalake import DeltaTable

    from kafka2011.warehouse.table.files import Files

APPLICATION = "kafka2011"
"""Who sets the number of the newest commit, among the table's transactions of applications."""
COMMIT = "kafka2011.commit"
"""The key of a commit's JSON, in the information of an entry and among the table's properties."""

COMPACTION = "kafka2011.compaction"
"""The key that the entries of our compactions have, whose operation is that of any write."""

LOG = "_delta_log"
_INFORMATION = "commitInfo"
_BEGINNING = b'{"commitInfo"'
_RESTORE = "RESTORE"
_BRINGS_NO_ROWS = frozenset(
    {
        "ADD COLUMN",
        "ADD COLUMNS",
        "ADD CONSTRAINT",
        "ADD FEATURE",
        "CHANGE COLUMN",
        "CLUSTER BY",
        "COMPUTE STATS",
        "CREATE TABLE",
        "DELETE",
        "DROP CONSTRAINT",
        "FSCK",
        "OPTIMIZE",
        "RENAME COLUMN",
        "REORG",
        "SET TBLPROPERTIES",
        "UNSET TBLPROPERTIES",
        "UPDATE",
        "UPDATE COLUMN METADATA",
        "UPGRADE PROTOCOL",
        "VACUUM END",
        "VACUUM START",
    }
)


_REMOVES_ROWS = frozenset({"DELETE", "UPDATE", "FSCK"})
_REMOVED = ("num_deleted_rows", "numDeletedRows", "num_updated_rows", "numUpdatedRows", "numRemovedFiles")
"""What they say of how much they have removed, or changed."""


class LogEntry(NamedTuple):
    """An entry of the log: its version, its commit if it has one, and the operation that has removed rows, if any."""

    version: int
    commit: Commit | None
    removal: str = ""


class Rollback(NamedTuple):
    """What a restored table has, and what it had reached; `back_to` is None for before the first commit."""

    back_to: Commit | None
    reached: Commit


class History:
    """The commits of the table at a path as it was opened; `where` names it in errors."""

    def __init__(self, table: DeltaTable, files: Files, path: str, where: str) -> None:
        self._table = table
        self._files = files
        self._path = path
        self._where = where
        self._was_restored = False
        self._entries: dict[int, dict[str, Any] | None] = {}
        self.number = table.transaction_version(APPLICATION) or 0
        """The largest number that a commit of the table ever had, 0 before the first."""

    def commits(self, after: int = 0) -> list[Commit]:
        """Return the commits with larger numbers, oldest first, without those that were rolled back.

        Those whose entries were removed are there as `forgetting` keeps them. Raises MalformedCommitError.
        """
        newest_first = (commit for entry in self._backwards() if (commit := self._commit_in(entry)) is not None)
        logged = list(takewhile(lambda commit: commit.number > after, newest_first))[::-1]
        if logged and logged[0].number == after + 1:
            return logged
        kept = kept_commits(self._files, self._path)
        forgotten = kept[-1].number if kept else 0
        return [commit for commit in [*kept, *(c for c in logged if c.number > forgotten)] if commit.number > after]

    def commits_before(self, version: int) -> list[Commit]:
        """Return what is known of the commits whose entries are those of earlier versions, oldest first."""
        versions = ((entry["version"], self._commit_in(entry)) for entry in self._backwards())
        newer = {commit.number for at, commit in versions if commit is not None and at >= version}
        return [commit for commit in self.commits() if commit.number not in newer]

    def newest(self) -> Commit | None:
        """Return the newest commit of the table, None before the first.

        Raises RolledBackError, MalformedCommitError, and WarehouseError when rows came without offsets.
        """
        newest = self._present()
        if newest is not None and newest.number == self.number:
            return newest
        if newest is None and not self.number:
            return None
        reached = self._reached()
        if newest is None and not self._was_restored and self._entry(0) is None:
            return reached  # the entries up to it were removed by a cleaning
        back_to = newest.number if newest else "before the first"
        raise RolledBackError(
            f"{self._where} was rolled back from commit {reached.number} to {back_to}. To load again what was taken"
            " out, as far as the log still has it: kafka2011 tables settle again. To leave it out, and go on where the"
            " last load ended: kafka2011 tables settle skip"
        )

    @property
    def version(self) -> int:
        """The version of the table as it was opened."""
        return self._table.version()

    @property
    def table_id(self) -> str:
        """The id of the table, which it keeps for good."""
        return str(self._table.metadata().id)

    def entries(self) -> Iterator[LogEntry]:
        """Yield the entries that have made the table what it is, newest first, as far as they are in the log.

        Raises MalformedCommitError, and WarehouseError where rows may have come without offsets.
        """
        for entry in self._backwards():
            commit, operation = self._commit_in(entry), str(entry.get("operation"))
            if commit is None and operation not in _BRINGS_NO_ROWS and COMPACTION not in entry:
                raise self._foreign(entry)
            yield LogEntry(entry["version"], commit, operation if commit is None and _removes_rows(entry) else "")

    def present(self) -> Commit | None:
        """Return the newest commit whose rows the table has: also of one that was rolled back."""
        try:
            return self.newest()
        except RolledBackError:
            return self._present()

    def rollback(self) -> Rollback:
        """Return what the table was rolled back to, and from. Raises WarehouseError when it was not."""
        try:
            self.newest()
        except RolledBackError:
            return Rollback(self._present(), self._reached())
        raise WarehouseError(f"{self._where} was not rolled back, so settle has nothing to do")

    def _present(self) -> Commit | None:
        """Return the newest commit whose rows the table has, as far as the log says."""
        for entry in self._backwards():
            commit = self._commit_in(entry)
            if commit is not None:
                return commit
            if entry.get("operation") not in _BRINGS_NO_ROWS and COMPACTION not in entry:
                raise self._foreign(entry)
        return None

    def _reached(self) -> Commit:
        """Return the commit that has the largest number, rolled back or not. Raises WarehouseError when it is gone."""
        noted = self._noted()
        if noted is not None:
            return noted
        version = self._table.version()
        while (entry := self._entry(version)) is not None:
            commit = self._commit_in(entry)
            if commit is not None and commit.number == self.number:
                return commit
            version -= 1
        raise WarehouseError(
            f"{self._where}: the entry of commit {self.number} is no longer in the log, so how far it is loaded is"
            " unknown. Restore the removed files of _delta_log, or load into another table"
        )

    def _noted(self) -> Commit | None:
        """Return the commit among the table's properties, if it is the one with the largest number."""
        text = self._table.metadata().configuration.get(COMMIT)
        noted = None if text is None else Commit.from_json(text, f"{self._where}: property {COMMIT}")
        return noted if noted is not None and noted.number == self.number else None

    def _commit_in(self, entry: Mapping[str, Any]) -> Commit | None:
        text = entry.get(COMMIT)
        return None if text is None else Commit.from_json(str(text), f"{self._where}: version {entry['version']}")

    def _backwards(self) -> Iterator[dict[str, Any]]:
        """Yield the entries that have made the table what it is, newest first; what a restore took out is skipped."""
        version = self._table.version()
        while (entry := self._entry(version)) is not None:
            if entry.get("operation") == _RESTORE and COMMIT not in entry:
                self._was_restored = True
                version = self._restored_version(entry)
            else:
                yield entry
                version -= 1

    def _restored_version(self, entry: Mapping[str, Any]) -> int:
        parameters = entry.get("operationParameters") or {}
        if parameters.get("version") is not None:
            return int(min(int(parameters["version"]), entry["version"] - 1))
        moment = str(parameters.get("datetime") or parameters.get("timestamp"))
        try:
            moment_ms = int(moment) if moment.isdecimal() else datetime.fromisoformat(moment).timestamp() * 1000
        except ValueError as error:
            raise WarehouseError(
                f"{self._where}: version {entry['version']} restored another one, and {parameters} do not say which"
            ) from error
        version = entry["version"] - 1
        while (earlier := self._entry(version)) is not None and earlier["timestamp"] > moment_ms:
            version -= 1
        return int(version)

    def _entry(self, version: int) -> dict[str, Any] | None:
        if version not in self._entries:
            self._entries[version] = read_entry(self._files, self._path, version)
        return self._entries[version]

    def _foreign(self, entry: Mapping[str, Any]) -> WarehouseError:
        at = datetime.fromtimestamp(entry["timestamp"] / 1000, UTC).isoformat(timespec="seconds")
        version = entry["version"]
        back = f"restore version {version - 1}, which takes them out" if version else "load into another table"
        return WarehouseError(
            f"{self._where}: version {version} of {at} ({entry.get('operation')}) may have brought rows without"
            " offsets, and no load of this package wrote it: which messages are in the table is not known any more. To"
            f" go on, {back}"
        )


def _removes_rows(entry: Mapping[str, Any]) -> bool:
    if entry.get("operation") not in _REMOVES_ROWS:
        return False
    metrics = entry.get("operationMetrics") or {}
    said = [int(metrics[name]) for name in _REMOVED if str(metrics.get(name, "")).isdecimal()]
    return not said or any(said)


def entry_path(table: str, version: int) -> str:
    """Return where the entry of a version lies, in the log of the table at a path."""
    return f"{table}/{LOG}/{version:020d}.json"


def read_entry(files: Files, table: str, version: int) -> dict[str, Any] | None:
    """Return what an entry of the table at a path says of itself, None where it is no longer in the log.

    The library's `history` does not serve: it goes on to entries that were written after the table was opened, and
    counts their versions back from the one that was. Raises OSError.
    """
    if version < 0:
        return None
    try:
        lines = files.read(entry_path(table, version)).splitlines()
    except FileNotFoundError:
        return None
    said = (json.loads(line)[_INFORMATION] for line in lines if line.startswith(_BEGINNING))
    return {"timestamp": 0, **next(said, {}), "version": version}


def note_of(commit: Commit) -> dict[str, str]:
    """Return what an entry, or a property, says of a commit, in few bytes."""
    return {COMMIT: json.dumps(json.loads(commit.to_json()), separators=(",", ":"))}
