"""Cleaning a table in Delta: what no entry names goes, once it is old; nothing else does."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from kafka2011.warehouse import open_table
from kafka2011.warehouse.errors import RolledBackError, WarehouseError
from kafka2011.warehouse.table.delta.cleaning import ENTRY_LIFETIME_S, ORPHAN_LIFETIME_S, clean
from kafka2011.warehouse.table.delta.compaction import compact
from kafka2011.warehouse.table.delta.delta_table import TopicTable
from tests.support.delta_tables import load, offsets_in, staged
from tests.support.tables import FIRST_MS, HOUR_MS, PARTITION, TOPIC, commit_of

OLD_S = ORPHAN_LIFETIME_S + 60
DAY_MS = 24 * HOUR_MS


@pytest.fixture
def table(tmp_path: Path) -> TopicTable:
    """Give a table of two loads, all of them young."""
    table = TopicTable(tmp_path / "warehouse", TOPIC)
    for _ in range(2):
        load(table, [FIRST_MS, FIRST_MS + DAY_MS])
    return table


def files(table: TopicTable) -> set[Path]:
    return {path for path in Path(table.path).rglob("*") if path.is_file()}


def age(table: TopicTable, old_s: float = OLD_S) -> None:
    """Make everything old."""
    when = time.time() - old_s
    for path in Path(table.path).rglob("*"):
        os.utime(path, (when, when))


def entries(table: TopicTable) -> list[str]:
    return sorted(path.name for path in Path(table.path, "_delta_log").glob("*.json"))


def test_all_that_is_in_use_stays_however_old(table: TopicTable) -> None:
    """Rows and log; and where nothing is to be done nothing is written."""
    load(table, [FIRST_MS])
    age(table)
    before = files(table)
    assert clean(table) == (0, 0, 0)
    assert files(table) == before
    assert offsets_in(table) == [0, 100, 200, 300, 400]


def test_what_dead_loads_left_goes_once_it_is_old(table: TopicTable) -> None:
    """One died before it wrote, one while Spark's tasks wrote, one before its commit; one is running."""
    empty, writing, dead = table.begin(), table.begin(), staged(table, 3, [FIRST_MS], 4)
    left = Path(writing, "_temporary/0/date=2011-06-12/part-00000.parquet")
    left.parent.mkdir(parents=True)
    left.touch()
    age(table)
    running, young = staged(table, 3, [FIRST_MS], 4), table.begin()
    cleaned = clean(table)
    assert [Path(each).exists() for each in (empty, writing, dead, running, young)] == [False] * 3 + [True] * 2
    assert cleaned.files == 2
    assert cleaned.size_bytes > 0
    table.commit(running, commit_of(3, 500, rows=1))
    assert offsets_in(table) == [0, 100, 200, 300, 400]


def test_a_load_whose_files_were_removed_fails(table: TopicTable) -> None:
    """It was stalled for longer than a day, and says so instead of committing less."""
    staging = staged(table, 3, [FIRST_MS], 4)
    age(table)
    clean(table)
    with pytest.raises(WarehouseError, match=r"views.*is gone"):
        table.commit(staging, commit_of(3, 500, rows=1))
    assert offsets_in(table) == [0, 100, 200, 300]


def test_a_commit_makes_its_files_young_again(table: TopicTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cleaning that has seen the table without it does not take them."""
    staging = staged(table, 3, [FIRST_MS], 4)
    age(table)
    before = table.delta()
    table.commit(staging, commit_of(3, 500, rows=1))
    monkeypatch.setattr(table, "delta", lambda: before)
    assert clean(table) == (0, 0, 0)
    assert offsets_in(table) == [0, 100, 200, 300, 400]


def test_compacted_files_stay_for_those_who_read_them(table: TopicTable, tmp_path: Path) -> None:
    """From the compaction on, however old they were; then they go, with their directories."""
    age(table)
    reading = open_table(tmp_path / "warehouse", TOPIC)
    assert compact(table) == (4, 2)
    assert clean(table).files == 0
    assert reading.to_table().num_rows == 4
    assert clean(table, older_than_s=-1).files == 4
    assert len(list(Path(table.path, "data").iterdir())) == 2
    assert offsets_in(table) == [0, 100, 200, 300]
    load(table, [FIRST_MS])
    assert offsets_in(table) == [0, 100, 200, 300, 400]


def test_old_entries_go_and_the_newest_commit_does_not(table: TopicTable) -> None:
    """After a checkpoint nothing is left of the log before it but the commit, among the properties."""
    before = table.newest()
    compact(table)
    age(table, ENTRY_LIFETIME_S + 3 * 24 * 3600)
    cleaned = clean(table)
    assert (cleaned.files, cleaned.entries) == (0, 5)
    assert len(entries(table)) == 1
    assert table.commits() == []
    assert TopicTable(Path(table.path).parent, TOPIC).newest() == before
    assert offsets_in(table) == [0, 100, 200, 300]
    load(table, [FIRST_MS])
    newest = table.newest()
    assert newest is not None
    assert (newest.number, newest.offsets) == (3, {PARTITION: 500})
    assert [each.number for each in table.commits()] == [3]
    compact(table)
    clean(table)
    assert table.newest() == newest


def test_a_table_that_was_restored_is_left_alone(table: TopicTable) -> None:
    """That may be undone yet; it is known also where old entries are gone."""
    load(table, [FIRST_MS])
    age(table, ENTRY_LIFETIME_S + 3 * 24 * 3600)
    clean(table)
    load(table, [FIRST_MS])
    version = table.delta().version()
    load(table, [FIRST_MS])
    table.delta().restore(version)
    with pytest.raises(RolledBackError, match="from commit 5 to 4"):
        clean(table, older_than_s=-1)
    table.delta().restore(version - 1)
    with pytest.raises(RolledBackError, match="from commit 5 to before the first"):
        table.newest()
    table.settle_rollback(again=False)
    newest = table.newest()
    assert newest is not None
    assert newest.offsets == {PARTITION: 700}


def test_a_table_that_is_not_there_cannot_be_cleaned(tmp_path: Path) -> None:
    """A name with a slip of the pen is not a clean table."""
    with pytest.raises(WarehouseError, match="does not exist"):
        clean(TopicTable(tmp_path, TOPIC))
