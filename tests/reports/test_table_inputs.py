"""Which days new commits touch, and whether results can go on from where they were: without Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from kafka2011.reports.table_inputs import TableFile, TableInputs, TableView, view_of
from kafka2011.warehouse.table.commits import Commit, Operation
from kafka2011.warehouse.table.compaction import compact
from kafka2011.warehouse.table.topic_table import TopicTable
from tests.support.event_tables import EventTable
from tests.support.odd_events import DAY_US, MIDNIGHT_US
from tests.support.tables import FIRST_MS, HOUR_MS, load

if TYPE_CHECKING:
    from pathlib import Path

DAY = date(2011, 6, 12)


def commit(number: int, operation: Operation = Operation.LOAD, **more: Any) -> Commit:
    return Commit("clicks", number, operation, 5, {}, attempt=f"attempt {number}", **more)


def inputs(*commits: Commit, files: tuple[TableFile, ...] = ()) -> TableInputs:
    return TableInputs(None, [TableView("clicks", commits, files)])


def test_results_go_on_from_a_commit_that_is_still_there() -> None:
    """More commits, and entries that were cleaned up, do no harm."""
    before = inputs(commit(1), commit(2)).through
    assert inputs(commit(1), commit(2)).goes_on(before)
    assert inputs(commit(1), commit(2), commit(3)).goes_on(before)
    assert inputs(commit(3), commit(4)).goes_on(before)
    assert inputs(commit(1)).goes_on({})


@pytest.mark.parametrize(
    "now",
    [
        inputs(),
        inputs(commit(1)),
        inputs(commit(1), replace(commit(2), attempt="of another table")),
        inputs(commit(1), commit(2), commit(3, Operation.ROLLBACK)),
    ],
)
def test_results_do_not_go_on_where_events_may_be_missing(now: TableInputs) -> None:
    """The table is gone, was cut short, was built again, or rolled back."""
    assert not now.goes_on(inputs(commit(1), commit(2)).through)


def test_days_of_new_files_are_known_by_their_paths(tmp_path: Path) -> None:
    """Only what later commits brought counts; of a whole table nothing is read."""
    table = EventTable(tmp_path, "clicks")
    for day in (0, 1, 2):
        table.load([{"time": MIDNIGHT_US + day * DAY_US, "id": str(day), "item": "a", "position": 1}])
    view = view_of(table.table)
    now = TableInputs(None, [view])
    assert now.touched("clicks", {"commit": 1}, 0) == {date(2011, 6, 13), date(2011, 6, 14)}
    assert now.touched("clicks", None, 0) == {date(2011, 6, 12), date(2011, 6, 13), date(2011, 6, 14)}
    assert now.through == {
        "clicks": {
            "commit": 3,
            "attempt": view.commits[-1].attempt,
            "written_at_ms": view.commits[-1].written_at_ms,
            "complete_through_ms": None,
        },
    }


def test_files_of_a_table_belong_to_their_commits(tmp_path: Path) -> None:
    """Those of a load do; those that a compaction has written belong to none."""
    table = TopicTable(tmp_path, "views")
    assert view_of(table).commits == []
    load(table, [FIRST_MS, FIRST_MS + 24 * HOUR_MS])
    load(table, [FIRST_MS + 1])
    view = view_of(table)
    assert [each.number for each in view.commits] == [1, 2]
    assert sorted((file.number, file.day) for file in view.files) == [(1, DAY), (1, DAY + timedelta(days=1)), (2, DAY)]
    assert compact(table) == (2, 1)
    view = view_of(table)
    numbers = sorted(file.number for file in view.files)
    assert numbers[0] == 1  # the day of one file
    assert numbers[-1] not in {1, 2}
    assert len(numbers) == 2
