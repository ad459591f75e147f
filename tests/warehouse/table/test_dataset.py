"""`open_table`: exactly the rows of live commits, with the newest schema."""

from __future__ import annotations

import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from kafka2011.warehouse import open_table
from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.table.commits import Commit, Operation
from kafka2011.warehouse.table.parquet import snapshot
from kafka2011.warehouse.table.parquet.parquet_table import ParquetTable
from kafka2011.warehouse.table.parquet.snapshot import snapshot_commits
from tests.support.tables import EVENT, FIRST_MS, HOUR_MS, OWN, SCHEMA, TOPIC, load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka2011.warehouse.table.files import FileStatus


@pytest.fixture
def table(tmp_path: Path) -> ParquetTable:
    """Give a table that is not there yet."""
    return ParquetTable(tmp_path, TOPIC)


def offsets(dataset: ds.Dataset) -> list[int]:
    """Return which rows a dataset has."""
    found: list[int] = dataset.to_table(columns=["kafka2011_offset"])["kafka2011_offset"].to_pylist()
    return sorted(found)


def test_rows_of_all_loads_are_there(table: ParquetTable, tmp_path: Path) -> None:
    """Those of a later load once it is opened again."""
    load(table, [FIRST_MS, FIRST_MS + 1])
    early = open_table(tmp_path, TOPIC)
    load(table, [FIRST_MS])
    assert offsets(early) == [0, 100]
    assert offsets(open_table(str(tmp_path), TOPIC)) == [0, 100, 200]


def test_columns_are_those_of_the_newest_schema(table: ParquetTable, tmp_path: Path) -> None:
    """By its number, whichever commit came last; what older rows lack is null, and int has become long."""
    old = pa.unify_schemas([EVENT, pa.schema([("status", pa.int32()), ("gone", pa.string())]), OWN])
    new = pa.unify_schemas([EVENT, pa.schema([("status", pa.int64()), ("referrer", pa.string())]), OWN])
    load(table, [FIRST_MS], schema=9, arrow=old, status=[200], gone=["x"])
    load(table, [FIRST_MS], schema=10, arrow=new, status=[2**40], referrer=["/"])
    load(table, [FIRST_MS], schema=9, arrow=old, status=[404], gone=["x"])
    found = open_table(tmp_path, TOPIC)
    assert found.schema.names == [*new.names, "date"]
    rows = found.sort_by("kafka2011_offset").to_table(columns=["status", "referrer"]).to_pydict()
    assert rows == {"status": [200, 2**40, 404], "referrer": [None, "/", None]}


def test_a_load_without_rows_has_no_schema_to_go_by(table: ParquetTable, tmp_path: Path) -> None:
    """That of the newest rows stays; a table without any has no columns but `date`."""
    load(table, [])
    assert open_table(tmp_path, TOPIC).to_table().num_rows == 0
    load(table, [FIRST_MS])
    load(table, [], schema=2)
    assert open_table(tmp_path, TOPIC).schema.names == [*SCHEMA.names, "date"]
    assert offsets(open_table(tmp_path, TOPIC)) == [0]


def test_dates_and_hours_are_columns(table: ParquetTable, tmp_path: Path) -> None:
    """Those of the directories, and a filter on them opens no other file."""
    load(table, [FIRST_MS])
    load(table, [FIRST_MS + HOUR_MS, FIRST_MS + 24 * HOUR_MS], by_hour=True)
    found = open_table(tmp_path, TOPIC)
    rows = found.sort_by("time").to_table(columns=["date", "hour"]).to_pydict()
    assert rows == {"date": [date(2011, 6, 12), date(2011, 6, 12), date(2011, 6, 13)], "hour": [None, 1, 0]}
    for path in Path(table.path).rglob("date=2011-06-12/**/*.parquet"):
        path.unlink()
    assert found.to_table(filter=ds.field("date") == date(2011, 6, 13)).num_rows == 1
    with pytest.raises(FileNotFoundError):
        found.to_table()


def test_missing_and_changed_files_are_noticed(table: ParquetTable, tmp_path: Path) -> None:
    """Rows do not vanish in silence."""
    load(table, [FIRST_MS])
    [path] = Path(table.path).rglob("*.parquet")
    path.rename(tmp_path / "elsewhere")
    with pytest.raises(WarehouseError, match=r"load_id=000001 have 0 bytes, .* some are missing"):
        open_table(tmp_path, TOPIC)


def test_a_file_outside_of_a_date_is_refused(table: ParquetTable, tmp_path: Path) -> None:
    """No load writes one."""
    staging = table.begin()
    Path(staging, "part.parquet").write_bytes(b"rows")
    table.commit(staging, Commit(TOPIC, 1, Operation.LOAD, 0, {}))
    with pytest.raises(WarehouseError, match=r"part\.parquet does not lie in a directory of a date"):
        open_table(tmp_path, TOPIC)


def test_a_table_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """It names the path, and makes nothing."""
    with pytest.raises(WarehouseError, match=f"there is no table {tmp_path}/{TOPIC}"):
        open_table(tmp_path, TOPIC)
    assert list(tmp_path.iterdir()) == []


def commit(number: int, operation: Operation = Operation.LOAD, replaces: Sequence[int] = ()) -> Commit:
    return Commit(TOPIC, number, operation, 0, {}, replaces=tuple(replaces))


def test_compactions_replace_rows_and_redrives_do_not() -> None:
    """A redrive names loads whose quarantined messages it has decoded; their rows stay."""
    commits = [
        commit(1),
        commit(2),
        commit(3, Operation.COMPACT, [1, 2]),
        commit(4),
        commit(5, Operation.REDRIVE, [4]),
        commit(6, Operation.COMPACT, [3]),
    ]
    assert [each.number for each in snapshot_commits(commits)] == [4, 5, 6]


def test_a_table_that_is_rewritten_while_it_is_listed_is_listed_again(
    table: ParquetTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a compaction removes under the reader's eyes counts neither as missing nor twice."""
    from kafka2011.warehouse.table.parquet.compact import compact

    for _ in range(3):
        load(table, [FIRST_MS])
    listed: list[int] = []
    rows_in = snapshot.rows_in

    def interrupted(table: ParquetTable, commit: Commit) -> list[FileStatus]:
        if commit.number == 2 and not listed:
            listed.append(commit.number)
            compact(ParquetTable(tmp_path, TOPIC), grace_s=0, sleep=lambda s: None)
        return rows_in(table, commit)

    monkeypatch.setattr(snapshot, "rows_in", interrupted)
    assert offsets(open_table(tmp_path, TOPIC)) == [0, 100, 200]
    assert listed


def test_no_spark_is_needed() -> None:
    """Reading imports neither PySpark nor anything of a cluster."""
    program = (
        "import sys; from kafka2011.warehouse import open_table;"
        "assert open_table; print({'pyspark', 'py4j', 'kazoo', 'gevent', 'fastavro'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "set()\n"
