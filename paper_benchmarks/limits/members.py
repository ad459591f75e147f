"""Very many members of a group: how long it takes them to divide very many partitions, and what that costs."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from kafka2011 import SyncProducer
from kafka2011.local_cluster import LocalCluster
from paper_benchmarks.limits.limit import Limit, Run, Taken, until
from paper_benchmarks.workers.members import Members
from zk import paths
from zk.brokers import BrokerRegistry
from zk.connecting import connect
from zk.four_letters import ask
from zk.nodes import Nodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from paper_benchmarks.limits.limit import Row
    from zk.client import ZkClient
    from zk.local_zookeeper import LocalZooKeeper

GROUP = "readers"
_TOPIC = "views"
_MEMBERS_A_PROCESS = 25
_REST_S = 2.0
_REST_REQUESTS = 4
_REST_TIMEOUT_S = 120.0
_PROPERTIES = {"zk.sessiontimeout.ms": 10_000, "zk.connectiontimeout.ms": 60_000}


def _measure(run: Run) -> Iterator[Row]:
    sizes = ((10, 100), (50, 500), (100, 1000)) if run.is_full else ((2, 10), (5, 50))
    for members, partitions in sizes:
        yield from _group(run, members, partitions)


def _group(run: Run, members: int, partitions: int) -> Iterator[Row]:
    with ExitStack() as stack:
        properties = {**_PROPERTIES, "num.partitions": partitions}
        cluster = stack.enter_context(LocalCluster(1, directory=None, properties=properties))
        client = stack.enter_context(connect(cluster.zk_connect, 10_000))
        make_topics(cluster, [_TOPIC])
        run.say(f"{members} members")
        first = Members(cluster.zk_connect, GROUP, {_TOPIC: 1}, members - 1, _MEMBERS_A_PROCESS)
        stack.enter_context(first)
        last = stack.enter_context(Members(cluster.zk_connect, GROUP, {_TOPIC: 1}, 1, 1))
        look = Look(cluster, client, first)
        first.join()
        look.settle(members - 1, partitions)
        yield look.row(members, partitions, "all but one join at once")
        last.join()
        look.settle(members, partitions)
        yield look.row(members, partitions, "one more joins")
        last.leave()
        look.settle(members - 1, partitions)
        yield look.row(members, partitions, "one leaves")


class Look:
    """What it takes from one moment to the next."""

    def __init__(self, cluster: LocalCluster, client: ZkClient, members: Members) -> None:
        assert cluster.zookeeper is not None
        self._zookeeper: LocalZooKeeper = cluster.zookeeper
        self._nodes = Nodes(client)
        self._members = members
        self._note()

    def _note(self) -> None:
        self._began_s = time.monotonic()
        self._settled_s = 0.0
        self._requests = requests_of(self._zookeeper)
        self._zookeeper_cpu_s = Taken.by(self._zookeeper.pid).cpu_s
        self._cpu_s = self._members.cpu_s()

    def settle(self, members: int, partitions: int, topics: Sequence[str] = (_TOPIC,)) -> None:
        """Wait until every partition has an owner, and so many members own something, for a second."""
        stable_since_s = 0.0
        while True:
            count = self._owning(partitions, topics)
            now_s = time.monotonic()
            if count != min(members, partitions):
                stable_since_s = 0.0
            elif not stable_since_s:
                stable_since_s = now_s
            elif now_s > stable_since_s + 1.0:
                self._settled_s = stable_since_s - self._began_s
                return
            if now_s > self._began_s + 300:
                raise TimeoutError(f"{partitions} partitions are owned by {count} members, not {members}")
            time.sleep(0.25)

    def _owning(self, partitions: int, topics: Sequence[str]) -> int:
        """Return how many members own something, once all partitions are owned; requests of this do not count."""
        names = self._nodes.children_of_many(paths.owners(GROUP, topic) for topic in topics)
        self._requests += len(topics)
        if sum(map(len, names.values())) != partitions:
            return 0
        nodes = self._nodes.get_many(paths.child(path, name) for path, found in names.items() for name in found)
        self._requests += partitions
        return len({(node.data or b"").rpartition(b"-")[0] for node in nodes.values()})

    def _await_rest(self, members: int) -> None:
        """Wait until they ask no more than who has nothing to do: leases and pings."""
        rests_s = time.monotonic() + _REST_TIMEOUT_S
        while True:
            before = requests_of(self._zookeeper)
            time.sleep(_REST_S)
            if requests_of(self._zookeeper) - before <= _REST_REQUESTS * (members + 4):
                return
            if time.monotonic() > rests_s:
                raise TimeoutError("the group does not come to rest")

    def row(self, members: int, partitions: int, what: str) -> Row:
        """Return what it took since the last."""
        self._await_rest(members)
        row: dict[str, Any] = {
            "members": members,
            "partitions": partitions,
            "what": what,
            "settled after s": self._settled_s,
            "requests to ZooKeeper": requests_of(self._zookeeper) - self._requests,
            "a member": (requests_of(self._zookeeper) - self._requests) / members,
            "CPU s of ZooKeeper": Taken.by(self._zookeeper.pid).cpu_s - self._zookeeper_cpu_s,
            "CPU ms of a member": (self._members.cpu_s() - self._cpu_s) / members * 1000,
        }
        self._note()
        return row


def requests_of(zookeeper: LocalZooKeeper) -> int:
    """Return how many requests a ZooKeeper has had, pings included."""
    for line in ask("127.0.0.1", zookeeper.port, b"srvr", 10.0).splitlines():
        if line.startswith("Received: "):
            return int(line.removeprefix("Received: "))
    raise ValueError("ZooKeeper does not say how many requests it had")


def make_topics(cluster: LocalCluster, topics: Sequence[str]) -> None:
    """Have every broker make topics, and wait until they are registered."""
    for broker in cluster.brokers.values():
        with SyncProducer(broker.host, broker.port) as producer:
            for topic in topics:
                producer.send(topic, [b"first"], 0)
    with connect(cluster.zk_connect, 10_000) as client:
        registry = BrokerRegistry(client)
        brokers = set(cluster.brokers)
        until(
            lambda: all(counts.keys() == brokers for counts in registry.partitions_of_many(topics).values()),
            f"{len(topics)} topics are registered",
        )


LIMIT = Limit(
    "Members of a group",
    "One topic on one broker. Members are 25 to a process. Requests are all that ZooKeeper got from the group and the"
    " broker until all was quiet.",
    _measure,
)
