"""Fixtures: one real ZooKeeper for all tests, and a fresh chroot for each."""

from __future__ import annotations

import os
from collections import Counter
from itertools import count
from typing import TYPE_CHECKING

import pytest

from integration.jvm_archives import use_archives
from kafka2011.gateway.protocol.answer_codes import STRICT_VARIABLE
from zk.local_zookeeper import LocalZooKeeper

if TYPE_CHECKING:
    from collections.abc import Iterator

_chroots = count()
_SLOW_WEIGHT = 30
"""The number of other tests that take about as long as one that is marked as slow."""


def pytest_configure(config: pytest.Config) -> None:
    """Have all JVMs use the archives of classes, if those were made, and all gateways answer no forbidden code."""
    if not hasattr(config, "workerinput"):  # workers have the environment of the process that started them
        use_archives(os.environ)
        os.environ[STRICT_VARIABLE] = "1"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let files that take long begin first, so that none is left over when all others have ended."""
    weights: Counter[str] = Counter()
    for item in items:
        weights[str(item.path)] += 1 if item.get_closest_marker("slow") is None else _SLOW_WEIGHT
    items.sort(key=lambda item: (-weights[str(item.path)], str(item.path)))


@pytest.fixture(scope="session")
def zookeeper(kafka2011_zookeeper: LocalZooKeeper) -> LocalZooKeeper:
    """Give the one real ZooKeeper server of the whole run: do not stop, kill or pause it (see `own_zookeeper`)."""
    return kafka2011_zookeeper


@pytest.fixture
def zk_connect(zookeeper: LocalZooKeeper) -> str:
    """Give a zk.connect with a chroot that no other test uses."""
    return f"{zookeeper.connect_string}/chroot-{next(_chroots)}"


@pytest.fixture
def own_zookeeper() -> Iterator[LocalZooKeeper]:
    """Start a ZooKeeper server for one test, which may stop, kill and pause it."""
    with LocalZooKeeper() as server:
        yield server
