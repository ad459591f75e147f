"""Cleaning a table in Iceberg: what no snapshot names goes, once it is old; nothing else does."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.table.iceberg.iceberg_table import ORPHAN_LIFETIME_S, IcebergTable
from tests.support.iceberg_tables import load, offsets_in, staged
from tests.support.tables import FIRST_MS, HOUR_MS, TOPIC, commit_of

OLD_S = ORPHAN_LIFETIME_S + 60


@pytest.fixture
def table(tmp_path: Path) -> IcebergTable:
    """Give a table of two loads, all of them young."""
    table = IcebergTable(tmp_path / "warehouse", TOPIC)
    for _ in range(2):
        load(table, [FIRST_MS, FIRST_MS + HOUR_MS])
    return table


def directory(table: IcebergTable) -> Path:
    return Path(table.iceberg().location().removeprefix("file://"))


def files(table: IcebergTable) -> set[Path]:
    return {path for path in directory(table).rglob("*") if path.is_file()}


def age(table: IcebergTable) -> None:
    """Make everything old."""
    when = time.time() - OLD_S
    for path in [*directory(table).rglob("*")]:
        os.utime(path, (when, when))


def test_all_that_is_in_use_stays_however_old(table: IcebergTable) -> None:
    """Data, metadata and what every snapshot needs."""
    load(table, [FIRST_MS])
    metadata = {path for path in files(table) if path.parent.name == "metadata"}
    age(table)
    cleaned = table.clean()
    assert cleaned.directories == 0
    assert {path for path in files(table) if path.parent.name == "metadata"} == metadata
    for snapshot in table.iceberg().snapshots():
        assert table.iceberg().scan(snapshot_id=snapshot.snapshot_id).to_arrow().num_rows > 0
    assert offsets_in(table) == [0, 100, 200, 300, 400]


def test_what_dead_loads_left_goes_once_it_is_old(table: IcebergTable) -> None:
    """One died before it wrote, one before its commit; one is running."""
    empty, dead = table.begin(), staged(table, 3, [FIRST_MS], 4)
    age(table)
    running = staged(table, 3, [FIRST_MS], 4)
    cleaned = table.clean()
    assert not Path(empty).exists()
    assert not Path(dead).exists()
    assert cleaned.directories == 2
    assert cleaned.size_bytes > 0
    table.commit(running, commit_of(3, 500, rows=1))
    assert offsets_in(table) == [0, 100, 200, 300, 400]


def test_a_directory_is_as_young_as_the_youngest_in_it(table: IcebergTable) -> None:
    """A load writes its files one after the other."""
    staging = Path(staged(table, 3, [FIRST_MS, FIRST_MS + HOUR_MS], 4))
    age(table)
    young = next(staging.rglob("hour=01/*.parquet"))
    os.utime(young)
    assert table.clean().directories == 0
    table.commit(str(staging), commit_of(3, 600, rows=2))


def test_a_load_whose_files_were_removed_fails(table: IcebergTable) -> None:
    """It was stalled for longer than a day, and says so instead of committing less."""
    staging = staged(table, 3, [FIRST_MS], 4)
    age(table)
    table.clean()
    with pytest.raises(WarehouseError, match=r"views.*is gone"):
        table.commit(staging, commit_of(3, 500, rows=1))
    assert offsets_in(table) == [0, 100, 200, 300]


def test_a_commit_makes_its_files_young_again(table: IcebergTable) -> None:
    """A cleaning that has seen the table without it does not take them."""
    staging = staged(table, 3, [FIRST_MS], 4)
    age(table)
    before = table.iceberg()
    table.commit(staging, commit_of(3, 500, rows=1))
    table.iceberg = lambda: before  # type: ignore[method-assign]
    table.clean()
    del table.iceberg
    assert offsets_in(table) == [0, 100, 200, 300, 400]


def test_compacted_files_go_with_the_snapshots_that_name_them(table: IcebergTable) -> None:
    """Not before: a reader of an older snapshot still needs them."""
    table.compact(before_ms=FIRST_MS + HOUR_MS)
    age(table)
    assert table.clean().directories == 0
    assert len([path for path in files(table) if path.suffix == ".parquet"]) == 5
    iceberg = table.iceberg()
    expired = [each.snapshot_id for each in iceberg.snapshots()[:-1]]
    iceberg.maintenance.expire_snapshots().by_ids(expired).commit()
    before = len([path for path in files(table) if path.parent.name == "metadata"])
    age(table)
    cleaned = table.clean()
    assert (cleaned.directories, cleaned.files > 2) == (0, True)
    assert len([path for path in files(table) if path.suffix == ".parquet"]) == 3
    assert len([path for path in files(table) if path.parent.name == "metadata"]) < before
    assert offsets_in(table) == [0, 100, 200, 300]
    load(table, [FIRST_MS])
    assert offsets_in(table) == [0, 100, 200, 300, 400]


def test_a_table_that_is_not_there_cannot_be_cleaned(tmp_path: Path) -> None:
    """A name with a slip of the pen is not a clean table."""
    with pytest.raises(WarehouseError, match="does not exist"):
        IcebergTable(tmp_path, TOPIC).clean()
