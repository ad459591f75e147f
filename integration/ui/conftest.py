"""A cluster of two brokers with two members of a group, and the console beside it."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import pytest

from integration.cli.calling import command
from kafka2011 import LocalCluster
from kafka2011.admin import Admin, Groups, create_topic
from kafka2011.ui.serving import serve
from tests.support.waiting import eventually
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zk.client import ZkClient

TOPIC, GROUP = "views", "reports"


class Shown(NamedTuple):
    """A cluster, a session of its ZooKeeper, and where the console shows it."""

    cluster: LocalCluster
    client: ZkClient
    address: str


@pytest.fixture(scope="package")
def shown() -> Iterator[Shown]:
    properties = {"num.partitions": 2, "log.flush.interval": 1, "log.file.size": 2000, "zk.sessiontimeout.ms": 2000}
    with LocalCluster(2, properties=properties) as cluster, connect(cluster.zk_connect) as client:
        create_topic(client, TOPIC)
        with connect(cluster.zk_connect) as its_own, serve(its_own, "127.0.0.1", 0, is_always_on=True) as address:
            yield Shown(cluster, client, address)


@contextmanager
def members(zk_connect: str, count: int, group: str = GROUP) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run members of the group that share its partitions."""
    options = ("--topic", TOPIC, "--group", group, "--from-beginning", "--property", "zk.sessiontimeout.ms=2000")
    its = [
        subprocess.Popen(command("consume", *options, "--zookeeper", zk_connect), stdout=subprocess.DEVNULL)
        for _ in range(count)
    ]
    try:
        with Admin(zk_connect) as admin:
            eventually(lambda: group in admin.groups() and len(admin.members(group)) == count, what="all members")
            eventually(lambda: not admin.problems(group), what="an owner for each partition")
        yield its
    finally:
        for each in its:
            each.kill()
            each.wait()


def owners(client: ZkClient, group: str = GROUP) -> dict[str, str]:
    """Return the owning stream of each partition, by its name."""
    return {str(each.where): each.owner for each in Groups(client).describe(group) if each.owner}
