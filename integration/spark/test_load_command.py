"""`kafka2011 load` as a process with a Spark of its own: sections of a file, signals, and a JVM that dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from integration.scraping import metrics_of
from integration.spark.loading import publish
from kafka2011.warehouse.table.compaction import MANY
from kafka2011.warehouse.table.topic_table import TopicTable
from tests.support.waiting import eventually
from tests.support.warehouse import places_in, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kafka2011.local_cluster import LocalCluster

pytestmark = pytest.mark.timeout(240)
WAIT_S = 180


class Command:
    """The command, in a process group of its own, and what it has said."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self._out, self._err = directory / "out", directory / "err"
        with self._out.open("w") as out, self._err.open("w") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "kafka2011", "load", *arguments],
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    @property
    def errors(self) -> str:
        return self._err.read_text()

    def loaded(self) -> dict[str, int]:
        """Return how many rows of each topic were loaded."""
        rows: dict[str, int] = {}
        for line in self._out.read_text().splitlines():
            topics: list[dict[str, Any]] = json.loads(line)["topics"]
            for each in topics:
                rows[each["topic"]] = rows.get(each["topic"], 0) + each["rows"]
        return rows

    def has_loaded(self, rows: dict[str, int]) -> bool:
        return self.loaded() == rows

    def java(self) -> psutil.Process:
        [found] = [each for each in psutil.Process(self.process.pid).children() if "java" in each.name()]
        return found


@contextmanager
def running(directory: Path, *arguments: str) -> Iterator[Command]:
    command = Command(directory, *arguments)
    try:
        yield command
    finally:
        command.process.kill()
        command.process.wait()


def test_sections_are_loaded_in_one_spark_until_a_signal_to_all_of_the_group(
    cluster: LocalCluster, topic: str, create: Callable[..., None], tmp_path: Path
) -> None:
    """As `timeout` sends it, which must not end the JVM under a load: the command ends in order and says nothing."""
    file = tmp_path / "load.toml"
    text = ""
    for name in (topic, f"{topic}.other"):
        create(name)
        publish(cluster.zk_connect, name, 100)
        text += (
            f'[[load]]\nzookeeper = "{cluster.zk_connect}"\nwarehouse = "{tmp_path / "warehouse"}"\ntopic = "{name}"\n'
            f"follow = true\ninterval = 1\n"
        )
    file.write_text(text)
    with running(tmp_path, "--config", str(file)) as command:
        eventually(lambda: command.loaded() == {topic: 100, f"{topic}.other": 100}, WAIT_S)
        assert command.java().is_running()
        publish(cluster.zk_connect, topic, 50)
        eventually(lambda: command.loaded()[topic] == 150, WAIT_S)
        os.killpg(command.process.pid, signal.SIGTERM)
        assert command.process.wait(60) == 0, command.errors
        assert "Traceback" not in command.errors
        assert "py4j" not in command.errors.lower()


def test_a_jvm_that_dies_is_told_as_that(
    cluster: LocalCluster, topic: str, create: Callable[..., None], tmp_path: Path
) -> None:
    """It looks like a refused connection; the command ends, since no Spark will ever load again."""
    create(topic)
    publish(cluster.zk_connect, topic, 100)
    where = ("--zookeeper", cluster.zk_connect, "--warehouse", str(tmp_path / "warehouse"), "--topic", topic)
    with running(tmp_path, *where, "--follow", "--interval", "0.1") as command:
        eventually(lambda: command.loaded() == {topic: 100}, WAIT_S)
        java = command.java()
        java.kill()
        publish(cluster.zk_connect, topic, 10)
        assert command.process.wait(60) == 1
        last = command.errors.splitlines()[-1]
        assert last.startswith(f"kafka2011: error: Spark's JVM, process {java.pid}, has died")
        assert f"hs_err_pid{java.pid}.log" in last
        assert "Traceback" not in command.errors


def test_a_table_that_is_followed_stays_small(
    cluster: LocalCluster, topic: str, create: Callable[..., None], tmp_path: Path
) -> None:
    """Its files are rewritten between loads, and each message is one row all the same."""
    create(topic)
    table = TopicTable(tmp_path / "warehouse", topic)
    where = ("--zookeeper", cluster.zk_connect, "--warehouse", str(tmp_path / "warehouse"), "--topic", topic)
    publish(cluster.zk_connect, topic, 10)
    rows = 10
    how = ("--master", "none", "--follow", "--interval", "0.1", "--upkeep", "50", "--metrics-port", "0")
    with running(tmp_path, *where, *how) as command:
        eventually(lambda: command.loaded() == {topic: rows}, WAIT_S)
        for _ in range(MANY):
            publish(cluster.zk_connect, topic, 10)
            rows += 10
            eventually(partial(command.has_loaded, {topic: rows}), WAIT_S)
        eventually(lambda: len(table.delta().file_uris()) < MANY, WAIT_S)
        shown = metrics_of(command.errors)
        assert shown["kafka2011_load_rows_total", topic] == rows
        assert 0 < time.time() - shown["kafka2011_load_complete_timestamp_seconds", topic] < WAIT_S
        assert shown["kafka2011_load_topic_failed", topic] == 0
        os.killpg(command.process.pid, signal.SIGTERM)
        assert command.process.wait(60) == 0, command.errors
    assert len(rows_of(table)) == rows
    assert len(set(places_in(rows_of(table)))) == rows
