"""Brokers of this project beside brokers, consumers and producers of Kafka 0.7.2.

Needs a build of Kafka 0.7.2: see proof/migration/of_07.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from integration.gateway.endless import lines_of
from kafka2011 import Producer, SimpleConsumer
from kafka2011.admin.topic_changes import delete_topic
from kafka2011.admin.topic_growth import grow_topic
from kafka2011.admin.topics import create_topic
from kafka2011.local_cluster import LocalBroker, LocalGateway
from proof.migration.of_07 import BrokerOf07, MemberOf07, missing, send_keys
from tests.support.waiting import eventually
from zk.brokers import BrokerRegistry
from zk.cluster import TopicPartition
from zk.connecting import connect
from zk.gateways import GatewayRegistry
from zk.local_zookeeper import LocalZooKeeper
from zk.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from zk.client import ZkClient

WAIT_S = 120.0

pytestmark = [pytest.mark.timeout(600), pytest.mark.skipif(bool(missing()), reason=missing())]


class Mixed:
    """A ZooKeeper, and brokers of both kinds."""

    def __init__(self, stack: ExitStack, directory: Path) -> None:
        self._stack = stack
        self.directory = directory
        self.zk_connect = stack.enter_context(LocalZooKeeper()).connect_string
        self.client: ZkClient = stack.enter_context(connect(self.zk_connect))

    def ours(self, number: int, **settings: object) -> LocalBroker:
        """Start a broker of this project."""
        broker = LocalBroker(number, self.directory / f"broker-{number}", self._properties(settings))
        return self._stack.enter_context(broker)

    def of_07(self, number: int, **settings: object) -> BrokerOf07:
        """Start a broker of Kafka 0.7.2."""
        broker = BrokerOf07(number, self.directory / f"broker-{number}", self._properties(settings))
        self._stack.callback(broker.stop)
        broker.start_registered(self.client)
        return broker

    def member(self, topics: str) -> MemberOf07:
        """Start a consumer of Kafka 0.7.2 that fetches often."""
        member = MemberOf07(self.directory, "member", self.zk_connect, topics, "readers", "fetcher.backoff.ms=10")
        self._stack.callback(member.stop)
        return member

    def gateway(self) -> str:
        """Start a gateway, wait until it serves all brokers, and return its address."""
        gateway = LocalGateway(self.directory / "gateway", {"zk.connect": self.zk_connect})
        self._stack.enter_context(gateway)
        brokers = BrokerRegistry(self.client).brokers().keys()
        eventually(lambda: GatewayRegistry(self.client).claims().keys() == brokers, WAIT_S)
        return f"{gateway.host}:{gateway.port}"

    def command(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Run a command of this project."""
        whole = [sys.executable, "-m", "kafka2011", *map(str, arguments), "--zookeeper", self.zk_connect]
        return subprocess.run(whole, check=False, capture_output=True, text=True, timeout=WAIT_S)

    def send(self, topic: str, *values: str) -> None:
        """Send messages with a producer of this project, and wait until brokers have them."""
        with Producer({"zk.connect": self.zk_connect, "confirm": "true"}) as producer:
            for value in values:
                producer.send(topic, value.encode())

    def payloads(self) -> dict[TopicPartition, list[str]]:
        """Return what is in each log of all topics."""
        registry = BrokerRegistry(self.client)
        found = {}
        for topic in registry.topics():
            for where in TopicPartition.all_of(topic, registry.partitions_of(topic)):
                broker = registry.brokers()[where.broker_id]
                with SimpleConsumer(broker.host, broker.port) as consumer:
                    fetched = consumer.fetch(topic, where.partition, 0, 4 * 1024 * 1024)
                    found[where] = [message.payload.decode() for message in fetched]
        return found

    def _properties(self, settings: Mapping[str, object]) -> dict[str, str]:
        properties = {
            "zk.connect": self.zk_connect,
            "hostname": "127.0.0.1",
            "port": free_port(),
            "log.flush.interval": 1,
        }
        properties |= {name.replace("_", "."): value for name, value in settings.items()}
        return {name: str(value) for name, value in properties.items()}


@pytest.fixture
def mixed(tmp_path: Path) -> Iterator[Mixed]:
    with ExitStack() as stack:
        yield Mixed(stack, tmp_path)


def await_received(member: MemberOf07, *values: str) -> None:
    """Wait until a member has received values, and see that it lives."""

    def has_received() -> bool:
        assert member.process.running, member.log.read_text("utf-8")[-2000:]
        received = {line.value.decode() for line in lines_of(member.path, member.name)}
        return received >= set(values)

    eventually(has_received, WAIT_S, what=f"{len(values)} messages arrive")


def test_a_consumer_of_07_lives_through_a_log_that_cannot_be_read(mixed: Mixed) -> None:
    """The consumer continues with other topics of the broker, and reads the log once that can be read again."""
    broker = mixed.ours(0, log_file_size=1000)
    many = [f"view-{number}" for number in range(200)]
    for first in range(0, len(many), 20):
        mixed.send("views", *many[first : first + 20])
    mixed.send("clicks", "click-0")
    [segment, second, *_] = sorted(broker.log_dir.glob("views-0/*.kafka"))
    assert second.stat().st_size
    away = segment.rename(mixed.directory / "away")
    member = mixed.member("views,clicks")
    await_received(member, "click-0")
    mixed.send("clicks", "click-1")
    await_received(member, "click-1")
    assert not {line.value for line in lines_of(member.path, member.name)} & {value.encode() for value in many}
    away.rename(segment)
    await_received(member, *many)


