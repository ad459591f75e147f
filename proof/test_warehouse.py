"""Loads that are killed, race, lose brokers and meet new topics: every message is one row all the same.

Counted by (topic, broker, partition, offset, index in set), with Polars and with Spark.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from integration.spark.loading import TIMEOUT_S, Loading
from integration.spark.programs.load_and_die import WRITING, files_of
from kafka2011 import LocalCluster
from kafka2011.cli.app import main
from kafka2011.spark.errors import BrokerAwayError
from kafka2011.warehouse.errors import OvertakenError, WarehouseError
from kafka2011.warehouse.loading.running_spark import LIGHT, open_spark
from kafka2011.warehouse.loading.topic_load import Step
from tests.support.waiting import eventually
from tests.support.warehouse import rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

EVENTS = int(os.environ.get("WAREHOUSE_EVENTS", "160000"))  # more bytes than a load does without tasks
"""Before each load that is to take long enough for something to happen in it."""

pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = open_spark("local[2]", local=LIGHT)
    yield session
    session.stop()


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    properties = {
        "num.partitions": 2,
        "log.flush.interval": 1,
        "zk.sessiontimeout.ms": 2000,
        "log.file.size": 2_000_000,
    }
    with LocalCluster(2, properties=properties) as running:
        yield running


@pytest.fixture(params=["local[2]", "none[2]"])
def loading(
    request: pytest.FixtureRequest, spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> Iterator[Loading]:
    found = Loading(spark, cluster.zk_connect, tmp_path, "views", request.param)
    yield found
    found.close()


def test_the_driver_is_killed_at_every_step(loading: Loading) -> None:
    """Each time it begins where the newest commit ended; a kill after the commit loses and doubles nothing either."""
    steps = [Step.RESOLVED, WRITING, Step.WRITTEN, Step.CHECKED, Step.COMMITTING, Step.COMMITTED]
    for number, step in enumerate(steps):
        loading.publish(EVENTS if step == WRITING else 2000, codec=number % 2)
        reached = loading.die_at(step)
        assert reached[-1] == (Step.RESOLVED if step == WRITING else step)
        assert loading.number == (1 if step is Step.COMMITTED else 0), step
    loading.publish(2000)
    assert loading.new().load().number == 2
    loading.check()


def test_the_driver_is_killed_before_every_call_of_a_commit(loading: Loading) -> None:
    """Before files and renames: the commit is there whole, from one of these calls on, or not at all."""
    loading.publish(2000)
    loading.new().load()
    loading.publish(2000)
    names = loading.commit_steps()
    committed = []
    for step in range(1, len(names) + 1):
        before = loading.number
        loading.publish(200, codec=step % 3)
        loading.die_at(step)
        committed.append(loading.number == before + 1)
        for unnamed in Path(loading.warehouse).rglob("*#*"):  # each would have the next one begin with one call more
            unnamed.unlink()
    assert committed == sorted(committed), names
    assert set(committed) == {False, True}, names
    loading.new().load()
    after = committed.count(True)
    print(f"killed before {len(names)} calls, {after} of them after the commit: {names}")  # noqa: T201
    loading.check()


def test_the_counts_of_killed_loads_are_counted_once(loading: Loading) -> None:
    """The audit sees every event once in the warehouse, and is never content before all of them are there."""
    where = ("--zookeeper", loading.zk_connect)
    compare = ["audit", *where, "--tiers", "producer,warehouse", "--grace", "0"]
    for step in (*Step, *Step):
        loading.publish(4000)
        loading.die_at(step, "warehouse")
        assert (main(compare) == 0) == (step is Step.REPORTED), step
    loading.publish(4000)
    assert main(["load", *where, "--warehouse", loading.warehouse, "--topic", "views", "--audit", "warehouse"]) == 0
    assert main(["audit", *where, "--tiers", "producer,warehouse", "--grace", "0", "--strict"]) == 0
    loading.check()


def test_a_process_that_runs_tasks_is_killed_in_mid_load(loading: Loading) -> None:
    """As when memory runs out: the load fails and says so, nothing of it is there, and the next one is whole."""
    loading.publish(EVENTS)
    assert loading.new().load().number == 1
    for round_ in range(2):
        loading.publish(EVENTS)  # not compressed: it has to be more than one process does alone
        known = files_of(loading.table)
        killed: list[int] = []

        def kill_when_files_appear(step: Step, known: set[str] = known, killed: list[int] = killed) -> None:
            if step is Step.RESOLVED:
                threading.Thread(target=kill_a_worker, args=(loading, known, killed), daemon=True).start()

        with pytest.raises(WarehouseError, match=r"a process of this load|Spark failed"):
            loading.new(on_step=kill_when_files_appear).load()
        assert killed
        assert loading.number == 1 + round_
        assert loading.new().load().number == 2 + round_
    loading.check()


def kill_a_worker(loading: Loading, known: set[str], killed: list[int]) -> None:
    """Wait until tasks write, and kill one of the processes that run them."""
    eventually(lambda: files_of(loading.table) - known, TIMEOUT_S)
    names = ("pyspark.daemon", "warehouse.loading.worker")
    for each in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            command = " ".join(each.cmdline())
            if any(name in command for name in names) and not each.children():  # the daemon is the workers' parent
                each.kill()
                killed.append(each.pid)


def test_a_broker_that_dies_in_mid_load_fails_it_and_its_partitions_wait(
    loading: Loading, cluster: LocalCluster
) -> None:
    """The next load goes on without it, at once, and with it when it is back."""
    loading.publish(EVENTS)
    assert loading.new().load().number == 1
    loading.publish(EVENTS)
    victim = cluster.brokers[1]

    def kill_when_resolved(step: Step) -> None:
        if step is Step.RESOLVED:
            victim.kill()

    with pytest.raises(BrokerAwayError):
        loading.new(on_step=kill_when_resolved).load()
    done = loading.new().load()
    assert (done.number, {each.broker_id for each in done.away}) == (2, {1})
    victim.start()
    done = loading.new().load()
    assert (done.number, done.away) == (3, ())
    loading.check()


def test_of_two_loaders_at_once_one_commits(loading: Loading) -> None:
    """Both are about to commit when the first one does; the second's files and quarantine are gone."""
    for _ in range(3):
        loading.publish(4000)
        together = threading.Barrier(2, timeout=TIMEOUT_S)

        def meet(step: Step, together: threading.Barrier = together) -> None:
            if step is Step.COMMITTING:
                together.wait()

        loads = [loading.new(on_step=meet) for _ in range(2)]
        with ThreadPoolExecutor(2) as threads:
            ends = [threads.submit(load.load) for load in loads]
            errors = [end.exception(TIMEOUT_S) for end in ends]
        assert sorted(map(type, errors), key=str) == sorted([type(None), OvertakenError], key=str)
    loading.check()


