"""A table of Parquet files: its commits, its staging, and what it refuses."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafka2011.warehouse.errors import MalformedCommitError, OvertakenError, WarehouseError
from kafka2011.warehouse.table.files import LocalFiles
from kafka2011.warehouse.table.parquet.parquet_table import STAGING_LIFETIME_S, ParquetTable
from tests.support.clocks import ManualClock
from tests.support.tables import FIRST_MS, PARTITION, TOPIC, commit_of, load

if TYPE_CHECKING:
    from kafka2011.warehouse.table.files import Check


@pytest.fixture
def table(tmp_path: Path) -> ParquetTable:
    """Give a table that is not there yet."""
    return ParquetTable(tmp_path / "warehouse", TOPIC)


def test_a_new_table_has_no_commit(table: ParquetTable) -> None:
    """Looking at one makes nothing."""
    assert table.newest() is None
    assert table.commits() == []
    assert not Path(table.path).exists()


def test_commits_are_read_back_in_order(table: ParquetTable) -> None:
    """Each with its offsets, the sizes of its files and the attempt that made it."""
    for number in (1, 2, 3):
        load(table, [FIRST_MS])
        newest = table.newest()
        assert newest is not None
        assert (newest.number, newest.offsets) == (number, {PARTITION: number * 100})
    assert [each.number for each in table.commits()] == [1, 2, 3]
    assert [each.number for each in table.commits(after=2)] == [3]
    for each in table.commits():
        [file] = Path(table.directory(each.number)).rglob("*.parquet")
        assert each.size_bytes == file.stat().st_size
    assert len({each.attempt for each in table.commits()}) == 3
    assert LocalFiles().names(table.staging) == []


def test_nothing_is_seen_before_the_commit(table: ParquetTable) -> None:
    """Files lie outside the table until then."""
    staging = table.begin()
    Path(staging, "date=2011-06-12").mkdir()
    assert table.newest() is None
    assert list(Path(table.path).iterdir()) == []
    table.commit(staging, commit_of(1, 100))
    assert LocalFiles().names(table.directory(1)) == ["_offsets.json", "date=2011-06-12"]


def test_a_number_that_is_taken_is_refused(table: ParquetTable) -> None:
    """The one who comes second keeps its staging, which it may abandon, twice too."""
    first, second = table.begin(), table.begin()
    table.commit(first, commit_of(1, 100))
    with pytest.raises(OvertakenError, match=f"topic {TOPIC}: .*{table.path}"):
        table.commit(second, commit_of(1, 200))
    [commit] = table.commits()
    assert commit.offsets == {PARTITION: 100}
    assert Path(second).exists()
    table.abandon(second)
    table.abandon(second)
    assert not Path(second).exists()


def test_a_loader_that_stalled_right_before_the_rename_is_refused(tmp_path: Path) -> None:
    """The rename itself is the fence, whatever was checked before."""

    class Stalled(LocalFiles):
        def publish(self, source: str, directory: str, name: str, check: Check) -> None:
            def late(names: object, read: object) -> None:
                load(other, [FIRST_MS])

            super().publish(source, directory, name, late)

    other = ParquetTable(tmp_path / "warehouse", TOPIC)
    stalled = ParquetTable(tmp_path / "warehouse", TOPIC, files=Stalled())
    staging = stalled.begin()
    Path(staging, "mine").touch()
    with pytest.raises(OvertakenError):
        stalled.commit(staging, commit_of(1, 200))
    assert [each.offsets for each in other.commits()] == [{PARTITION: 100}]
    assert not Path(other.directory(1), "mine").exists()
    assert len(list(Path(other.directory(1)).iterdir())) == 2


def test_a_rename_that_was_asked_for_twice_succeeded(tmp_path: Path) -> None:
    """A file system that lost its answer finds the name taken, by this very attempt."""

    class Forgetful(LocalFiles):
        def publish(self, source: str, directory: str, name: str, check: Check) -> None:
            super().publish(source, directory, name, check)
            raise FileExistsError(name)

    table = ParquetTable(tmp_path / "warehouse", TOPIC, files=Forgetful())
    table.commit(table.begin(), commit_of(1, 100))
    assert table.newest() is not None


def test_another_table_in_its_place_is_noticed(tmp_path: Path) -> None:
    """A load of a table does not go into the one that took its path, although the number would be free."""
    table, other = ParquetTable(tmp_path / "warehouse", TOPIC), ParquetTable(tmp_path / "other", TOPIC)
    load(table, [FIRST_MS])
    load(other, [FIRST_MS] * 3)
    table.newest()
    staging = table.begin()
    shutil.rmtree(table.path)
    Path(other.path).rename(table.path)
    with pytest.raises(OvertakenError):
        table.commit(staging, commit_of(2, 200))


def test_a_commit_must_come_next(table: ParquetTable) -> None:
    """And be the topic's own."""
    staging = table.begin()
    with pytest.raises(WarehouseError, match="commit 2 cannot follow none"):
        table.commit(staging, commit_of(2, 100))
    with pytest.raises(ValueError, match="number 1"):
        table.commit(staging, commit_of(0, 100))
    with pytest.raises(ValueError, match="clicks"):
        ParquetTable(table.path, "clicks").commit(staging, commit_of(1, 100))