def test_deleting_a_grown_topic_ends_no_consumer_of_07(mixed: Mixed) -> None:
    """The consumer continues with its other topics, also when the topic is created again with fewer partitions."""
    for number in (0, 1):
        mixed.ours(number)
    create_topic(mixed.client, "clicks", partitions=2)
    create_topic(mixed.client, "views", partitions=2)
    mixed.send("clicks", "click-0")
    member = mixed.member("views,clicks")
    await_received(member, "click-0")
    assert all(change.is_done for change in grow_topic(mixed.client, "views", 6))
    many = [f"view-{number}" for number in range(60)]
    mixed.send("views", *many)
    await_received(member, *many)
    member.process.pause()  # so that its next fetch is for logs that are gone
    with ThreadPoolExecutor(1) as deleting:
        deleted = deleting.submit(delete_topic, mixed.client, "views")
        eventually(lambda: not any(mixed.directory.glob("broker-*/logs/views-*")), 5)
        member.process.resume()
        assert not deleted.result(WAIT_S).again
    more = [f"click-{number}" for number in range(1, 40)]
    mixed.send("clicks", *more)
    await_received(member, *more)
    create_topic(mixed.client, "views", partitions=2)
    again = [f"again-{number}" for number in range(20)]
    mixed.send("views", *again)
    await_received(member, *again)
    mixed.send("clicks", "last-click")
    await_received(member, "last-click")


def test_a_topic_that_07_has_is_not_deleted(mixed: Mixed) -> None:
    """The client is told so, and nothing is deleted: also if the broker was one of this project meanwhile."""
    mixed.ours(0)
    old = mixed.of_07(1)
    create_topic(mixed.client, "views")
    mixed.send("views", *map(str, range(20)))
    eventually(lambda: sum(map(len, mixed.payloads().values())) == 20, WAIT_S)
    before = mixed.payloads()
    admin = AdminClient({"bootstrap.servers": mixed.gateway()})
    for _ in range(2):
        with pytest.raises(confluent_kafka.KafkaException) as refused:
            admin.delete_topics(["views"], operation_timeout=30)["views"].result(60)
        assert refused.value.args[0].code() == confluent_kafka.KafkaError.TOPIC_DELETION_DISABLED
        assert mixed.payloads() == before
        old.stop()
        ours = mixed.ours(1)
        ours.stop()
        old.start_registered(mixed.client)
        eventually(lambda: GatewayRegistry(mixed.client).claims().keys() == {0, 1}, WAIT_S)


def test_keys_choose_the_same_partitions_over_uneven_brokers(mixed: Mixed) -> None:
    """A producer of 0.7.2 and ours send each key to the same partition."""
    mixed.of_07(0, num_partitions=3)
    mixed.ours(1, num_partitions=1)
    mixed.ours(10, num_partitions=2)
    create_topic(mixed.client, "views")
    counts = {0: 3, 1: 1, 10: 2}
    eventually(lambda: BrokerRegistry(mixed.client).partitions_of("views") == counts, WAIT_S)
    keys = [str(number) for number in range(200)]
    send_keys(mixed.directory, mixed.zk_connect, "views", len(keys))
    with Producer({"zk.connect": mixed.zk_connect}) as producer:
        for key in keys:
            producer.send("views", key.encode(), key=key)
    eventually(lambda: sum(map(len, mixed.payloads().values())) == 2 * len(keys), WAIT_S)
    payloads = mixed.payloads()
    assert len([where for where, values in payloads.items() if values]) == 6
    for where, values in payloads.items():
        assert sorted(values) == sorted(2 * [*set(values)]), f"{where}: keys of one producer only"


def test_the_doctor_names_a_broker_of_07_that_flushes_seldom(mixed: Mixed) -> None:
    """A broker of 0.7 with default settings acknowledges a message after up to three seconds. Ours is not named."""
    mixed.ours(0)
    mixed.of_07(1, log_flush_interval=500)
    create_topic(mixed.client, "views")
    producer = confluent_kafka.Producer({"bootstrap.servers": mixed.gateway(), "linger.ms": 0})
    eventually(lambda: len(producer.list_topics("views", WAIT_S).topics["views"].partitions) == 2, WAIT_S)

    def is_named() -> bool:
        for number in range(20):  # waits of some sends are judged together
            producer.produce("views", b"x", partition=number % 2)
            producer.poll(0.1)
        findings = json.loads(mixed.command("doctor", "--seconds", "0", "--json").stdout)
        named = {finding["where"]: finding for finding in findings if "acknowledged only after" in finding["what"]}
        assert "broker 0" not in str(named.keys())
        return any("broker 1" in where for where in named)

    eventually(is_named, WAIT_S)
    assert producer.flush(WAIT_S) == 0
