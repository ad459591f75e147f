"""Stage 11: a broker registers in ZooKeeper, stands beside one of ours, and is read by a client of today."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

from kafka2011.consumer.connector import ConsumerConnector
from kafka2011.lab import paper
from kafka2011.lab.bench import wait_until
from kafka2011.lab.cluster import BROKER_ID, PARTITIONS, cluster_with
from kafka2011.lab.connection import TimedConnection
from kafka2011.lab.coordination import TOPIC
from kafka2011.lab.errors import SkippedError, WrongError
from kafka2011.lab.requests import BARRIER, BARRIER_ANSWER, fetch, message_set, produce
from kafka2011.producer.producer import Producer
from kafka2011.producer.sync_producer import SyncProducer

if TYPE_CHECKING:
    from kafka2011.lab.bench import Bench
    from kafka2011.lab.cluster import ClusteredBroker
    from kafka2011.lab.coordination import Registries
    from kafka2011.local_cluster import LocalCluster

_IDS, _TOPIC = f"/brokers/ids/{BROKER_ID}", f"/brokers/topics/{TOPIC}/{BROKER_ID}"
_AT_ONCE_S, _WATCHED_S, _READ_S = 1.5, 3.0, 20.0
_MESSAGES = 60


def grade(bench: Bench) -> None:
    """Try the stage. Raises WrongError."""
    with cluster_with(bench.program, bench.directory) as (cluster, zookeeper, broker):
        try:
            register(bench, zookeeper, broker)
            start_again(bench, zookeeper, broker)
            beside_ours(bench, cluster, broker)
        except WrongError as error:
            if broker.run.running and broker.run.has_written:
                error.note = error.note or broker.run.last_words()
            raise


def await_broker(zookeeper: Registries, broker: ClusteredBroker, other_than: int = 0) -> int:
    """Wait until the broker's node has its address, of another session than that one; return the session."""

    def owner() -> int:
        node = zookeeper.read(_IDS)
        return 0 if node is None or not _names(node[0], broker.port) else int(node[1].ephemeralOwner)

    def what() -> str:
        node = zookeeper.read(_IDS)
        if node is None:
            return f"{_IDS} does not exist."
        if not _names(node[0], broker.port):
            return f"{_IDS} should be CREATOR:127.0.0.1:{broker.port}. It is {node[0].decode('utf-8', 'replace')}."
        return f"{_IDS} is persistent." if not owner() else f"{_IDS} is still the node of the session before."

    zookeeper.wait(lambda: owner() not in {0, other_than}, what, broker.run)
    return owner()


def _names(data: bytes, port: int) -> bool:
    return re.fullmatch(rb"[^:]+:127\.0\.0\.1:%d" % port, data) is not None


def _await_topic(zookeeper: Registries, broker: ClusteredBroker) -> None:
    def what() -> str:
        node = zookeeper.read(_TOPIC)
        if node is None:
            return f"{_TOPIC} does not exist."
        text = node[0].decode("utf-8", "replace")
        return f"{_TOPIC} is persistent." if text == str(PARTITIONS) else f"{_TOPIC} is {text!r}, not '{PARTITIONS}'."

    def is_right() -> bool:
        node = zookeeper.read(_TOPIC)
        return node is not None and node[0] == b"%d" % PARTITIONS and bool(node[1].ephemeralOwner)

    zookeeper.wait(is_right, what, broker.run)


def _send(broker: ClusteredBroker, *requests: bytes) -> bytes:
    """Send requests and a barrier, and return what comes before the barrier's answer. Raises WrongError."""
    with TimedConnection(broker.port) as connection:
        connection.send(b"".join(requests) + BARRIER)
        data = b""
        while not data.endswith(BARRIER_ANSWER):
            more = connection.read(1)
            data += more.data
            if not more.data:
                raise WrongError("Your broker does not answer.", sent=b"".join(requests) + BARRIER, came=data)
    return data.removesuffix(BARRIER_ANSWER)


def register(bench: Bench, zookeeper: Registries, broker: ClusteredBroker) -> None:
    """Try what the broker writes about itself and a new topic."""
    with bench.check("The broker registers with its address", paper.REGISTER):
        broker.start()
        await_broker(zookeeper, broker)
    with bench.check("A fetch makes no topic", paper.PULL):
        _send(broker, fetch(TOPIC, 0))
        zookeeper.stays(lambda: zookeeper.read(_TOPIC) is None, lambda: f"{_TOPIC} exists after a fetch.", 0.3)
    with bench.check("A new topic is registered with its number of partitions", paper.REGISTER):
        _send(broker, produce(TOPIC, message_set(b"theirs-0")))
        _await_topic(zookeeper, broker)


