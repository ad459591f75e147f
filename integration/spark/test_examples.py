"""The scripts in examples/ run as they stand."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration.spark.loading import publish as publish_events
from kafka2011.local_cluster import LocalCluster
from tests.support.waiting import eventually
from zk.child import ChildProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from zk.local_zookeeper import LocalZooKeeper

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def small_cluster(zookeeper: LocalZooKeeper, tmp_path: Path) -> Iterator[LocalCluster]:
    """Start one broker with no topics but a test's own."""
    connect = f"{zookeeper.connect_string}/examples-{tmp_path.name}"
    with LocalCluster(1, zk_connect=connect, directory=tmp_path, properties={"log.flush.interval": 1}) as running:
        yield running


@pytest.fixture
def run(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Run an example in the tests' own session, which it takes for one it may use."""

    def script(name: str, *arguments: str) -> None:
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")

    return script


def test_count_by_topic(
    small_cluster: LocalCluster,
    publish: Callable[..., int],
    run: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Prints a line for each topic."""
    publish(small_cluster.brokers[0], "views", [b"12345"] * 30)
    publish(small_cluster.brokers[0], "clicks", [b"1"])
    run("count_by_topic.py", small_cluster.zk_connect)
    lines = [re.split(r"\s*\|\s*", line)[1:-1] for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert lines == [
        ["topic", "messages", "bytes", "partitions"],
        ["clicks", "1", "1", "1"],
        ["views", "30", "150", "1"],
    ]


def test_load(small_cluster: LocalCluster, tmp_path: Path) -> None:
    """Does what `kafka2011 load` does, and ends with its status."""
    publish_events(small_cluster.zk_connect, "views", 2)
    command = [sys.executable, str(EXAMPLES / "load.py"), "--zookeeper", small_cluster.zk_connect, "--topic", "views"]
    command += ["--warehouse", str(tmp_path / "warehouse"), "--master", "none"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == 2


def test_copy_topic(
    small_cluster: LocalCluster,
    publish: Callable[..., int],
    run: Callable[..., None],
    read: Callable[..., DataFrame],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A second run copies only what came since the first one."""
    arguments = [small_cluster.zk_connect, "views", "copy", str(tmp_path / "checkpoint")]
    for number in (40, 2):
        publish(small_cluster.brokers[0], "views", [b"%d" % number] * number)
        run("copy_topic.py", *arguments)
        assert f"copied {number} messages from views to copy" in capsys.readouterr().out
    rows = read("copy", **{"zk.connect": small_cluster.zk_connect}).collect()
    assert sorted(row.value for row in rows) == [b"2"] * 2 + [b"40"] * 40


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_windowed_counts(
    small_cluster: LocalCluster, publish: Callable[..., int], light_spark: dict[str, str], tmp_path: Path
) -> None:
    """Prints tables of counts while messages come, in a process of its own, till it is ended."""
    publish(small_cluster.brokers[0], "views", [b"x"] * 25)
    output = tmp_path / "output"
    command = [sys.executable, str(EXAMPLES / "windowed_counts.py"), small_cluster.zk_connect]
    with ChildProcess(command, output, env=light_spark) as process:

        def counted() -> int:
            assert process.running, output.read_text()
            tables = output.read_text().split("-------------------------------------------\nBatch: ")
            return sum(int(count) for count in re.findall(r"\|views *\|(\d+) *\|", tables[-1]))

        eventually(lambda: counted() == 25, 120)
        publish(small_cluster.brokers[0], "views", [b"x"] * 10)
        eventually(lambda: counted() == 35)