def test_rows_without_offsets_are_refused(table: ParquetTable) -> None:
    """Wherever they lie, since nobody knows how far they go."""
    load(table, [FIRST_MS])
    load(table, [FIRST_MS])
    offsets = Path(table.directory(1), "_offsets.json")
    text = offsets.read_text()
    offsets.unlink()
    for look in (table.newest, table.commits):
        with pytest.raises(WarehouseError, match=r"load_id=000001 has no _offsets\.json"):
            look()
    offsets.write_text(text)
    assert table.newest()
    stray = Path(table.path, "date=2011-06-12")
    stray.mkdir()
    with pytest.raises(WarehouseError, match="date=2011-06-12 was written by no load"):
        table.newest()
    staging = table.begin()
    with pytest.raises(WarehouseError, match="date=2011-06-12"):
        table.commit(staging, commit_of(3, 300))


def test_a_missing_commit_is_noticed(table: ParquetTable) -> None:
    """Its rows are missing too."""
    for _ in range(3):
        load(table, [FIRST_MS])
    Path(table.directory(2)).rename(Path(table.path).parent / "elsewhere")
    with pytest.raises(WarehouseError, match="commit 3 but not 2"):
        table.newest()


def test_a_damaged_commit_is_named(table: ParquetTable) -> None:
    """With its path."""
    load(table, [FIRST_MS])
    Path(table.directory(1), "_offsets.json").write_bytes(b"\xff{")
    with pytest.raises(MalformedCommitError, match=r"load_id=000001/_offsets\.json"):
        table.newest()


def test_hidden_names_are_nobodys_rows(table: ParquetTable) -> None:
    """What other programs leave in directories does no harm."""
    load(table, [FIRST_MS])
    Path(table.path, "_SUCCESS").touch()
    Path(table.path, ".DS_Store").touch()
    assert table.newest()


def test_leftovers_of_dead_loads_are_removed(tmp_path: Path) -> None:
    """Once nothing was written there for a day; files count, not only the directory. A fresh one stays."""
    clock = ManualClock()
    table = ParquetTable(tmp_path / "warehouse", TOPIC, clock=clock)
    dead, alive, fresh = (table.begin() for _ in range(3))
    for each in (dead, alive):
        Path(each, "rows").touch()
        os.utime(each, (0, 0))
    os.utime(Path(dead, "rows"), (0, 0))
    clock.now_s = Path(fresh).stat().st_mtime + 1
    os.utime(Path(alive, "rows"), (clock.now_s - STAGING_LIFETIME_S + 10,) * 2)
    table.begin()
    assert not Path(dead).exists()
    assert Path(alive).exists()
    assert Path(fresh).exists()
    with pytest.raises(WarehouseError, match=dead):
        table.commit(dead, commit_of(1, 100))
    assert table.newest() is None


def test_staging_on_another_file_system_is_refused(tmp_path: Path) -> None:
    """Before anything is written there."""

    class Apart(LocalFiles):
        def can_rename(self, source: str, directory: str) -> bool:
            return False

    table = ParquetTable(tmp_path / "warehouse", TOPIC, files=Apart())
    with pytest.raises(WarehouseError, match="mount point"):
        table.begin()
    assert LocalFiles().names(table.staging) == []


def test_only_staging_is_abandoned(table: ParquetTable) -> None:
    """Never a directory of the table."""
    load(table, [FIRST_MS])
    with pytest.raises(ValueError, match="is not below"):
        table.abandon(table.directory(1))


def test_a_table_may_have_a_name_of_its_own(tmp_path: Path) -> None:
    """A rebuilt one lies beside that of its topic."""
    table = ParquetTable(tmp_path / "warehouse", TOPIC, name="views-again")
    load(table, [FIRST_MS])
    assert Path(tmp_path, "warehouse/views-again/load_id=000001/_offsets.json").exists()
    assert table.quarantine == f"{tmp_path}/warehouse-quarantine/{TOPIC}"
