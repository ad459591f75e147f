"""A table: its commits, its fence, its columns, and what it refuses."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from kafka2011.warehouse.errors import OvertakenError, UnknownOutcomeError, WarehouseError
from kafka2011.warehouse.table.commits import Commit, Operation
from kafka2011.warehouse.table.compaction import compact
from kafka2011.warehouse.table.dataset import live_files
from kafka2011.warehouse.table.topic_table import TopicTable
from tests.support.tables import (
    FIRST_MS,
    HOUR_MS,
    PARTITION,
    SCHEMA,
    TOPIC,
    commit_of,
    load,
    offsets_in,
    rows_in,
    rows_of,
    staged,
    write_rows,
)

if TYPE_CHECKING:
    from collections.abc import Callable

DAY_MS = 24 * HOUR_MS


@pytest.fixture
def table(tmp_path: Path) -> TopicTable:
    """Give a table that is not there yet."""
    return TopicTable(tmp_path / "warehouse", TOPIC)


def test_a_new_table_has_no_commit(table: TopicTable) -> None:
    """Nor has one that nothing was committed to."""
    assert table.newest() is None
    assert table.commits() == []
    table.begin()
    assert table.newest() is None
    assert table.commits() == []
    with pytest.raises(WarehouseError, match="does not exist"):
        table.delta()


def test_commits_are_read_back_in_order(table: TopicTable) -> None:
    """Each with its offsets, the sizes of its files and the attempt that made it; rows are there once."""
    for number in (1, 2, 3):
        load(table, [FIRST_MS, FIRST_MS + DAY_MS])
        newest = table.newest()
        assert newest is not None
        assert (newest.number, newest.offsets) == (number, {PARTITION: number * 200})
    assert [each.number for each in table.commits()] == [1, 2, 3]
    assert [each.number for each in table.commits(after=2)] == [3]
    assert len({each.attempt for each in table.commits()}) == 3
    assert offsets_in(table) == [0, 100, 200, 300, 400, 500]
    assert sum(each.size_bytes for each in table.commits()) == sum(
        each.size_bytes for each in live_files(table.delta())
    )


def test_nothing_is_seen_before_the_commit(table: TopicTable) -> None:
    """Though the files lie in the table's own directory."""
    load(table, [FIRST_MS])
    staging = staged(table, 2, [FIRST_MS], first=1)
    assert staging.startswith(f"{table.path}/data/")
    assert offsets_in(table) == [0]
    table.commit(staging, commit_of(2, 200, rows=1))
    assert offsets_in(table) == [0, 100]


def test_a_commit_may_have_no_rows(table: TopicTable) -> None:
    """All that was read may be in quarantine, or lost; also in the first one."""
    table.commit(table.begin(), commit_of(1, 100))
    load(table, [FIRST_MS])
    table.commit(table.begin(), commit_of(3, 300))
    newest = table.newest()
    assert newest is not None
    assert newest.offsets == {PARTITION: 300}
    assert offsets_in(table) == [100]


def test_another_process_sees_the_same_table(table: TopicTable, tmp_path: Path) -> None:
    """The log lies in the table, and names of topics may have dots."""
    dotted = TopicTable(tmp_path / "warehouse", "web.views")
    dotted.commit(dotted.begin(), Commit("web.views", 1, Operation.LOAD, 0, {}))
    again = TopicTable(f"file://{tmp_path}/warehouse", "web.views").newest()
    assert again is not None
    assert again.number == 1
    assert table.newest() is None


def test_a_number_is_given_once(table: TopicTable) -> None:
    """Whoever comes second with it fails, and leaves nothing."""
    load(table, [FIRST_MS])
    first, second = staged(table, 2, [FIRST_MS], 1), staged(table, 2, [FIRST_MS], 1)
    table.commit(first, commit_of(2, 200, rows=1))
    with pytest.raises(OvertakenError, match=r"views.*committed 2 first"):
        table.commit(second, commit_of(2, 200, rows=1))
    table.abandon(second)
    assert not Path(second).exists()
    table.abandon(first)
    assert Path(first).exists()
    assert offsets_in(table) == [0, 100]


def test_no_number_is_left_out(table: TopicTable) -> None:
    """A commit that follows one that nobody knows would have offsets from nowhere."""
    with pytest.raises(WarehouseError, match="commit 2 cannot follow none"):
        table.commit(table.begin(), commit_of(2, 100))


