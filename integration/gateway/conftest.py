"""A cluster with a gateway, which all tests of clients share; each has topics of its own."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from kafka2011.local_cluster import LocalCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from zk.local_zookeeper import LocalZooKeeper

_names = count()


@pytest.fixture(scope="module")
def cluster(zookeeper: LocalZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Start two brokers with two partitions of each topic, and a gateway."""
    directory: Path = tmp_path_factory.mktemp("cluster")
    with LocalCluster(
        2,
        zk_connect=f"{zookeeper.connect_string}/gateway-{next(_names)}",
        directory=directory,
        properties={"num.partitions": 1, "log.default.flush.scheduler.interval.ms": 200},
        gateway=True,
    ) as made:
        yield made


@pytest.fixture
def topic() -> str:
    """Name a topic that no other test uses."""
    return f"views-{next(_names)}"
