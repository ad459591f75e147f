"""What topics hold and what tables have of it, place by place."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import polars

from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.warehouse.table.locations import quarantine_of
from kafka2011.wire.protocol import EARLIEST, LATEST
from zk.brokers import BrokerRegistry
from zk.cluster import TopicPartition
from zk.connecting import connect

if TYPE_CHECKING:
    import pyarrow as pa

    from kafka2011.warehouse.table.topic_table import TopicTable

PLACE = tuple(f"kafka2011_{name}" for name in ("broker_id", "partition", "offset", "index_in_set"))


class Place(NamedTuple):
    """Where one message is in its topic."""

    broker_id: int
    partition: int
    offset: int
    index_in_set: int


def payloads_of(zk_connect: str, topic: str) -> dict[Place, bytes]:
    """Read all messages of a topic from its brokers, without Spark."""
    found: dict[Place, bytes] = {}
    with connect(zk_connect) as client:
        registry = BrokerRegistry(client)
        brokers = registry.brokers()
        every = TopicPartition.all_of(topic, registry.partitions_of(topic))
    for _, broker_id, partition in every:
        with SimpleConsumer.of(brokers[broker_id]) as consumer:
            at = consumer.get_offsets_before(topic, partition, EARLIEST)[0]
            end = consumer.get_offsets_before(topic, partition, LATEST)[0]
            while at < end:
                for message in consumer.fetch(topic, partition, at, 1_000_000):
                    place = Place(broker_id, partition, message.offset, message.index_in_set)
                    assert place not in found
                    found[place] = message.payload
                    at = message.next_offset
    return found


def rows_of(table: TopicTable) -> pa.Table:
    """Read a table with none of this package's code."""
    return polars.read_delta(table.path).to_arrow()


def places_in(rows: pa.Table) -> list[Place]:
    """Return where rows come from, sorted; a row that is there twice is twice in it."""
    return sorted(Place(*row) for row in zip(*(rows.column(name).to_pylist() for name in PLACE), strict=True))


def quarantined_by(table: TopicTable, warehouse: str | Path) -> dict[Place, bytes | None]:
    """Read what the commits of a table have put into quarantine."""
    quarantine = Path(quarantine_of(str(warehouse), table.topic))
    found: dict[Place, bytes | None] = {}
    for commit in table.commits():
        for path in sorted(quarantine.glob(f"load_id={commit.number:06d}/{commit.attempt}-*.json")):
            for line in path.read_text().splitlines():
                entry = json.loads(line)
                place = Place(*(entry[name.removeprefix("kafka2011_")] for name in PLACE))
                assert place not in found
                assert entry["reason"]
                found[place] = None if entry["payload"] is None else base64.b64decode(entry["payload"])
    return found