def start_again(bench: Bench, zookeeper: Registries, broker: ClusteredBroker) -> None:
    """Try a stop, and a kill whose session outlives it."""
    with bench.check("After SIGTERM, its nodes are gone at once", paper.EPHEMERAL):
        session = await_broker(zookeeper, broker)
        broker.run.stop()
        if not wait_until(lambda: zookeeper.read(_IDS) is None, _AT_ONCE_S):
            raise WrongError(f"{_IDS} still exists {_AT_ONCE_S:g} s after your program ended.")
    with bench.check("At the next start, the topics in `data` are registered", paper.REGISTER):
        broker.start()
        session = await_broker(zookeeper, broker, session)
        _await_topic(zookeeper, broker)
    broker.end()
    with bench.check("After kill -9, it answers clients at once", paper.PULL):
        broker.start()
        _send(broker)
    with bench.check("It registers when its old session has ended", paper.EPHEMERAL):
        session = await_broker(zookeeper, broker, session)
        _await_topic(zookeeper, broker)
    with bench.check("Its nodes stay", paper.EPHEMERAL):
        zookeeper.stays(
            lambda: all(zookeeper.read(path) is not None for path in (_IDS, _TOPIC)),
            lambda: f"{_IDS} or {_TOPIC} is gone: it was made by an older session, which has ended.",
            _WATCHED_S,
        )


def beside_ours(bench: Bench, cluster: LocalCluster, broker: ClusteredBroker) -> None:
    """Try the cluster: a producer, a group, and a client of today."""
    ours = cluster.brokers[0]
    with SyncProducer(ours.host, ours.port) as first:
        first.send(TOPIC, [b"ours-0"], 0)
    sent = sorted([b"ours-0", b"theirs-0", *(b"message-%02d" % number for number in range(_MESSAGES))])
    with bench.check("A producer spreads messages over both brokers", paper.SET):
        with Producer({"zk.connect": cluster.zk_connect, "confirm": True}) as producer:
            for number in range(_MESSAGES):
                producer.send(TOPIC, b"message-%02d" % number)
        theirs = sum(len(_send(broker, fetch(TOPIC, 0, partition=number))) for number in range(PARTITIONS))
        if theirs <= PARTITIONS * 6 + len(message_set(b"theirs-0")):
            raise WrongError("No message of the producer came to your broker.")
    with bench.check("A consumer group reads from both brokers", paper.UNIT):
        _compare(sorted(_read_by_group(cluster)), sent, "A consumer group of kafka2011")
    with bench.check("kcat, a client of today, reads from both through the gateway", paper.PULL):
        # The gateway finds a new broker within a second, and kcat leaves out a partition that nobody serves yet.
        read: list[bytes] = []

        def has_all() -> bool:
            read[:] = sorted(_read_by_kcat(cluster.bootstrap_servers))
            return read == sent

        wait_until(has_all, _READ_S)
        _compare(read, sent, "kcat")


def _compare(came: list[bytes], wanted: list[bytes], who: str) -> None:
    if came != wanted:
        missing = [text.decode() for text in wanted if text not in came]
        raise WrongError(
            f"{who} has read {len(came)} of {len(wanted)} messages. Missing: {', '.join(missing) or 'none'}."
        )


def _read_by_group(cluster: LocalCluster) -> list[bytes]:
    settings = {"zk.connect": cluster.zk_connect, "groupid": "lab", "consumer.timeout.ms": 5000}
    payloads: list[bytes] = []
    with ConsumerConnector(settings) as consumer:
        [stream] = consumer.create_message_streams({TOPIC: 1})[TOPIC]
        for message in stream:  # it ends when nothing comes for the timeout
            payloads.append(message.payload)
            if len(payloads) == _MESSAGES + 2:
                break
    return payloads


def _read_by_kcat(address: str) -> list[bytes]:
    """Return what kcat reads. Raises SkippedError where it is not installed."""
    if shutil.which("kcat") is None:
        raise SkippedError("kcat is not installed (on Debian: apt-get install kcat)")
    command = ["kcat", "-b", address, "-C", "-t", TOPIC, "-o", "beginning", "-e", "-q"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_READ_S, check=False)  # noqa: S603 (our own words)
    except subprocess.TimeoutExpired:
        raise WrongError(f"kcat did not come to the end of the topic within {_READ_S:g} s.") from None
    if done.returncode:
        raise WrongError(f"kcat ended with status {done.returncode}: {done.stderr.decode('utf-8', 'replace').strip()}")
    return done.stdout.splitlines()
