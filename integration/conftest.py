"""Fixtures: one real ZooKeeper for all tests, and a fresh chroot for each."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from zk.local_zookeeper import LocalZooKeeper

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_FIRST = (
    "paper_benchmarks/test_experiments.py",
    "spark/test_reports.py",
    "spark/test_examples.py",
    "spark/test_click_through.py",
    "spark/test_standalone.py",
    "spark/test_load.py",
    "chaos/test_chaos.py",
    "spark/test_stream.py",
    "test_mirror.py",
    "cli/test_replicas.py",
    "broker/test_replicas.py",
    "spark/test_batch.py",
    "spark/test_sink.py",
    "cli/test_doctor.py",
    "test_packaging.py",
    "test_testing.py",
    "spark/test_load_command.py",
    "test_audit.py",
)
"""Files that take longest, with few tests each. A worker that begins one of them last keeps all others waiting."""

_HERE = Path(__file__).parent
_chroots = count()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, for workers that get whole files in this order."""
    ranks = {_HERE / name: rank for rank, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: ranks.get(item.path, len(ranks)))


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
