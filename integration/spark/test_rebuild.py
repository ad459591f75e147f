"""A table that is loaded again beside the running one, on a real cluster."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from kafka2011.cli.app import main
from kafka2011.events.codec import EventEncoder
from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.events.schemas import KnownSchemas, event_schema
from kafka2011.warehouse import open_table
from kafka2011.warehouse.table.topic_table import TopicTable
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from kafka2011.local_cluster import LocalCluster

SCHEMA = event_schema("View", {"name": "page", "type": "string"})
START_US = 1_323_000_000_000_000


def views(topic: str, *numbers: int) -> list[bytes]:
    """Return the events with these numbers, the same whenever they are asked for."""
    header = {"published_at": START_US, "server": "s"}
    events = [{"time": START_US + n, "id": str(UUID(int=n)), "page": f"/{n}"} | header for n in numbers]
    return EventEncoder(KnownSchemas({topic: SCHEMA})).encode_all(topic, events)


def pages(warehouse: Path, name: str) -> list[str]:
    found: list[str] = open_table(warehouse, name).to_table(columns=["page"])["page"].to_pylist()
    return sorted(found)


@pytest.mark.timeout(300)
def test_a_table_is_rebuilt(
    spark: SparkSession,
    cluster: LocalCluster,
    topic: str,
    tmp_path: Path,
    create: Callable[..., None],
    publish: Callable[..., int],
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The rebuilt table has all rows from its offsets on, takes the other's place, and is loaded on."""
    create(topic)
    one, two = cluster.brokers[0], cluster.brokers[1]
    with connect(cluster.zk_connect) as client:
        SchemaRegistry(client).register(topic, SCHEMA)
    warehouse = ("--warehouse", str(tmp_path))
    common = ("--zookeeper", cluster.zk_connect, *warehouse, "--topic", topic)

    def run(*arguments: str) -> dict[str, Any]:
        assert main(list(arguments)) == 0
        line: dict[str, Any] = json.loads(capfd.readouterr().out.splitlines()[-1])
        return line

    def load(*arguments: str) -> dict[str, Any]:
        return run("load", *common, *arguments)

    first_end = publish(one, topic, views(topic, 1, 2))
    publish(two, topic, [*views(topic, 2, 3), b"garbage"])
    done = load()["topics"][0]
    assert (done["rows"], done["quarantined"]) == (4, 1)
    publish(one, topic, views(topic, 3, 4))
    load()
    assert pages(tmp_path, topic) == ["/1", "/2", "/2", "/3", "/3", "/4"]
    newest = TopicTable(tmp_path, topic).newest()
    assert newest is not None

    again = f"{topic}-again"
    begin = json.dumps({f"{one.broker_id}-0": first_end})
    assert load("--rebuild", "--from", begin, "--into", again)["rows"] == 4
    assert load("--rebuild", "--from", begin, "--into", again)["rows"] == 0
    assert pages(tmp_path, again) == ["/2", "/3", "/3", "/4"]
    rebuilt = TopicTable(tmp_path, topic, name=again).newest()
    assert rebuilt is not None
    assert rebuilt.offsets == newest.offsets
    swapped = run("tables", "swap", *warehouse, topic, again)
    assert (swapped["number"], swapped["rows"], swapped["behind_bytes"]) == (3, 4, {})
    publish(two, topic, views(topic, 5))
    assert load()["rows"] == 1
    assert pages(tmp_path, topic) == ["/2", "/3", "/3", "/4", "/5"]
    assert pages(tmp_path, again) == ["/2", "/3", "/3", "/4"]
    assert run("tables", "redrive", *common)["rows"] == 0
