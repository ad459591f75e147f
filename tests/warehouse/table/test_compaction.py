"""Compaction of a table: the same rows in fewer files, and the same offsets."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import TableFeatures

from kafka2011.warehouse import open_table
from kafka2011.warehouse.errors import OvertakenError, WarehouseError
from kafka2011.warehouse.table import compaction
from kafka2011.warehouse.table.cleaning import clean
from kafka2011.warehouse.table.compaction import compact
from kafka2011.warehouse.table.merge import merge
from kafka2011.warehouse.table.topic_table import TopicTable
from tests.support.tables import FIRST_MS, HOUR_MS, SCHEMA, TOPIC, commit_of, load, offsets_in, rows_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from deltalake import DeltaTable

LOADS = 4
DAY_MS = 24 * HOUR_MS


@pytest.fixture
def table(tmp_path: Path) -> TopicTable:
    """Give a table with one row of each of two days in each of four loads, which have more columns over time."""
    table = TopicTable(tmp_path / "warehouse", TOPIC)
    newer = SCHEMA.append(pa.field("referrer", pa.string()))
    for number in range(LOADS):
        times = [FIRST_MS + LOADS - number, FIRST_MS + DAY_MS]
        more = (newer, {"referrer": ["/"] * 2}) if number > 1 else (SCHEMA, {})
        load(table, times, more[0], **more[1])
    return table


def files(table: TopicTable) -> int:
    return len(table.delta().file_uris())


def test_small_files_become_one_for_each_date(table: TopicTable) -> None:
    """No row changes, whichever load brought it; the newest commit is the load before."""
    before = rows_in(table).to_pylist()
    table.commit(table.begin(), commit_of(LOADS + 1, 200 * LOADS, extra={"seen_ms": {"0-1": 7}}))
    newest = table.newest()
    assert compact(table) == (2 * LOADS, 2)
    assert table.newest() == newest
    assert files(table) == 2
    assert rows_in(table).to_pylist() == before
    assert {row["kafka2011_load_id"] for row in before} == {1, 2, 3, 4}
    assert compact(table) == (0, 0)
    assert [each.number for each in table.commits()] == [1, 2, 3, 4, 5]


def test_loading_goes_on_and_an_old_version_is_still_whole(table: TopicTable, tmp_path: Path) -> None:
    """Whoever reads it meanwhile sees what was there."""
    reading = open_table(tmp_path / "warehouse", TOPIC)
    compact(table)
    load(table, [FIRST_MS])
    clean(table)
    assert reading.to_table().num_rows == 2 * LOADS
    assert offsets_in(table) == [100 * number for number in range(2 * LOADS + 1)]
    assert compact(table) == (2, 1)
    assert offsets_in(table) == [100 * number for number in range(2 * LOADS + 1)]


def test_files_that_are_large_enough_stay(table: TopicTable) -> None:
    """And no file becomes much larger than it should."""
    assert compact(table, target_bytes=1000) == (0, 0)
    compact(table, target_bytes=10_000)
    assert files(table) == LOADS


def test_an_empty_table_has_nothing_to_compact(tmp_path: Path) -> None:
    """Nor has one that is not there."""
    table = TopicTable(tmp_path, TOPIC)
    assert compact(table) == (0, 0)
    table.commit(table.begin(), commit_of(1, 100))
    assert compact(table) == (0, 0)


def after_rewriting(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """Let something happen once, when the first new file is written and not yet swapped in."""

    def merge_then(*args: Any, **kwargs: Any) -> int:
        rows = merge(*args, **kwargs)
        monkeypatch.undo()
        happens()
        return rows

    monkeypatch.setattr(compaction, "merge", merge_then)


def test_a_load_that_comes_first_does_no_harm(table: TopicTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """It took none of the files away: the compaction is written behind it."""
    after_rewriting(monkeypatch, lambda: load(table, [FIRST_MS]))
    assert compact(table) == (2 * LOADS, 2)
    assert offsets_in(table) == [100 * number for number in range(2 * LOADS + 1)]
    newest = table.newest()
    assert newest is not None
    assert newest.number == LOADS + 1


@pytest.mark.parametrize("other", [compact, lambda table: table.delta().optimize.compact()])
def test_of_two_compactions_one_succeeds(
    table: TopicTable, monkeypatch: pytest.MonkeyPatch, other: Callable[[TopicTable], object]
) -> None:
    """Both would put the rows in: the second one finds its files gone, and leaves nothing behind."""
    after_rewriting(monkeypatch, lambda: other(table))
    with pytest.raises(OvertakenError, match="another one has rewritten or removed the same files"):
        compact(table)
    assert offsets_in(table) == [100 * number for number in range(2 * LOADS)]
    assert files(table) == 2
    assert clean(table, older_than_s=-1).files == 2 * LOADS
    newest = table.newest()
    assert newest is not None
    assert newest.number == LOADS


def test_what_comes_at_the_very_moment_of_the_swap_is_noticed(
    table: TopicTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A load between looking and writing is let pass, and another compaction is not."""
    stale = table.delta()
    real = TopicTable.delta
    opened = [lambda: stale] * 2

    def delta(self: TopicTable) -> DeltaTable:
        return opened.pop()() if opened else real(self)

    compact(table)
    monkeypatch.setattr(TopicTable, "delta", delta)
    with pytest.raises(OvertakenError):
        compact(table)
    assert offsets_in(table) == [100 * number for number in range(2 * LOADS)]


def test_rows_are_sorted_by_time(table: TopicTable, tmp_path: Path) -> None:
    """Whichever load brought them."""
    compact(table)
    times = open_table(tmp_path / "warehouse", TOPIC).to_table()["time"].to_pylist()
    assert len(times) == 2 * LOADS
    assert times == sorted(times)


def test_few_rows_are_in_memory_at_a_time(table: TopicTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a part of a date; all together they are the same, and sorted."""
    monkeypatch.setattr(compaction, "merge", partial(merge, max_rows=3))
    load(table, [FIRST_MS + number * 7 * HOUR_MS // 2 for number in (6, 0, 5, 1, 4, 2, 3)])
    before = offsets_in(table)
    compact(table)
    assert offsets_in(table) == before
    times = open_table(tmp_path / "warehouse", TOPIC).to_table()["time"].to_pylist()
    assert times == sorted(times)


def test_rows_that_were_deleted_inside_files_do_not_come_back(table: TopicTable, tmp_path: Path) -> None:
    """Neither by a compaction nor by reading the files; those that others deleted by rewriting files are gone."""
    table.delta().delete("kafka2011_offset = 100")
    compact(table)
    assert offsets_in(table) == [0, *(100 * number for number in range(2, 2 * LOADS))]
    load(table, [FIRST_MS])
    table.delta().alter.add_feature([TableFeatures.DeletionVectors], allow_protocol_versions_increase=True)
    for read in (lambda: compact(table), lambda: open_table(tmp_path / "warehouse", TOPIC)):
        with pytest.raises(WarehouseError, match="has deletion vectors"):
            read()