def between(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object], times: int = 1) -> None:
    """Let something happen after the number was compared and before the entry is written."""
    real = DeltaTable.create_write_transaction
    left = [happens] * times

    def create_write_transaction(self: DeltaTable, *args: Any, **kwargs: Any) -> None:
        if left:
            left.pop()()
        real(self, *args, **kwargs)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", create_write_transaction)


def test_a_loader_that_was_overtaken_in_the_last_moment_fails(
    table: TopicTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library, left to itself, would append behind the other one."""
    load(table, [FIRST_MS])
    late = staged(table, 2, [FIRST_MS], 1)
    between(monkeypatch, lambda: load(table, [FIRST_MS]))
    with pytest.raises(OvertakenError):
        table.commit(late, commit_of(2, 200, rows=1))
    assert offsets_in(table) == [0, 100]


def test_a_compaction_that_comes_between_does_no_harm(table: TopicTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library refuses then, and nobody else has the number."""
    for _ in range(2):
        load(table, [FIRST_MS])
    staging = staged(table, 3, [FIRST_MS], 2)
    between(monkeypatch, lambda: compact(table))
    table.commit(staging, commit_of(3, 300, rows=1))
    assert offsets_in(table) == [0, 100, 200]
    newest = table.newest()
    assert newest is not None
    assert newest.number == 3


def test_a_commit_is_not_tried_for_ever(table: TopicTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others who change the table without end are named; nothing of the commit is there."""
    load(table, [FIRST_MS])
    staging = staged(table, 2, [FIRST_MS], 1)
    others = lambda: table.delta().alter.set_table_properties({"o": "1"}, raise_if_not_exists=False)  # noqa: E731
    between(monkeypatch, others, times=99)
    with pytest.raises(WarehouseError, match="others keep changing the table, commit 2 failed"):
        table.commit(staging, commit_of(2, 200, rows=1))
    assert offsets_in(table) == [0]


@pytest.mark.parametrize("failure", [OSError("the answer was lost"), None])
def test_an_answer_that_is_lost_is_looked_up(
    table: TopicTable, monkeypatch: pytest.MonkeyPatch, failure: OSError | None
) -> None:
    """The commit is in the table: it has succeeded, and its files stay, also when a store meets its own entry."""
    real = DeltaTable.create_write_transaction

    def create_write_transaction(self: DeltaTable, *args: Any, **kwargs: Any) -> None:
        real(self, *args, **kwargs)
        if failure is not None:
            raise failure
        real(DeltaTable(table.path, version=self.version()), *args, **kwargs)

    load(table, [FIRST_MS])
    staging = staged(table, 2, [FIRST_MS], 1)
    monkeypatch.setattr(DeltaTable, "create_write_transaction", create_write_transaction)
    table.commit(staging, commit_of(2, 200, rows=1))
    table.abandon(staging)
    assert offsets_in(table) == [0, 100]


def test_files_stay_while_it_is_not_known_what_came_of_a_commit(
    table: TopicTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may come late: a server may still be at it when somebody looks."""
    late: list[Callable[[], object]] = []
    real = DeltaTable.create_write_transaction

    def create_write_transaction(self: DeltaTable, *args: Any, **kwargs: Any) -> None:
        late.append(lambda: real(self, *args, **kwargs))
        raise OSError("timed out")

    load(table, [FIRST_MS])
    staging = staged(table, 2, [FIRST_MS], 1)
    monkeypatch.setattr(DeltaTable, "create_write_transaction", create_write_transaction)
    with pytest.raises(UnknownOutcomeError, match="commit 2 is not there, as far as can be seen"):
        table.commit(staging, commit_of(2, 200, rows=1))
    table.abandon(staging)
    late.pop()()
    assert offsets_in(table) == [0, 100]


def test_a_commit_says_how_many_rows_it_has(table: TopicTable) -> None:
    """Files that vanished, or that were written twice, are noticed."""
    staging = staged(table, 1, [FIRST_MS, FIRST_MS + HOUR_MS])
    with pytest.raises(WarehouseError, match=r"has 2 rows, and commit 1 3"):
        table.commit(staging, commit_of(1, 300, rows=3))
    table.abandon(staging)
    with pytest.raises(WarehouseError, match="is gone"):
        table.commit(staging, commit_of(1, 200, rows=2))
    assert table.newest() is None


def test_what_spark_leaves_beside_its_files_is_no_data(table: TopicTable) -> None:
    """Nor are files without a row."""
    staging = staged(table, 1, [FIRST_MS])
    [file] = Path(staging).rglob("*.parquet")
    for other in ("_temporary/0/part-1.parquet", "_SUCCESS", "date=2011-06-12/.part-00000.parquet.crc"):
        Path(staging, other).parent.mkdir(parents=True, exist_ok=True)
        Path(staging, other).write_bytes(b"no file of Parquet")
    pq.write_table(pq.ParquetFile(file).read().slice(0, 0), file.with_name("empty.parquet"))
    table.commit(staging, commit_of(1, 100, rows=1))
    assert offsets_in(table) == [0]


def test_readers_skip_files_by_date_and_by_statistics(table: TopicTable) -> None:
    """The date is the directory's; times and whole numbers have bounds, in microseconds."""
    load(table, [FIRST_MS, FIRST_MS + HOUR_MS])
    load(table, [FIRST_MS + 2 * HOUR_MS, FIRST_MS + DAY_MS])
    delta = table.delta()

    def files(predicate: str) -> int:
        return len(delta.file_uris(file_pruning_predicate=predicate))

    assert files("date = '2011-06-12'") == 2
    assert files("date = '2011-06-13'") == 1
    assert files("kafka2011_offset >= 200") == 2
    assert files("kafka2011_offset < 100") == 1
    assert files("time < '2011-06-12T01:00:00.000001Z'") == 1
    [first] = [each for each in pa.table(delta.get_add_actions()).to_pylist() if each["min"]["kafka2011_offset"] == 0]
    assert (first["num_records"], first["null_count"]["page"], first["max"]["kafka2011_offset"]) == (2, 0, 100)
    assert first["max"]["published_at"].microsecond == 5


def test_statistics_know_what_they_do_not_know(table: TopicTable) -> None:
    """A column of nulls has no bounds; texts and numbers with a point have none either; nulls are counted."""
    schema = SCHEMA.set(4, pa.field("page", pa.int64())).append(pa.field("ratio", pa.float64()))
    load(table, [FIRST_MS, FIRST_MS], schema, page=[None, 7], ratio=[0.5, float("nan")])
    load(table, [FIRST_MS, FIRST_MS], schema, page=[None, None], ratio=[None, None])
    found = pa.table(table.delta().get_add_actions()).to_pylist()
    assert {(each["min"]["page"], each["null_count"]["page"]) for each in found} == {(7, 1), (None, 2)}
    assert {each["min"]["ratio"] for each in found} == {None}
    seen = polars.scan_delta(table.path)
    assert seen.filter(polars.col("page").is_null()).collect().height == 3
    assert seen.filter(polars.col("page") == 7).collect().height == 1
    assert seen.filter(polars.col("ratio") < 1).collect().height == 1


def test_columns_come_with_the_files_that_have_them(table: TopicTable) -> None:
    """Older rows are null there; new columns come last; what is gone stays null; records may grow."""
    point = pa.struct([("x", pa.int64())])
    load(table, [FIRST_MS], SCHEMA.append(pa.field("at", point)), at=[{"x": 1}])
    assert pa.schema(table.delta().schema()).names == [*SCHEMA.names, "at", "date"]
    larger = pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))])
    newer = SCHEMA.insert(5, pa.field("referrer", pa.string())).append(pa.field("at", larger))
    load(table, [FIRST_MS], newer, referrer=["/"], at=[{"x": 2, "y": ["a"]}])
    versions = table.delta().version()
    load(table, [FIRST_MS])
    load(table, [FIRST_MS], SCHEMA.append(pa.field("at", point)), at=[{"x": 4}])
    assert table.delta().version() == versions + 2
    assert pa.schema(table.delta().schema()).names == [*SCHEMA.names, "at", "date", "referrer"]
    rows = rows_in(table)
    assert rows["referrer"].to_pylist() == [None, "/", None, None]
    assert rows["at"].to_pylist() == [{"x": 1, "y": None}, {"x": 2, "y": ["a"]}, None, {"x": 4, "y": None}]
    assert compact(table).files_after == 1
    assert rows_in(table)["at"].to_pylist() == rows["at"].to_pylist()


