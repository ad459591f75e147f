"""Producers on real brokers and a real ZooKeeper."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafka2011.consumer.connector import ConsumerConnector
from kafka2011.message.message_set import MessageSet
from kafka2011.producer.errors import NoBrokersError
from kafka2011.producer.partitioner import DefaultPartitioner
from kafka2011.producer.producer import Producer
from kafka2011.producer.sync_producer import SyncProducer
from kafka2011.producer.zk_partition_info import ZkBrokerPartitionInfo
from tests.support.sessions import expire_session
from tests.support.waiting import eventually
from zk.brokers import BrokerRegistry
from zk.cluster import Broker, TopicPartition
from zk.connecting import connect
from zk.errors import ConnectionLost, ZkUnavailable
from zk.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka2011.local_cluster import LocalCluster
    from zk.nodes import Watch

    NewInfo = Callable[[], ZkBrokerPartitionInfo]
    NewCluster = Callable[..., LocalCluster]
    ReadTopic = Callable[..., dict[tuple[int, int], list[bytes]]]

TOPIC = "views"
PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture
def new_info(zk_connect: str) -> Iterator[NewInfo]:
    """Follow the brokers of the test's chroot."""
    with ExitStack() as stack:

        def follow() -> ZkBrokerPartitionInfo:
            return stack.enter_context(closing(ZkBrokerPartitionInfo(connect(zk_connect))))

        yield follow


def through_zookeeper(cluster: LocalCluster, **settings: object) -> dict[str, object]:
    return {
        "zk.connect": cluster.zk_connect,
        "zk.sessiontimeout.ms": 2000,
        "zk.connectiontimeout.ms": 20000,
        "queue.time": 20,
        **{name.replace("_", "."): value for name, value in settings.items()},
    }


def everything(found: dict[tuple[int, int], list[bytes]]) -> list[bytes]:
    return sorted(payload for payloads in found.values() for payload in payloads)


def test_readme_example(new_cluster: NewCluster, read_topic: ReadTopic) -> None:
    """The example sends three messages; those of one send lie together, in order."""
    cluster = new_cluster(1)
    with Producer({"zk.connect": cluster.zk_connect}) as producer:
        producer.send("views", b"one")
        producer.send("views", [b"two", b"three"], key="member-42")
    eventually(lambda: everything(read_topic(cluster, TOPIC)) == [b"one", b"three", b"two"])
    [together] = [payloads for payloads in read_topic(cluster, TOPIC).values() if b"two" in payloads]
    assert together[together.index(b"two") + 1] == b"three"


@pytest.mark.parametrize("confirm", [False, True], ids=["unconfirmed", "confirmed"])
@pytest.mark.parametrize("producer_type", ["sync", "async"])
def test_every_kind_of_producer(
    new_cluster: NewCluster, read_topic: ReadTopic, producer_type: str, confirm: bool
) -> None:
    """Closing loses nothing that was sent, and every partition has a producer's messages in sending order.

    Those with a key among themselves, and those without among themselves: the two kinds share no batch.
    Keys go where 0.7 sends them: by their hash over the registered partitions, sorted by broker and partition.
    """
    cluster = new_cluster(2)
    for local in cluster.brokers.values():
        with SyncProducer(local.host, local.port) as creator:
            creator.send(TOPIC, MessageSet(), partition=0)
    keys = [f"member-{number}" for number in range(10)]
    sent: list[bytes] = []
    config = through_zookeeper(cluster, producer_type=producer_type, confirm=confirm)
    with Producer(config) as producer:
        partitions = [TopicPartition(TOPIC, broker, partition) for broker in (0, 1) for partition in (0, 1)]
        eventually(lambda: list(_info(producer).partitions(TOPIC)) == partitions)
        for number in range(300):
            key = keys[number % 10] if number % 3 else None
            payloads = [b"%06d %d %s" % (number, part, (key or "").encode()) for part in range(number % 4)]
            producer.send(TOPIC, payloads if number % 2 else MessageSet(payloads), key)
            sent += payloads
        producer.send(TOPIC, b"999999 0 ", None)
        sent.append(b"999999 0 ")
    assert producer.counts.messages_sent == len(sent)
    eventually(lambda: everything(read_topic(cluster, TOPIC)) == sorted(sent))
    for (broker, partition), payloads in read_topic(cluster, TOPIC).items():
        keyed = [payload for payload in payloads if payload.split(b" ")[2]]
        assert keyed == sorted(keyed)
        unkeyed = [payload for payload in payloads if not payload.split(b" ")[2]]
        assert unkeyed == sorted(unkeyed)
        index = partitions.index(TopicPartition(TOPIC, broker, partition))
        for payload in payloads:
            if key := payload.split(b" ")[2].decode():
                assert DefaultPartitioner().partition(key, 4) == index


