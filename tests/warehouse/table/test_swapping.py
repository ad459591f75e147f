"""A rebuilt table takes the place of its topic's in one entry: rows, columns, offsets and quarantine."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kafka2011.reports.table_inputs import TableInputs, view_of
from kafka2011.warehouse import open_table
from kafka2011.warehouse.errors import OvertakenError, RolledBackError, WarehouseError
from kafka2011.warehouse.table import files, swapping
from kafka2011.warehouse.table.cleaning import clean
from kafka2011.warehouse.table.commits import Operation
from kafka2011.warehouse.table.compaction import compact
from kafka2011.warehouse.table.quarantine import awaiting, open_quarantine
from kafka2011.warehouse.table.status import status_of
from kafka2011.warehouse.table.swapping import swap
from kafka2011.warehouse.table.topic_table import TopicTable
from tests.support.tables import FIRST_MS, HOUR_MS, PARTITION, SCHEMA, TOPIC, commit_of, load, offsets_in, staged

if TYPE_CHECKING:
    from collections.abc import Callable

AGAIN = "views-again"
NUMBERS = SCHEMA.set(4, pa.field("page", pa.int64()))
"""The column `page` has another type."""


@pytest.fixture
def table(tmp_path: Path) -> TopicTable:
    """Give the topic's table, of three loads with a message in quarantine each."""
    table = TopicTable(tmp_path, TOPIC)
    for _ in range(3):
        load(table, [FIRST_MS])
        refuse(table, tmp_path)
    return table


@pytest.fixture
def rebuilt(tmp_path: Path) -> TopicTable:
    """Give a table that is rebuilt from the second message on, with one load less and one message refused."""
    table = TopicTable(tmp_path, TOPIC, name=AGAIN)
    table.commit(table.begin(), commit_of(1, 100))
    load(table, [FIRST_MS, FIRST_MS + 24 * HOUR_MS], NUMBERS, page=[1, 2])
    refuse(table, tmp_path)
    compact(table)
    return table


def refuse(table: TopicTable, warehouse: Path) -> None:
    """Commit a message that could not be decoded."""
    newest = table.newest()
    assert newest is not None
    staging = table.begin()
    lines = [f'{{"offset": {newest.offsets[PARTITION]}}}']
    open_quarantine(str(warehouse), TOPIC).write(newest.number + 1, staging.rpartition("/")[2], lines)
    table.commit(staging, commit_of(newest.number + 1, newest.offsets[PARTITION] + 100, quarantined=1))


def test_rows_offsets_columns_and_quarantine_are_those_of_the_rebuilt_table(
    table: TopicTable, rebuilt: TopicTable, tmp_path: Path
) -> None:
    """The number goes on; loads go on from there, and the rebuilt table stays."""
    commit, behind = swap(str(tmp_path), TOPIC, AGAIN)
    assert (commit.number, commit.operation, commit.rows) == (7, Operation.SWAP, 2)
    assert behind == {PARTITION: 200}
    newest = table.newest()
    assert newest is not None
    assert (newest.number, newest.offsets) == (7, {PARTITION: 400})
    assert offsets_in(table) == [100, 200]
    rows = open_table(tmp_path, TOPIC).to_table()
    assert rows.schema.field("page").type == pa.int64()
    assert sorted(rows["page"].to_pylist()) == [1, 2]
    [waiting] = awaiting(table.commits())
    assert list(open_quarantine(str(tmp_path), TOPIC).lines([waiting])) == ['{"offset": 300}']
    [_, status] = sorted(status_of(str(tmp_path)), key=lambda each: len(each.topic), reverse=True)
    assert (status.rows, status.quarantined, status.number) == (2, 1, 7)
    load(table, [FIRST_MS], NUMBERS, page=[5])
    assert offsets_in(table) == [100, 200, 400]
    assert compact(table).files_before == 2
    clean(table, older_than_s=-1)
    assert offsets_in(table) == [100, 200, 400]
    assert offsets_in(rebuilt) == [100, 200]


