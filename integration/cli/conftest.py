"""One cluster for all tests of the commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from integration.cli.calling import PARTITIONS
from kafka2011 import LocalCluster

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="package")
def cluster() -> Iterator[LocalCluster]:
    properties = {"num.partitions": PARTITIONS, "log.flush.interval": 1, "zk.sessiontimeout.ms": 2000}
    with LocalCluster(brokers=2, properties=properties) as running:
        yield running


@pytest.fixture
def zookeeper(cluster: LocalCluster) -> tuple[str, str]:
    return ("--zookeeper", cluster.zk_connect)


@pytest.fixture
def broker(cluster: LocalCluster) -> tuple[str, str]:
    return ("--broker", f"{cluster.brokers[0].host}:{cluster.brokers[0].port}")
