"""Groups whose members are clients of today and of 2011: Algorithm 1 gives each its share."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

import confluent_kafka
import kafka
import pytest
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from integration.gateway.test_clients import TIMEOUT_S, produced
from kafka2011 import ConsumerConnector
from kafka2011.consumer.rebalance import assign
from zk.brokers import BrokerRegistry
from zk.cluster import TopicPartition
from zk.connecting import connect
from zk.consumers import ConsumerRegistry
from zk.owners import OwnerRegistry

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.local_cluster import LocalCluster

PARTITIONS = 6
BUSY_S = 4.0
"""Longer than the 3 s between heartbeats that is the default of all clients."""
QUICK = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 200}


class Member(Protocol):
    """One member of a group."""

    def poll(self) -> list[bytes]:
        """Return what has come, and do what a rebalance asks for."""

    def close(self) -> None:
        """Leave the group."""


class Confluent:
    """A member of librdkafka's."""

    def __init__(self, cluster: LocalCluster, topic: str, **settings: Any) -> None:
        self.told: list[str] = []
        self.consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": topic,
                "auto.offset.reset": "earliest",
                **QUICK,
                **settings,
            }
        )
        self.consumer.subscribe(
            [topic],
            on_assign=lambda _, partitions: self.told.append(f"+{len(partitions)}"),
            on_revoke=lambda _, partitions: self.told.append(f"-{len(partitions)}"),
        )

    def poll(self) -> list[bytes]:
        return [message.value() for message in self.consumer.consume(100, 0.02) if message.error() is None]

    def close(self) -> None:
        self.consumer.close()


class KafkaPython:
    """A member of kafka-python's."""

    def __init__(self, cluster: LocalCluster, topic: str) -> None:
        self._consumer = kafka.KafkaConsumer(
            topic,
            bootstrap_servers=cluster.bootstrap_servers,
            group_id=topic,
            auto_offset_reset="earliest",
            session_timeout_ms=6000,
            heartbeat_interval_ms=200,
        )

    def poll(self) -> list[bytes]:
        return [record.value for records in self._consumer.poll(20).values() for record in records]

    def close(self) -> None:
        self._consumer.close()


class Of2011:
    """A member of this project's connector."""

    def __init__(self, cluster: LocalCluster, topic: str) -> None:
        settings = {"zk.connect": cluster.zk_connect, "groupid": topic, "autooffset.reset": "smallest"}
        self._connector = ConsumerConnector(settings)
        [self._stream] = self._connector.create_message_streams({topic: 1})[topic]

    def poll(self) -> list[bytes]:
        message = self._stream.poll(0.02)
        return [] if message is None else [message.payload]

    def close(self) -> None:
        self._connector.shutdown()


class Group:
    """All members of a group, and what has come."""

    def __init__(self, cluster: LocalCluster, topic: str) -> None:
        self._topic = topic
        self.members: list[Member] = []
        self.received: list[bytes] = []
        self._stack = ExitStack()
        client = self._stack.enter_context(connect(cluster.zk_connect))
        self._consumers, self._owners = ConsumerRegistry(client), OwnerRegistry(client)
        self._brokers = BrokerRegistry(client)

    def go_on(self, until: Callable[[], bool]) -> None:
        ends_s = time.monotonic() + TIMEOUT_S
        while not until():
            assert time.monotonic() < ends_s, f"{len(set(self.received))} received, and owners are {self.owners()}"
            for member in self.members:
                self.received += member.poll()

    def owners(self) -> dict[TopicPartition, str]:
        return {where: owner.stream_id for where, owner in self._owners.owners(self._topic, self._topic).items()}

    def is_settled(self) -> bool:
        members = self._consumers.members(self._topic)
        partitions = TopicPartition.all_of(self._topic, self._brokers.partitions_of(self._topic))
        shares = assign(partitions, [f"{member}-0" for member in members])
        wanted = {where: stream for stream, share in shares.items() for where in share}
        return len(members) == len(self.members) and self.owners() == wanted

    def close(self) -> None:
        with self._stack:
            for member in self.members:
                member.close()


@pytest.fixture
def values(cluster: LocalCluster, topic: str) -> set[bytes]:
    """Make the topic, with messages in every partition."""
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([confluent_kafka.admin.NewTopic(topic, PARTITIONS, 1)])[topic].result(TIMEOUT_S)
    return send(cluster, topic, 0)


