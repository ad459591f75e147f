"""Warehouses in a directory, on HDFS and on S3: all that is done with one, and loads whose store breaks down meanwhile.

Counted by (broker, partition, offset, index in set) against what the brokers have. Servers are fetched when they are
missing, see proof/stores.py; `make proof ONLY="storage and hdfs"` proves one kind.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import threading
import time
import zlib
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from integration.spark.loading import GARBAGE, START_US, TIMEOUT_S
from integration.spark.loading import publish as send
from integration.spark.programs.load_and_die import WRITING
from kafka2011 import LocalCluster, Producer
from kafka2011.cli.app import main
from kafka2011.errors import KafkaError
from kafka2011.events.codec import EventEncoder
from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.events.schemas import KnownSchemas, event_schema
from kafka2011.warehouse import open_table
from kafka2011.warehouse.errors import OvertakenError
from kafka2011.warehouse.loading.load_settings import LoadSettings
from kafka2011.warehouse.loading.local_engine import LocalEngine
from kafka2011.warehouse.loading.topic_load import Step, TopicLoad
from kafka2011.warehouse.table.cleaning import clean
from kafka2011.warehouse.table.commits import since_swap
from kafka2011.warehouse.table.quarantine import open_quarantine
from kafka2011.warehouse.table.topic_table import TopicTable
from proof.stores import opened
from tests.support.tables import TOPIC, race
from tests.support.waiting import eventually
from tests.support.warehouse import Place, payloads_of, places_in
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from proof.stores import Store

EVENTS = int(os.environ.get("STORAGE_EVENTS", "40000"))
"""Before each load that is to take long enough for something to happen in it."""
RACES = int(os.environ.get("STORAGE_RACES", "10"))
AWAY_S = 3.0

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module", params=["directory", "hdfs", "s3"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with opened(request.param, tmp_path_factory.mktemp(request.param)) as running:
        yield running


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(2, properties={"num.partitions": 2, "log.flush.interval": 1}) as running:
        yield running


@pytest.fixture
def topic(request: pytest.FixtureRequest, store: Store) -> str:
    return f"t{zlib.crc32(request.node.name.encode())}"


def new(cluster: LocalCluster, warehouse: str, topic: str, engine: LocalEngine, **more: object) -> TopicLoad:
    settings = LoadSettings(zk_connect=cluster.zk_connect, source={"kafkaConsumer.pollTimeoutMs": 5000})
    return TopicLoad(engine, TopicTable(warehouse, topic), open_quarantine(warehouse, topic), settings, **more)  # type: ignore[arg-type]


def publish(zk_connect: str, topic: str, events: int, codec: int = 0) -> None:
    """Publish, and wait until all of it can be read: a load leaves what brokers have not flushed to the next one."""
    before = len(payloads_of(zk_connect, topic))
    send(zk_connect, topic, events, codec)
    sent = events + math.ceil(events / 1000)  # with the garbage
    eventually(lambda: len(payloads_of(zk_connect, topic)) == before + sent, TIMEOUT_S, what="a flush")


def account(cluster: LocalCluster, warehouse: str, topic: str) -> tuple[int, int]:
    """Check that each message is one row, or once in quarantine, and return how many are what."""
    table = TopicTable(warehouse, topic)
    logged = payloads_of(cluster.zk_connect, topic)
    good = Counter(place for place, payload in logged.items() if payload != GARBAGE)
    uris = DeltaTable(table.path, storage_options=table.files.storage_options).file_uris()
    rows: Counter[Place] = Counter()
    for uri in uris:
        rows.update(places_in(pq.read_table(table.files.inside(uri), filesystem=table.files.file_system)))
    quarantine = open_quarantine(warehouse, topic)
    bad = Counter(
        Place(*(json.loads(line)[name] for name in ("broker_id", "partition", "offset", "index_in_set")))
        for commit in since_swap(table.commits())
        for _, text in quarantine.read(commit.number, commit.attempt)
        for line in text.splitlines()
    )
    missing, repeated = good - rows, rows - good
    print(f"{table.path}: {rows.total()} rows, {len(missing)} missing, {len(repeated)} repeated or foreign")  # noqa: T201
    assert (missing, repeated) == (Counter(), Counter())
    assert bad == Counter(place for place, payload in logged.items() if payload == GARBAGE)
    return rows.total(), bad.total()


def test_all_that_is_done_with_a_warehouse(
    store: Store, cluster: LocalCluster, topic: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Loads, status, compaction, cleaning, a redrive and readers, by the commands."""
    warehouse = store.warehouse("everything")
    where = ("--zookeeper", cluster.zk_connect, "--warehouse", warehouse)
    load = ("load", "--master", "none[2]", *where, "--topic", topic)
    for number in range(5):
        publish(cluster.zk_connect, topic, 2000, number % 3)
        assert main([*load]) == 0
    rows, bad = account(cluster, warehouse, topic)
    column = f"since_{store.kind}"  # as a schema that was registered for any topic is known for all
    since = {"name": column, "type": ["null", "long"], "default": None}
    unknown = event_schema("View", {"name": "page", "type": "string"}, since)
    encoder = EventEncoder(KnownSchemas({topic: unknown}))
    event = {"time": START_US, "published_at": START_US, "server": "s", "page": "/", column: 7}
    with Producer({"zk.connect": cluster.zk_connect, "confirm": True}) as producer:
        producer.send(topic, encoder.encode_all(topic, [{**event, "id": f"{number:032d}"} for number in range(3)]))
    assert main([*load]) == 0
    with connect(cluster.zk_connect) as client:
        SchemaRegistry(client).register(topic, unknown)
    assert main(["tables", "redrive", *where, "--topic", topic]) == 0
    assert main(["tables", "compact", "--warehouse", warehouse]) == 0
    assert main(["tables", "clean", "--warehouse", warehouse, "--older-than", "0", "--force-at-rest"]) == 0
    capfd.readouterr()
    assert main(["tables", "status", "--warehouse", warehouse, "--json"]) == 0
    [status] = json.loads(capfd.readouterr().out)
    assert (status["topic"], status["loads"], status["rows"], status["quarantined"]) == (topic, 6, rows + 3, bad)
    found = open_table(warehouse, topic).to_table()
    assert places_in(found) == sorted(
        place for place, payload in payloads_of(cluster.zk_connect, topic).items() if payload != GARBAGE
    )
    assert Counter(found[column].to_pylist()) == {None: rows, 7: 3}
    assert len(TopicTable(warehouse, topic).delta().file_uris()) == 2  # one for each day