def test_a_stalled_loader_that_comes_back_is_overtaken(loading: Loading) -> None:
    """Others have loaded twice meanwhile."""
    loading.publish(4000)

    def stall(step: Step) -> None:
        if step is Step.COMMITTING:
            loading.new().load()
            loading.publish(4000)
            loading.new().load()

    with pytest.raises(OvertakenError):
        loading.new(on_step=stall).load()
    assert loading.new().load().number is None
    loading.check()


def test_topics_born_meanwhile_are_loaded_next_time(spark: SparkSession, cluster: LocalCluster, tmp_path: Path) -> None:
    """And one is compressed throughout."""
    views, clicks = (Loading(spark, cluster.zk_connect, tmp_path, topic) for topic in ("views", "clicks"))
    into = ("--warehouse", views.warehouse)
    loads = ["load", "--zookeeper", cluster.zk_connect, *into, "--whitelist", ".*s"]
    views.publish(4000)
    assert main(loads) == 0
    clicks.publish(4000, codec=2)
    views.publish(4000)
    assert main(loads) == 0
    for loading in (views, clicks):
        loading.check()


def test_following_ends_cleanly(loading: Loading) -> None:
    """What is published while a loader follows arrives; SIGTERM ends it cleanly."""
    loading.publish(4000)
    follow = [sys.executable, "-m", "kafka2011", "load", "--zookeeper", loading.zk_connect, "--topic", "views"]
    into = ("--warehouse", loading.warehouse)
    with subprocess.Popen([*follow, *into, "--follow", "--interval", "1"]) as following:
        eventually(lambda: loading.number > 0, TIMEOUT_S)
        loading.publish(4000, codec=1)
        eventually(lambda: sum(each.rows for each in loading.table.commits()) == 8000, TIMEOUT_S)
        following.terminate()
        assert following.wait(TIMEOUT_S) == 0
    assert len(rows_of(loading.table)) == 8000
