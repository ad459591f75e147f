"""Files through Hadoop, tried on a local path: what a table needs of HDFS."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafka2011.warehouse.errors import OvertakenError, WarehouseError
from kafka2011.warehouse.table.hadoop_files import HadoopFiles
from kafka2011.warehouse.table.parquet.parquet_table import ParquetTable
from tests.support.tables import FIRST_MS, PARTITION, TOPIC, commit_of, rows_of, write_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path) -> HadoopFiles:
    """Reach the local file system through Hadoop."""
    return HadoopFiles(spark, tmp_path.as_uri())


def test_they_do_what_local_files_do(files: HadoopFiles, tmp_path: Path) -> None:
    """List, walk, read, write, delete; what is missing is empty, or not found."""
    root = tmp_path.as_uri()
    missing = f"{root}/missing"
    assert files.names(missing) == []
    assert files.walk(missing) == []
    files.delete(missing)
    for look in (files.read, files.modified_s):
        with pytest.raises(FileNotFoundError, match="missing"):
            look(missing)
    with pytest.raises(FileNotFoundError, match="missing"):
        files.write(f"{missing}/file", b"")
    files.make_directory(f"{root}/a/b")
    files.make_directory(f"{root}/a/b")
    files.write(f"{root}/a/b/two", b"22")
    files.write(f"{root}/a/one", b"longer")
    files.write(f"{root}/a/one", bytes(range(256)))
    assert [each for each in files.names(f"{root}/a") if not each.startswith(".")] == ["b", "one"]
    walked = [(each.path, each.size_bytes, each.modified_s) for each in files.walk(root) if "/." not in each.path]
    assert [path.rpartition("/a/")[2] for path, _, _ in walked] == ["b/two", "one"]
    assert [size for _, size, _ in walked] == [2, 256]
    assert files.modified_s(f"{root}/a/one") == pytest.approx(walked[1][2])
    assert files.read(f"{root}/a/one") == bytes(range(256))
    files.delete(f"{root}/a")
    assert not Path(tmp_path, "a").exists()


def test_a_rename_does_not_overwrite(files: HadoopFiles, tmp_path: Path) -> None:
    """Nothing moves onto a directory that is there, even an empty one, nor into it."""
    root = tmp_path.as_uri()
    (tmp_path / "staged").mkdir()
    (tmp_path / "table" / "load_id=000001").mkdir(parents=True)
    with pytest.raises(FileExistsError, match="load_id=000001"):
        files.publish(f"{root}/staged", f"{root}/table", "load_id=000001", lambda names, read: None)
    assert (tmp_path / "staged").is_dir()
    assert list((tmp_path / "table" / "load_id=000001").iterdir()) == []


def test_a_table_works_with_them(files: HadoopFiles, tmp_path: Path) -> None:
    """Commits are made, read back and refused as on a local path."""
    table = ParquetTable(tmp_path / "warehouse", TOPIC, files=files)
    for number in (1, 2):
        staging = table.begin()
        write_rows(staging, rows_of(number, 0, [FIRST_MS]))
        table.commit(staging, commit_of(number, number * 100))
        newest = table.newest()
        assert newest is not None
        assert (newest.number, newest.offsets, newest.size_bytes > 0) == (number, {PARTITION: number * 100}, True)
    staging = table.begin()
    with pytest.raises(OvertakenError):
        table.commit(staging, commit_of(2, 100))
    table.abandon(staging)
    with pytest.raises(WarehouseError, match=staging):
        table.commit(staging, commit_of(3, 100))
    assert [each.number for each in table.commits()] == [1, 2]