@pytest.mark.parametrize("codec", [1, 2], ids=["gzip", "snappy"])
def test_compressed_sets_stay_below_the_brokers_limit(
    new_cluster: NewCluster, read_topic: ReadTopic, codec: int
) -> None:
    """What does not compress is split into wrappers that the broker takes, instead of being dropped there."""
    cluster = new_cluster(1, {"max.message.size": 5000})
    payloads = [os.urandom(1000) for _ in range(40)] + [b"x" * 1000] * 40 + [os.urandom(5000)]
    config = through_zookeeper(cluster, confirm=True, **{"compression.codec": codec, "max.message.size": 5000})
    with Producer(config) as producer:
        producer.send(TOPIC, payloads)
    eventually(lambda: everything(read_topic(cluster, TOPIC)) == sorted(payloads))
    assert payloads in read_topic(cluster, TOPIC).values()


@pytest.mark.parametrize("producer_type", ["sync", "async"])
def test_broker_list_needs_no_zookeeper(new_cluster: NewCluster, read_topic: ReadTopic, producer_type: str) -> None:
    """Without a key brokers pick partitions; with one it is partition 0 of the key's broker."""
    cluster = new_cluster(2)
    listed = ",".join(f"{broker.broker_id}:{broker.host}:{broker.port}" for broker in cluster.brokers.values())
    keyed = [f"member-{number}" for number in range(20)]
    with Producer({"broker.list": listed, "producer.type": producer_type, "queue.time": 20}) as producer:
        for number in range(200):
            producer.send(TOPIC, b"%d" % number)
        for key in keyed:
            producer.send(TOPIC, key.encode(), key)
    wanted = sorted([b"%d" % number for number in range(200)] + [key.encode() for key in keyed])
    eventually(lambda: everything(read_topic(cluster, TOPIC)) == wanted)
    found = read_topic(cluster, TOPIC)
    assert all(found[broker, 0] + found[broker, 1] for broker in cluster.brokers)
    for key in keyed:
        assert key.encode() in found[DefaultPartitioner().partition(key, 2), 0]


def test_a_new_broker_gets_new_topics_at_once_and_old_ones_once_registered(
    new_cluster: NewCluster, read_topic: ReadTopic
) -> None:
    """Brokers and topics are followed as they change."""
    cluster = new_cluster(1)
    with Producer(through_zookeeper(cluster)) as producer:
        producer.send("old", b"first")
        eventually(lambda: len(_info(producer).partitions("old")) == 2)
        new = cluster.add_broker()
        eventually(
            lambda: _info(producer).partitions("new") == (TopicPartition("new", 0, 0), TopicPartition("new", 1, 0))
        )
        assert {each.broker_id for each in _info(producer).partitions("old")} == {0}
        with SyncProducer(new.host, new.port) as creator:
            creator.send("old", MessageSet(), partition=0)
        eventually(lambda: [each.broker_id for each in _info(producer).partitions("old")] == [0, 0, 1, 1])
        for number in range(100):
            producer.send("new", b"%d" % number)
        assert producer.counts.messages_sent == 101
    eventually(lambda: len(everything(read_topic(cluster, "new"))) == 100)
    assert read_topic(cluster, "new")[1, 0]
    new.stop()


def test_brokers_are_followed_beyond_the_end_of_the_session(new_cluster: NewCluster) -> None:
    """With a new ZooKeeper session the producer goes on, and sees what changed meanwhile and later."""
    cluster = new_cluster(1)
    with Producer(through_zookeeper(cluster)) as producer:
        producer.send(TOPIC, b"before")
        expire_session(_info(producer)._client)
        producer.send(TOPIC, b"meanwhile")
        cluster.add_broker()
        eventually(lambda: len(_info(producer).partitions("new")) == 2)
        cluster.brokers[1].stop()
        eventually(lambda: len(_info(producer).partitions("new")) == 1)
        producer.send(TOPIC, b"after")


