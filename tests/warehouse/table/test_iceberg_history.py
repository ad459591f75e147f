"""Which commit is the newest of a table in Iceberg that others have worked on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import AlwaysTrue

from kafka2011.warehouse.errors import MalformedCommitError, OvertakenError, RolledBackError, WarehouseError
from kafka2011.warehouse.table.commits import Operation
from kafka2011.warehouse.table.iceberg.history import COMMIT
from kafka2011.warehouse.table.iceberg.iceberg_table import IcebergTable
from tests.support.iceberg_tables import load, offsets_in, staged
from tests.support.tables import FIRST_MS, HOUR_MS, PARTITION, TOPIC, commit_of

if TYPE_CHECKING:
    from pathlib import Path

    from kafka2011.warehouse.table.commits import Commit


@pytest.fixture
def table(tmp_path: Path) -> IcebergTable:
    """Give a table of three commits, with the offsets 0, 100 and 200."""
    table = IcebergTable(tmp_path / "warehouse", TOPIC)
    for _ in range(3):
        load(table, [FIRST_MS])
    return table


def number_and_end(commit: Commit | None) -> tuple[int, int]:
    assert commit is not None
    return commit.number, commit.offsets[PARTITION]


def snapshots(table: IcebergTable) -> list[int]:
    return [each.snapshot_id for each in table.iceberg().snapshots()]


def expire(table: IcebergTable, ids: list[int]) -> None:
    table.iceberg().maintenance.expire_snapshots().by_ids(ids).commit()


def append_foreign(table: IcebergTable) -> None:
    """Add the rows of a file that is there already, as somebody else's tool might."""
    iceberg = table.iceberg()
    path = next(task.file.file_path for task in iceberg.scan().plan_files())
    iceberg.add_files([path], check_duplicate_files=False)


def rewrite_all(table: IcebergTable) -> None:
    """Take all files out and put them in again, as the maintenance of another engine does: no row changes."""
    iceberg = table.iceberg()
    with iceberg.transaction() as transaction, transaction.update_snapshot().overwrite() as update:
        for task in iceberg.scan().plan_files():
            update.delete_data_file(task.file)
        for task in iceberg.scan().plan_files():
            update.append_data_file(task.file)


def delete_all(table: IcebergTable) -> None:
    iceberg = table.iceberg()
    with iceberg.transaction() as transaction, transaction.update_snapshot().delete() as update:
        update.delete_by_predicate(AlwaysTrue())


def test_expired_snapshots_are_forgotten_and_the_newest_commit_is_not(table: IcebergTable) -> None:
    """The current snapshot never expires."""
    expire(table, snapshots(table)[:2])
    assert number_and_end(table.newest()) == (3, 300)
    assert [each.number for each in table.commits()] == [3]
    load(table, [FIRST_MS])
    assert [each.number for each in table.commits()] == [3, 4]
    assert offsets_in(table) == [0, 100, 200, 300]


def test_others_may_rewrite_and_delete_rows(table: IcebergTable) -> None:
    """That moves no offset."""
    rewrite_all(table)
    assert number_and_end(table.newest()) == (3, 300)
    delete_all(table)
    assert number_and_end(table.newest()) == (3, 300)
    load(table, [FIRST_MS])
    assert offsets_in(table) == [300]


def test_the_property_counts_when_no_snapshot_of_ours_is_left(table: IcebergTable) -> None:
    """Another one's maintenance came last, and everything before it expired."""
    ours = snapshots(table)
    rewrite_all(table)
    expire(table, ours)
    assert number_and_end(table.newest()) == (3, 300)
    assert table.commits() == []
    load(table, [FIRST_MS])
    assert number_and_end(table.newest()) == (4, 400)


def test_old_snapshots_expire_but_for_the_newest_with_offsets(table: IcebergTable) -> None:
    """And but for the current one, which another one's maintenance has made, and the one with a tag."""
    rewrite_all(table)
    ours = snapshots(table)
    table.iceberg().manage_snapshots().create_tag(ours[0], "first").commit()
    assert table.expire() == 0
    assert table.expire(older_than_s=-1) == 1
    assert snapshots(table) == [ours[0], *ours[2:]]
    assert number_and_end(table.newest()) == (3, 300)
    load(table, [FIRST_MS])
    assert table.expire(older_than_s=-1) == 2
    assert number_and_end(table.newest()) == (4, 400)
    assert offsets_in(table) == [0, 100, 200, 300]


def test_nothing_expires_of_a_table_that_was_rolled_back(table: IcebergTable) -> None:
    """The rollback may be undone yet."""
    before = snapshots(table)
    roll_back(table)
    with pytest.raises(RolledBackError):
        table.expire(older_than_s=-1)
    assert snapshots(table) == before