def send(cluster: LocalCluster, topic: str, first: int) -> set[bytes]:
    values = [b"%d" % number for number in range(first, first + 10 * PARTITIONS)]
    records = [{"value": value, "partition": number % PARTITIONS} for number, value in enumerate(values)]
    produced(cluster, topic, records)
    return set(values)


@pytest.fixture
def group(cluster: LocalCluster, topic: str) -> Any:
    made = Group(cluster, topic)
    yield made
    made.close()


def test_clients_of_all_kinds_share_a_group(
    cluster: LocalCluster, topic: str, values: set[bytes], group: Group
) -> None:
    """Each has what the paper's rule gives it, and together they get everything; so too once one has left."""
    group.members = [
        Confluent(cluster, topic),
        Confluent(cluster, topic, **{"partition.assignment.strategy": "cooperative-sticky"}),
        KafkaPython(cluster, topic),
        Of2011(cluster, topic),
    ]
    group.go_on(lambda: group.is_settled() and values <= set(group.received))
    group.members.pop(0).close()
    group.go_on(group.is_settled)
    later = send(cluster, topic, 1000)
    group.go_on(lambda: later <= set(group.received))


def test_a_client_that_keeps_what_it_can_gives_up_only_what_it_must(
    cluster: LocalCluster, topic: str, values: set[bytes], group: Group
) -> None:
    """It is told of half of its partitions, and goes on with the others meanwhile."""
    keeping = Confluent(cluster, topic, **{"partition.assignment.strategy": "cooperative-sticky"})
    group.members = [keeping]
    group.go_on(lambda: values <= set(group.received))
    group.members.append(Of2011(cluster, topic))
    group.go_on(group.is_settled)
    assert [told for told in keeping.told if told != "+0"] == [f"+{PARTITIONS}", f"-{PARTITIONS // 2}"]


def test_a_static_member_that_comes_back_has_its_share_at_once(
    cluster: LocalCluster, topic: str, values: set[bytes], group: Group
) -> None:
    """Nobody else hears of it: it closes its connection without leaving."""
    static = {"group.instance.id": "one"}
    group.members = [Confluent(cluster, topic, **static), other := Confluent(cluster, topic)]
    group.go_on(lambda: group.is_settled() and values <= set(group.received))
    told = list(other.told)
    group.members.pop(0).close()
    group.members.append(again := Confluent(cluster, topic, **static))
    group.go_on(lambda: again.told == [f"+{PARTITIONS // 2}"] and group.is_settled())
    assert other.told == told


class _OwnAssignor(RoundRobinPartitionAssignor):  # type: ignore[misc]  # untyped
    """An assignor as those of Kafka Streams and Faust: no other client knows it."""

    name = "stream"


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"partition_assignment_strategy": [_OwnAssignor]}, kafka.errors.InconsistentGroupProtocolError),
        ({"session_timeout_ms": 5999, "heartbeat_interval_ms": 1000}, kafka.errors.InvalidSessionTimeoutError),
    ],
)
@pytest.mark.usefixtures("values")
def test_a_member_that_cannot_be_served_is_told_at_once(
    cluster: LocalCluster, topic: str, settings: dict[str, Any], error: type[Exception]
) -> None:
    consumer = kafka.KafkaConsumer(topic, bootstrap_servers=cluster.bootstrap_servers, group_id=topic, **settings)
    with pytest.raises(error):
        consumer.poll(TIMEOUT_S * 1000)
    consumer.close()


def test_administrators_see_the_protocol_of_a_group(
    cluster: LocalCluster, topic: str, values: set[bytes], group: Group
) -> None:
    group.members = [Confluent(cluster, topic, **{"partition.assignment.strategy": "roundrobin"})]
    group.go_on(lambda: group.is_settled() and values <= set(group.received))
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    described = admin.describe_consumer_groups([topic], request_timeout=TIMEOUT_S)[topic].result()
    assert described.partition_assignor == "roundrobin"


def test_the_first_assignment_is_a_members_share(
    cluster: LocalCluster, topic: str, values: set[bytes], group: Group
) -> None:
    """Though another member has everything and is busy for seconds."""
    busy = Confluent(cluster, topic)
    group.members = [busy]
    group.go_on(lambda: group.is_settled() and values <= set(group.received))
    group.members = [joining := Confluent(cluster, topic)]
    busy_until_s = time.monotonic() + BUSY_S
    group.go_on(lambda: time.monotonic() > busy_until_s)
    group.members = [busy, joining]
    group.go_on(group.is_settled)
    group.go_on(lambda: joining.told != [])
    assert joining.told == [f"+{PARTITIONS // 2}"]