def test_files_are_copied_where_they_cannot_have_another_name(
    table: TopicTable, rebuilt: TopicTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another file system, or files of another user."""

    def refused(source: object, target: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refused)
    swap(str(tmp_path), TOPIC, AGAIN)
    assert {path.stat().st_nlink for path in tmp_path.rglob("*.parquet")} == {1}
    assert offsets_in(table) == [100, 200]


def test_files_are_young_when_they_get_their_new_name(table: TopicTable, rebuilt: TopicTable, tmp_path: Path) -> None:
    """Or a cleaning at that moment would find them old, and nothing naming them."""
    then = time.time() - 30 * 24 * 3600
    for path in rebuilt.paths_in(rebuilt.delta()):
        os.utime(path, (then, then))
    swap(str(tmp_path), TOPIC, AGAIN)
    paths = table.paths_in(table.delta())
    assert {Path(path).stat().st_nlink for path in paths} == {2}
    assert min(Path(path).stat().st_mtime for path in paths) > then + 3600


def test_loads_may_commit_meanwhile(
    table: TopicTable, rebuilt: TopicTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The swap takes the next number that is free; their rows come again, from the log."""
    loads = [4, 3, 2]

    def bring(*args: Any) -> None:
        files.bring(*args)
        load(TopicTable(tmp_path, TOPIC), [FIRST_MS])

    real = TopicTable.commit

    def commit(self: TopicTable, staging: str, commit: Any, **more: Any) -> None:
        if more and loads:
            loads.pop()
            load(TopicTable(tmp_path, TOPIC), [FIRST_MS])
        real(self, staging, commit, **more)

    monkeypatch.setattr(swapping, "bring", bring)
    monkeypatch.setattr(TopicTable, "commit", commit)
    made, behind = swap(str(tmp_path), TOPIC, AGAIN)
    assert (made.number, behind) == (12, {PARTITION: 700})
    assert offsets_in(table) == [100, 200]
    assert [path.parent.name for path in tmp_path.with_name(f"{tmp_path.name}-quarantine").rglob("*.json")].count(
        "load_id=000012"
    ) == 1


def test_a_load_that_is_under_way_is_overtaken(table: TopicTable, rebuilt: TopicTable, tmp_path: Path) -> None:
    """It began at offsets that the table no longer has."""
    staging = staged(table, 7, [FIRST_MS], first=6)
    swap(str(tmp_path), TOPIC, AGAIN)
    with pytest.raises(OvertakenError):
        table.commit(staging, commit_of(7, 700, start=600, rows=1))
    table.abandon(staging)
    assert offsets_in(table) == [100, 200]


def test_a_swap_can_be_undone(table: TopicTable, rebuilt: TopicTable, tmp_path: Path) -> None:
    """As every entry: loads then ask how to go on."""
    version = table.delta().version()
    swap(str(tmp_path), TOPIC, AGAIN)
    table.delta().restore(version)
    assert offsets_in(table) == [0, 200, 400]
    with pytest.raises(RolledBackError):
        table.newest()
    assert table.settle_rollback(again=True).offsets == {PARTITION: 600}
    assert len(awaiting(table.commits())) == 3


def test_reports_do_not_go_on_from_rows_that_are_gone(table: TopicTable, rebuilt: TopicTable, tmp_path: Path) -> None:
    """All days are derived again."""
    before = TableInputs(None, [view_of(table)]).through
    load(table, [FIRST_MS])
    assert TableInputs(None, [view_of(table)]).goes_on(before)
    swap(str(tmp_path), TOPIC, AGAIN)
    after = TableInputs(None, [view_of(table)])
    assert not after.goes_on(before)
    load(table, [FIRST_MS], NUMBERS, page=[5])
    assert TableInputs(None, [view_of(table)]).goes_on(after.through)


def _without_rows(warehouse: Path) -> None:
    TopicTable(warehouse, TOPIC, name="empty").begin()


def _of_clicks(warehouse: Path) -> None:
    clicks = TopicTable(warehouse, "clicks")
    staging = clicks.begin()
    from dataclasses import replace

    clicks.commit(staging, replace(commit_of(1, 0), topic="clicks"))


def _lost_quarantine(warehouse: Path) -> None:
    for path in warehouse.with_name(f"{warehouse.name}-quarantine").rglob("load_id=000003/*.json"):
        path.unlink()


@pytest.mark.parametrize(
    ("name", "prepare", "why"),
    [
        (TOPIC, lambda _: None, "a rebuilt table has another name than its topic"),
        ("missing", lambda _: None, "missing does not exist"),
        ("empty", _without_rows, "empty does not exist"),
        ("clicks", _of_clicks, "is a table of topic clicks, not of views"),
        (AGAIN, _lost_quarantine, r"load_id=000003 has 0 messages, and commit 3 says 1"),
    ],
)
def test_what_is_no_rebuilt_table_is_refused(
    table: TopicTable, rebuilt: TopicTable, tmp_path: Path, name: str, prepare: Callable[[Path], object], why: str
) -> None:
    """Nothing has changed then."""
    prepare(tmp_path)
    version = table.delta().version()
    with pytest.raises(WarehouseError, match=why):
        swap(str(tmp_path), TOPIC, name)
    assert table.delta().version() == version
