"""Mirrors between two real clusters: nothing is lost whatever dies, and order holds where partitions correspond."""

from __future__ import annotations

import subprocess
import sys
import threading
from itertools import count
from typing import TYPE_CHECKING

import pytest

from integration.consumer.reading import PARTITIONS, produce
from integration.scraping import metrics_of
from kafka2011.admin import Admin
from kafka2011.admin.topics import create_topic
from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.consumer.topic_filter import Whitelist
from kafka2011.errors import ConfigError, KafkaError
from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.events.schemas import event_schema
from kafka2011.local_cluster import LocalCluster
from kafka2011.message.compression import Codec
from kafka2011.message.message_set import MessageSet
from kafka2011.mirror import target as target_module
from kafka2011.mirror.forwarder import MirrorError
from kafka2011.mirror.mirror import Mirror
from kafka2011.mirror.schema_copy import SchemaCopy
from kafka2011.mirror.source import source_config
from kafka2011.mirror.target import target_config
from kafka2011.producer.sync_producer import SyncProducer
from tests.support.waiting import eventually
from zk.brokers import BrokerRegistry
from zk.child import ChildProcess
from zk.cluster import TopicPartition
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kafka2011.local_cluster import LocalBroker
    from zk.client import ZkClient
    from zk.local_zookeeper import LocalZooKeeper

BROKER_SETTINGS = {
    "num.partitions": PARTITIONS,
    "log.flush.interval": 1,
    "zk.sessiontimeout.ms": 2000,
    "zk.connectiontimeout.ms": 20_000,
}
CONSUMER_PROPERTIES = (
    "zk.sessiontimeout.ms=2000",
    "zk.connectiontimeout.ms=20000",
    "fetcher.backoff.ms=20",
    "autocommit.interval.ms=300",
)
WAIT_S = 40
_numbers = count()


