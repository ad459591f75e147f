"""Repeats of events: dropped from what is staged, and counted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow.parquet as pq
import pytest

from kafka2011.warehouse import open_table
from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.table.commits import LoadedRange
from kafka2011.warehouse.table.parquet.dedup import drop_repeats, recent_rows
from kafka2011.warehouse.table.parquet.parquet_table import ParquetTable
from tests.support.tables import FIRST_MS, HOUR_MS, PARTITION, TOPIC, commit_of, load, rows_of, write_rows
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from kafka2011.warehouse.table.commits import Commit

OTHER = TopicPartition(TOPIC, 1, 0)


@pytest.fixture
def table(tmp_path: Path) -> ParquetTable:
    """Give a table that is not there yet."""
    return ParquetTable(tmp_path, TOPIC)


def ids(*numbers: int) -> list[str]:
    return [str(UUID(int=each)) for each in numbers]


def dedup_and_load(table: ParquetTable, numbers: list[int], since_ms: int = 0, **more: Any) -> Commit:
    """Load events with these numbers, each of which happened at a time of its own, without repeats."""
    newest = table.newest()
    number, start = (newest.number + 1, newest.offsets[PARTITION]) if newest else (1, 0)
    staging = table.begin()
    times = [FIRST_MS + each * HOUR_MS for each in numbers]
    write_rows(staging, rows_of(number, start // 100, times, id=ids(*numbers)))
    end = start + 100 * len(numbers)
    commit = commit_of(number, end, start=start, rows=len(numbers))
    commit = drop_repeats(staging, commit, recent_rows(table, since_ms), **more)
    table.commit(staging, commit)
    return commit


def events(warehouse: Path) -> list[tuple[str, int]]:
    """Return the ids that readers see, with their offsets."""
    found = open_table(warehouse, TOPIC).to_table(columns=["id", "kafka2011_offset"]).to_pydict()
    return sorted(zip(*found.values(), strict=True))


@pytest.mark.parametrize("max_rows", [1, 2, 1000])
def test_each_event_stays_once(table: ParquetTable, tmp_path: Path, max_rows: int) -> None:
    """Of two in one load the first place stays, of two in two loads the earlier one; the rest is counted."""
    first = dedup_and_load(table, [1, 2, 1, 30], max_rows=max_rows)
    second = dedup_and_load(table, [30, 3, 2, 3], max_rows=max_rows)
    assert first.ranges == (LoadedRange(PARTITION, 0, 400, rows=3, repeats=1),)
    assert second.ranges == (LoadedRange(PARTITION, 400, 800, rows=1, repeats=3),)
    assert [each.rows for each in table.commits()] == [3, 1]
    assert [each.ranges for each in table.commits()] == [first.ranges, second.ranges]
    found = events(tmp_path)
    assert found == list(zip(ids(1, 2, 3, 30), [0, 100, 500, 300], strict=True))


def test_files_without_repeats_stay_as_they_are(table: ParquetTable) -> None:
    """Only the date that has some is written again, sorted as it was."""
    staging = table.begin()
    times = [FIRST_MS + 2, FIRST_MS + 1, FIRST_MS + 2, FIRST_MS + 30 * HOUR_MS]
    write_rows(staging, rows_of(1, 0, times, id=ids(2, 1, 2, 30)))
    before = {each.name for each in Path(staging).rglob("*.parquet")}
    drop_repeats(staging, commit_of(1, 400, rows=4), None)
    [today, tomorrow] = sorted(Path(staging).rglob("*.parquet"))
    assert today.name not in before
    assert tomorrow.name in before
    assert pq.read_table(today)["id"].to_pylist() == ids(1, 2)


def test_no_repeats_no_change(table: ParquetTable) -> None:
    """The commit is the same."""
    staging = table.begin()
    write_rows(staging, rows_of(1, 0, [FIRST_MS] * 3))
    commit = commit_of(1, 300, rows=3)
    assert drop_repeats(staging, commit, recent_rows(table, 0)) is commit


def test_each_partition_counts_its_own(table: ParquetTable) -> None:
    """Whichever of them had the repeat."""
    staging = table.begin()
    rows = rows_of(1, 0, [FIRST_MS] * 3, id=ids(1, 1, 1), kafka2011_broker_id=[1, 0, 1], kafka2011_partition=[0, 1, 0])
    write_rows(staging, rows)
    ranges = (LoadedRange(PARTITION, 0, 200, rows=1), LoadedRange(OTHER, 0, 300, rows=2))
    commit = drop_repeats(staging, commit_of(1, 300, rows=3, ranges=ranges), None)
    assert commit.rows == 1
    assert commit.ranges == (LoadedRange(PARTITION, 0, 200, rows=1), LoadedRange(OTHER, 0, 300, repeats=2))


def test_beyond_the_window_a_repeat_is_a_row(table: ParquetTable, tmp_path: Path) -> None:
    """Only what was committed since then is compared with."""
    load(table, [FIRST_MS], id=ids(0), written_at_ms=1000)
    load(table, [FIRST_MS + HOUR_MS], id=ids(1), written_at_ms=2000)
    commit = dedup_and_load(table, [0, 1], since_ms=2000)
    assert commit.ranges[0].repeats == 1
    assert events(tmp_path) == list(zip(ids(0, 0, 1), [0, 200, 100], strict=True))


def test_it_is_for_local_tables() -> None:
    """Files elsewhere are not rewritten on the driver."""
    with pytest.raises(WarehouseError, match="not local"):
        drop_repeats("hdfs://namenode/staging/1", commit_of(1, 0), None)
