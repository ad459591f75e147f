"""A small cluster with a group, beside what the model says of it: both as ZooKeeper itself counts."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka2011 import ConsumerConnector, KafkaError, LocalCluster, SyncProducer
from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.usage import process_cpu_s
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafka2011.consumer.stream import MessageStream
    from paper_benchmarks.capacity.registries import Registries

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


class Check(NamedTuple):
    """One figure of the model beside what was counted.

    `conflicts` are claims that failed meanwhile, as another member had not let go yet: the model knows nothing of them.
    Each is one more write, and may leave one more watch: on a partition that went to a third.
    """

    what: str
    predicted: float
    counted: float
    conflicts: int = 0


class Simulation(NamedTuple):
    """What came of it. `zk_cpu_us` is the CPU time of the server for a write, and for a read."""

    zk_cpu_us: Mapping[str, float]
    checks: Sequence[Check]


def simulate(registries: Registries, seconds: float, say: Callable[[str], object]) -> Simulation:
    """Start brokers and members, let them commit for a while, and have a broker go."""
    topics = [f"{secrets.token_hex(3)}{number}" for number in range(registries.topics)]
    with ExitStack() as stack:
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
        stack.callback(feed.pause)
        _await(lambda: ask().znodes >= replace(registries, groups=0).znodes, "topics")
        members = [
            stack.enter_context(_member(cluster.zk_connect, topics, number, registries.commit_interval_s))
            for number in range(registries.members)
        ]

        def conflicts() -> int:
            return sum(member.counts().get("claim_conflicts", 0) for member in members)

        def settle(partitions: int, *, idle: bool = True) -> Counts:
            """Wait until members share so many partitions, and, when idle, nothing was written for a while."""
            _await(lambda: _have(members, partitions, len(topics)), f"{partitions} partitions to be shared out")
            _await_quiet(ask, registries.commit_interval_s + _QUIET_S, idle=idle)
            return ask()

        now = settle(registries.partitions_of_group, idle=False)
        checks = [
            Check("znodes", registries.znodes, now.znodes),
            Check("watches", registries.watches, now.watches, conflicts()),
        ]
        say(f"commits for {seconds:g} s")
        before = ask()
        time.sleep(seconds)
        after = ask()
        elapsed_s = after.at_s - before.at_s
        checks += [
            Check("writes/s, commits", registries.writes_per_s, (after.writes - before.writes) / elapsed_s),
            Check("reads/s, leases and audits", registries.reads_per_s, (after.reads - before.reads) / elapsed_s),
        ]
        say("a broker goes")
        feed.pause()
        before, failed = settle(registries.partitions_of_group), conflicts()
        cluster.brokers[registries.brokers - 1].stop()
        left = replace(registries, brokers=registries.brokers - 1, writing=0.0)
        after = settle(left.partitions_of_group)
        predicted, failed = replace(registries, writing=0.0).broker_goes(), conflicts() - failed
        reads = after.reads - before.reads - (after.at_s - before.at_s) * left.reads_per_s  # those that go on anyway
        checks += [
            Check("writes, a broker goes", predicted.writes, after.writes - before.writes, failed),
            Check("reads, a broker goes", predicted.reads, round(reads), failed),
        ]
        for member in members:
            member.shutdown()
        say("what a request costs ZooKeeper")
        return Simulation(_cost(cluster.zk_connect, zookeeper.pid), checks)


def _member(zk_connect: str, topics: Sequence[str], number: int, commit_interval_s: float) -> ConsumerConnector:
    """Have a member join, whose name sorts last, with a session of its own and a thread for each of its streams."""
    settings = {
        "zk.connect": zk_connect,
        "groupid": "capacity",
        "consumerid": f"member-{number:06}",
        "autocommit.interval.ms": round(commit_interval_s * 1000),
        "fetcher.backoff.ms": 100,
    }
    member = ConsumerConnector(settings)
    for streams in member.create_message_streams(dict.fromkeys(topics, 1)).values():
        threading.Thread(target=_read, args=streams, daemon=True).start()
    return member


def _read(stream: MessageStream) -> None:
    with suppress(KafkaError):
        for _ in stream:
            pass


def _have(members: Sequence[ConsumerConnector], partitions: int, topics: int) -> bool:
    """Say whether members share so many partitions among them, as evenly as their topics allow."""
    owned = [len(member.owned_partitions()) for member in members]
    return sum(owned) == partitions and max(owned) - min(owned) <= topics


def _await_quiet(ask: Callable[[], Counts], quiet_s: float, *, idle: bool) -> None:
    last = ask()

    def is_quiet() -> bool:
        nonlocal last
        now = ask()
        if now.watches != last.watches or (idle and now.writes != last.writes):
            last = now
        return now.at_s - last.at_s > quiet_s

    _await(is_quiet, "ZooKeeper to be left alone")


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

    def _run(self) -> None:
        with ExitStack() as stack:
            producers = [stack.enter_context(SyncProducer(host, port)) for host, port in self._brokers]
            while not self._paused.wait(_TICK_S):
                for producer in producers:
                    for topic, partition in self._places:
                        producer.send(topic, b"tick", partition)


def _cost(zk_connect: str, pid: int) -> dict[str, float]:
    """Return the CPU time of the server for a write of an offset and for a read of it, many under way."""
    found: dict[str, float] = {}
    with connect(zk_connect) as client:
        client.create("/cost", b"0")
        requests: dict[str, Callable[[], Any]] = {
            "write": lambda: client.set_async("/cost", b"1234567890"),
            "read": lambda: client.get_async("/cost"),
        }
        for _ in range(3):  # the last time counts: the others warm up
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
