"""A table in Iceberg: its commits, its fence, its columns, and what it refuses."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table.update import AddSnapshotUpdate

from kafka2011.warehouse.errors import OvertakenError, UnknownOutcomeError, WarehouseError
from kafka2011.warehouse.table.commits import Operation
from kafka2011.warehouse.table.iceberg.iceberg_table import IcebergTable
from tests.support.files import open_files_below
from tests.support.iceberg_tables import load, offsets_in, staged
from tests.support.tables import FIRST_MS, HOUR_MS, PARTITION, SCHEMA, TOPIC, commit_of, rows_of, write_rows

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def table(tmp_path: Path) -> IcebergTable:
    """Give a table that is not there yet."""
    return IcebergTable(tmp_path / "warehouse", TOPIC)


def test_a_new_table_has_no_commit(table: IcebergTable) -> None:
    """Nor has one that nothing was committed to."""
    assert table.newest() is None
    assert table.commits() == []
    table.begin()
    assert table.newest() is None
    assert table.commits() == []


def test_commits_are_read_back_in_order(table: IcebergTable) -> None:
    """Each with its offsets, the sizes of its files and the attempt that made it; rows are there once."""
    for number in (1, 2, 3):
        load(table, [FIRST_MS, FIRST_MS + HOUR_MS])
        newest = table.newest()
        assert newest is not None
        assert (newest.number, newest.offsets) == (number, {PARTITION: number * 200})
    assert [each.number for each in table.commits()] == [1, 2, 3]
    assert [each.number for each in table.commits(after=2)] == [3]
    assert len({each.attempt for each in table.commits()}) == 3
    assert offsets_in(table) == [0, 100, 200, 300, 400, 500]
    sizes = [task.file.file_size_in_bytes for task in table.iceberg().scan().plan_files()]
    assert sum(each.size_bytes for each in table.commits()) == sum(sizes)


def test_nothing_is_seen_before_the_commit(table: IcebergTable) -> None:
    """Though the files lie in the table's own directory."""
    load(table, [FIRST_MS])
    staging = staged(table, 2, [FIRST_MS], first=1)
    assert staging.startswith(table.iceberg().location().removeprefix("file://") + "/data/")
    assert offsets_in(table) == [0]
    table.commit(staging, commit_of(2, 200, rows=1))
    assert offsets_in(table) == [0, 100]


def test_a_commit_may_have_no_rows(table: IcebergTable) -> None:
    """All that was read may be in quarantine, or lost."""
    load(table, [FIRST_MS])
    table.commit(table.begin(), commit_of(2, 300))
    newest = table.newest()
    assert newest is not None
    assert newest.offsets == {PARTITION: 300}
    assert offsets_in(table) == [0]


def test_another_process_sees_the_same_table(table: IcebergTable, tmp_path: Path) -> None:
    """The catalogue lies in the warehouse, and names of topics may have dots."""
    dotted = IcebergTable(tmp_path / "warehouse", "web.views")
    dotted.commit(dotted.begin(), commit_of(1, 100))
    again = IcebergTable(f"file://{tmp_path}/warehouse", "web.views").newest()
    assert again is not None
    assert again.offsets == {PARTITION: 100}
    assert table.newest() is None


def test_a_number_is_given_once(table: IcebergTable) -> None:
    """Whoever comes second with it fails, and leaves nothing."""
    load(table, [FIRST_MS])
    first, second = staged(table, 2, [FIRST_MS], 1), staged(table, 2, [FIRST_MS], 1)
    table.commit(first, commit_of(2, 200, rows=1))
    with pytest.raises(OvertakenError, match=r"views.*committed 2 first"):
        table.commit(second, commit_of(2, 200, rows=1))
    table.abandon(second)
    assert not Path(second).exists()
    assert offsets_in(table) == [0, 100]


def test_no_number_is_left_out(table: IcebergTable) -> None:
    """A commit that follows one that nobody knows would have offsets from nowhere."""
    with pytest.raises(WarehouseError, match="commit 2 cannot follow none"):
        table.commit(table.begin(), commit_of(2, 100))


