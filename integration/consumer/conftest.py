"""Fixtures for members of consumer groups on a real ZooKeeper and real brokers."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import count
from typing import TYPE_CHECKING

import pytest

from integration.consumer.reading import MemberProcess
from kafka2011.consumer.connector import ConsumerConnector
from kafka2011.local_cluster import LocalCluster
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from zk.client import ZkClient
    from zk.local_zookeeper import LocalZooKeeper

BROKER_SETTINGS = {
    "num.partitions": 4,
    "log.flush.interval": 1,
    "zk.sessiontimeout.ms": 2000,
    "zk.connectiontimeout.ms": 20_000,
}
MEMBER_SETTINGS = {
    "zk.sessiontimeout.ms": 2000,
    "zk.connectiontimeout.ms": 20_000,
    "fetcher.backoff.ms": 20,
    "rebalance.backoff.ms": 2000,
    "autocommit.interval.ms": 200,
}
_numbers = count()


@pytest.fixture(scope="session")
def shared_cluster(zookeeper: LocalZooKeeper) -> Iterator[LocalCluster]:
    """Start one broker with four partitions a topic for all tests that leave it alone."""
    chroot = f"{zookeeper.connect_string}/consumers"
    with LocalCluster(1, zk_connect=chroot, properties=BROKER_SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def new_cluster(zk_connect: str) -> Iterator[Callable[..., LocalCluster]]:
    """Start brokers that a test may kill, in its own chroot or at another ZooKeeper."""
    with ExitStack() as stack:

        def start(
            brokers: int = 1, settings: dict[str, object] | None = None, *, zk_connect: str = zk_connect
        ) -> LocalCluster:
            properties = {**BROKER_SETTINGS, **(settings or {})}
            return stack.enter_context(LocalCluster(brokers, zk_connect=zk_connect, properties=properties))

        yield start


@pytest.fixture
def topic() -> str:
    """Name a topic that no other test has."""
    return f"topic-{next(_numbers)}"


@pytest.fixture
def open_member() -> Iterator[Callable[..., ConsumerConnector]]:
    """Open a member of the group `g-{topic}` with sessions of two seconds; further settings by 0.7's names."""
    with ExitStack() as stack:

        def make(cluster: LocalCluster, topic: str, settings: dict[str, object] | None = None) -> ConsumerConnector:
            config = {"zk.connect": cluster.zk_connect, "groupid": f"g-{topic}", **MEMBER_SETTINGS, **(settings or {})}
            return stack.enter_context(ConsumerConnector(config))

        yield make


@pytest.fixture
def open_member_process(tmp_path: Path) -> Iterator[Callable[..., MemberProcess]]:
    """Open a member in a process of its own, which writes a receipt for every message as it is handed out."""
    with ExitStack() as stack:

        def make(
            cluster: LocalCluster, topic: str, settings: dict[str, object] | None = None, *, pause_ms: float = 0
        ) -> MemberProcess:
            config = {"zk.connect": cluster.zk_connect, "groupid": f"g-{topic}", **MEMBER_SETTINGS, **(settings or {})}
            path = tmp_path / f"member-{next(_numbers)}"
            return stack.enter_context(MemberProcess(path, topic, config, pause_ms))

        yield make


@pytest.fixture
def zk_of() -> Iterator[Callable[[LocalCluster], ZkClient]]:
    """Connect to a cluster's ZooKeeper as a stranger does."""
    with ExitStack() as stack:
        yield lambda cluster: stack.enter_context(connect(cluster.zk_connect, 2000, connection_timeout_ms=20_000))
