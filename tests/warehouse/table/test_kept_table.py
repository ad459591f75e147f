"""A loader opens its table once, and sees all that happens to it all the same."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from kafka2011.warehouse.table.compaction import compact
from kafka2011.warehouse.table.kept_table import KeptTable
from kafka2011.warehouse.table.topic_table import TopicTable
from tests.support.tables import FIRST_MS, SCHEMA, TOPIC, load, offsets_in

if TYPE_CHECKING:
    from pathlib import Path

NEWER = SCHEMA.append(pa.field("referrer", pa.string()))


@pytest.fixture
def table(tmp_path: Path) -> TopicTable:
    return TopicTable(tmp_path, TOPIC)


@pytest.fixture
def opened(table: TopicTable) -> list[DeltaTable | None]:
    """Give what was opened anew, by whoever asks `kept`."""
    return []


@pytest.fixture
def kept(table: TopicTable, opened: list[DeltaTable | None]) -> KeptTable:
    def count() -> DeltaTable | None:
        opened.append(table.opened())
        return opened[-1]

    return KeptTable(table.files, table.path, count)


def files_of(kept: KeptTable) -> list[str]:
    found = kept.now()
    assert found is not None
    return sorted(found.file_uris())


def test_it_is_opened_once_whatever_others_write(
    table: TopicTable, kept: KeptTable, opened: list[DeltaTable | None]
) -> None:
    """Rows, columns, compactions, also when nothing has come, or much."""
    assert kept.now() is None
    load(table, [FIRST_MS])
    assert files_of(kept) == sorted(table.delta().file_uris())
    del opened[:]
    for number in range(25):
        load(table, [FIRST_MS + number], NEWER, referrer=["/"])
        if number % 8 == 0:
            assert files_of(kept) == files_of(kept) == sorted(table.delta().file_uris())
    compact(table)
    found = kept.now()
    assert found is not None
    assert (found.version(), len(found.file_uris())) == (table.delta().version(), 1)
    assert "referrer" in [field.name for field in found.schema().fields]
    assert opened == []


@pytest.mark.parametrize("loads", [1, 3, 5])
def test_another_table_in_its_place_is_noticed(table: TopicTable, kept: KeptTable, tmp_path: Path, loads: int) -> None:
    """One that is shorter, as long, or longer: a loader that runs on would write behind what is not there."""
    for number in range(3):
        load(table, [FIRST_MS + number])
    files_of(kept)
    shutil.rmtree(table.path)
    assert kept.now() is None
    assert table.newest() is None
    for number in range(3):
        load(table, [FIRST_MS + number])
    files_of(kept)
    shutil.rmtree(table.path)
    for number in range(loads):
        load(TopicTable(tmp_path, TOPIC), [FIRST_MS + number])
    assert len(files_of(kept)) == loads
    newest = table.newest()
    assert newest is not None
    assert newest.number == loads
    load(table, [FIRST_MS])
    assert offsets_in(table) == [100 * number for number in range(loads + 1)]


def test_entries_that_were_removed_are_not_missed(
    table: TopicTable, kept: KeptTable, opened: list[DeltaTable | None]
) -> None:
    """As by a cleaning, while a loader had nothing to do: the newest checkpoint has all there is."""
    load(table, [FIRST_MS])
    files_of(kept)
    for number in range(12):
        load(table, [FIRST_MS + number])
    table.delta().create_checkpoint()
    for number in range(10):
        table.files.delete(f"{table.path}/_delta_log/{number:020d}.json")
    assert len(files_of(kept)) == 13
    assert len(opened) == 2


def test_a_table_that_cannot_be_brought_up_to_date_is_opened_anew(
    table: TopicTable, kept: KeptTable, opened: list[DeltaTable | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which says what is wrong, if anything is."""
    load(table, [FIRST_MS])
    files_of(kept)

    def refused(_: DeltaTable) -> None:
        from deltalake.exceptions import DeltaError

        raise DeltaError("there is a hole in the log")

    monkeypatch.setattr(DeltaTable, "update_incremental", refused)
    load(table, [FIRST_MS])
    assert len(files_of(kept)) == 2
    assert len(opened) == 2
