"""Rewrites the small loads of a Parquet table into few files: a commit of its own, then what it replaces is removed.

At every moment, even when it is killed, a reader that goes by the commits sees each row once: until the commit the
old files count, after it the new ones. What was replaced stays for a grace, for those who read it already. Then its
files are removed, and its `_offsets.json` stays: the number stays taken.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import pyarrow as pa

from kafka2011.warehouse.errors import OvertakenError, WarehouseError
from kafka2011.warehouse.table.commits import Commit, Operation
from kafka2011.warehouse.table.files import LocalFiles
from kafka2011.warehouse.table.parquet.merge import merge
from kafka2011.warehouse.table.parquet.snapshot import SnapshotFiles, snapshot_commits, snapshot_files
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafka2011.warehouse.table.parquet.parquet_table import ParquetTable
    from zk.clock import Clock

logger = logging.getLogger(__name__)

TARGET_BYTES = 128 * 1024**2
GRACE_S = 60.0
HOUR_MS = 3_600_000
_TRIES = 100
"""Loads that commit all the time may come first so often: a try is only a rename."""


def compact(
    table: ParquetTable,
    *,
    before_ms: int | None = None,
    target_bytes: int = TARGET_BYTES,
    grace_s: float = GRACE_S,
    clock: Clock = SYSTEM_CLOCK,
    sleep: Callable[[float], object] = time.sleep,
) -> list[Commit]:
    """Rewrite the commits smaller than `target_bytes` that were made before a time, and return the new ones.

    The time is the beginning of the present hour unless it is given. One commit takes up to twice `target_bytes`.
    Waits `grace_s` before it removes what was replaced. What another one left, since it was killed, is removed too.
    Raises WarehouseError; loads may commit meanwhile.
    """
    if not isinstance(table.files, LocalFiles):
        raise WarehouseError(f"{table.path} is not local: only local tables are compacted")
    if before_ms is None:
        before_ms = int(clock.wall_s() * 1000) // HOUR_MS * HOUR_MS
    remove_replaced(table, grace_s=grace_s, clock=clock)
    made: list[Commit] = []
    while (replaced := _chosen(snapshot_files(table), before_ms, target_bytes)) and (
        commit := _rewrite(table, replaced, target_bytes, clock)
    ):
        made.append(commit)
    if made:
        sleep(grace_s)
        remove_replaced(table, grace_s=grace_s, clock=clock)
    return made


def remove_replaced(table: ParquetTable, *, grace_s: float = GRACE_S, clock: Clock = SYSTEM_CLOCK) -> list[int]:
    """Remove the files of commits that were replaced so long ago, and return the numbers of those that had some."""
    removed: list[int] = []
    now_ms = clock.wall_s() * 1000
    for compaction in table.commits():
        if compaction.operation is not Operation.COMPACT or now_ms - compaction.written_at_ms < grace_s * 1000:
            continue
        removed += [number for number in compaction.replaces if table.remove_rows(number)]
    if removed:
        logger.info("%s: removed the files of %d commits that were rewritten", table.path, len(removed))
    return removed


def _chosen(live: Sequence[SnapshotFiles], before_ms: int, target_bytes: int) -> list[SnapshotFiles]:
    """Return the oldest small commits, up to the one that fills a file; nothing where that would merge nothing."""
    chosen: list[SnapshotFiles] = []
    size_bytes = 0
    for each in live:
        if each.commit.written_at_ms < before_ms and each.commit.size_bytes < target_bytes:
            chosen.append(each)
            size_bytes += each.commit.size_bytes
            if size_bytes >= target_bytes:
                break
    return chosen if len(chosen) > 1 else []


def _rewrite(table: ParquetTable, replaced: Sequence[SnapshotFiles], target_bytes: int, clock: Clock) -> Commit | None:
    """Make one commit of several; None when another compaction was faster."""
    staging = table.begin()
    try:
        rows = merge(replaced, staging, staging.rpartition("/")[2], target_bytes=target_bytes)
        expected = sum(each.commit.rows for each in replaced)
        if rows != expected:
            raise WarehouseError(
                f"topic {table.topic}: commits {[each.commit.number for each in replaced]} of {table.path} say that"
                f" they have {expected} rows, and {rows} were read; nothing was rewritten"
            )
        return _commit(table, staging, [each.commit for each in replaced], rows, clock)
    except (OSError, pa.ArrowException) as error:
        raise WarehouseError(f"topic {table.topic}: {table.path} cannot be rewritten: {error}") from error
    finally:
        table.abandon(staging)


def _commit(table: ParquetTable, staging: str, replaced: Sequence[Commit], rows: int, clock: Clock) -> Commit | None:
    for _ in range(_TRIES):
        newest = table.newest()
        assert newest is not None, "there were some"
        live = {each.number: each.attempt for each in snapshot_commits(table.commits())}
        if any(live.get(each.number) != each.attempt for each in replaced):
            logger.warning("%s: another compaction was faster", table.path)
            return None
        commit = Commit(
            table.topic,
            newest.number + 1,
            Operation.COMPACT,
            int(clock.wall_s() * 1000),
            newest.offsets,
            rows=rows,
            schema=max(each.schema for each in replaced),
            complete_through_ms=newest.complete_through_ms,
            replaces=tuple(each.number for each in replaced),
            extra=newest.extra,
        )
        try:
            table.commit(staging, commit)
        except OvertakenError:
            continue  # a load: it comes before this one
        logger.info("%s: commit %d has the rows of %d commits", table.path, commit.number, len(replaced))
        return table.commits(after=newest.number)[0]
    raise OvertakenError(f"topic {table.topic}: {_TRIES} loads into {table.path} came before its compaction")
