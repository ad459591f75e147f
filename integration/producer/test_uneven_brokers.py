"""Keyed messages of a topic that has more partitions on some brokers than on others, as `topics create` makes it."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from kafka2011 import Producer, SimpleConsumer
from kafka2011.admin.topics import create_topic
from kafka2011.local_cluster import LocalCluster
from kafka2011.producer.partitioner import java_string_hash
from tests.support.waiting import eventually
from zk.connecting import connect

if TYPE_CHECKING:
    from pathlib import Path

    from kafka2011.admin.topics import CreatedTopic
    from zk.client import ZkClient
    from zk.local_zookeeper import LocalZooKeeper

KEYS = [*map(str, range(200)), "", "a key", "f\u00fcnf", "\U0001f600"]


def partition_of_072(client: ZkClient, topic: str, key: str) -> tuple[int, int]:
    """Return the broker and partition that a producer of 0.7.2 chooses.

    It is what ZKBrokerPartitionInfo.getZKTopicPartitionInfo and DefaultPartitioner do, step by step: brokers in the
    order of their ids, a partition for each number below the broker's count, and the hash modulo their number.
    """
    counts = [
        (int(name), int(client.get(f"/brokers/topics/{topic}/{name}")[0]))
        for name in client.get_children(f"/brokers/topics/{topic}")
    ]
    partitions = [(broker_id, number) for broker_id, count in sorted(counts) for number in range(count)]
    return partitions[abs(java_string_hash(key)) % len(partitions)]


@pytest.mark.parametrize("partitions", [1, 2, 4, 7])
def test_a_key_goes_where_a_producer_of_072_sends_it(
    zookeeper: LocalZooKeeper, tmp_path: Path, partitions: int
) -> None:
    """On three brokers, so that some have a partition more than others, or none."""
    zk_connect = f"{zookeeper.connect_string}/uneven-{partitions}"
    with (
        LocalCluster(3, zk_connect=zk_connect, directory=tmp_path, properties={"log.flush.interval": 1}) as cluster,
        connect(zk_connect, 10_000) as client,
    ):
        created = create_topic(client, "views", partitions=partitions)
        assert sum(each.partitions for each in created) == partitions
        with Producer({"zk.connect": zk_connect, "confirm": "true"}) as producer:
            for key in KEYS:
                producer.send("views", key.encode(), key=key)
        expected = defaultdict(list)
        for key in KEYS:
            expected[partition_of_072(client, "views", key)].append(key)
        eventually(lambda: _read(created) == expected)
        assert len(cluster.brokers) == 3


def _read(created: list[CreatedTopic]) -> dict[tuple[int, int], list[str]]:
    """Return the keys in each partition that has any."""
    found = defaultdict(list)
    for broker, count in created:
        with SimpleConsumer(broker.host, broker.port) as consumer:
            for number in range(count):
                for message in consumer.fetch("views", number, 0):
                    found[broker.id, number].append(message.payload.decode())
    return found
