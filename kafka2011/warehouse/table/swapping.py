"""Puts the rows and offsets of a rebuilt table in place of its topic's, in one entry of the log.

A rebuilt table is one like any other, with a name of its own, into which the topic is loaded again. The swap
overwrites: readers see all of the one or all of the other, what was there can be restored, and the columns are those
of the rebuilt one.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.dataset as ds

from kafka2011.audit.state import KEEP_MS
from kafka2011.audit.table_report import TableDoubt
from kafka2011.warehouse.errors import GivenUpError, OvertakenError, WarehouseError
from kafka2011.warehouse.table.commits import Commit, Operation
from kafka2011.warehouse.table.counted import Line
from kafka2011.warehouse.table.dataset import check_whole, dataset_over, live_files
from kafka2011.warehouse.table.files import bring
from kafka2011.warehouse.table.quarantine import awaiting, open_quarantine
from kafka2011.warehouse.table.topic_table import TopicTable, attempt_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from deltalake import Schema

    from kafka2011.warehouse.table.counted import CommitCounts
    from zk.cluster import TopicPartition

_COUNTED = (
    "id",
    "published_at",
    "kafka2011_broker_id",
    "kafka2011_partition",
    "kafka2011_offset",
    "kafka2011_index_in_set",
)
_TRIES = 100
"""Loads that commit all the time may come first so often: a try is only an entry of the log."""


class Swapped(NamedTuple):
    """What a swap has done: its commit, and how far the table is behind where it was, in bytes of each log."""

    commit: Commit
    behind_bytes: Mapping[TopicPartition, int]


class CountsRows(Protocol):
    """Counts rows for the audit; `loading.row_counts.count_rows` does."""

    def __call__(self, table: TopicTable, batches: Iterable[pa.RecordBatch], number: int, attempt: str) -> CommitCounts:
        """Count the rows of a commit with this number and attempt, into files of the table. Raises OSError."""


def swap(warehouse: str, topic: str, name: str, count_rows: CountsRows | None = None) -> Swapped:
    """Put the rebuilt table `name` in place of the topic's own, whose loads go on from the offsets of that.

    A load that is under way fails when it commits. Where the rebuilt table is behind, the next load brings the rest,
    if the log still has it. If the topic's table is counted for the audit, `count_rows` counts the rows that are to be
    in it, of the last week. Raises WarehouseError; nothing has changed then.
    """
    if name == topic:
        raise WarehouseError(f"topic {topic}: a rebuilt table has another name than its topic")
    table, rebuilt = TopicTable(warehouse, topic), TopicTable(warehouse, topic, name=name)
    delta = rebuilt.delta()
    check_whole(delta, rebuilt.path)
    history = rebuilt.history(delta)
    after = history.newest()
    if after is None or table.newest() is None:
        raise WarehouseError(f"topic {topic}: {rebuilt.path if after is None else table.path} is empty")
    if after.topic != topic:
        raise WarehouseError(f"{rebuilt.path} is a table of topic {after.topic}, not of {topic}")
    quarantine = open_quarantine(warehouse, topic)
    lines = list(quarantine.lines(awaiting(history.commits())))
    live = live_files(delta)
    staging = table.begin()
    try:
        with table.translated_errors():
            for number, file in enumerate(live):
                source = f"{rebuilt.path}/{file.path}"
                target = f"{staging}/date={file.date}/{number:06d}-{source.rpartition('/')[2]}"
                bring(rebuilt.files, source, table.files, target)
    except BaseException:
        table.abandon(staging)
        raise
    made = Commit(
        topic,
        0,
        Operation.SWAP,
        int(table.clock.wall_s() * 1000),
        after.offsets,
        rows=sum(file.rows for file in live),
        quarantined=len(lines),
        schema=after.schema,
        complete_through_ms=after.complete_through_ms,
        extra=after.extra,
    )
    rows = dataset_over(live, rebuilt.path, rebuilt.files, pa.schema(delta.schema()))
    counting = None if count_rows is None else partial(_counted, table, rows, count_rows)
    return _commit(table, staging, made, lines, delta.schema(), counting)


def _counted(table: TopicTable, rows: ds.Dataset, count_rows: CountsRows, commit: Commit, before: Commit) -> Commit:
    """Return the commit with the counts of its rows of the last week, if the one before it was counted."""
    if before.counts is None:
        return commit
    since_ms = commit.written_at_ms - KEEP_MS
    since = pa.scalar(since_ms * 1000, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    recent = rows.scanner(columns=list(_COUNTED), filter=ds.field("published_at") >= since)
    with table.translated_errors():
        counts = count_rows(table, recent.to_batches(), commit.number, commit.attempt)
        has_older = bool(rows.count_rows(filter=ds.field("published_at") < since))
    name = f"{table.delta().metadata().id}/{commit.number}"
    why = f"nobody counted rows that its commit {commit.number} has taken over, more than a week old then"
    line = Line(doubts=(TableDoubt(name, since_ms, why),) if has_older else ())
    return replace(commit, counts=replace(counts, line=line, published=before.counts.published))


def _commit(
    table: TopicTable,
    staging: str,
    made: Commit,
    lines: list[str],
    columns: Schema,
    counting: Callable[[Commit, Commit], Commit] | None,
) -> Swapped:
    """Commit with the next number that is free, whatever loads do meanwhile."""
    quarantine = open_quarantine(table.warehouse, table.topic)
    attempt = attempt_of(staging)
    for _ in range(_TRIES):
        before = table.newest()
        assert before is not None, "there was one"
        commit = replace(made, number=before.number + 1, attempt=attempt)
        if counting is not None:
            commit = counting(commit, before)
        quarantine.write(commit.number, attempt, lines)
        try:
            table.commit(staging, commit, instead=columns)
        except OvertakenError:
            quarantine.remove(commit.number, attempt)
            continue
        except GivenUpError:
            quarantine.remove(commit.number, attempt)
            table.abandon(staging)
            raise
        ends = {where: made.offsets.get(where, 0) for where in before.offsets}
        behind = {where: end - ends[where] for where, end in before.offsets.items() if ends[where] < end}
        return Swapped(commit, behind)
    table.abandon(staging)
    raise OvertakenError(f"{table.where}: {_TRIES} loads came before its swap")
