"""Compaction: fewer files, the same rows, at every moment."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka2011.warehouse import open_table
from kafka2011.warehouse.errors import OvertakenError, WarehouseError
from kafka2011.warehouse.table.commits import Operation
from kafka2011.warehouse.table.parquet.compact import compact, remove_replaced
from kafka2011.warehouse.table.parquet.parquet_table import ParquetTable
from tests.support.clocks import ManualClock
from tests.support.steps import Killed, KilledAt, SteppedFiles
from tests.support.tables import EVENT, FIRST_MS, HOUR_MS, OWN, PARTITION, TOPIC, commit_of, load, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.warehouse.table.commits import Commit

LOADS = 4


@pytest.fixture
def clock() -> ManualClock:
    """Give a clock two hours after the loads."""
    return ManualClock(wall_lead_s=(FIRST_MS + 2 * HOUR_MS) / 1000)


@pytest.fixture
def table(tmp_path: Path, clock: ManualClock) -> ParquetTable:
    """Give a table of small loads, with late events among them."""
    made = ParquetTable(tmp_path, TOPIC, clock=clock)
    for number in range(LOADS):
        load(made, [FIRST_MS + number, FIRST_MS - number * HOUR_MS, FIRST_MS + 5])
    return made


@pytest.fixture
def run(clock: ManualClock) -> Callable[[ParquetTable], list[Commit]]:
    """Compact with the manual clock."""
    return lambda table: compact(table, clock=clock, sleep=clock.sleep)


def contents(warehouse: Path) -> list[tuple[int, str, int]]:
    """Return what identifies every row that is read, and the load that brought it."""
    names = ["kafka2011_offset", "id", "kafka2011_load_id"]
    found = open_table(warehouse, TOPIC).to_table(columns=names).to_pydict()
    return sorted(zip(*found.values(), strict=True))


def expected(loads: int = LOADS) -> list[tuple[int, str, int]]:
    """Return what should be read."""
    made = [rows_of(load_id, 3 * (load_id - 1), [0] * 3) for load_id in range(1, loads + 1)]
    names = ("kafka2011_offset", "id", "kafka2011_load_id")
    return [row for each in made for row in zip(*(each[name].to_pylist() for name in names), strict=True)]


def parquet_files(directory: str) -> list[Path]:
    return sorted(Path(directory).rglob("*.parquet"))


def test_small_loads_become_one(
    table: ParquetTable, tmp_path: Path, run: Callable[[ParquetTable], list[Commit]]
) -> None:
    """A commit with all rows, one sorted file a date, and the newest offsets; what it replaced is gone."""
    [commit] = run(table)
    assert commit == table.newest()
    assert commit.size_bytes == sum(each.stat().st_size for each in parquet_files(table.directory(5)))
    assert (commit.number, commit.operation, commit.replaces) == (LOADS + 1, Operation.COMPACT, (1, 2, 3, 4))
    assert (commit.offsets, commit.ranges, commit.rows) == ({PARTITION: 1200}, (), 12)
    files = parquet_files(table.path)
    assert [each.parent.name for each in files] == ["date=2011-06-11", "date=2011-06-12"]
    assert all(each.is_relative_to(table.directory(5)) for each in files)
    for each in files:
        times = pq.read_table(each)["time"].to_pylist()
        assert times == sorted(times)
        assert pq.ParquetFile(each).metadata.row_group(0).column(0).compression == "ZSTD"
    assert contents(tmp_path) == expected()
    assert run(table) == []


def test_numbers_stay_taken(table: ParquetTable, run: Callable[[ParquetTable], list[Commit]]) -> None:
    """A loader that was stalled since before a load that is rewritten by now is refused, by the rename itself too."""
    stalled = ParquetTable(Path(table.path).parent, TOPIC)
    staging = stalled.begin()
    run(table)
    with pytest.raises(OvertakenError):
        stalled.commit(staging, commit_of(2, 200))
    with pytest.raises(FileExistsError):
        table.files.publish(staging, table.path, "load_id=000002", lambda names, read: None)


def test_recent_and_large_commits_are_left_alone(tmp_path: Path, clock: ManualClock) -> None:
    """Those of the present hour, and those as large as a file should be; one alone is not rewritten."""
    table = ParquetTable(tmp_path, TOPIC, clock=clock)
    load(table, [FIRST_MS])
    load(table, [FIRST_MS] * 5000, page=[f"/{n * 7919 % 10007}" for n in range(5000)])
    load(table, [FIRST_MS], written_at_ms=FIRST_MS + 2 * HOUR_MS - 1)
    load(table, [FIRST_MS], written_at_ms=FIRST_MS + 2 * HOUR_MS)
    large = table.commits()[1].size_bytes
    [commit] = compact(table, target_bytes=large, clock=clock, sleep=clock.sleep)
    assert commit.replaces == (1, 3)
    assert compact(table, target_bytes=large, clock=clock, sleep=clock.sleep) == []
    clock.sleep(3600)
    [commit] = compact(table, target_bytes=large, clock=clock, sleep=clock.sleep)
    assert commit.replaces == (4, 5)


def test_a_long_backlog_is_rewritten_in_parts(tmp_path: Path, clock: ManualClock) -> None:
    """Each of about the size of a file, so that memory and disk need not hold all."""
    table = ParquetTable(tmp_path, TOPIC, clock=clock)
    for _ in range(6):
        load(table, [FIRST_MS])
    one = max(each.size_bytes for each in table.commits())
    made = compact(table, target_bytes=one + 1, clock=clock, sleep=clock.sleep)
    assert [each.replaces for each in made][:3] == [(1, 2), (3, 4), (5, 6)]
    assert sorted(offset for offset, *_ in contents(tmp_path)) == [n * 100 for n in range(6)]


def test_hours_stay_hours(tmp_path: Path, clock: ManualClock) -> None:
    """A table may have both."""
    table = ParquetTable(tmp_path, TOPIC, clock=clock)
    load(table, [FIRST_MS, FIRST_MS + HOUR_MS])
    load(table, [FIRST_MS, FIRST_MS + HOUR_MS], by_hour=True)
    load(table, [FIRST_MS + HOUR_MS], by_hour=True)
    compact(table, clock=clock, sleep=clock.sleep)
    places = [str(each.parent.relative_to(table.directory(4))) for each in parquet_files(table.path)]
    assert places == ["date=2011-06-12", "date=2011-06-12/hour=00", "date=2011-06-12/hour=01"]


def test_no_column_is_lost(tmp_path: Path, clock: ManualClock) -> None:
    """Not even one that the newest schema no longer has; the types are the newest."""
    old = pa.unify_schemas([EVENT, pa.schema([("status", pa.int32()), ("gone", pa.string())]), OWN])
    new = pa.unify_schemas([EVENT, pa.schema([("status", pa.int64()), ("referrer", pa.string())]), OWN])
    table = ParquetTable(tmp_path, TOPIC, clock=clock)
    load(table, [FIRST_MS], schema=1, arrow=old, status=[200], gone=["kept"])
    load(table, [FIRST_MS], schema=2, arrow=new, status=[2**40], referrer=["/"])
    [commit] = compact(table, clock=clock, sleep=clock.sleep)
    assert commit.schema == 2
    [file] = parquet_files(table.path)
    found = pq.read_table(file, partitioning=None)
    assert found.schema.names == [*new.names, "gone"]
    assert found.schema.field("status").type == pa.int64()
    assert found.select(["status", "referrer", "gone"]).to_pydict() == {
        "status": [200, 2**40],
        "referrer": [None, "/"],
        "gone": ["kept", None],
    }


def test_large_dates_are_sorted_in_parts(tmp_path: Path, clock: ManualClock) -> None:
    """And cut into files, in order, whatever the size of either."""
    from kafka2011.warehouse.table.parquet.merge import merge
    from kafka2011.warehouse.table.parquet.snapshot import snapshot_files

    table = ParquetTable(tmp_path, TOPIC, clock=clock)
    times = [FIRST_MS + n * 7919 % 86_400_000 for n in range(0, 86_400_000, 100_000)]
    for part in range(3):
        load(table, times[part::3])
    staging = table.begin()
    assert merge(snapshot_files(table), staging, "part", target_bytes=10_000, max_rows=100) == len(times)
    files = parquet_files(staging)
    assert len(files) > 2
    found = [time for each in files for time in pq.read_table(each)["time"].cast(pa.int64()).to_pylist()]
    assert found == sorted(time * 1000 for time in times)


def test_rows_that_do_not_add_up_stop_it(tmp_path: Path, clock: ManualClock) -> None:
    """A commit that says it has more rows than its files is not replaced by what was read."""
    table = ParquetTable(tmp_path, TOPIC, clock=clock)
    load(table, [FIRST_MS])
    load(table, [FIRST_MS])
    staging = table.begin()
    table.commit(staging, commit_of(3, 300, rows=5))
    with pytest.raises(WarehouseError, match=r"say that they have 7 rows, and 2 were read"):
        compact(table, clock=clock, sleep=clock.sleep)
    assert len(table.commits()) == 3
    assert list(Path(table.staging).iterdir()) == []


def test_a_reader_sees_each_row_once_at_every_step(
    table: ParquetTable, tmp_path: Path, run: Callable[[ParquetTable], list[Commit]]
) -> None:
    """Before and after every change, staging to removal."""
    seen: list[str] = []

    def look(step: str) -> None:
        seen.append(step)
        assert contents(tmp_path) == expected()

    table.files = SteppedFiles(look)
    run(table)
    assert {"write", "publish", "rename", "renamed", "delete", "rmtree"} <= {*seen}
    assert contents(tmp_path) == expected()


def test_killed_at_any_step_it_is_finished_by_the_next(tmp_path: Path, clock: ManualClock) -> None:
    """Readers see each row once after the death, and nothing is left over in the end."""
    deaths: list[str] = []
    for number in range(1, 100):
        warehouse = tmp_path / str(number)
        table = ParquetTable(warehouse, TOPIC, clock=clock)
        for _ in range(2):
            load(table, [FIRST_MS] * 3)
        killer = KilledAt(number)
        table.files = SteppedFiles(killer)
        with suppress(Killed):
            compact(table, clock=clock, sleep=clock.sleep)
        deaths += killer.steps[number - 1 : number]
        assert contents(warehouse) == expected(2)
        table = ParquetTable(warehouse, TOPIC, clock=clock)
        clock.sleep(60)
        compact(table, clock=clock, sleep=clock.sleep)
        assert contents(warehouse) == expected(2)
        assert len(parquet_files(table.path)) == 1
        if len(killer.steps) < number:
            break
    assert {"write", "publish", "rename", "renamed", "delete", "rmtree"} <= {*deaths}


def test_a_load_that_comes_first_is_no_reason_to_begin_again(
    table: ParquetTable, tmp_path: Path, run: Callable[[ParquetTable], list[Commit]]
) -> None:
    """The compaction takes the next number, with that load's offsets."""
    loader = ParquetTable(tmp_path, TOPIC)
    loaded: list[Commit] = []

    def meanwhile(step: str) -> None:
        if step == "rename" and not loaded:
            loaded.append(load(loader, [FIRST_MS] * 3))

    table.files = SteppedFiles(meanwhile)
    [commit] = run(table)
    assert (commit.number, commit.offsets) == (LOADS + 2, {PARTITION: 1500})
    assert contents(tmp_path) == expected(LOADS + 1)


