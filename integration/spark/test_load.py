"""Loads of a topic into a Parquet table, on a real cluster; what is there is counted with plain PyArrow."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

from kafka2011.compression import Codec
from kafka2011.pipeline.errors import UnknownSchemaError
from kafka2011.pipeline.events import EventEncoder
from kafka2011.pipeline.registry import SchemaRegistry
from kafka2011.pipeline.schemas import KnownSchemas, event_schema
from kafka2011.warehouse.parquet_table import ParquetTable
from kafka2011.warehouse.quarantine import Quarantine
from kafka2011.warehouse.settings import LoadSettings
from kafka2011.warehouse.topic_load import TopicLoad
from kafka2011.warehouse.write import PartitionBy
from tests.support.warehouse import payloads_of, places_in, quarantined_by, rows_of
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from kafka2011.local import LocalCluster
    from kafka2011.pipeline.schemas import EventSchema

DAY_US = 86_400_000_000
START_US = 1_323_000_000_000_000
OLD = event_schema("View", {"name": "page", "type": "string"}, {"name": "status", "type": "int"})
NEW = event_schema(
    "View",
    {"name": "page", "type": "string"},
    {"name": "status", "type": "int"},
    {"name": "member", "type": ["null", "string"], "default": None},
)


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
        table = ParquetTable(tmp_path / "warehouse", topic, spark=spark)
        quarantine = Quarantine(table.files, table.quarantine)
        return TopicLoad(spark, table, quarantine, LoadSettings(zk_connect=cluster.zk_connect, **settings))

    return new


def test_loads_go_on_where_the_last_one_ended(
    cluster: LocalCluster,
    topic: str,
    tmp_path: Path,
    create: Callable[..., None],
    publish: Callable[..., int],
    loading: Callable[..., TopicLoad],
) -> None:
    """Every message is one row or in quarantine: plain and compressed, of two schemas, good and bad."""
    one, two = cluster.brokers.values()
    create(topic)
    publish(one, topic, views(topic, OLD, 1))
    with pytest.raises(UnknownSchemaError, match=f"topic {topic} has no schema"):
        loading(topic).load()
    with connect(cluster.zk_connect) as client:
        SchemaRegistry(client).register(topic, OLD)
    load = loading(topic)
    table = ParquetTable(tmp_path / "warehouse", topic)

    publish(one, topic, views(topic, OLD, 300))
    publish(one, topic, views(topic, OLD, 50), 1, Codec.GZIP)
    first = load.load()
    assert (first.number, first.rows, first.quarantined, first.lost_bytes) == (1, 351, 0, 0)
    assert load.load().number is None

    with connect(cluster.zk_connect) as client:
        SchemaRegistry(client).register(topic, NEW)
    garbage = [b"", b"garbage", views(topic, OLD, 1)[0] + b"x"]
    publish(two, topic, [*garbage, *views(topic, NEW, 20, member="m"), b"end"])
    publish(two, topic, [*views(topic, NEW, 5), *garbage, *views(topic, NEW, 5), b"end"], 1, Codec.SNAPPY)
    publish(two, topic, [b"nothing", b"good"], 1, Codec.SNAPPY)
    publish(one, topic, views(topic, OLD, 10), 0, Codec.SNAPPY)
    second = load.load()
    assert (second.number, second.rows, second.quarantined) == (2, 40, 10)

    rows = rows_of(table)
    logged = payloads_of(cluster.zk_connect, topic)
    bad = quarantined_by(table)
    assert places_in(rows) == sorted(logged.keys() - bad.keys())
    assert bad == {place: payload for place, payload in logged.items() if place in bad}
    assert rows.column("load_id").to_pylist() == rows.column("kafka2011_load_id").to_pylist()
    assert {time.date().isoformat() for time in rows.column("time").to_pylist()} == {
        str(date) for date in rows.column("date").to_pylist()
    }
    assert rows_of(table, "load_id=000002").column("member").to_pylist().count("m") == 20
    newest = table.newest()
    assert newest is not None
    assert (newest.schema, newest.size_bytes > 0) == (2, True)
    assert {each.partition.broker_id for each in newest.ranges} == {one.broker_id, two.broker_id}
    assert not list((tmp_path / "warehouse").rglob("*.crc"))


def test_hours_have_directories_of_their_own(
    cluster: LocalCluster,
    topic: str,
    tmp_path: Path,
    create: Callable[..., None],
    publish: Callable[..., int],
    loading: Callable[..., TopicLoad],
) -> None:
    """And few files in each, sorted by time, however many tasks have read."""
    create(topic)
    with connect(cluster.zk_connect) as client:
        SchemaRegistry(client).register(topic, OLD)
    for broker in cluster.brokers.values():
        for partition in (0, 1):
            publish(broker, topic, views(topic, OLD, 300), partition)
    assert loading(topic, partition_by=PartitionBy.HOUR).load().rows == 1200
    table = ParquetTable(tmp_path / "warehouse", topic)
    rows = rows_of(table)
    hours = zip(rows["date"].to_pylist(), rows["hour"].to_pylist(), strict=True)
    times = rows["time"].to_pylist()
    assert [(str(date), hour) for date, hour in hours] == [(time.date().isoformat(), time.hour) for time in times]
    files = list((tmp_path / "warehouse").rglob("*.parquet"))
    assert len(files) == 72
