"""A small cluster with a group, beside what the model says of it: both as ZooKeeper itself counts."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka2011 import ConsumerConnector, KafkaError, LocalCluster, SyncProducer
from paper_benchmarks.errors import BenchmarkError
from paper_benchmarks.systems.usage import process_cpu_s
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafka2011.consumer.stream import MessageStream
    from paper_benchmarks.capacity.registries import Registries, Requests

GROUP = "capacity"
_TIMEOUT_S = 60.0
_QUIET_S = 0.5
"""Beyond the commit interval, in which whatever is due is committed."""
_POLL_S = 0.1
_TICK_S = 0.2
_REQUESTS = 1000


class Counts(NamedTuple):
    """What ZooKeeper has counted since it began, and what it holds."""

    at_s: float
    writes: int
    reads: int
    watches: int
    znodes: int

    @classmethod
    def ask(cls, host: str, port: int) -> Counts:
        """Ask a server, by its four-letter words."""
        found = dict(line.split("\t", 1) for line in _command(host, port, "mntr").splitlines() if "\t" in line)
        served = dict(line.split(": ", 1) for line in _command(host, port, "srvr").splitlines() if ": " in line)
        return cls(
            time.monotonic(),
            int(served["Zxid"], 16) & 0xFFFFFFFF,
            int(found["zk_cnt_readlatency"]),
            int(found["zk_watch_count"]),
            int(found["zk_znode_count"]),
        )


@dataclass(frozen=True, slots=True)
class Check:
    """One figure of the model beside what was counted.

    `conflicts` are claims that failed meanwhile, as another member had not let go yet: the model knows nothing of them.
    Each is one more write, and may leave one more watch: on a partition that went to a third.
    """

    what: str
    predicted: float
    counted: float
    conflicts: int = 0


@dataclass(frozen=True, slots=True)
class Simulation:
    """What came of it. `zk_cpu_us` is the CPU time of the server for a write, and for a read."""

    registries: Registries
    seconds: float
    zk_cpu_us: Mapping[str, float]
    checks: Sequence[Check]


class _Members:
    """Members of the group, each with a session of its own and a thread for each of its streams."""

    def __init__(self, zk_connect: str, topics: Sequence[str], commit_interval_s: float) -> None:
        self._settings = {
            "zk.connect": zk_connect,
            "groupid": GROUP,
            "autocommit.interval.ms": round(commit_interval_s * 1000),
            "fetcher.backoff.ms": 100,
        }
        self._topics = topics
        self._every: list[ConsumerConnector] = []
        self._conflicts = 0

    def add(self) -> None:
        """Have one more join, whose name sorts last."""
        settings = {**self._settings, "consumerid": f"member-{len(self._every):06}"}
        member = ConsumerConnector(settings)
        self._every.append(member)
        for streams in member.create_message_streams(dict.fromkeys(self._topics, 1)).values():
            threading.Thread(target=_read, args=streams, daemon=True).start()

    def remove(self) -> None:
        """Have the last one leave."""
        member = self._every.pop()
        member.shutdown()
        self._conflicts += member.counts().get("claim_conflicts", 0)

    def close(self) -> None:
        """Have all of them leave."""
        while self._every:
            self.remove()

    @property
    def conflicts(self) -> int:
        """How many claims came before another member had let go."""
        return self._conflicts + sum(member.counts().get("claim_conflicts", 0) for member in self._every)

    def have(self, partitions: int) -> bool:
        """Say whether they share so many among them, as evenly as their topics allow."""
        owned = [len(member.owned_partitions()) for member in self._every]
        return sum(owned) == partitions and max(owned) - min(owned) <= len(self._topics)


def simulate(registries: Registries, seconds: float, say: Callable[[str], object]) -> Simulation:
    """Start brokers and members, let them commit for a while, and have a member and a broker come and go."""
    topics = [f"{secrets.token_hex(3)}{number}" for number in range(registries.topics)]
    stack = ExitStack()
    with stack:
        say(f"{registries.brokers} brokers and {registries.members} members: start")
        settings = {"num.partitions": registries.partitions, "log.flush.interval": 1}
        cluster = stack.enter_context(LocalCluster(1, properties=settings))
        for _ in range(registries.brokers - 1):
            cluster.add_broker()  # one after the other, as the model has it
        zookeeper = cluster.zookeeper
        assert zookeeper is not None

        def ask() -> Counts:
            return Counts.ask(zookeeper.host, zookeeper.port)

        feed = _Feed(cluster, topics, registries.partitions)
        stack.callback(feed.close)
        _await(lambda: ask().znodes >= replace(registries, groups=0).znodes, "topics")
        members = _Members(cluster.zk_connect, topics, registries.commit_interval_s)
        stack.callback(members.close)
        for _ in range(registries.members):
            members.add()
        settle = _Settling(ask, members, registries.commit_interval_s + _QUIET_S, say)

        settle.down(registries.partitions_of_group, idle=False)
        checks = _standing(registries, ask(), members.conflicts)
        say(f"commits for {seconds:g} s")
        before = ask()
        time.sleep(seconds)
        after = ask()
        elapsed_s = after.at_s - before.at_s
        checks += [
            Check("writes/s, commits", registries.writes_per_s, (after.writes - before.writes) / elapsed_s),
            Check("reads/s, leases and audits", registries.reads_per_s, (after.reads - before.reads) / elapsed_s),
        ]

        feed.pause()
        settle.down(registries.partitions_of_group)
        quiet = replace(registries, writing=0.0)
        predicted = quiet.member_comes()
        checks += settle.count("a member comes", members.add, predicted, quiet)
        larger = replace(quiet, members=registries.members + 1)
        checks += settle.count("a member goes", members.remove, larger.member_goes(), quiet)
        checks += settle.count(
            "a broker goes",
            cluster.brokers[registries.brokers - 1].stop,
            quiet.broker_goes(),
            replace(quiet, brokers=registries.brokers - 1),
        )
        say("the members leave")
        members.close()
        say("what a request costs ZooKeeper")
        zk_cpu_us = _cost(cluster.zk_connect, zookeeper.pid)
    return Simulation(registries, seconds, zk_cpu_us, checks)


class _Settling:
    """Waits until nothing moves any more, and counts what it took until then."""

    def __init__(
        self, ask: Callable[[], Counts], members: _Members, quiet_s: float, say: Callable[[str], object]
    ) -> None:
        self._say = say
        self._ask = ask
        self._members = members
        self._quiet_s = quiet_s

    def down(self, partitions: int, *, idle: bool = True) -> Counts:
        """Wait until members share so many partitions, and, when idle, nothing was written for a while."""
        _await(lambda: self._members.have(partitions), f"{partitions} partitions to be shared out")
        last = self._ask()

        def is_quiet() -> bool:
            nonlocal last
            now = self._ask()
            if now.watches != last.watches or (idle and now.writes != last.writes):
                last = now
            return now.at_s - last.at_s > self._quiet_s

        _await(is_quiet, "ZooKeeper to be left alone")
        return self._ask()

    def count(self, what: str, act: Callable[[], object], predicted: Requests, after: Registries) -> list[Check]:
        """Do something, and count what it takes, without the reads that go on anyway."""
        self._say(what)
        before, conflicts = self._ask(), self._members.conflicts
        act()
        now = self.down(after.partitions_of_group)
        conflicts = self._members.conflicts - conflicts
        reads = now.reads - before.reads - (now.at_s - before.at_s) * after.reads_per_s
        return [
            Check(f"writes, {what}", predicted.writes, now.writes - before.writes, conflicts),
            Check(f"reads, {what}", predicted.reads, round(reads), conflicts),
        ]


def _standing(registries: Registries, now: Counts, conflicts: int) -> list[Check]:
    return [
        Check("znodes", registries.znodes, now.znodes),
        Check("watches", registries.watches, now.watches, conflicts),
    ]


class _Feed:
    """Sends a message to every partition again and again, without ZooKeeper."""

    def __init__(self, cluster: LocalCluster, topics: Sequence[str], partitions: int) -> None:
        self._places = [(topic, partition) for topic in topics for partition in range(partitions)]
        self._brokers = [(broker.host, broker.port) for broker in cluster.brokers.values()]
        self._paused = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def pause(self) -> None:
        """Send nothing any more."""
        self._paused.set()
        self._thread.join(_TIMEOUT_S)

    close = pause

    def _run(self) -> None:
        with ExitStack() as stack:
            producers = [stack.enter_context(SyncProducer(host, port)) for host, port in self._brokers]
            while not self._paused.wait(_TICK_S):
                for producer in producers:
                    for topic, partition in self._places:
                        producer.send(topic, b"tick", partition)


def _read(stream: MessageStream) -> None:
    with suppress(KafkaError):
        for _ in stream:
            pass


def _cost(zk_connect: str, pid: int) -> dict[str, float]:
    """Return the CPU time of the server for a write of an offset and for a read of it, many under way."""
    found: dict[str, float] = {}
    with connect(zk_connect) as client:
        client.create("/cost", b"0")
        for _ in range(3):  # the last time counts: the others warm up
            requests: dict[str, Callable[[], Any]] = {
                "write": lambda: client.set_async("/cost", b"1234567890"),
                "read": lambda: client.get_async("/cost"),
            }
            for what, send in requests.items():
                before_s = process_cpu_s(pid)
                for answer in [send() for _ in range(_REQUESTS)]:
                    answer.get(timeout=_TIMEOUT_S)
                found[what] = (process_cpu_s(pid) - before_s) / _REQUESTS * 1e6
    return found


def _command(host: str, port: int, word: str) -> str:
    with socket.create_connection((host, port), _TIMEOUT_S) as connection, connection.makefile("rb") as answer:
        connection.sendall(word.encode())
        return answer.read().decode()


def _await(condition: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + _TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline_s:
            raise BenchmarkError(f"waited {_TIMEOUT_S:g} s for {what}")
        time.sleep(_POLL_S)
