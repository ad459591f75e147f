"""Tables of version 0.1.0 are taken over whole, with their offsets, or not at all."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

import polars
import pyarrow as pa
import pytest

from kafka2011.cli.app import main
from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.table import importing, old_tables
from kafka2011.warehouse.table.cleaning import clean
from kafka2011.warehouse.table.commits import LoadedRange, Operation
from kafka2011.warehouse.table.compaction import compact
from kafka2011.warehouse.table.importing import Imported, import_table, list_old_tables
from kafka2011.warehouse.table.quarantine import awaiting, open_quarantine
from kafka2011.warehouse.table.topic_table import TopicTable
from tests.support.old_tables import OldTable
from tests.support.tables import FIRST_MS, PARTITION, SCHEMA, TOPIC, load, offsets_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DAY, NEXT = "date=2011-06-12", "date=2011-06-13"
NEWER = SCHEMA.append(pa.field("referrer", pa.string()))


@pytest.fixture
def old(tmp_path: Path) -> OldTable:
    """Give a table by days and hours, with a new column, compactions, and something in quarantine."""
    table = OldTable(tmp_path / "old")
    table.load(DAY, NEXT)
    table.load(DAY, f"{DAY}/hour=00", refused=["b25l"])
    table.load(DAY, schema=2, arrow=NEWER, referrer=["/"])
    table.compact(1)
    table.load(NEXT, refused=["dHdv", "dGhyZWU="], schema=2, arrow=NEWER, referrer=["/"])
    table.compact(4, 3, keeps=True)
    table.load()
    return table


@pytest.fixture
def new(tmp_path: Path) -> Path:
    return tmp_path / "new"


def take_over(old: OldTable, new: Path) -> Imported:
    return import_table(str(old.path.parent), str(new), TOPIC)


ROWS = [0, 100, 200, 300, 500, 600]
"""Offset 400 was refused, and so were 700 and 800."""


def test_rows_offsets_and_quarantine_are_taken_over(old: OldTable, new: Path) -> None:
    """In one commit, with the number of the old one; loads go on behind it."""
    assert take_over(old, new) == Imported(number=7, rows=6, quarantined=3, files=6)
    table = TopicTable(new, TOPIC)
    assert offsets_in(table) == ROWS
    rows = polars.scan_delta(str(new / TOPIC)).sort("kafka2011_offset").collect()
    assert rows["referrer"].to_list() == [None] * 4 + ["/"] * 2
    assert [str(day)[-2:] for day in rows["date"]] == ["12", "13", "12", "12", "12", "13"]
    assert rows["kafka2011_load_id"].to_list() == [1, 1, 2, 2, 3, 5]
    commit = table.newest()
    assert commit is not None
    assert (commit.operation, commit.number, commit.offsets) == (Operation.IMPORT, 7, {PARTITION: 900})
    assert (commit.complete_through_ms, commit.schema) == (FIRST_MS, 2)
    assert commit.extra["seen_ms"] == {"0-1": FIRST_MS}
    assert commit.ranges == (LoadedRange(PARTITION, 0, 900, 6, 3),)
    [waiting] = awaiting(table.commits())
    lines = [line for _, text in open_quarantine(str(new), TOPIC).read(7, waiting.attempt) for line in text.split()]
    assert len(lines) >= waiting.quarantined == 3
    load(table, [FIRST_MS], NEWER, referrer=["/new"])
    assert offsets_in(table) == [*ROWS, 900]
    assert compact(table).files_before > 1
    assert offsets_in(table) == [*ROWS, 900]


def test_the_old_table_stays_as_it_is(old: OldTable, new: Path) -> None:
    """Its files have one more name each; what becomes of the new table does not touch them."""
    files = {path: path.read_bytes() for path in old.path.rglob("*") if path.is_file()}
    take_over(old, new)
    assert {path.stat().st_nlink for path in new.rglob("*.parquet")} == {2}
    compact(TopicTable(new, TOPIC))
    clean(TopicTable(new, TOPIC), older_than_s=-1)
    assert {path: path.read_bytes() for path in old.path.rglob("*") if path.is_file()} == files


def test_files_are_copied_where_they_cannot_have_another_name(
    old: OldTable, new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another file system, or files of another user."""

    def refused(source: object, target: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refused)
    take_over(old, new)
    assert {path.stat().st_nlink for path in new.rglob("*.parquet")} == {1}
    assert offsets_in(TopicTable(new, TOPIC)) == ROWS


def test_a_second_time_does_nothing(old: OldTable, new: Path) -> None:
    """Whether the table was loaded on or not; another one's commits are in the way."""
    take_over(old, new)
    assert take_over(old, new) == Imported(7)
    load(TopicTable(new, TOPIC), [FIRST_MS])
    assert take_over(old, new) == Imported(7)
    assert offsets_in(TopicTable(new, TOPIC)) == [*ROWS, 900]
    old.load(DAY)
    with pytest.raises(WarehouseError, match="has commits of its own: import into another warehouse"):
        take_over(old, new)


@pytest.mark.parametrize("loads", [1, 6, 7, 8])
def test_a_table_that_is_loaded_is_not_imported_into(old: OldTable, new: Path, loads: int) -> None:
    """However many commits it has; also when they come while files are brought."""
    real = old_tables.live_files

    def meanwhile(*args: Any) -> Any:
        for _ in range(loads):
            load(TopicTable(new, TOPIC), [FIRST_MS])
        return real(*args)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(importing, "live_files", meanwhile)
        with pytest.raises(WarehouseError):
            take_over(old, new)
    assert len(offsets_in(TopicTable(new, TOPIC))) == loads
    with pytest.raises(WarehouseError, match="has commits of its own"):
        take_over(old, new)