def test_reports_of_a_warehouse(
    store: Store, cluster: LocalCluster, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """By Spark, which needs nothing for the store; the same as those of the brokers."""
    warehouse = store.warehouse("reported")
    where = ("--zookeeper", cluster.zk_connect)
    assert main(["generate", *where, "--seconds", "30", "--rate", "50", "--at-once", "--day", "60"]) == 0
    topics = "page_views|searches|impressions|clicks|server_stats"
    load = ("load", "--master", "none[2]", *where, "--warehouse", warehouse)
    assert main([*load, "--whitelist", topics]) == 0
    assert main(["report", "--warehouse", warehouse, "--into", str(tmp_path / "tables")]) == 0
    assert main(["report", "--from-brokers", *where, "--into", str(tmp_path / "brokers")]) == 0
    reports = {
        kind: {
            path.relative_to(tmp_path / kind / "latest"): sorted(pq.read_table(path).to_pylist(), key=str)
            for path in (tmp_path / kind / "latest").rglob("*.parquet")
        }
        for kind in ("tables", "brokers")
    }
    assert reports["tables"]
    assert sum(map(len, reports["tables"].values())) == sum(map(len, reports["brokers"].values())) > 0


def test_a_rebuilt_table_takes_the_place_of_its_topic(
    store: Store, cluster: LocalCluster, topic: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """While it is behind, and another load has begun, which is overtaken; by the commands."""
    warehouse = store.warehouse("rebuilt")
    loads = ["load", "--master", "none[2]", "--zookeeper", cluster.zk_connect, "--warehouse", warehouse]
    loads += ["--topic", topic]
    again = f"{topic}-again"
    for codec in range(3):
        publish(cluster.zk_connect, topic, 2000, codec)
        assert main(loads) == 0
    assert main([*loads, "--rebuild", "--into", again]) == 0
    publish(cluster.zk_connect, topic, 2000)
    assert main(loads) == 0
    publish(cluster.zk_connect, topic, 2000)
    swapped: list[int] = []

    def swap(step: Step) -> None:
        if step is Step.COMMITTING:
            swapped.append(main(["tables", "swap", "--warehouse", warehouse, topic, again]))

    capfd.readouterr()
    with LocalEngine(2) as engine, pytest.raises(OvertakenError):
        new(cluster, warehouse, topic, engine, on_step=swap).load()
    assert swapped == [0]
    line = json.loads(capfd.readouterr().out.splitlines()[-1])
    assert line["number"] == 5
    assert sum(line["behind_bytes"].values()) > 0
    kept = open_table(warehouse, again).count_rows()
    assert open_table(warehouse, topic).count_rows() == line["rows"] == kept
    assert main(loads) == 0
    account(cluster, warehouse, topic)
    assert main(["tables", "compact", "--warehouse", warehouse, "--topic", topic]) == 0
    assert (
        main(["tables", "clean", "--warehouse", warehouse, "--topic", topic, "--older-than", "0", "--force-at-rest"])
        == 0
    )
    account(cluster, warehouse, topic)
    assert open_table(warehouse, again).to_table().num_rows == kept  # it has files of its own


def test_of_three_loaders_one_commits(store: Store) -> None:
    """Each number, beginning with the one that makes the table."""
    warehouse = store.warehouse("raced")
    assert [race(warehouse, number, 3, TIMEOUT_S) for number in range(1, RACES + 1)] == [1] * RACES
    assert open_table(warehouse, TOPIC).count_rows() == RACES


@pytest.mark.parametrize("step", [Step.RESOLVED, WRITING, Step.WRITTEN, Step.CHECKED, Step.COMMITTING, Step.COMMITTED])
def test_a_load_is_killed(store: Store, cluster: LocalCluster, topic: str, step: str) -> None:
    """At every step; the next one does the same again, or goes on behind it."""
    warehouse = store.warehouse("killed")
    publish(cluster.zk_connect, topic, EVENTS if step == WRITING else 2000)
    program = (sys.executable, "-m", "integration.spark.programs.load_and_die")
    command = [*program, cluster.zk_connect, warehouse, topic, "none[2]", step]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == -9, done.stderr[-3000:]
    newest = TopicTable(warehouse, topic).newest()
    assert (newest is not None) == (step == Step.COMMITTED)
    publish(cluster.zk_connect, topic, 1000)
    with LocalEngine(2) as engine:
        assert new(cluster, warehouse, topic, engine).load().number == (2 if newest else 1)
    account(cluster, warehouse, topic)
    clean(TopicTable(warehouse, topic), older_than_s=-60, at_rest=True)
    account(cluster, warehouse, topic)


def test_the_tier_states_what_is_in_the_table_after_each_kill(
    store: Store, cluster: LocalCluster, topic: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """At every step twice: it has the rows of each commit once, as soon as that load or the next one has reported."""
    warehouse, zk_connect = store.warehouse("counted"), cluster.zk_connect
    program = (sys.executable, "-m", "integration.spark.programs.load_and_die")
    compare = ["audit", "--zookeeper", zk_connect, "--topic", topic, "--grace", "0", "--json"]

    def stated() -> tuple[int, int]:
        """Return the exit status of the audit, and how many rows the tier has counted."""
        capfd.readouterr()
        status = main([*compare, "--tiers", "producer,warehouse"])
        days = json.loads(capfd.readouterr().out)["days"]
        return status, sum(tier["counted"] for day in days for tier in day["tiers"] if tier["tier"] == "warehouse")

    for step in (*Step, *Step):
        publish(zk_connect, topic, 1000)
        before = sum(commit.rows for commit in TopicTable(warehouse, topic).commits())
        command = [*program, zk_connect, warehouse, topic, "none[2]", step, "warehouse"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode == -9, done.stderr[-3000:]
        rows = sum(commit.rows for commit in TopicTable(warehouse, topic).commits())
        status, counted = stated()
        with capfd.disabled():
            print(f"{store.kind}: killed at {step}: {rows} rows, {counted} stated, exit status {status}")  # noqa: T201
        assert (rows > before) == (step in {Step.COMMITTED, Step.REPORTED})
        assert counted == (rows if step is Step.REPORTED else before)
        assert (status == 0) == (step is Step.REPORTED)
    load = ["load", "--master", "none[2]", "--zookeeper", zk_connect, "--warehouse", warehouse, "--topic", topic]
    publish(zk_connect, topic, 1000)
    assert main([*load, "--audit", "warehouse"]) == 0
    rows, _ = account(cluster, warehouse, topic)
    assert stated() == (0, rows)


@pytest.mark.parametrize("how", ["kill", "pause"])
@pytest.mark.parametrize("when", [Step.RESOLVED, Step.WRITTEN, Step.COMMITTING])
@pytest.mark.parametrize("server", ["namenode", "datanode0", "datanode", "server"])
def test_the_store_breaks_down_in_mid_load(
    store: Store, cluster: LocalCluster, topic: str, server: str, when: Step, how: str
) -> None:
    """For some seconds: the load waits or fails, and in the end each message is there once."""
    victims = [each for name, each in store.servers.items() if name.startswith(server)]
    if not victims:
        pytest.skip(f"a {store.kind} has no {server}")
    warehouse = store.warehouse("broken")
    publish(cluster.zk_connect, topic, EVENTS)
    healed: list[threading.Timer] = []

    def break_down(step: Step) -> None:
        if step is when and not healed:
            for each in victims:
                each.kill() if how == "kill" else each.pause()
            healed.append(threading.Timer(AWAY_S, store.heal))
            healed[0].start()

    began_s = time.monotonic()
    said = "loaded"
    with LocalEngine(2) as engine:
        try:
            new(cluster, warehouse, topic, engine, on_step=break_down).load()
        except KafkaError as error:
            said = f"{type(error).__name__}: {error}"
        took_s = time.monotonic() - began_s
        assert healed
        healed[0].join()
        store.heal()
        print(f"{server} {how} at {when}: after {took_s:.1f} s {said[:300]}")  # noqa: T201

        def loads() -> bool:
            with suppress(KafkaError):
                new(cluster, warehouse, topic, engine).load()
                return True
            return False

        eventually(loads, 120, what="a load after the store was healed")
        publish(cluster.zk_connect, topic, 1000)
        eventually(loads, 120, what="one more load")
    account(cluster, warehouse, topic)