def test_a_load_that_commits_meanwhile_is_no_obstacle(table: IcebergTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it brings stays; what was the newest before it does too."""
    commit_table = SqlCatalog.commit_table

    def after_a_load(*args: Any) -> Any:
        monkeypatch.setattr(SqlCatalog, "commit_table", commit_table)
        load(table, [FIRST_MS])
        return commit_table(*args)

    monkeypatch.setattr(SqlCatalog, "commit_table", after_a_load)
    assert table.expire(older_than_s=-1) == 2
    assert number_and_end(table.newest()) == (4, 400)
    assert offsets_in(table) == [0, 100, 200, 300]


def test_rows_without_offsets_are_fatal(table: IcebergTable) -> None:
    """Nobody knows which messages they are. The way out is named, and works."""
    before = snapshots(table)[-1]
    append_foreign(table)
    with pytest.raises(WarehouseError, match=rf"views.*brought 1 rows without offsets.*roll back to snapshot {before}"):
        table.newest()
    with pytest.raises(WarehouseError, match="without offsets"):
        table.commit(staged(table, 4, [FIRST_MS], 3), commit_of(4, 400, rows=1))
    table.iceberg().manage_snapshots().rollback_to_snapshot(before).commit()
    assert number_and_end(table.newest()) == (3, 300)


def test_rows_without_offsets_are_fatal_where_nothing_else_is(tmp_path: Path) -> None:
    """A table that somebody else has filled is none to load into, whether its history is whole or not."""
    source, table = IcebergTable(tmp_path, "other"), IcebergTable(tmp_path, TOPIC)
    load(source, [FIRST_MS])
    [task] = source.iceberg().scan().plan_files()
    table.begin()
    with table.iceberg().update_schema() as update:
        update.union_by_name(source.iceberg().schema())
    for _ in range(2):
        table.iceberg().add_files([task.file.file_path], check_duplicate_files=False)
    with pytest.raises(WarehouseError, match="without offsets"):
        table.newest()
    rewrite_all(table)
    expire(table, snapshots(table)[:2])
    with pytest.raises(WarehouseError, match="without offsets"):
        table.newest()


def test_a_foreign_snapshot_without_rows_is_no_matter(table: IcebergTable) -> None:
    """It brought nothing."""
    table.iceberg().add_files([])
    assert number_and_end(table.newest()) == (3, 300)


def test_what_is_no_commit_is_named(table: IcebergTable) -> None:
    """Somebody has written where our commits are."""
    table.iceberg().transaction().set_properties({COMMIT: "{}"}).commit_transaction()
    with pytest.raises(MalformedCommitError, match=rf"views: property {COMMIT} is not what a load writes"):
        table.newest()


def roll_back(table: IcebergTable) -> int:
    """Go back to the first commit, and return the snapshot of the last."""
    first, _, last = snapshots(table)
    table.iceberg().manage_snapshots().rollback_to_snapshot(first).commit()
    return last


def test_a_rollback_is_refused_with_the_ways_on(table: IcebergTable) -> None:
    """Loading on could mean two things, and nothing says which."""
    last = roll_back(table)
    with pytest.raises(RolledBackError, match=rf"from commit 3 to 1\..*again.*skip.*set_current_snapshot\({last}\)"):
        table.newest()
    with pytest.raises(RolledBackError):
        table.commit(staged(table, 2, [FIRST_MS], 1), commit_of(2, 200, rows=1))
    table.iceberg().manage_snapshots().set_current_snapshot(last).commit()
    assert number_and_end(table.newest()) == (3, 300)
    assert offsets_in(table) == [0, 100, 200]


def test_what_was_rolled_back_can_be_loaded_again(table: IcebergTable) -> None:
    """Offsets are those of the snapshot, and no number comes twice."""
    roll_back(table)
    commit = table.settle_rollback(again=True)
    assert (commit.operation, commit.number, commit.replaces) == (Operation.ROLLBACK, 4, (2, 3))
    assert table.newest() == commit
    assert number_and_end(commit) == (4, 100)
    load(table, [FIRST_MS] * 2)
    assert number_and_end(table.newest()) == (5, 300)
    assert offsets_in(table) == [0, 100, 200]
    assert [each.number for each in table.commits()] == [1, 4, 5]


def test_what_was_rolled_back_can_be_left_out(table: IcebergTable) -> None:
    """Loading goes on where the last load ended."""
    roll_back(table)
    assert number_and_end(table.settle_rollback(again=False)) == (4, 300)
    load(table, [FIRST_MS])
    assert offsets_in(table) == [0, 300]


def test_only_a_rollback_is_settled_and_only_once(table: IcebergTable) -> None:
    """Whoever asks without need is told."""
    with pytest.raises(WarehouseError, match="was not rolled back"):
        table.settle_rollback(again=True)
    roll_back(table)
    table.settle_rollback(again=True)
    with pytest.raises(WarehouseError, match="was not rolled back"):
        table.settle_rollback(again=True)


def test_a_rollback_to_before_the_first_commit_is_one_too(tmp_path: Path) -> None:
    """All that was ever loaded is taken out."""
    table = IcebergTable(tmp_path, TOPIC)
    table.begin()
    table.iceberg().add_files([])
    empty = snapshots(table)[0]
    load(table, [FIRST_MS])
    table.iceberg().manage_snapshots().rollback_to_snapshot(empty).commit()
    with pytest.raises(RolledBackError, match="from commit 1 to before the first"):
        table.newest()
    commit = table.settle_rollback(again=True)
    assert (commit.number, commit.offsets, commit.replaces) == (2, {}, (1,))


def test_a_rollback_behind_what_expired_is_one_too(table: IcebergTable) -> None:
    """The property does not count while the snapshot that it tells of is there, taken out."""
    delete_all(table)
    foreign = snapshots(table)[-1]
    load(table, [FIRST_MS])
    table.iceberg().manage_snapshots().set_current_snapshot(foreign).commit()
    expire(table, snapshots(table)[:3])
    with pytest.raises(RolledBackError, match="from commit 4 to before the first"):
        table.newest()


def test_a_loader_that_is_overtaken_by_a_rollback_fails(table: IcebergTable) -> None:
    """Its number follows one that is no longer there."""
    roll_back(table)
    table.settle_rollback(again=True)
    with pytest.raises(OvertakenError):
        table.commit(staged(table, 4, [FIRST_MS + HOUR_MS], 3), commit_of(4, 400, rows=1))
