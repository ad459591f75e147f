"""Compaction of a table in Iceberg: the same rows in fewer files, and the same offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kafka2011.warehouse.errors import OvertakenError
from kafka2011.warehouse.table.commits import Operation
from kafka2011.warehouse.table.iceberg import compaction
from kafka2011.warehouse.table.iceberg.iceberg_table import IcebergTable
from tests.support.iceberg_tables import load, offsets_in
from tests.support.tables import FIRST_MS, HOUR_MS, SCHEMA, TOPIC, commit_of

if TYPE_CHECKING:
    from pathlib import Path

LOADS = 4
LATER_MS = FIRST_MS + 2 * HOUR_MS


@pytest.fixture
def table(tmp_path: Path) -> IcebergTable:
    """Give a table with one row of each of two hours in each of four loads, which have more columns over time."""
    table = IcebergTable(tmp_path / "warehouse", TOPIC)
    newer = SCHEMA.append(pa.field("referrer", pa.string()))
    for number in range(LOADS):
        times = [FIRST_MS + LOADS - number, FIRST_MS + HOUR_MS]
        more = (newer, {"referrer": ["/"] * 2}) if number > 1 else (SCHEMA, {})
        load(table, times, more[0], **more[1])
    return table


def files(table: IcebergTable) -> list[str]:
    return sorted(str(task.file.file_path) for task in table.iceberg().scan().plan_files())


def rows(table: IcebergTable) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.iceberg().scan().to_arrow().sort_by("kafka2011_offset").to_pylist()
    return found


def test_small_files_become_one_for_each_hour(table: IcebergTable) -> None:
    """No row changes, whichever load brought it; rows are in order of time."""
    before = rows(table)
    table.commit(table.begin(), commit_of(LOADS + 1, 200 * LOADS, extra={"seen_ms": {"0-1": 7}}))
    newest = table.newest()
    commit = table.compact(before_ms=LATER_MS)
    assert commit is not None
    assert newest is not None
    assert (commit.operation, commit.number) == (Operation.COMPACT, LOADS + 2)
    assert commit.offsets == newest.offsets
    assert (commit.rows, commit.ranges) == (2 * LOADS, ())
    assert commit.extra == {"seen_ms": {"0-1": 7}, "files_before": 2 * LOADS, "files_after": 2}
    assert table.newest() == commit
    assert len(files(table)) == 2
    assert rows(table) == before
    assert {row["kafka2011_load_id"] for row in before} == {1, 2, 3, 4}
    times = table.iceberg().scan(row_filter="time < '2011-06-12T01:00:00+00:00'").to_arrow()["time"].to_pylist()
    assert len(times) == LOADS
    assert times == sorted(times)


def test_loading_goes_on_and_an_old_snapshot_is_still_whole(table: IcebergTable) -> None:
    """Whoever reads it meanwhile sees what was there."""
    iceberg = table.iceberg()
    table.compact(before_ms=LATER_MS)
    load(table, [FIRST_MS])
    assert iceberg.scan().to_arrow().num_rows == 2 * LOADS
    assert offsets_in(table) == [100 * number for number in range(2 * LOADS + 1)]
    again = table.compact(before_ms=LATER_MS)
    assert again is not None
    assert again.extra == {"files_before": 2, "files_after": 1}
    assert offsets_in(table) == [100 * number for number in range(2 * LOADS + 1)]


def test_hours_that_go_on_are_left_alone(table: IcebergTable) -> None:
    """And where nothing is left to do nothing is committed."""
    first = table.compact(before_ms=FIRST_MS + HOUR_MS)
    assert first is not None
    assert first.rows == LOADS
    assert len(files(table)) == 1 + LOADS
    assert table.compact(before_ms=FIRST_MS + HOUR_MS) is None
    assert table.compact(before_ms=LATER_MS - 1) is None
    newest = table.newest()
    assert newest is not None
    assert newest.number == LOADS + 1


def test_files_that_are_large_enough_stay(table: IcebergTable) -> None:
    """And no file becomes larger than it should."""
    [size, *_] = {task.file.file_size_in_bytes for task in table.iceberg().scan().plan_files()}
    assert table.compact(before_ms=LATER_MS, target_bytes=size) is None
    table.compact(before_ms=LATER_MS, target_bytes=int(size * 2.5))
    assert len(files(table)) == LOADS


def test_an_empty_table_has_nothing_to_compact(tmp_path: Path) -> None:
    """Nor has one that is not there."""
    table = IcebergTable(tmp_path, TOPIC)
    assert table.compact(before_ms=LATER_MS) is None
    table.begin()
    assert table.compact(before_ms=LATER_MS) is None


def test_a_load_that_comes_first_does_no_harm(table: IcebergTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """It took none of the files away: the compaction is committed behind it."""
    real = compaction.rewrite

    def rewrite(*args: Any) -> Any:
        rewritten = real(*args)
        load(table, [FIRST_MS])
        return rewritten

    monkeypatch.setattr(compaction, "rewrite", rewrite)
    commit = table.compact(before_ms=LATER_MS)
    assert commit is not None
    assert commit.number == LOADS + 2
    assert offsets_in(table) == [100 * number for number in range(2 * LOADS + 1)]
    newest = table.newest()
    assert newest is not None
    assert list(newest.offsets.values()) == [100 * (2 * LOADS + 1)]


def test_of_two_compactions_one_succeeds(table: IcebergTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both would put the rows in: the second one finds its files gone, and leaves nothing behind."""
    real = compaction.rewrite

    def rewrite(*args: Any) -> Any:
        rewritten = real(*args)
        monkeypatch.undo()
        table.compact(before_ms=LATER_MS)
        return rewritten

    monkeypatch.setattr(compaction, "rewrite", rewrite)
    with pytest.raises(OvertakenError):
        table.compact(before_ms=LATER_MS)
    assert offsets_in(table) == [100 * number for number in range(2 * LOADS)]
    assert len(files(table)) == 2
    assert table.clean(older_than_s=-1).directories == 0
