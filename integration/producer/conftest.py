"""Fixtures for producers on real brokers."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.local_cluster import LocalCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SETTINGS = {
    "num.partitions": 2,
    "log.flush.interval": 20,
    "log.default.flush.scheduler.interval.ms": 50,
    "zk.sessiontimeout.ms": 2000,
    "zk.connectiontimeout.ms": 20000,
}


@pytest.fixture
def new_cluster(zk_connect: str) -> Iterator[Callable[..., LocalCluster]]:
    """Start brokers in the test's chroot, with two partitions a topic; further settings by 0.7's names."""
    with ExitStack() as stack:

        def start(brokers: int, settings: dict[str, object] | None = None) -> LocalCluster:
            cluster = LocalCluster(brokers, zk_connect=zk_connect, properties={**SETTINGS, **(settings or {})})
            return stack.enter_context(cluster)

        yield start


@pytest.fixture
def read_topic() -> Callable[..., dict[tuple[int, int], list[bytes]]]:
    """Read what can be read of a topic: payloads in order, by (broker, partition)."""

    def read(cluster: LocalCluster, topic: str, partitions: int = 2) -> dict[tuple[int, int], list[bytes]]:
        found: dict[tuple[int, int], list[bytes]] = {}
        for broker in cluster.brokers.values():
            if not broker.running:
                continue
            with SimpleConsumer(broker.host, broker.port) as consumer:
                for partition in range(partitions):
                    found[broker.broker_id, partition] = _read_partition(consumer, topic, partition)
        return found

    return read


def _read_partition(consumer: SimpleConsumer, topic: str, partition: int) -> list[bytes]:
    payloads: list[bytes] = []
    offset = 0
    while messages := list(consumer.fetch(topic, partition, offset)):
        payloads += [message.payload for message in messages]
        offset = messages[-1].next_offset
    return payloads
