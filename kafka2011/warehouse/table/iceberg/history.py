"""Commits in the snapshots of an Iceberg table: where they are noted, and which of them is the newest.

Pure. Each of our snapshots has its commit as JSON in its summary, and the table has that of the newest as a property,
set in the same transaction. The offsets are those of the newest ancestor of the current snapshot that has some. The
property counts only when expire_snapshots has left no such ancestor. Otherwise it tells a rollback: the property of a
table is not rolled back with its snapshots.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyiceberg.table.snapshots import Operation, ancestors_of

from kafka2011.warehouse.errors import RolledBackError, WarehouseError
from kafka2011.warehouse.table.commits import Commit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

COMMIT = "kafka2011.commit"
"""The key of a commit's JSON, in the summary of its snapshot and among the table's properties."""


def note_of(commit: Commit) -> dict[str, str]:
    """Return what a snapshot's summary and the table's properties say of a commit, in few bytes."""
    return {COMMIT: json.dumps(json.loads(commit.to_json()), separators=(",", ":"))}


def commit_in(snapshot: Snapshot, where: str) -> Commit | None:
    """Return the commit that is noted in a snapshot, None in those of others. Raises MalformedCommitError."""
    text = snapshot.summary[COMMIT] if snapshot.summary else None
    return None if text is None else Commit.from_json(text, f"{where}: snapshot {snapshot.snapshot_id}")


def commits_in(metadata: TableMetadata, where: str) -> Iterator[Commit]:
    """Yield the commits that are still known of the table as it is, newest first. Raises MalformedCommitError."""
    for snapshot in ancestors_of(metadata.current_snapshot(), metadata):
        commit = commit_in(snapshot, where)
        if commit is not None:
            yield commit


def newest_in(metadata: TableMetadata, where: str) -> Commit | None:
    """Return the newest commit of a table, None before the first.

    Raises RolledBackError, MalformedCommitError, and WarehouseError when the table has rows that came without offsets.
    """
    noted = _noted(metadata, where)
    found, is_cut = _look_back(metadata, where)
    if noted is not None and noted.number > (found.number if found else 0):
        if found is None and is_cut and _snapshot_of_property(metadata) is None:
            return noted  # expire_snapshots has left none
        raise _rolled_back(metadata, found, noted, where)
    return found


def forgettable(metadata: TableMetadata, before_ms: int, where: str) -> list[int]:
    """Return the ids of snapshots older than a time that nothing needs: no branch or tag, nor `newest_in`.

    Raises as `newest_in` does.
    """
    newest_in(metadata, where)
    kept = {each.snapshot_id for each in metadata.refs.values()}
    for snapshot in ancestors_of(metadata.current_snapshot(), metadata):
        if commit_in(snapshot, where) is not None:
            kept.add(snapshot.snapshot_id)
            break
    every = metadata.snapshots
    return [each.snapshot_id for each in every if each.timestamp_ms < before_ms and each.snapshot_id not in kept]


def rollback_in(metadata: TableMetadata, where: str) -> tuple[Commit | None, Commit]:
    """Return the commit that a table was rolled back to, None for before the first, and the one it had reached.

    Raises WarehouseError when it was not rolled back.
    """
    try:
        newest_in(metadata, where)
    except RolledBackError:
        noted = _noted(metadata, where)
        assert noted is not None
        return _look_back(metadata, where)[0], noted
    raise WarehouseError(f"{where} was not rolled back: there is nothing to settle")


def _noted(metadata: TableMetadata, where: str) -> Commit | None:
    text = metadata.properties.get(COMMIT)
    return None if text is None else Commit.from_json(text, f"{where}: property {COMMIT}")


def _look_back(metadata: TableMetadata, where: str) -> tuple[Commit | None, bool]:
    """Find the newest commit from the current snapshot backwards; and whether expire_snapshots may have removed it."""
    snapshot = None
    for snapshot in ancestors_of(metadata.current_snapshot(), metadata):
        commit = commit_in(snapshot, where)
        if commit is not None:
            return commit, False
        if _brought_rows(snapshot):
            raise _foreign(snapshot, where)
    is_cut = snapshot is not None and not _is_first(snapshot)
    if snapshot is not None and is_cut and COMMIT not in metadata.properties and _count(snapshot, "total-records") != 0:
        raise _foreign(snapshot, where)
    return None, is_cut


def _is_first(snapshot: Snapshot) -> bool:
    """Say whether there was none before: a snapshot whose parent expired may have lost its parent's id."""
    return snapshot.parent_snapshot_id is None and (snapshot.sequence_number or 0) <= 1


def _snapshot_of_property(metadata: TableMetadata) -> int | None:
    note = metadata.properties[COMMIT]
    found = (each.snapshot_id for each in metadata.snapshots if each.summary and each.summary[COMMIT] == note)
    return next(found, None)


def _rolled_back(metadata: TableMetadata, found: Commit | None, noted: Commit, where: str) -> RolledBackError:
    before = _snapshot_of_property(metadata)
    undo = f" Or undo the rollback: set_current_snapshot({before})." if before is not None else ""
    return RolledBackError(
        f"{where} was rolled back from commit {noted.number} to {found.number if found else 'before the first'}. To"
        " load again what was taken out, as far as the log still has it: kafka2011 tables settle again. To leave it"
        f" out, and go on where the last load ended: kafka2011 tables settle skip.{undo}"
    )


def _brought_rows(snapshot: Snapshot) -> bool:
    """Say whether a snapshot has more rows than the one before: removing and rewriting some moves no offset."""
    added, deleted = _count(snapshot, "added-records"), _count(snapshot, "deleted-records")
    if snapshot.summary is None or snapshot.summary.operation is Operation.APPEND:
        return added != 0 and not (added is None and _count(snapshot, "added-data-files") in {0, None})
    return (added or 0) > (deleted or 0)


def _count(snapshot: Snapshot, key: str) -> int | None:
    text = snapshot.summary[key] if snapshot.summary else None
    return None if text is None else int(text)


def _foreign(snapshot: Snapshot, where: str) -> WarehouseError:
    at = datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC).isoformat(timespec="seconds")
    added = _count(snapshot, "added-records")
    rows = "rows" if added is None else f"{added} rows"
    back = (
        f"roll back to snapshot {snapshot.parent_snapshot_id}, which takes them out"
        if snapshot.parent_snapshot_id is not None
        else "load into another table"
    )
    return WarehouseError(
        f"{where}: snapshot {snapshot.snapshot_id} of {at} brought {rows} without offsets, so no load of this package"
        f" wrote it: which messages are in the table is not known any more. To go on, {back}"
    )
