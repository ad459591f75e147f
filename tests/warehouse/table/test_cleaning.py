"""Cleaning a table: what no entry names goes, once it is old; nothing else does."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from kafka2011.warehouse import open_table
from kafka2011.warehouse.errors import RolledBackError, WarehouseError
from kafka2011.warehouse.table import cleaning
from kafka2011.warehouse.table.cleaning import ORPHAN_LIFETIME_S, clean
from kafka2011.warehouse.table.commits import Operation
from kafka2011.warehouse.table.compaction import compact
from kafka2011.warehouse.table.files import LocalFiles
from kafka2011.warehouse.table.quarantine import awaiting
from kafka2011.warehouse.table.status import status_of
from kafka2011.warehouse.table.topic_table import TopicTable
from tests.support.tables import FIRST_MS, HOUR_MS, PARTITION, TOPIC, commit_of, load, offsets_in, staged

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


@pytest.fixture
def few_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have entries removed soon."""
    monkeypatch.setattr(cleaning, "KEPT_ENTRIES", 15)
    monkeypatch.setattr(cleaning, "MOST_ENTRIES", 20)


@pytest.mark.usefixtures("few_entries")
def test_entries_go_where_there_are_many(table: TopicTable) -> None:
    """Those behind an old checkpoint; the newest commit, and the sums of all, are known as before."""
    for _ in range(18):
        load(table, [FIRST_MS])
        compact(table)
    before, rows = table.newest(), offsets_in(table)
    [status] = status_of(str(Path(table.path).parent))
    removed = clean(table).entries
    assert removed > 10
    assert 15 <= len(entries(table)) <= 27
    assert entries(table)[-1] == f"{table.delta().version():020d}.json"
    assert TopicTable(Path(table.path).parent, TOPIC).newest() == before
    assert offsets_in(table) == rows
    commits = table.commits()
    assert (commits[0].operation, commits[-1]) == (Operation.FORGOTTEN, before)
    assert [each.number for each in commits] == list(range(commits[0].number, 21))
    assert status_of(str(Path(table.path).parent)) == [status]
    assert clean(table).entries == 0
    for _ in range(20):
        load(table, [FIRST_MS])
    [status] = status_of(str(Path(table.path).parent))
    assert clean(table).entries > 10
    assert status_of(str(Path(table.path).parent)) == [status]
    assert status.loads == 40
    assert len(offsets_in(table)) == status.rows
    assert len([path for path in files(table) if path.parent.name == "_kafka2011"]) == 2
    clean(table, older_than_s=-1)
    assert status_of(str(Path(table.path).parent)) == [status]


@pytest.mark.usefixtures("few_entries")
def test_the_newest_commit_is_known_without_its_entry(table: TopicTable) -> None:
    """Many entries of others may come behind it."""
    before = table.newest()
    for number in range(30):
        table.delta().alter.set_table_properties({"somebody.else": str(number)}, raise_if_not_exists=False)
    assert clean(table).entries > 5
    assert TopicTable(Path(table.path).parent, TOPIC).newest() == before
    assert [each.number for each in table.commits()] == [2]
    load(table, [FIRST_MS])
    newest = table.newest()
    assert newest is not None
    assert (newest.number, newest.offsets) == (3, {PARTITION: 500})
    assert [(each.operation, each.number) for each in table.commits()] == [
        (Operation.FORGOTTEN, 2),
        (Operation.LOAD, 3),
    ]


@pytest.mark.usefixtures("few_entries")
def test_a_cleaning_that_dies_is_done_again(table: TopicTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever of the log is gone by then; what was written down half is not taken for all."""
    for _ in range(30):
        load(table, [FIRST_MS])
    [status] = status_of(str(Path(table.path).parent))
    left = [3]
    real = LocalFiles.delete

    def die(self: LocalFiles, path: str) -> None:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        real(self, path)

    for _ in range(2):
        with monkeypatch.context() as patched:
            patched.setattr(LocalFiles, "delete", die)
            with pytest.raises(KeyboardInterrupt):
                clean(table)
        left[0] = 3
        assert status_of(str(Path(table.path).parent)) == [status]
        load(table, [FIRST_MS])
        [status] = status_of(str(Path(table.path).parent))
    clean(table)
    kept = max(Path(table.path, "_kafka2011").iterdir())
    kept.with_name("commits-000000000099.json").write_text('{"version": 1, "comm')
    assert status_of(str(Path(table.path).parent)) == [status]


@pytest.mark.usefixtures("few_entries")
def test_what_waits_in_quarantine_is_not_forgotten(table: TopicTable) -> None:
    """It is decoded again years later; what was, is only counted."""
    for number in range(3, 30):
        quarantined = int(number in {4, 5, 9})
        table.commit(table.begin(), commit_of(number, 100 * number, quarantined=quarantined))
    redrive = commit_of(30, 2900, quarantined=0, replaces=(5,))
    table.commit(table.begin(), replace(redrive, operation=Operation.REDRIVE))
    for number in range(31, 60):
        table.commit(table.begin(), commit_of(number, 100 * number))
    waiting = awaiting(table.commits())
    assert [each.number for each in waiting] == [4, 9]
    assert clean(table).entries > 0
    assert awaiting(table.commits()) == waiting
    assert 5 not in {each.number for each in table.commits()}


@pytest.mark.usefixtures("few_entries")
def test_a_table_that_was_restored_is_left_alone(table: TopicTable) -> None:
    """That may be undone yet; it is known also where old entries are gone."""
    for _ in range(30):
        load(table, [FIRST_MS])
    assert clean(table).entries > 0
    load(table, [FIRST_MS])
    version = table.delta().version()
    load(table, [FIRST_MS])
    table.delta().restore(version)
    with pytest.raises(RolledBackError, match="from commit 34 to 33"):
        clean(table, older_than_s=-1)
    table.delta().restore(version - 1)
    with pytest.raises(RolledBackError, match="from commit 34 to 32"):
        table.newest()
    table.settle_rollback(again=False)
    newest = table.newest()
    assert newest is not None
    assert newest.offsets == {PARTITION: 3600}


def test_a_table_that_is_not_there_cannot_be_cleaned(tmp_path: Path) -> None:
    """A name with a slip of the pen is not a clean table."""
    with pytest.raises(WarehouseError, match="does not exist"):
        clean(TopicTable(tmp_path, TOPIC))