def test_a_killed_import_is_begun_again(old: OldTable, new: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it is in the table; what it left goes once it is old."""

    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(TopicTable, "commit", die)
        patched.setattr(importing, "_clean", die)
        with pytest.raises(Killed):
            take_over(old, new)
    assert TopicTable(new, TOPIC).newest() is None
    assert take_over(old, new).rows == 6
    assert offsets_in(TopicTable(new, TOPIC)) == ROWS
    assert clean(TopicTable(new, TOPIC), older_than_s=-1).files == 6
    assert offsets_in(TopicTable(new, TOPIC)) == ROWS


def test_an_import_that_fails_leaves_nothing(old: OldTable, new: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither rows nor quarantine."""
    with monkeypatch.context() as patched:
        patched.setattr(importing, "bring", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
        with pytest.raises(WarehouseError, match="disk full"):
            take_over(old, new)
    assert not [path for path in new.parent.glob("new*/**/*") if path.is_file()]


def test_files_are_young_when_they_get_their_new_name(old: OldTable, new: Path) -> None:
    """Or a cleaning at that moment would find them old, and nothing naming them."""
    then = time.time() - 30 * 24 * 3600
    for path in old.path.rglob("*.parquet"):
        os.utime(path, (then, then))
    take_over(old, new)
    assert min(path.stat().st_mtime for path in new.rglob("*.parquet")) > then + 3600


def _unlink(old: OldTable) -> None:
    next(old.directory(6).rglob("*.parquet")).unlink()


def _truncate(old: OldTable) -> None:
    path = next(old.directory(6).rglob("*.parquet"))
    path.write_bytes(path.read_bytes()[:-1])


def _another_row(old: OldTable) -> None:
    document = json.loads((old.directory(6) / "_offsets.json").read_text())
    (old.directory(6) / "_offsets.json").write_text(json.dumps(document | {"rows": document["rows"] + 1}))


def _number(old: OldTable) -> None:
    (old.directory(5) / "_offsets.json").write_text((old.directory(4) / "_offsets.json").read_text())


def _foreign_topic(old: OldTable) -> None:
    old.topic = "clicks"
    old.load(DAY)


def _misplaced(old: OldTable) -> None:
    [path, *_] = old.directory(6).rglob("*.parquet")
    path.rename(old.directory(6) / path.name)


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (_unlink, r"load_id=000006 has \d rows in \d+ bytes, and its commit wrote"),
        (_truncate, r"load_id=000006: .*Parquet"),
        (_another_row, r"load_id=000006 has 3 rows in \d+ bytes, and its commit wrote 4"),
        (_misplaced, "does not lie in a directory of a date"),
        (_number, r"load_id=000005/_offsets\.json says that it is commit 4"),
        (_foreign_topic, "has commits of several topics"),
        (lambda old: (old.directory(5) / "_offsets.json").unlink(), r"_offsets\.json is missing: how far"),
        (lambda old: (old.directory(5) / "_offsets.json").write_text("{}"), "is not what a load writes"),
        (lambda old: old.directory(5).rename(old.path / "_elsewhere"), "has load_id=000006 but no commit 5"),
        (lambda old: (old.path / "notes").touch(), "notes was written by no load"),
        (lambda old: next(old.quarantine.rglob("*.json")).unlink(), r"has 0 messages, and commit \d says"),
    ],
)
def test_what_cannot_be_vouched_for_is_refused(
    old: OldTable, new: Path, harm: Callable[[OldTable], object], why: str
) -> None:
    """Naming the place; there is no table then."""
    harm(old)
    with pytest.raises(WarehouseError, match=why):
        take_over(old, new)
    assert TopicTable(new, TOPIC).newest() is None


def test_a_table_that_changes_meanwhile_is_refused(old: OldTable, new: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its loads, by the old version, have to stop first."""
    real = old_tables.live_files

    def meanwhile(*args: Any) -> Any:
        files = real(*args)
        old.load(DAY)
        return files

    monkeypatch.setattr(importing, "live_files", meanwhile)
    with pytest.raises(WarehouseError, match="has changed meanwhile: stop what loads or compacts it"):
        take_over(old, new)


def test_the_command_takes_all_tables(old: OldTable, new: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rebuilt ones too, whose topic has another name; one that fails leaves others alone."""
    OldTable(old.path.parent, "again").load(DAY)
    OldTable(old.path.parent, "clicks", "clicks").load(DAY)
    (old.path.parent / "clicks" / "load_id=000003").mkdir()
    assert list_old_tables(str(old.path.parent)) == ["again", "clicks", TOPIC]
    assert main(["tables", "import", "--from", str(old.path.parent), "--warehouse", str(new)]) == 1
    line = json.loads(capsys.readouterr().out)
    done = [(each["topic"], each["number"], each["rows"]) for each in line["topics"]]
    assert done == [("again", 1, 1), (TOPIC, 7, 6)]
    assert [each["topic"] for each in line["failed"]] == ["clicks"]
    assert offsets_in(TopicTable(new, TOPIC, name="again")) == [0]
    for place in ("hdfs://nn/old", str(new)):
        assert main(["tables", "import", "--from", place, "--warehouse", str(new), "--topic", TOPIC]) == 1
