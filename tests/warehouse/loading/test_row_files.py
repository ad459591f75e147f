"""Files of rows, as the tasks of a load write them: one for each day, sorted, with what the table's log needs."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem

from kafka2011.warehouse.loading.coverage import Run
from kafka2011.warehouse.loading.row_files import RowFiles
from kafka2011.warehouse.rows.columns import MICROS, OWN
from kafka2011.warehouse.table.output import Output

if TYPE_CHECKING:
    from pathlib import Path

DAY_US = 86_400_000_000
SCHEMA = pa.schema([pa.field("time", MICROS), *OWN])


@pytest.fixture
def output(tmp_path: Path) -> Output:
    (tmp_path / "data/one").mkdir(parents=True)
    return pickle.loads(pickle.dumps(Output(LocalFileSystem(), str(tmp_path), "data/one")))  # type: ignore[no-any-return]


def rows(times: list[int], first: int = 0) -> pa.RecordBatch:
    """Return messages of 10 bytes each, which were published at these times."""
    count = len(times)
    offsets = [10 * (first + number) for number in range(count)]
    ends = [offset + 10 for offset in offsets]
    columns = [times, [1] * count, [2] * count, offsets, ends, [0] * count, [7] * count, ["f"] * count]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def test_each_day_has_a_file_sorted_by_time(output: Output, tmp_path: Path) -> None:
    """Before the epoch, too; the runs are those of all rows, whichever file they are in."""
    files = RowFiles(output, 1 << 20)
    files.add(rows([DAY_US + 5, 3, -1]))
    files.add(rows([DAY_US, -DAY_US - 1, 2], first=3))
    files.end()
    found = {}
    for each in files.files:
        path = tmp_path / each.action.path
        assert path.stat().st_size == each.action.size
        with pq.ParquetFile(path) as parquet:
            found[path.parent.name] = parquet.read(["time"]).column("time").cast(pa.int64()).to_pylist()
            assert parquet.schema_arrow.names == each.columns.names
        stats = json.loads(each.action.stats or "")
        assert stats["numRecords"] == each.rows == len(found[path.parent.name])
        assert stats["nullCount"]["time"] == 0
    assert found == {
        "date=1969-12-30": [-DAY_US - 1],
        "date=1969-12-31": [-1],
        "date=1970-01-01": [2, 3],
        "date=1970-01-02": [DAY_US, DAY_US + 5],
    }
    assert files.runs == [Run(1, 2, 0, 60, 6)]


def test_rows_are_written_once_they_are_many(output: Output) -> None:
    """So that a task needs no more memory than it is allowed; nothing is written for nothing."""
    batches = [rows([*range(100)], first=100 * number) for number in range(10)]
    files = RowFiles(output, 3 * batches[0].nbytes)
    for each in batches:
        files.add(each)
        files.add(rows([]))
    files.end()
    files.end()
    assert [each.rows for each in files.files] == [300, 300, 300, 100]
    assert files.runs == [Run(1, 2, 3000 * number, min(3000 * (number + 1), 10_000), *rest) for number, rest in
                          enumerate([(300,), (300,), (300,), (100,)])]  # fmt: skip


def test_a_task_whose_load_has_ended_writes_nowhere(output: Output, tmp_path: Path) -> None:
    """What was abandoned does not come back."""
    (tmp_path / "data/one").rmdir()
    files = RowFiles(output, 1)
    with pytest.raises(FileNotFoundError):
        files.add(rows([1]))
    assert not (tmp_path / "data/one").exists()
