"""A rebuilt table: beside the running one, then in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafka2011.warehouse import open_table
from kafka2011.warehouse.errors import OvertakenError, WarehouseError
from kafka2011.warehouse.table.files import LocalFiles
from kafka2011.warehouse.table.parquet.parquet_table import ParquetTable
from kafka2011.warehouse.table.parquet.rebuild import rebuilt_table, swap
from tests.support.tables import FIRST_MS, PARTITION, TOPIC, commit_of, load, rows_of, write_rows

if TYPE_CHECKING:
    from pathlib import Path

    from kafka2011.warehouse.table.files import Check

NAME = "views-again"


@pytest.fixture
def running(tmp_path: Path) -> ParquetTable:
    """Give a topic's table with two loads."""
    table = ParquetTable(tmp_path, TOPIC)
    load(table, [FIRST_MS], page=["/wrong"])
    load(table, [FIRST_MS], page=["/wrong"])
    return table


@pytest.fixture
def rebuilt(running: ParquetTable, tmp_path: Path) -> ParquetTable:
    """Give the same rows, loaded again with new logic."""
    table = rebuilt_table(tmp_path, TOPIC, NAME)
    load(table, [FIRST_MS] * 2, page=["/right"] * 2)
    return table


def pages(warehouse: Path, name: str = TOPIC) -> list[str]:
    """Return what readers see."""
    found: list[str] = open_table(warehouse, name).to_table(columns=["page"])["page"].to_pylist()
    return found


def test_it_is_read_beside_the_running_one(rebuilt: ParquetTable, tmp_path: Path) -> None:
    """By its own name."""
    assert pages(tmp_path) == ["/wrong"] * 2
    assert pages(tmp_path, NAME) == ["/right"] * 2


def test_it_takes_the_place_and_gives_its_own(running: ParquetTable, rebuilt: ParquetTable, tmp_path: Path) -> None:
    """Loads go on from its offsets; done again, all is as it was."""
    assert swap(tmp_path, TOPIC, NAME) == {}
    assert pages(tmp_path) == ["/right"] * 2
    assert pages(tmp_path, NAME) == ["/wrong"] * 2
    load(ParquetTable(tmp_path, TOPIC), [FIRST_MS], page=["/next"])
    assert pages(tmp_path) == ["/right", "/right", "/next"]
    swap(tmp_path, TOPIC, NAME)
    assert pages(tmp_path) == ["/wrong"] * 2


def test_it_says_what_is_to_be_loaded_still(running: ParquetTable, rebuilt: ParquetTable, tmp_path: Path) -> None:
    """When the running table has gone on meanwhile."""
    load(running, [FIRST_MS])
    assert swap(tmp_path, TOPIC, NAME) == {PARTITION: 100}


def test_a_load_that_is_under_way_fails(running: ParquetTable, rebuilt: ParquetTable, tmp_path: Path) -> None:
    """It would go into a table with other offsets."""
    load(rebuilt, [FIRST_MS])
    for table, number in ((running, 3), (rebuilt, 3)):
        table.newest()
        staging = table.begin()
        swap(tmp_path, TOPIC, NAME)
        with pytest.raises(OvertakenError):
            table.commit(staging, commit_of(number, 1000))
        swap(tmp_path, TOPIC, NAME)


def test_a_load_that_was_checked_before_the_swap_stays_with_its_table(
    running: ParquetTable, rebuilt: ParquetTable, tmp_path: Path
) -> None:
    """The swap comes between the check and the rename: the rows go where they belong, under its new name."""

    class Stalled(LocalFiles):
        def publish(self, source: str, directory: str, name: str, check: Check) -> None:
            def checked(names: object, read: object) -> None:
                check(names, read)  # type: ignore[arg-type]
                swap(tmp_path, TOPIC, NAME)

            super().publish(source, directory, name, checked)

    running.newest()
    staging = running.begin()
    write_rows(staging, rows_of(3, 2, [FIRST_MS], page=["/late"]))
    running.files = Stalled()
    running.commit(staging, commit_of(3, 300, start=200, rows=1))
    assert pages(tmp_path) == ["/right"] * 2
    assert pages(tmp_path, NAME) == ["/wrong", "/wrong", "/late"]


def test_names_of_other_tables_are_refused(running: ParquetTable, tmp_path: Path) -> None:
    """The topic's own, and one that another topic has; and nothing is swapped that is not there."""
    with pytest.raises(WarehouseError, match="under another name"):
        rebuilt_table(tmp_path, TOPIC, TOPIC)
    with pytest.raises(WarehouseError, match=f"is a table of topic {TOPIC}, not of clicks"):
        rebuilt_table(tmp_path, "clicks", TOPIC)
    with pytest.raises(WarehouseError, match=f"there is no table {tmp_path}/missing"):
        swap(tmp_path, TOPIC, "missing")
    rebuilt_table(tmp_path, "clicks", "again")
    with pytest.raises(WarehouseError, match=f"there is no table {tmp_path}/clicks"):
        swap(tmp_path, "clicks", "again")
    with pytest.raises(WarehouseError, match="is not local"):
        swap("hdfs://namenode/warehouse", TOPIC, "again")
    assert pages(tmp_path) == ["/wrong"] * 2


def test_a_swap_that_cannot_be_is_an_error(
    running: ParquetTable, rebuilt: ParquetTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system may not know how."""

    def exchange(files: LocalFiles, one: str, other: str) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(LocalFiles, "exchange", exchange)
    with pytest.raises(WarehouseError, match="cannot be exchanged"):
        swap(tmp_path, TOPIC, NAME)
    assert pages(tmp_path) == ["/wrong"] * 2
