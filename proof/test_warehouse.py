"""Loads that are killed, race, lose brokers and meet new topics: every message is one row all the same."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from integration.spark.programs.load_and_die import WRITING
from kafka2011 import LocalCluster, Producer
from kafka2011.cli.app import main
from kafka2011.pipeline.audit.publishing import open_counter
from kafka2011.pipeline.events import EventEncoder, read_stamps
from kafka2011.pipeline.registry import SchemaRegistry
from kafka2011.pipeline.schemas import KnownSchemas, event_schema
from kafka2011.spark.errors import BrokerAwayError
from kafka2011.warehouse.errors import OvertakenError
from kafka2011.warehouse.formats import open_quarantine
from kafka2011.warehouse.parquet_table import ParquetTable
from kafka2011.warehouse.sessions import open_spark
from kafka2011.warehouse.settings import LoadSettings
from kafka2011.warehouse.topic_load import Step, TopicLoad
from tests.support.waiting import eventually
from tests.support.warehouse import payloads_of, places_in, quarantined_by, rows_of
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

EVENTS = int(os.environ.get("WAREHOUSE_EVENTS", "20000"))
"""In each of two partitions of each of two brokers, before each load."""
VIEW = event_schema("View", {"name": "page", "type": "string"})
START_US = 1_700_000_000_000_000
TIMEOUT_S = 300

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = open_spark("local[2]", {"spark.sql.shuffle.partitions": "2"})
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


def publish(cluster: LocalCluster, topic: str, events: int = EVENTS, codec: int = 0) -> None:
    """Publish events of three days, some of them garbage, as the tier `producer`."""
    with connect(cluster.zk_connect) as client:
        SchemaRegistry(client).register(topic, VIEW)
    encoder = EventEncoder(KnownSchemas({topic: VIEW}))
    settings = {"zk.connect": cluster.zk_connect, "producer.type": "async", "confirm": True, "compression.codec": codec}
    with Producer(settings) as producer, open_counter("producer", cluster.zk_connect) as counter:
        for number in range(0, 4 * events, 1000):
            payloads = encoder.encode_all(
                topic,
                [
                    {
                        "time": START_US + (number + each) * 7919 % 259_200 * 1_000_000,
                        "published_at": START_US + (number + each) * 100,
                        "server": "s",
                        "id": str(uuid.uuid4()),
                        "page": f"/{number + each}",
                    }
                    for each in range(1000)
                ],
            )
            for payload in payloads:
                producer.send(topic, payload)
            counter.count(topic, [stamp for stamp in read_stamps(payloads) if stamp is not None])
            producer.send(topic, b"garbage")


class Loading:
    """Loads of one topic into a table of its own."""

    def __init__(self, spark: SparkSession, cluster: LocalCluster, directory: Path, topic: str) -> None:
        self.warehouse = str(directory / "warehouse")
        self.table = ParquetTable(self.warehouse, topic)
        self.cluster = cluster
        self.topic = topic
        self._spark = spark

    def new(self, **more: Any) -> TopicLoad:
        settings = LoadSettings(zk_connect=self.cluster.zk_connect, source={"kafkaConsumer.pollTimeoutMs": 5000})
        quarantine = open_quarantine(self.warehouse, self.topic)
        return TopicLoad(self._spark, ParquetTable(self.warehouse, self.topic), quarantine, settings, **more)

    def die_at(self, step: str) -> None:
        program = (sys.executable, "-m", "integration.spark.programs.load_and_die")
        arguments = (self.cluster.zk_connect, self.warehouse, self.topic, step, "warehouse")
        done = subprocess.run([*program, *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode == -9, done.stderr[-3000:]

    def check(self) -> None:
        """Count by place, with plain PyArrow: each message is one row, or once in quarantine."""
        logged, bad = payloads_of(self.cluster.zk_connect, self.topic), quarantined_by(self.table)
        assert set(bad.values()) <= {b"garbage"}
        assert places_in(rows_of(self.table)) == sorted(logged.keys() - bad.keys())
        assert len(bad) == sum(payload == b"garbage" for payload in logged.values())
        print(f"{self.topic}: {len(logged) - len(bad)} rows and {len(bad)} quarantined of {len(logged)} messages")  # noqa: T201


@pytest.fixture
def loading(spark: SparkSession, cluster: LocalCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Loading:
    return Loading(spark, cluster, tmp_path, "views")


def test_the_driver_is_killed_at_every_step(loading: Loading) -> None:
    """Each time it begins where the newest commit ended; a kill after the commit loses and doubles nothing either."""
    steps = [Step.RESOLVED, WRITING, Step.WRITTEN, Step.CHECKED, Step.COMMITTING, Step.COMMITTED]
    for number, step in enumerate(steps):
        publish(loading.cluster, loading.topic, EVENTS if step == WRITING else 500, codec=number % 2)
        loading.die_at(step)
        newest = loading.table.newest()
        assert (0 if newest is None else newest.number) == (1 if step is Step.COMMITTED else 0), step
    publish(loading.cluster, loading.topic, 500)
    assert loading.new().load().number == 2
    loading.check()


def test_the_counts_of_killed_loads_are_counted_once(loading: Loading) -> None:
    """The audit sees every event once in the warehouse, whatever was reported by loads that died."""
    for step in (Step.COUNTED, Step.COMMITTING, Step.COMMITTED):
        publish(loading.cluster, loading.topic, 1000)
        loading.die_at(step)
    where = ("--zookeeper", loading.cluster.zk_connect)
    publish(loading.cluster, loading.topic, 1000)
    assert main(["load", *where, "--warehouse", loading.warehouse, "--topic", "views", "--audit", "warehouse"]) == 0
    assert main(["audit", *where, "--tiers", "producer,warehouse", "--grace", "0", "--strict"]) == 0
    loading.check()


def test_a_broker_that_dies_in_mid_load_fails_it_and_its_partitions_wait(loading: Loading) -> None:
    """The next load goes on without it, at once, and with it when it is back."""
    publish(loading.cluster, loading.topic)
    assert loading.new().load().number == 1
    publish(loading.cluster, loading.topic)
    victim = loading.cluster.brokers[1]

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
        publish(loading.cluster, loading.topic, 1000)
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
    publish(loading.cluster, loading.topic, 1000)

    def stall(step: Step) -> None:
        if step is Step.COMMITTING:
            loading.new().load()
            publish(loading.cluster, loading.topic, 1000)
            loading.new().load()

    with pytest.raises(OvertakenError):
        loading.new(on_step=stall).load()
    assert loading.new().load().number is None
    loading.check()


def test_topics_born_meanwhile_are_loaded_next_time(spark: SparkSession, cluster: LocalCluster, tmp_path: Path) -> None:
    """And one is compressed throughout."""
    loads = [
        "load",
        "--zookeeper",
        cluster.zk_connect,
        "--warehouse",
        str(tmp_path / "warehouse"),
        "--whitelist",
        ".*s",
    ]
    publish(cluster, "views", 1000)
    assert main(loads) == 0
    publish(cluster, "clicks", 1000, codec=2)
    publish(cluster, "views", 1000)
    assert main(loads) == 0
    for topic in ("views", "clicks"):
        Loading(spark, cluster, tmp_path, topic).check()


def test_following_ends_cleanly(cluster: LocalCluster, tmp_path: Path) -> None:
    """What is published while a loader follows arrives; SIGTERM ends it cleanly."""
    publish(cluster, "views", 1000)
    follow = [sys.executable, "-m", "kafka2011", "load", "--zookeeper", cluster.zk_connect, "--topic", "views"]
    warehouse = str(tmp_path / "warehouse")
    with subprocess.Popen([*follow, "--warehouse", warehouse, "--follow", "--interval", "1"]) as following:
        table = ParquetTable(warehouse, "views")
        eventually(lambda: table.newest() is not None, TIMEOUT_S)
        publish(cluster, "views", 1000, codec=1)
        eventually(lambda: sum(each.rows for each in table.commits()) == 8000, TIMEOUT_S)
        following.terminate()
        assert following.wait(TIMEOUT_S) == 0
    assert len(rows_of(table)) == 8000
