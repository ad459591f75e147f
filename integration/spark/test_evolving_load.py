"""Loads of a topic across a new schema and a compaction, on a real cluster; what is there is counted with Polars."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

from kafka2011.events.codec import EventEncoder
from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.events.schemas import KnownSchemas, event_schema
from kafka2011.warehouse.load.load_settings import LoadSettings
from kafka2011.warehouse.load.spark_engine import SparkEngine
from kafka2011.warehouse.load.topic_load import TopicLoad
from kafka2011.warehouse.rows.columns import OWN
from kafka2011.warehouse.table.compaction import compact
from kafka2011.warehouse.table.quarantine import open_quarantine
from kafka2011.warehouse.table.topic_table import TopicTable
from tests.support.warehouse import payloads_of, places_in, rows_of
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from kafka2011.events.schemas import EventSchema
    from kafka2011.local_cluster import LocalCluster

HOUR_US = 3_600_000_000
START_US = 1_323_000_000_000_000
HOURS = 3
OLD = event_schema("View", {"name": "page", "type": "string"}, {"name": "status", "type": "int"})
NEW = event_schema(
    "View",
    {"name": "page", "type": "string"},
    {"name": "status", "type": "int"},
    {"name": "member", "type": ["null", "string"], "default": None},
    {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
)


def views(topic: str, schema: EventSchema, count: int, **fields: Any) -> list[bytes]:
    """Return events of some hours, not in the order of their times."""
    common = {"published_at": START_US, "server": "s", "status": 200}
    return EventEncoder(KnownSchemas({topic: schema})).encode_all(
        topic,
        [
            {
                "time": START_US + (number * 7 % count) * HOURS * HOUR_US // count,
                "id": str(uuid.uuid4()),
                "page": f"/{number}",
                **common,
                **fields,
            }
            for number in range(count)
        ],
    )


@pytest.mark.timeout(300)
def test_columns_are_added_and_small_files_merged(
    spark: SparkSession,
    cluster: LocalCluster,
    topic: str,
    tmp_path: Path,
    create: Callable[..., None],
    publish: Callable[..., int],
) -> None:
    """Every message is one row, or in quarantine, across a new schema and a compaction."""
    one, two = cluster.brokers[0], cluster.brokers[1]
    create(topic)
    table = TopicTable(tmp_path / "warehouse", topic)
    quarantine = open_quarantine(str(tmp_path / "warehouse"), topic)
    settings = LoadSettings(zk_connect=cluster.zk_connect)
    load = TopicLoad(SparkEngine(spark.sparkContext), table, quarantine, settings)

    with connect(cluster.zk_connect) as client:
        SchemaRegistry(client).register(topic, OLD)
    publish(one, topic, views(topic, OLD, 300))
    publish(two, topic, views(topic, OLD, 100), 1)
    first = load.load()
    assert (first.number, first.rows, first.quarantined) == (1, 400, 0)
    assert load.load().number is None

    with connect(cluster.zk_connect) as client:
        SchemaRegistry(client).register(topic, NEW)
    publish(one, topic, [b"garbage", *views(topic, NEW, 20, member="m", tags=["a"]), *views(topic, OLD, 5)])
    second = load.load()
    assert (second.number, second.rows, second.quarantined) == (2, 25, 1)

    before = rows_of(table)
    assert compact(table).files_before > 1
    publish(one, topic, views(topic, NEW, 10, member="m", tags=[]))
    assert load.load().number == 3

    rows = rows_of(table)
    assert places_in(rows) == sorted(
        place for place, payload in payloads_of(cluster.zk_connect, topic).items() if payload != b"garbage"
    )
    assert (before.num_rows, rows.num_rows) == (425, 435)
    assert rows["member"].to_pylist().count("m") == 30
    assert rows["tags"].to_pylist().count(["a"]) == 20
    columns = rows.schema.names
    assert columns[:6] == ["time", "published_at", "server", "id", "page", "status"]
    assert columns[6:] == [*OWN.names, "date", "member", "tags"]
    assert {str(date) for date in rows["date"].to_pylist()} == {
        time.date().isoformat() for time in rows["time"].to_pylist()
    }