def test_files_of_another_type_are_refused(table: TopicTable) -> None:
    """They were made for the column as it was, and another process has rewritten it."""
    load(table, [FIRST_MS], SCHEMA.set(4, pa.field("page", pa.int64())), page=[1])
    with pytest.raises(OvertakenError, match="column page is int64, and string in this commit"):
        load(table, [FIRST_MS])
    with pytest.raises(WarehouseError, match=r"columns page and Page are one to readers that ignore case"):
        load(table, [FIRST_MS], SCHEMA.set(4, pa.field("Page", pa.int64())), Page=[1])
    newest = table.newest()
    assert newest is not None
    assert newest.number == 1


def test_a_column_needs_a_type(table: TopicTable) -> None:
    """Delta has none that is only null."""
    with pytest.raises(WarehouseError, match=r"column page has no type"):
        load(table, [FIRST_MS], SCHEMA.set(4, pa.field("page", pa.null())), page=[None])


def test_a_file_with_arrow_dictionaries_is_refused(table: TopicTable) -> None:
    """Readers of single files would find text here and a dictionary there."""
    staging = table.begin()
    rows = rows_of(1, 0, [FIRST_MS])
    write_rows(
        table.files, staging, rows.set_column(6, "kafka2011_schema", rows["kafka2011_schema"].dictionary_encode())
    )
    with pytest.raises(WarehouseError, match=r"part-00000.parquet: column kafka2011_schema .*dictionary"):
        table.commit(staging, commit_of(1, 100, rows=1))


