"""Loads of rows into a table that are counted for the audit, as a loader with `--audit` counts them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kafka2011.audit.windows import Windows
from kafka2011.warehouse.loading.load_job import counted_in
from kafka2011.warehouse.loading.row_counts import RowCounts
from kafka2011.warehouse.table.counted import Line
from kafka2011.warehouse.table.counts_store import CountsStore
from kafka2011.warehouse.table.line import line_of
from kafka2011.warehouse.table.topic_table import attempt_of
from tests.support.tables import PARTITION, ROW_BYTES, TOPIC, commit_of, rows_of, write_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka2011.warehouse.table.commits import Commit
    from kafka2011.warehouse.table.topic_table import TopicTable


def load_counted(
    table: TopicTable, times_ms: Sequence[int], published: int = 0, complete_through_ms: int | None = None
) -> Commit:
    """Commit a counted load of rows behind the newest commit, when commits up to a number are published."""
    history = table.seen()
    newest = None if history is None else history.newest()
    line = Line() if history is None else line_of(history, 0)
    number, start = (newest.number + 1, newest.offsets[PARTITION]) if newest else (1, 0)
    staging = table.begin()
    rows = rows_of(number, start // ROW_BYTES, times_ms)
    write_rows(table.files, staging, rows)
    counts = RowCounts(CountsStore(table.files, table.path), TOPIC, number, attempt_of(staging), Windows())
    for batch in rows.to_batches():
        counts.add(counted_in(TOPIC, batch))
    counts.flush()
    commit = commit_of(number, start + ROW_BYTES * len(times_ms), start=start, rows=len(times_ms))
    commit = replace(commit, counts=counts.named(line, published), complete_through_ms=complete_through_ms)
    table.commit(staging, commit)
    found = table.newest()
    assert found is not None
    return found
