"""Loads of a topic into a table, on a real cluster; what is there is counted with Polars."""

from __future__ import annotations

import json
import shutil
import threading
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pytest

from integration.spark.loading import Loading
from kafka2011.audit.publishing import open_counter
from kafka2011.cli.app import main
from kafka2011.events.codec import EventEncoder, read_stamps
from kafka2011.events.compatibility import Compatibility
from kafka2011.events.errors import IncompatibleSchemaError, UnknownSchemaError
from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.events.schemas import KnownSchemas, event_schema
from kafka2011.message.compression import Codec
from kafka2011.warehouse.errors import ReplacedLogError
from kafka2011.warehouse.loading.load_settings import LoadSettings
from kafka2011.warehouse.loading.local_engine import LocalEngine
from kafka2011.warehouse.loading.spark_engine import SparkEngine
from kafka2011.warehouse.loading.topic_load import Step, TopicLoad
from kafka2011.warehouse.rows.columns import OWN
from kafka2011.warehouse.table.commits import Commit, Operation
from kafka2011.warehouse.table.compaction import compact
from kafka2011.warehouse.table.quarantine import open_quarantine
from kafka2011.warehouse.table.topic_table import TopicTable
from tests.support.warehouse import payloads_of, places_in, quarantined_by, rows_of
from zk.cluster import TopicPartition
from zk.connecting import connect
from zk.errors import ZkUnavailable
from zk.offsets import OffsetRegistry
from zk.schemas import SchemaNodes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from kafka2011.events.schemas import EventSchema
    from kafka2011.local_cluster import LocalCluster
    from kafka2011.warehouse.loading.topic_load import Loaded