@pytest.fixture(scope="module")
def live(zookeeper: LocalZooKeeper) -> Iterator[LocalCluster]:
    chroot = f"{zookeeper.connect_string}/live"
    with LocalCluster(1, zk_connect=chroot, properties=BROKER_SETTINGS) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def offline(zookeeper: LocalZooKeeper) -> Iterator[LocalCluster]:
    chroot = f"{zookeeper.connect_string}/offline"
    with LocalCluster(1, zk_connect=chroot, properties=BROKER_SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def topic() -> str:
    return f"mirrored-{next(_numbers)}"


def open_mirror(live: LocalCluster, target: str, topic: str) -> Mirror:
    source = source_config(live.zk_connect, f"g-{topic}", CONSUMER_PROPERTIES)
    return Mirror([source], target_config(target), Whitelist(topic))


def mirror_process(live: LocalCluster, offline: LocalCluster, topic: str, log: Path) -> ChildProcess:
    command = [sys.executable, "-m", "kafka2011", "mirror", "--from", live.zk_connect, "--to", offline.zk_connect]
    command += ["--whitelist", topic, "--group", f"g-{topic}", "--report-interval", "0.5", "--metrics-port", "0"]
    for text in CONSUMER_PROPERTIES:
        command += ["--consumer-property", text]
    return ChildProcess(command, log, stop_timeout_s=WAIT_S)


def stored(cluster: LocalCluster, topic: str) -> list[bytes]:
    """Return the bytes of every partition, as far as they can be read."""
    broker = cluster.brokers[0]
    with SimpleConsumer(broker.host, broker.port) as consumer:
        return [consumer.fetch(topic, partition, 0, 10_000_000).data for partition in range(PARTITIONS)]


def payloads(cluster: LocalCluster, topic: str) -> list[list[str]]:
    broker = cluster.brokers[0]
    with SimpleConsumer(broker.host, broker.port) as consumer:
        return [
            [message.payload.decode() for message in consumer.fetch(topic, partition, 0, 10_000_000)]
            for partition in range(PARTITIONS)
        ]


def copied(cluster: LocalCluster, topic: str, brokers: Sequence[LocalBroker] = ()) -> list[list[str]]:
    """Return what is in the partitions of some brokers of two, or of both."""
    found = []
    for broker in brokers or cluster.brokers.values():
        with SimpleConsumer(broker.host, broker.port) as consumer:
            for partition in range(PARTITIONS // 2):
                fetched = consumer.fetch(topic, partition, 0, 10_000_000)
                found.append([message.payload.decode() for message in fetched])
    return found


def expected(numbers: int) -> list[list[str]]:
    return [[f"{partition}:{number}" for number in range(numbers)] for partition in range(PARTITIONS)]


def first_deliveries(got: list[list[str]]) -> list[list[str]]:
    return [list(dict.fromkeys(each)) for each in got]


def lag_bytes(cluster: LocalCluster, topic: str) -> list[int | None]:
    with Admin(cluster.zk_connect) as admin:
        return [partition.lag_bytes for partition in admin.describe_group(f"g-{topic}")]


def shares(cluster: LocalCluster, topic: str) -> list[int]:
    """Return how many partitions each member owns."""
    with Admin(cluster.zk_connect) as admin:
        if f"g-{topic}" not in admin.groups():
            return []
        owners = [partition.owner for partition in admin.describe_group(f"g-{topic}")]
    return [owners.count(owner) for owner in sorted({owner for owner in owners if owner is not None})]


def test_another_mirror_takes_over_from_one_that_is_killed(
    live: LocalCluster, offline: LocalCluster, topic: str, tmp_path: Path
) -> None:
    """Everything arrives in the order of its partition; what comes twice, the killed one had sent and not committed.

    A partition of which nothing comes twice is the source's, byte for byte, compressed sets too.
    """
    broker = live.brokers[0]
    produce(broker, topic, range(100))
    with (
        mirror_process(live, offline, topic, tmp_path / "one") as one,
        mirror_process(live, offline, topic, tmp_path / "two") as two,
    ):
        eventually(lambda: shares(live, topic) == [2, 2], WAIT_S)
        produce(broker, topic, range(100, 500), codec=Codec.GZIP)
        one.kill()
        produce(broker, topic, range(500, 1000))
        eventually(lambda: first_deliveries(payloads(offline, topic)) == expected(1000), WAIT_S)
        eventually(lambda: lag_bytes(live, topic) == [0] * PARTITIONS, WAIT_S)
        metrics = metrics_of((tmp_path / "two").read_text())
        two.stop()
        assert two.poll() == 0
    copies = stored(offline, topic)
    repeated = [len(each) - len(set(each)) for each in payloads(offline, topic)]
    assert sum(map(bool, repeated)) <= 2, "only what the killed one owned comes twice"
    for copy, original, repeats in zip(copies, stored(live, topic), repeated, strict=True):
        assert repeats or copy == original
    output = (tmp_path / "two").read_text()
    assert f"{live.zk_connect}: copied " in output
    assert "messages/s" in output
    assert metrics["kafka2011_mirror_messages_total", live.zk_connect] > 500
    assert metrics["kafka2011_producer_messages_sent_total",] > 0


def test_a_target_that_is_away_is_waited_for(live: LocalCluster, offline: LocalCluster, topic: str) -> None:
    """What came meanwhile is sent once it is back, in order; what was on its way may arrive twice."""
    source, target = live.brokers[0], offline.brokers[0]
    produce(source, topic, range(100))
    with open_mirror(live, offline.zk_connect, topic) as mirror:
        eventually(lambda: payloads(offline, topic) == expected(100), WAIT_S)
        target.kill()
        produce(source, topic, range(100, 300))
        eventually(lambda: mirror.counts()[live.zk_connect]["fetched_bytes"] == sum(map(len, stored(live, topic))))
        assert not mirror.stopping.is_set()
        target.start()
        eventually(lambda: first_deliveries(payloads(offline, topic)) == expected(300), WAIT_S)
    assert mirror.error is None
    assert lag_bytes(live, topic) == [0] * PARTITIONS


@pytest.mark.parametrize("fault", ["kill", "pause"])
def test_a_broker_of_the_target_that_is_away_stops_no_other(
    live: LocalCluster, zk_connect: str, topic: str, fault: str
) -> None:
    """What goes to the others arrives, though far more waits than the window may hold; and so does the rest, later."""
    source = live.brokers[0]
    produce(source, topic, range(1))
    settings = {**BROKER_SETTINGS, "num.partitions": PARTITIONS // 2}
    config = source_config(live.zk_connect, f"g-{topic}", [*CONSUMER_PROPERTIES, "fetch.size=1000"])
    with (
        LocalCluster(2, zk_connect=zk_connect, properties=settings) as target,
        Mirror([config], target_config(target.zk_connect), Whitelist(topic), window_bytes=20_000) as mirror,
    ):
        eventually(lambda: copied(target, topic) == expected(1), WAIT_S)
        away = target.brokers[0]
        getattr(away, fault)()
        produce(source, topic, range(1, 1000))
        there = [target.brokers[1]]
        eventually(lambda: copied(target, topic, there) == expected(1000)[PARTITIONS // 2 :], WAIT_S)
        away.resume() if fault == "pause" else away.start()
        eventually(lambda: [list(dict.fromkeys(each)) for each in copied(target, topic)] == expected(1000), WAIT_S)
    assert mirror.error is None
    assert lag_bytes(live, topic) == [0] * PARTITIONS


def test_a_message_that_cannot_be_copied_halts_only_its_partition(
    live: LocalCluster, offline: LocalCluster, topic: str
) -> None:
    """Others go on, also with what comes later; the next mirror continues at that message."""
    broker = live.brokers[0]
    large = "0:" + "x" * 200
    produce(broker, topic, range(5))
    with SyncProducer(broker.host, broker.port) as producer:
        producer.send(topic, MessageSet([large.encode()]), 0)
    produce(broker, topic, range(5, 10))
    config = source_config(live.zk_connect, f"g-{topic}", CONSUMER_PROPERTIES)
    small = target_config(offline.zk_connect, ["max.message.size=100"])
    with Mirror([config], small, Whitelist(topic)) as mirror:
        eventually(lambda: payloads(offline, topic) == [expected(5)[0], *expected(10)[1:]], WAIT_S)
        produce(broker, topic, range(10, 15))
        eventually(lambda: payloads(offline, topic) == [expected(5)[0], *expected(15)[1:]], WAIT_S)
        assert list(mirror.halted()) == [TopicPartition(topic, 0, 0)]
        assert mirror.obstacle == f"not copied any further: {topic}/0-0"
        assert mirror.counts()[live.zk_connect]["halted"] == 1
    with pytest.raises(MirrorError, match=f"1 partitions were not copied to the end, such as {topic}/0-0: "):
        mirror.check_all_copied()
    with Mirror([config], target_config(offline.zk_connect), Whitelist(topic)) as mirror:
        whole = [*expected(5)[0], large, *expected(15)[0][5:]]
        eventually(lambda: payloads(offline, topic) == [whole, *expected(15)[1:]], WAIT_S)
        assert mirror.halted() == {}
    mirror.check_all_copied()


def test_a_topic_that_cannot_be_made_holds_up_no_other(
    live: LocalCluster, offline: LocalCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again, and copied once the target can have it."""
    refused = f"{topic}-refused"
    is_refused = threading.Event()
    is_refused.set()

    def create(client: ZkClient, name: str) -> object:
        if name == refused and is_refused.is_set():
            raise KafkaError("no broker may create it")
        return create_topic(client, name)

    monkeypatch.setattr(target_module, "create_topic", create)
    for name in (refused, topic):
        produce(live.brokers[0], name, range(5))
    config = source_config(live.zk_connect, f"g-{topic}", CONSUMER_PROPERTIES)
    with Mirror([config], target_config(offline.zk_connect), Whitelist(f"{topic}.*")) as mirror:
        eventually(lambda: payloads(offline, topic) == expected(5), WAIT_S)
        assert mirror.halted() == {}
        is_refused.clear()
        eventually(lambda: payloads(offline, refused) == expected(5), WAIT_S)


def test_two_sources_of_which_one_is_away_at_the_start(
    live: LocalCluster, offline: LocalCluster, own_zookeeper: LocalZooKeeper, topic: str
) -> None:
    """What the one has arrives at once, and what the other has once it answers; both come to the same partitions."""
    connect_string = f"{own_zookeeper.connect_string}/east"
    with LocalCluster(1, zk_connect=connect_string, properties=BROKER_SETTINGS) as east:
        produce(live.brokers[0], topic, range(100))
        produce(east.brokers[0], topic, range(100, 200))
        own_zookeeper.stop()
        properties = (*CONSUMER_PROPERTIES, "zk.connectiontimeout.ms=1000")
        sources = [source_config(each.zk_connect, f"g-{topic}", properties) for each in (live, east)]
        with Mirror(sources, target_config(offline.zk_connect), Whitelist(topic)) as mirror:
            eventually(lambda: payloads(offline, topic) == expected(100), WAIT_S)
            assert [report.zk_connect for report in mirror.report()] == [live.zk_connect]
            own_zookeeper.start()
            eventually(lambda: payloads(offline, topic) == expected(200), WAIT_S)
            assert len(mirror.report()) == 2
        assert mirror.error is None
        assert lag_bytes(east, topic) == [0] * PARTITIONS


def test_schemas_are_there_before_the_first_events(live: LocalCluster, offline: LocalCluster, topic: str) -> None:
    """And those that are registered later come after them; the target numbers them as the source does."""
    produce(live.brokers[0], topic, range(10))
    schemas = [
        event_schema("View", *({"name": f"f{n}", "type": "int", "default": 0} for n in range(k))) for k in (1, 2)
    ]
    with connect(live.zk_connect) as source, connect(offline.zk_connect) as target:
        SchemaRegistry(source).register(topic, schemas[0])
        configs = [source_config(live.zk_connect, f"g-{topic}", CONSUMER_PROPERTIES)]
        with (
            SchemaCopy(offline.zk_connect, threading.Event()) as copy,
            Mirror(configs, target_config(offline.zk_connect), Whitelist(topic), on_topic=copy.on_topic),
        ):
            registry = SchemaRegistry(target)
            eventually(lambda: topic in BrokerRegistry(target).topics(), WAIT_S)
            assert [each.schema for each in registry.schemas(topic)] == schemas[:1]
            SchemaRegistry(source).register(topic, schemas[1])
            eventually(lambda: [each.schema for each in registry.schemas(topic)] == schemas, WAIT_S)


def test_a_mirror_of_a_cluster_into_itself_is_refused(live: LocalCluster, topic: str) -> None:
    """It would copy its own copies for ever, however its address is written."""
    with pytest.raises(ConfigError, match=r"are the same cluster, both have the broker at 127\.0\.0\.1"):
        open_mirror(live, f"{live.zk_connect}/", topic)


def test_a_replay_publishes_a_topic_again(live: LocalCluster, offline: LocalCluster, topic: str) -> None:
    """Into another cluster, and into itself up to where it ended; sets as they are stored."""
    produce(live.brokers[0], topic, range(50), codec=Codec.SNAPPY)
    eventually(lambda: payloads(live, topic) == expected(50))
    before = stored(live, topic)
    base = [sys.executable, "-m", "kafka2011", "replay", topic, "--zookeeper", live.zk_connect]
    for options in (("--to", offline.zk_connect), ("--to-topic", topic)):
        done = subprocess.run([*base, *options], capture_output=True, text=True, timeout=WAIT_S, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"replayed 20 messages, 0.0 MB from {topic} into {topic}\n"
    eventually(lambda: stored(offline, topic) == before)
    eventually(lambda: stored(live, topic) == [each + each for each in before])


def test_a_replay_ends_where_the_next_one_would_begin(live: LocalCluster, offline: LocalCluster, topic: str) -> None:
    """With --until and --from of the same offset, nothing is left out, and nothing comes twice."""
    produce(live.brokers[0], topic, range(50), codec=Codec.SNAPPY)
    eventually(lambda: payloads(live, topic) == expected(50))
    base = [sys.executable, "-m", "kafka2011", "replay", topic, "--zookeeper", live.zk_connect]
    base += ["--to", offline.zk_connect, "--partition", "0-0"]
    with SimpleConsumer(live.brokers[0].host, live.brokers[0].port) as consumer:
        before = consumer.fetch(topic, 0, 0).data
    middle = 4 + int.from_bytes(before[:4], "big")
    assert 0 < middle < len(before)
    for options, size_bytes in ((("--until", f"{middle}"), middle), (("--from", f"{middle}"), len(before))):
        subprocess.run([*base, *options], check=True, capture_output=True, timeout=WAIT_S)
        eventually(lambda: len(b"".join(stored(offline, topic))) == size_bytes)  # noqa: B023 (called at once)
    assert b"".join(stored(offline, topic)) == before
