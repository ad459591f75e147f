"""Fixtures for tests of applications: real clusters on this machine, which pytest finds where kafka2011 is installed.

    def test_clicks_arrive(kafka2011_cluster):
        with Producer({"zk.connect": kafka2011_cluster.zk_connect}) as producer:
            producer.send("clicks", b"one")

A test that wants other clusters than these makes a `LocalCluster` itself.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka2011.local_cluster import LocalCluster
    from zk.local_zookeeper import LocalZooKeeper

_BROKERS = "kafka2011_brokers"
_PROPERTIES = "kafka2011_properties"
_chroots = count()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare what pytest's configuration may say of the clusters."""
    parser.addini(_BROKERS, "how many brokers a cluster of the fixtures has", default="1")
    parser.addini(_PROPERTIES, "settings of these brokers, a line each: name=value", type="linelist", default=[])


def pytest_configure(config: pytest.Config) -> None:
    """Check what it says. Raises pytest.UsageError."""
    _brokers(config)
    _properties(config)


@pytest.fixture(scope="session")
def kafka2011_zookeeper() -> Iterator[LocalZooKeeper]:
    """Start one ZooKeeper server for the whole run, which all clusters share; tests leave it running."""
    # Imported here, as every run of pytest imports this file.
    from zk.local_zookeeper import LocalZooKeeper  # noqa: PLC0415

    with LocalZooKeeper() as server:
        yield server


@pytest.fixture(scope="session")
def kafka2011_session_cluster(
    kafka2011_zookeeper: LocalZooKeeper, pytestconfig: pytest.Config
) -> Iterator[LocalCluster]:
    """Start one cluster for the whole run: tests share its topics and leave its brokers running."""
    with _cluster(kafka2011_zookeeper, pytestconfig) as cluster:
        yield cluster


@pytest.fixture
def kafka2011_cluster(kafka2011_zookeeper: LocalZooKeeper, pytestconfig: pytest.Config) -> Iterator[LocalCluster]:
    """Give an empty cluster to one test, which may stop, kill and pause its brokers."""
    with _cluster(kafka2011_zookeeper, pytestconfig) as cluster:
        yield cluster


def _cluster(zookeeper: LocalZooKeeper, pytestconfig: pytest.Config) -> LocalCluster:
    """Return a cluster with registries of its own, not yet started."""
    from kafka2011.local_cluster import LocalCluster  # noqa: PLC0415

    where = f"{zookeeper.connect_string}/test-{next(_chroots)}"
    return LocalCluster(_brokers(pytestconfig), zk_connect=where, properties=_properties(pytestconfig))


def _brokers(pytestconfig: pytest.Config) -> int:
    text = str(pytestconfig.getini(_BROKERS))
    if not text.isdecimal() or int(text) == 0:
        raise pytest.UsageError(f"{_BROKERS} is how many brokers there are, not {text!r}")
    return int(text)


def _properties(pytestconfig: pytest.Config) -> dict[str, str]:
    parts = [line.partition("=") for line in pytestconfig.getini(_PROPERTIES)]
    for name, equals, _ in parts:
        if not equals:
            raise pytest.UsageError(f"{_PROPERTIES} are lines name=value, not {name!r}")
    return {name.strip(): value.strip() for name, _, value in parts}