def between(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """Let something happen once, after a snapshot was made ready and before the catalogue has it."""
    real = SqlCatalog.commit_table
    left = [happens]

    def commit_table(self: SqlCatalog, table: Any, requirements: Any, updates: Any) -> Any:
        if left and any(isinstance(each, AddSnapshotUpdate) for each in updates):
            left.pop()()
        return real(self, table, requirements, updates)

    monkeypatch.setattr(SqlCatalog, "commit_table", commit_table)


@pytest.mark.parametrize("retries", ["0", "4"])
def test_a_loader_that_was_overtaken_in_the_last_moment_fails(
    table: IcebergTable, monkeypatch: pytest.MonkeyPatch, retries: str
) -> None:
    """Also where somebody has let the table's commits be tried again: pyiceberg would append behind the other one."""
    load(table, [FIRST_MS])
    table.iceberg().transaction().set_properties({"commit.retry.num-retries": retries}).commit_transaction()
    late = staged(table, 2, [FIRST_MS], 1)
    between(monkeypatch, lambda: load(table, [FIRST_MS]))
    with pytest.raises(OvertakenError):
        table.commit(late, commit_of(2, 200, rows=1))
    assert offsets_in(table) == [0, 100]


def test_a_property_that_changes_meanwhile_does_no_harm(table: IcebergTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalogue may refuse then, and nobody else has the number."""
    load(table, [FIRST_MS])
    staging = staged(table, 2, [FIRST_MS], 1)
    between(monkeypatch, lambda: table.iceberg().transaction().set_properties({"owner": "us"}).commit_transaction())
    table.commit(staging, commit_of(2, 200, rows=1))
    assert offsets_in(table) == [0, 100]
    assert table.iceberg().properties["owner"] == "us"


def test_an_answer_that_is_lost_is_looked_up(table: IcebergTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit is in the table: it has succeeded, and its files stay."""
    real = SqlCatalog.commit_table

    def commit_table(self: SqlCatalog, *args: Any) -> Any:
        real(self, *args)
        raise ConnectionError("the answer was lost")

    staging = staged(table, 1, [FIRST_MS])
    monkeypatch.setattr(SqlCatalog, "commit_table", commit_table)
    table.commit(staging, commit_of(1, 100, rows=1))
    monkeypatch.undo()
    table.abandon(staging)
    assert offsets_in(table) == [0]


def test_files_stay_while_it_is_not_known_what_came_of_a_commit(
    table: IcebergTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may turn out to be in the table."""

    def fails(*_: object) -> Any:
        raise ConnectionError("no answer")

    real = SqlCatalog.commit_table

    def commit_table(self: SqlCatalog, *args: Any) -> Any:
        real(self, *args)
        monkeypatch.setattr(SqlCatalog, "load_table", fails)
        raise ConnectionError("the answer was lost")

    staging = staged(table, 1, [FIRST_MS])
    monkeypatch.setattr(SqlCatalog, "commit_table", commit_table)
    with pytest.raises(UnknownOutcomeError):
        table.commit(staging, commit_of(1, 100, rows=1))
    monkeypatch.undo()
    table.abandon(staging)
    assert offsets_in(table) == [0]


def test_a_commit_without_an_answer_may_come_late(table: IcebergTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server may still be at it when somebody looks: the files stay until they are old."""
    late: list[Callable[[], object]] = []
    real = SqlCatalog.commit_table

    def commit_table(self: SqlCatalog, *args: Any) -> Any:
        late.append(lambda: real(self, *args))
        raise ConnectionError("timed out")

    staging = staged(table, 1, [FIRST_MS])
    monkeypatch.setattr(SqlCatalog, "commit_table", commit_table)
    with pytest.raises(UnknownOutcomeError, match="commit 1 is not there, as far as can be seen"):
        table.commit(staging, commit_of(1, 100, rows=1))
    table.abandon(staging)
    late.pop()()
    assert offsets_in(table) == [0]


def test_a_commit_says_how_many_rows_it_has(table: IcebergTable) -> None:
    """Files that vanished, or that were written twice, are noticed."""
    staging = staged(table, 1, [FIRST_MS, FIRST_MS + HOUR_MS])
    with pytest.raises(WarehouseError, match=r"has 2 rows, and commit 1 3"):
        table.commit(staging, commit_of(1, 300, rows=3))
    table.abandon(staging)
    with pytest.raises(WarehouseError, match="is gone"):
        table.commit(staging, commit_of(1, 200, rows=2))
    assert table.newest() is None


def test_what_spark_leaves_beside_its_files_is_no_data(table: IcebergTable) -> None:
    """Nor are files without a row."""
    staging = staged(table, 1, [FIRST_MS])
    [file] = Path(staging).rglob("*.parquet")
    for other in ("_temporary/0/part-1.parquet", "_SUCCESS", "date=2011-06-12/hour=00/.part-00000.parquet.crc"):
        Path(staging, other).parent.mkdir(parents=True, exist_ok=True)
        Path(staging, other).write_bytes(b"no file of Parquet")
    pq.write_table(pq.ParquetFile(file).read().slice(0, 0), file.with_name("empty.parquet"))
    table.commit(staging, commit_of(1, 100, rows=1))
    assert offsets_in(table) == [0]


def test_a_file_has_rows_of_one_hour(table: IcebergTable) -> None:
    """The hour comes from the file's statistics, and readers skip files by it."""
    load(table, [FIRST_MS, FIRST_MS + HOUR_MS, FIRST_MS + 2 * HOUR_MS])
    iceberg = table.iceberg()
    [task] = iceberg.scan(row_filter="time < '2011-06-12T00:59:59+00:00'").plan_files()
    assert task.file.partition[0] == FIRST_MS // HOUR_MS
    [task] = iceberg.scan(row_filter="page = '/2'").plan_files()
    assert task.file.record_count == 1
    assert "hour=02" in task.file.file_path

    staging = staged(
        table, 2, [FIRST_MS, FIRST_MS + 1], 3, time=pa.array([0, 3_600_000_000], pa.timestamp("us", "UTC"))
    )
    [first, second] = sorted(Path(staging).rglob("*.parquet"))
    both = pa.concat_tables([pq.ParquetFile(each).read() for each in (first, second)])
    pq.write_table(both, first)
    second.unlink()
    with pytest.raises(WarehouseError, match=r"(?s)commit 2.*more than one partition value"):
        table.commit(staging, commit_of(2, 500, rows=2))
    newest = table.newest()
    assert newest is not None
    assert newest.number == 1


def test_a_table_has_the_columns_of_its_files_and_no_others(table: IcebergTable) -> None:
    """Not those that other readers make of the directories' names."""
    load(table, [FIRST_MS])
    assert table.iceberg().schema().column_names == SCHEMA.names


def test_columns_come_with_the_files_that_have_them(table: IcebergTable) -> None:
    """Older rows are null there; those of events stand before our own; what is gone stays null."""
    load(table, [FIRST_MS])
    newer = SCHEMA.insert(5, pa.field("referrer", pa.string())).insert(6, pa.field("tags", pa.list_(pa.string())))
    load(table, [FIRST_MS], newer, referrer=["/"], tags=[["a", "b"]])
    load(table, [FIRST_MS])
    columns = [field.name for field in table.iceberg().schema().fields]
    assert columns[:7] == ["time", "published_at", "server", "id", "page", "referrer", "tags"]
    assert columns[7:] == SCHEMA.names[5:]
    rows = table.iceberg().scan().to_arrow().sort_by("kafka2011_offset")
    assert rows["referrer"].to_pylist() == [None, "/", None]
    assert rows["tags"].to_pylist() == [None, ["a", "b"], None]


def test_types_become_wider_and_nothing_else(table: IcebergTable) -> None:
    """A type that would change what is in the table is refused, with the name of the column."""
    narrow, wide = (SCHEMA.set(4, pa.field("page", kind)) for kind in (pa.int32(), pa.int64()))
    load(table, [FIRST_MS], narrow, page=[1])
    load(table, [FIRST_MS], wide, page=[2**40])
    assert sorted(table.iceberg().scan().to_arrow()["page"].to_pylist()) == [1, 2**40]
    with pytest.raises(WarehouseError, match="page"):
        load(table, [FIRST_MS])
    newest = table.newest()
    assert newest is not None
    assert newest.number == 2


def test_a_file_with_arrow_dictionaries_is_refused(table: IcebergTable) -> None:
    """The library takes it, and could not read the table any more."""
    staging = table.begin()
    write_rows(staging, rows_of(1, 0, [FIRST_MS]))
    with pytest.raises(WarehouseError, match=r"part-00000.parquet: column kafka2011_schema .*dictionary"):
        table.commit(staging, commit_of(1, 100, rows=1))


def test_a_redrive_is_a_commit_like_a_load(table: IcebergTable) -> None:
    """A compaction is none: rows are removed where it adds some."""
    load(table, [FIRST_MS])
    table.commit(staged(table, 2, [FIRST_MS], 7), commit_of(2, 100, rows=1, replaces=(1,)))
    assert offsets_in(table) == [0, 700]
    with pytest.raises(ValueError, match="compact"):
        table.commit(table.begin(), load_like(Operation.COMPACT))


def load_like(operation: Operation) -> Any:
    """Return a commit that is of another operation than a load."""
    return type(commit_of(3, 100))(TOPIC, 3, operation, FIRST_MS, {PARTITION: 100})


def test_a_warehouse_elsewhere_needs_a_catalogue() -> None:
    """SQLite is for a local directory."""
    with pytest.raises(WarehouseError, match=r"s3a://bucket/warehouse is no local directory"):
        IcebergTable("s3a://bucket/warehouse", TOPIC)


def test_any_catalogue_of_pyiceberg_serves(tmp_path: Path) -> None:
    """By its properties; it says where tables lie when the warehouse does not."""
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/other.db", "warehouse": f"file://{tmp_path}/lake"}
    load(IcebergTable("s3a://bucket/warehouse", TOPIC, catalog=properties), [FIRST_MS])
    again = IcebergTable("s3a://bucket/warehouse", TOPIC, catalog=properties)
    assert offsets_in(again) == [0]
    assert again.iceberg().location().startswith(f"file://{tmp_path}/lake")
    named = IcebergTable("s3a://bucket/warehouse", TOPIC, catalog=properties | {"name": "another"})
    assert named.newest() is None


def test_a_catalogue_in_sqlite_keeps_no_file_open(tmp_path: Path) -> None:
    """Nobody has to close it, and Python 3.13 warns of connections that nobody closed."""
    other = {"type": "sql", "uri": f"sqlite:///{tmp_path}/other.db", "warehouse": f"file://{tmp_path}/lake"}
    tables = [IcebergTable(tmp_path, TOPIC), IcebergTable(tmp_path, TOPIC, catalog=other)]
    for table in tables:
        load(table, [FIRST_MS])
    assert open_files_below(tmp_path) == []


def test_two_tables_never_share_a_directory(tmp_path: Path) -> None:
    """One that is made after another one was renamed lies elsewhere."""
    first = IcebergTable(tmp_path, TOPIC)
    load(first, [FIRST_MS])
    first.catalog.rename_table(first.identifier, ("kafka2011", "old"))
    second = IcebergTable(tmp_path, TOPIC)
    assert second.newest() is None
    second.begin()
    assert second.iceberg().location() != IcebergTable(tmp_path, TOPIC, name="old").iceberg().location()


def test_all_is_on_disk_before_the_catalogue_names_it(table: IcebergTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data, manifests and metadata, and the directories that they are in; SQLite sees to its own file."""
    synced: set[str] = set()
    real = os.fsync

    def fsync(fd: int) -> None:
        synced.add(str(Path(f"/proc/self/fd/{fd}").readlink()))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    load(table, [FIRST_MS, FIRST_MS + HOUR_MS])
    load(table, [FIRST_MS])
    table.compact(before_ms=FIRST_MS + 10 * HOUR_MS)
    directory = Path(table.iceberg().location().removeprefix("file://"))
    files = {path for path in directory.rglob("*") if path.is_file()}
    assert {str(path) for path in files} <= synced
    assert {str(path.parent) for path in files} <= synced