DAY_US = 86_400_000_000
START_US = 1_323_000_000_000_000
OLD = event_schema("View", {"name": "page", "type": "string"}, {"name": "status", "type": "int"})
NEW = event_schema(
    "View",
    {"name": "page", "type": "string"},
    {"name": "status", "type": "int"},
    {"name": "member", "type": ["null", "string"], "default": None},
    {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
)
UNKNOWN = event_schema(
    "View",
    {"name": "page", "type": "string"},
    {"name": "status", "type": "int"},
    {"name": "referrer", "type": ["null", "string"], "default": None},
)
"""Of one test only: what a fingerprint stands for is known to all topics of a cluster."""


def views(topic: str, schema: EventSchema, count: int, **fields: Any) -> list[bytes]:
    """Return events of several days, not in the order of their times."""
    encoder = EventEncoder(KnownSchemas({topic: schema}))
    return encoder.encode_all(
        topic,
        [
            {
                "time": START_US + (number * 7919 % count) * 3 * DAY_US // count,
                "published_at": START_US,
                "server": "s",
                "id": str(uuid.uuid4()),
                "page": f"/{number}",
                "status": 200,
                **fields,
            }
            for number in range(count)
        ],
    )


@pytest.fixture
def loading(spark: SparkSession, cluster: LocalCluster, tmp_path: Path) -> Callable[..., TopicLoad]:
    def new(topic: str, **settings: Any) -> TopicLoad:
        table = TopicTable(tmp_path / "warehouse", topic)
        quarantine = open_quarantine(str(tmp_path / "warehouse"), topic)
        on_executors = {"source": {"minPartitions": 2}, **settings}  # one small task would run here
        return TopicLoad(
            SparkEngine(spark.sparkContext),
            table,
            quarantine,
            LoadSettings(zk_connect=cluster.zk_connect, **on_executors),
        )

    return new


def test_loads_go_on_where_the_last_one_ended(
    cluster: LocalCluster,
    topic: str,
    tmp_path: Path,
    create: Callable[..., None],
    publish: Callable[..., int],
    loading: Callable[..., TopicLoad],
) -> None:
    """Every message is one row or in quarantine: plain and compressed, of two schemas, good and bad, and compacted."""
    one, two = cluster.brokers[0], cluster.brokers[1]
    create(topic)
    publish(one, topic, views(topic, OLD, 1))
    with pytest.raises(UnknownSchemaError, match=f"topic {topic} has no schema"):
        loading(topic).load()
    with connect(cluster.zk_connect) as client:
        SchemaRegistry(client).register(topic, OLD)
    load = loading(topic)
    table = TopicTable(tmp_path / "warehouse", topic)

    publish(one, topic, views(topic, OLD, 300))
    publish(one, topic, views(topic, OLD, 50), 1, Codec.GZIP)
    first = load.load()
    assert (first.number, first.rows, first.quarantined, first.lost_bytes) == (1, 351, 0, 0)
    assert load.load().number is None

    with connect(cluster.zk_connect) as client:
        SchemaRegistry(client).register(topic, NEW)
    garbage = [b"", b"garbage", views(topic, OLD, 1)[0] + b"x"]
    publish(two, topic, [*garbage, *views(topic, NEW, 20, member="m", tags=["a"]), b"end"])
    publish(two, topic, [*views(topic, NEW, 5), *garbage, *views(topic, NEW, 5), b"end"], 1, Codec.SNAPPY)
    publish(two, topic, [b"nothing", b"good"], 1, Codec.SNAPPY)
    publish(one, topic, views(topic, OLD, 10), 0, Codec.SNAPPY)
    second = load.load()
    assert (second.number, second.rows, second.quarantined) == (2, 40, 10)

    rows = rows_of(table)
    logged = payloads_of(cluster.zk_connect, topic)
    bad = quarantined_by(table, tmp_path / "warehouse")
    assert places_in(rows) == sorted(logged.keys() - bad.keys())
    assert bad == {place: payload for place, payload in logged.items() if place in bad}
    assert {time.date().isoformat() for time in rows.column("time").to_pylist()} == {
        str(date) for date in rows.column("date").to_pylist()
    }
    assert rows.column("member").to_pylist().count("m") == 20
    assert set(rows.filter(pc.field("member") == "m").column("kafka2011_load_id").to_pylist()) == {2}
    newest = table.newest()
    assert newest is not None
    assert (newest.schema, newest.size_bytes > 0) == (2, True)
    assert {each.partition.broker_id for each in newest.ranges} == {one.broker_id, two.broker_id}
    assert not list((tmp_path / "warehouse").rglob("*.crc"))

    assert compact(table).files_before > 1
    publish(one, topic, views(topic, NEW, 10, member="m"))
    assert load.load().number == 3
    compacted = rows_of(table)
    assert places_in(compacted) == sorted(payloads_of(cluster.zk_connect, topic).keys() - bad.keys())
    assert compacted["member"].to_pylist().count("m") == 30
    assert compacted["tags"].to_pylist().count(["a"]) == 20
    columns = compacted.schema.names
    assert columns[:6] == ["time", "published_at", "server", "id", "page", "status"]
    assert columns[6:] == [*OWN.names, "date", "member", "tags"]


def last_line(capfd: pytest.CaptureFixture[str]) -> dict[str, Any]:
    line: dict[str, Any] = json.loads(capfd.readouterr().out.splitlines()[-1])
    return line


def test_the_command_counts_what_it_loads(
    spark: SparkSession,
    cluster: LocalCluster,
    topic: str,
    tmp_path: Path,
    create: Callable[..., None],
    publish: Callable[..., int],
    capfd: pytest.CaptureFixture[str],
) -> None:
    """It is a tier of the audit, knows through when its tables are complete, and decodes its quarantine after a fix."""
    create(topic)
    one, two = cluster.brokers[0], cluster.brokers[1]
    with connect(cluster.zk_connect) as client:
        SchemaRegistry(client).register(topic, OLD)
    good, later = views(topic, OLD, 200), views(topic, UNKNOWN, 3, referrer="r")
    with open_counter("producer", cluster.zk_connect) as counter:
        counter.count(topic, [stamp for stamp in read_stamps(good + later) if stamp is not None])
    publish(one, topic, good[:150], 0, Codec.SNAPPY)
    publish(two, topic, [*good[150:], *later])
    where = ("--zookeeper", cluster.zk_connect, "--warehouse", str(tmp_path / "warehouse"))
    which = (*where, "--whitelist", f"{topic}|audit", "--audit", "warehouse")
    load, redrive = ("load", *which), ("tables", "redrive", *which)
    compare = ("audit", "--zookeeper", cluster.zk_connect, "--topic", topic, "--tiers", "producer,warehouse")

    assert main([*load, "--group", "loaded"]) == 0
    done = last_line(capfd)
    assert (done["rows"], done["quarantined"], done["failed"]) == (200, 3, [])
    table = TopicTable(tmp_path / "warehouse", topic)
    newest = table.newest()
    assert newest is not None
    assert newest.complete_through_ms == START_US // 1000
    with connect(cluster.zk_connect) as client:
        committed = OffsetRegistry(client).offsets("loaded", topic)
    assert {each: found.offset for each, found in committed.items()} == newest.offsets
    assert main([*compare, "--grace", "0"]) == 1
    assert "tier warehouse: 3 missing" in capfd.readouterr().err

    with connect(cluster.zk_connect) as client:
        SchemaRegistry(client).register(topic, UNKNOWN)
    assert main([*redrive]) == 0
    assert last_line(capfd)["rows"] == 3
    assert main([*redrive]) == 0
    assert last_line(capfd)["rows"] == 0
    assert main([*compare, "--grace", "0", "--strict"]) == 0
    assert main([*load]) == 0
    done = last_line(capfd)
    assert (done["rows"], done["topics"][0]["number"]) == (0, 3)  # the table is known to be complete now
    assert main([*load]) == 0
    assert last_line(capfd)["topics"][0]["number"] is None
    assert places_in(rows_of(table)) == sorted(payloads_of(cluster.zk_connect, topic))
    assert main(["tables", "status", *where[2:], "--json"]) == 0
    [status] = json.loads(capfd.readouterr().out)
    assert (status["topic"], status["rows"], status["quarantined"]) == (topic, 203, 0)
    assert status["complete_through_ms"] > START_US // 1000

    assert main([*load[:-4], "--topic", "nobody", "--topic", topic]) == 1
    out, errors = capfd.readouterr()
    assert [each["topic"] for each in json.loads(out.splitlines()[-1])["topics"]] == [topic]
    assert "1 topic not loaded: nobody: topic nobody is unknown" in errors


def test_schemas_of_other_topics_are_looked_up_and_an_outage_fails_the_load(
    cluster: LocalCluster,
    topic: str,
    tmp_path: Path,
    create: Callable[..., None],
    publish: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In other processes too. While ZooKeeper cannot be asked, nothing goes to quarantine."""
    one = cluster.brokers[0]
    create(topic)
    unique = topic.replace("-", "_")
    other = event_schema(
        "View", {"name": "page", "type": "string"}, {"name": "status", "type": "int"}, {"name": unique, "type": "int"}
    )
    table = TopicTable(tmp_path, topic)
    with LocalEngine(2) as engine, connect(cluster.zk_connect) as client:
        registry = SchemaRegistry(client)
        registry.register(topic, OLD)
        registry.register(f"{topic}-other", other)
        publish(one, topic, [*views(topic, OLD, 30), *views(topic, other, 20, **{unique: 1})])
        publish(one, topic, [*views(topic, OLD, 30), b"\xc3\x01" + bytes(8) + b"unknown"], 1)
        settings = LoadSettings(zk_connect=cluster.zk_connect, source={"minPartitions": 2})
        load = TopicLoad(engine, table, open_quarantine(str(tmp_path), topic), settings, client=client)

        def texts_of(*_: Any) -> None:
            raise ZkUnavailable("ZooKeeper does not answer")

        with monkeypatch.context() as outage:
            outage.setattr(SchemaNodes, "texts_of", texts_of)
            with pytest.raises(ZkUnavailable):
                load.load()
        assert table.newest() is None
        loaded = load.load()
        assert (loaded.rows, loaded.quarantined) == (80, 1)
        publish(one, topic, views(topic, other, 5, **{unique: 1}))
        assert load.load().rows == 5
    assert len(places_in(rows_of(table))) == len(payloads_of(cluster.zk_connect, topic)) - 1


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_killed_load_leaves_nothing_behind_that_counts(
    spark: SparkSession, cluster: LocalCluster, topic: str, tmp_path: Path
) -> None:
    """A load that dies just before its commit; the rest of its kind are in proof/test_warehouse.py."""
    loading = Loading(spark, cluster.zk_connect, tmp_path, topic)
    loading.publish(400)
    assert loading.die_at(Step.COMMITTING) == ["resolved", "written", "checked", "committing"]
    assert loading.number == 0
    done = loading.new().load()
    assert (done.number, done.rows, done.quarantined) == (1, 400, 1)
    loading.check()


def test_a_replaced_disk_is_refused_unless_one_says_otherwise(
    cluster: LocalCluster,
    topic: str,
    tmp_path: Path,
    create: Callable[..., None],
    publish: Callable[..., int],
    loading: Callable[..., TopicLoad],
) -> None:
    """A log that ends before the offset that the table has."""
    create(topic)
    with connect(cluster.zk_connect) as client:
        SchemaRegistry(client).register(topic, OLD)
    one = cluster.brokers[0]
    end = publish(one, topic, views(topic, OLD, 10))
    where = TopicPartition(topic, one.broker_id, 0)
    table = TopicTable(tmp_path / "warehouse", topic)
    staging = table.begin()
    before = Commit(topic, 1, Operation.LOAD, 1, {where: end + 100})
    table.commit(staging, before)
    with pytest.raises(
        ReplacedLogError, match=f"{where} was loaded up to offset {end + 100}, but its log ends at {end}"
    ):
        loading(topic).load()
    assert [replace(each, attempt="") for each in table.commits()] == [before]
    done = loading(topic, restart_replaced=True).load()
    assert (done.number, done.rows, done.offsets[where]) == (2, 10, end)


def test_a_topic_that_was_made_again_and_has_grown_is_not_loaded_from_the_middle(
    cluster: LocalCluster, topic: str, tmp_path: Path, create: Callable[..., None], publish: Callable[..., int]
) -> None:
    """It is refused, or loaded from its beginning; a log that goes on is loaded as ever."""
    broker = cluster.add_broker()
    create(topic, [broker])
    with connect(cluster.zk_connect) as client:
        SchemaRegistry(client).register(topic, OLD)
    where = TopicPartition(topic, broker.broker_id, 0)
    table = TopicTable(tmp_path / "warehouse", topic)
    quarantine = open_quarantine(str(tmp_path / "warehouse"), topic)

    with LocalEngine(1) as engine:

        def load(**settings: Any) -> Loaded:
            settings = {"zk_connect": cluster.zk_connect, **settings}
            return TopicLoad(engine, table, quarantine, LoadSettings(**settings)).load()

        publish(broker, topic, views(topic, OLD, 30))
        assert load().rows == 30
        publish(broker, topic, views(topic, OLD, 1))
        end = publish(broker, topic, views(topic, OLD, 300))
        assert load().rows == 301

        broker.stop()
        shutil.rmtree(broker.log_dir / f"{topic}-0")
        broker.start()
        create(topic, [broker])
        now = 0
        while now <= end:
            now = publish(broker, topic, views(topic, OLD, 200))
        with pytest.raises(ReplacedLogError, match=f"{where} was loaded up to offset {end}, but what stands before"):
            load()
        done = load(restart_replaced=True)
        assert (done.rows % 200, done.log_bytes, done.offsets[where]) == (0, now, now)
        publish(broker, topic, views(topic, OLD, 7))
        assert load().rows == 7
    broker.stop()


def test_the_first_load_waits_for_a_topic_that_was_just_published_to(
    cluster: LocalCluster, topic: str, tmp_path: Path, create: Callable[..., None], publish: Callable[..., int]
) -> None:
    with connect(cluster.zk_connect) as client:
        SchemaRegistry(client).register(topic, OLD)
    timer = threading.Timer(1, create, [topic])
    timer.start()
    with LocalEngine(1) as engine:
        table = TopicTable(tmp_path / "warehouse", topic)
        quarantine = open_quarantine(str(tmp_path / "warehouse"), topic)
        load = TopicLoad(engine, table, quarantine, LoadSettings(zk_connect=cluster.zk_connect))
        assert load.load().number is None
        timer.join()
        publish(cluster.brokers[0], topic, views(topic, OLD, 3))
        assert load.load().rows == 3


def test_a_table_follows_its_topics_schemas(
    cluster: LocalCluster,
    topic: str,
    tmp_path: Path,
    create: Callable[..., None],
    publish: Callable[..., int],
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A type becomes wider, another one is forced and waits in quarantine, and a mended schema brings it in."""
    one = cluster.brokers[0]
    create(topic)
    table = TopicTable(tmp_path, topic)
    quarantine = open_quarantine(str(tmp_path), topic)

    def thing(kind: str, name: str = "status", **more: Any) -> EventSchema:
        return event_schema("View", {"name": "page", "type": "string"}, {"name": name, "type": kind, **more})

    with LocalEngine(1) as engine, connect(cluster.zk_connect) as client:
        registry = SchemaRegistry(client)
        load = TopicLoad(engine, table, quarantine, LoadSettings(zk_connect=cluster.zk_connect), client=client)
        registry.register(topic, thing("int"))
        publish(one, topic, views(topic, thing("int"), 30))
        assert load.load().rows == 30
        with pytest.raises(IncompatibleSchemaError):
            registry.register(topic, thing("double"))
        registry.set_compatibility(topic, Compatibility.BACKWARD)
        registry.register(topic, thing("double"))
        publish(one, topic, views(topic, thing("double"), 20, status=0.5))
        publish(one, topic, views(topic, thing("int"), 10))
        assert load.load().rows == 30
        registry.register(topic, thing("string"), force=True)
        publish(one, topic, views(topic, thing("string"), 7, status="gone"))
        loaded = load.load()
        assert (loaded.rows, loaded.quarantined) == (0, 7)
        registry.register(topic, thing("string", "state", aliases=["status"]), force=True)
    assert main(["tables", "redrive", "--warehouse", str(tmp_path), "--topic", topic, *zookeeper(cluster)]) == 0
    rows = rows_of(table)
    assert sorted(rows.column("status").drop_null().to_pylist()) == [0.5] * 20 + [200.0] * 40
    assert rows.column("state").drop_null().to_pylist() == ["gone"] * 7
    assert rows.num_rows == 67
    capfd.readouterr()


def zookeeper(cluster: LocalCluster) -> list[str]:
    return ["--zookeeper", cluster.zk_connect]