def test_a_file_lies_in_the_directory_of_its_date(table: TopicTable) -> None:
    """Below one of an hour, Polars would not read it."""
    staging = table.begin()
    write_rows(table.files, staging, rows_of(1, 0, [FIRST_MS]))
    [path] = Path(staging).rglob("*.parquet")
    (path.parent / "hour=00").mkdir()
    path.rename(path.parent / "hour=00" / path.name)
    with pytest.raises(WarehouseError, match=r"hour=00/part-00000.parquet does not lie in a directory of a date"):
        table.commit(staging, commit_of(1, 100, rows=1))


def test_a_redrive_is_a_commit_like_a_load(table: TopicTable) -> None:
    """It replaces the quarantine of earlier ones, and no rows."""
    load(table, [FIRST_MS])
    table.commit(staged(table, 2, [FIRST_MS], 7), commit_of(2, 100, rows=1, replaces=(1,)))
    assert offsets_in(table) == [0, 700]


@pytest.mark.parametrize(
    ("warehouse", "why"),
    [
        ("gs://bucket/warehouse", "a local directory, or hdfs://..., or s3://"),
        ("s3://bucket/a b", "has a #, [?], % or space"),
        ("/data/a b", "has a #, [?], % or space"),
        ("/data/a#b", "has a #"),
    ],
)
def test_a_warehouse_that_cannot_be_is_refused(warehouse: str, why: str) -> None:
    """Before anything is loaded."""
    with pytest.raises(WarehouseError, match=why):
        TopicTable(warehouse, TOPIC)


def test_a_table_is_of_one_topic(table: TopicTable, tmp_path: Path) -> None:
    """One that was renamed is not loaded into."""
    load(table, [FIRST_MS])
    Path(table.path).rename(tmp_path / "warehouse" / "clicks")
    with pytest.raises(WarehouseError, match="is a table of topic views, not of clicks"):
        TopicTable(tmp_path / "warehouse", "clicks").newest()
    renamed = TopicTable(tmp_path / "warehouse", TOPIC, name="clicks").newest()
    assert renamed is not None
    assert renamed.number == 1


def test_all_is_on_disk_before_a_load_is_reported(table: TopicTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows before the log names them, and the entry, with the directories that they are in."""
    synced: set[str] = set()
    real = os.fsync

    def fsync(fd: int) -> None:
        synced.add(str(Path(f"/proc/self/fd/{fd}").readlink()))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    load(table, [FIRST_MS, FIRST_MS + DAY_MS])
    load(table, [FIRST_MS])
    compact(table)
    files = [path for path in Path(table.path).rglob("*") if re.search(r"parquet|0000[012]\.json", path.name)]
    assert len(files) == 7
    assert {str(path) for path in files} <= synced
    assert {str(path.parent) for path in files} <= synced