def test_of_two_compactions_one_counts(
    table: ParquetTable, tmp_path: Path, clock: ManualClock, run: Callable[[ParquetTable], list[Commit]]
) -> None:
    """The other one leaves nothing."""
    others: list[Commit] = []

    def meanwhile(step: str) -> None:
        if step == "rename" and not others:
            others.extend(run(ParquetTable(tmp_path, TOPIC, clock=clock)))

    table.files = SteppedFiles(meanwhile)
    assert run(table) == []
    assert [each.number for each in others] == [LOADS + 1]
    assert contents(tmp_path) == expected()
    assert list(Path(table.staging).iterdir()) == []


def test_who_reads_already_has_a_grace(table: ParquetTable, tmp_path: Path, clock: ManualClock) -> None:
    """The old files are there until it ends; after that, a reader is told."""
    early = open_table(tmp_path, TOPIC)

    def graced(seconds: float) -> None:
        assert seconds == 30
        clock.sleep(seconds - 1)
        assert remove_replaced(table, grace_s=30, clock=clock) == []
        assert early.count_rows() == len(expected())
        clock.sleep(1)

    compact(table, grace_s=30, clock=clock, sleep=graced)
    with pytest.raises(FileNotFoundError):
        early.to_table()


def test_a_table_without_rows_is_compacted(tmp_path: Path, clock: ManualClock) -> None:
    """Loads that only had quarantined messages are commits too."""
    table = ParquetTable(tmp_path, TOPIC, clock=clock)
    load(table, [])
    load(table, [])
    [commit] = compact(table, clock=clock, sleep=clock.sleep)
    assert commit.replaces == (1, 2)
    load(table, [FIRST_MS])
    assert open_table(tmp_path, TOPIC).count_rows() == 1
