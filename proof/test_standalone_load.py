"""`spark-submit --master` of loads, on a standalone cluster whose executors are killed: every message is one row."""

from __future__ import annotations

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from integration.spark.loading import TIMEOUT_S, Loading
from integration.spark.standalone import ROOT, Standalone, install_wheel, standalone
from kafka2011 import LocalCluster
from kafka2011.warehouse.load.running_spark import LIGHT, open_spark
from kafka2011.warehouse.table.formats import Format
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

EVENTS = int(os.environ.get("WAREHOUSE_EVENTS", "80000"))
LOAD = ROOT / "examples" / "load.py"

pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = open_spark("local[2]", local=LIGHT)
    yield session
    session.stop()


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    directory = tmp_path_factory.mktemp("standalone")
    with standalone(install_wheel(directory), directory) as running:
        yield running


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(2, properties={"num.partitions": 2, "log.flush.interval": 1}) as running:
        yield running


def submit(master: Standalone, loading: Loading) -> dict[str, Any]:
    """Load as docs/load.md says, and return the line of JSON."""
    into = ("--warehouse", loading.warehouse, "--format", loading.format)
    arguments = ("--zookeeper", loading.zk_connect, *into, "--topic", loading.topic)
    printed = master.submit(LOAD, *arguments, timeout_s=TIMEOUT_S)
    line: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return line


def writes_rows(process: psutil.Process, below: Path) -> bool:
    """Whether a process has a file of rows open that it has not finished."""
    try:
        opened = [Path(each.path) for each in process.open_files()]
    except psutil.NoSuchProcess:
        return False
    rows = (path for path in opened if path.suffix == ".parquet" and path.is_relative_to(below))
    return any("_temporary" in path.parts for path in rows)


@pytest.mark.parametrize("table_format", Format)
def test_a_load_ends_whole_though_an_executor_is_killed_while_it_writes(
    spark: SparkSession, master: Standalone, cluster: LocalCluster, tmp_path: Path, table_format: Format
) -> None:
    """Spark runs what it had done and was doing again, on another one."""
    loading = Loading(spark, cluster.zk_connect, tmp_path, "views", table_format)
    loading.publish(4000)
    assert submit(master, loading)["rows"] == 4000
    loading.publish(EVENTS)
    killed: list[int] = []
    ended = threading.Event()

    def kill_one() -> bool:
        for each in master.executors():
            if writes_rows(each, tmp_path):
                each.kill()
                killed.append(each.pid)
                return True
        return ended.is_set()

    with ThreadPoolExecutor(1) as threads:
        killing = threads.submit(eventually, kill_one, TIMEOUT_S)
        try:
            done = submit(master, loading)
        finally:
            ended.set()
        killing.result(TIMEOUT_S)
    assert len(killed) == 1
    assert (done["rows"], done["failed"]) == (EVENTS, [])
    assert loading.number == 2
    loading.check()