def test_a_new_topic_is_sent_to_all_brokers(new_cluster: NewCluster) -> None:
    """Also after the first one has registered it: the others would never get it otherwise."""
    cluster = new_cluster(3)
    with Producer(through_zookeeper(cluster)) as producer:
        producer.send(TOPIC, b"first")
        eventually(lambda: any(where.partition == 1 for where in _info(producer).partitions(TOPIC)))
        for number in range(100):
            producer.send(TOPIC, b"%d" % number)
        every = tuple(TopicPartition(TOPIC, broker_id, partition) for broker_id in range(3) for partition in range(2))
        eventually(lambda: _info(producer).partitions(TOPIC) == every)


def test_assumed_partitions_stay_until_their_broker_registers_or_dies(new_info: NewInfo, zk_connect: str) -> None:
    """As in 0.7.2; a broker that comes later is not assumed to have a topic that others have."""
    with connect(zk_connect) as client, connect(zk_connect) as mortal:
        registry = BrokerRegistry(client)
        for broker_id, its in ((1, client), (2, client), (3, mortal)):
            BrokerRegistry(its).register(Broker.created(broker_id, "h", 9092, 1))
        info = new_info()
        assert info.partitions(TOPIC) == tuple(TopicPartition(TOPIC, broker_id, 0) for broker_id in (1, 2, 3))
        registry.register_topics(2, {TOPIC: 2})
        merged = tuple(TopicPartition(TOPIC, *numbers) for numbers in ((1, 0), (2, 0), (2, 1), (3, 0)))
        eventually(lambda: info.partitions(TOPIC) == merged)
        mortal.shutdown()
        registry.register(Broker.created(4, "h", 9092, 1))
        eventually(lambda: info.broker(4) is not None)
        eventually(lambda: info.partitions(TOPIC) == merged[:3])
        registry.register_topics(1, {TOPIC: 1})
        registry.register_topics(4, {TOPIC: 1})
        eventually(lambda: info.partitions(TOPIC) == (*merged[:3], TopicPartition(TOPIC, 4, 0)))


def test_brokers_are_followed_after_a_bug_too(
    new_info: NewInfo, zk_connect: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, and what was to be read is read then."""
    info = new_info()
    read, bugs = BrokerRegistry.brokers, iter([RuntimeError("a bug")])

    def brokers(registry: BrokerRegistry, watch: Watch) -> dict[int, Broker]:
        for bug in bugs:
            raise bug
        return read(registry, watch)

    monkeypatch.setattr(BrokerRegistry, "brokers", brokers)
    with connect(zk_connect) as client:
        BrokerRegistry(client).register(Broker.created(1, "h", 9092, 1))
        eventually(lambda: info.broker(1) is not None)
    assert "a bug" in caplog.text


def test_zookeeper_away_is_one_error_for_all_clients(new_info: NewInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the start of a producer, at the start of a consumer, and when a topic is first sent to."""
    nowhere = {"zk.connect": f"127.0.0.1:{free_port()}", "zk.connectiontimeout.ms": 100}
    with pytest.raises(ZkUnavailable, match="within 100 ms"):
        Producer(nowhere)
    with pytest.raises(ZkUnavailable, match="within 100 ms"):
        ConsumerConnector({**nowhere, "groupid": "g"})
    info = new_info()

    def lost(*_: object) -> None:
        raise ConnectionLost("gone")

    monkeypatch.setattr(BrokerRegistry, "counts_of", lost)
    with pytest.raises(ZkUnavailable, match="partitions of topic views cannot be read: gone"):
        info.partitions(TOPIC)


def test_without_brokers_a_send_says_so(zk_connect: str) -> None:
    """There is nobody to send to, and the error names the topic."""
    config = {"zk.connect": zk_connect, "zk.connectiontimeout.ms": 20000}
    with Producer(config) as producer, pytest.raises(NoBrokersError, match=TOPIC):
        producer.send(TOPIC, b"lost")


def test_the_application_may_be_monkey_patched_by_gevent(new_cluster: NewCluster, read_topic: ReadTopic) -> None:
    """All kinds of producers run as greenlets of such an application, and let its other greenlets run."""
    cluster = new_cluster(1)
    program = [sys.executable, "-W", "error", str(PROGRAMS / "under_gevent.py"), cluster.zk_connect]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["sync", "sync-confirmed", "async", "async-confirmed", "others-ran"]
    eventually(lambda: len(everything(read_topic(cluster, TOPIC))) == 400)


def _info(producer: Producer) -> ZkBrokerPartitionInfo:
    info = producer._router.info
    assert isinstance(info, ZkBrokerPartitionInfo)
    return info
