"""A topic that is deleted and created again goes on with its numbers: no client takes it for the old one."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

import confluent_kafka
import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from integration.gateway.today import idempotent_producer, read_partition, silent
from kafka2011.admin.topic_changes import delete_topic
from tests.support.waiting import eventually
from zk.connecting import connect
from zk.gateways import GatewayRegistry
from zk.number_floors import FloorRegistry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafka2011.local_cluster import LocalCluster

TIMEOUT_S = 40.0
OLD, NEW = range(100), range(1000, 1250)
POLICIES = ("earliest", "latest")


def admin_of(cluster: LocalCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "logger": silent()})


def create(cluster: LocalCluster, topic: str, partitions: int = 2) -> None:
    admin = admin_of(cluster)
    [future] = admin.create_topics([NewTopic(topic, partitions, 1)]).values()
    future.result(TIMEOUT_S)


def delete(cluster: LocalCluster, topic: str) -> None:
    admin = admin_of(cluster)
    [future] = admin.delete_topics([topic]).values()
    future.result(TIMEOUT_S)


def send(cluster: LocalCluster, topic: str, values: Iterable[int], partitions: int = 2) -> None:
    failures: list[object] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers, "logger": silent()})
    for value in values:
        producer.produce(
            topic, b"%d" % value, partition=value % partitions, on_delivery=lambda e, _: failures.append(e)
        )
    assert producer.flush(TIMEOUT_S) == 0
    assert not any(failures)


def new_consumer(cluster: LocalCluster, policy: str, group: str) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": policy,
            "topic.metadata.refresh.interval.ms": 500,
            "logger": silent(),
        }
    )


def consume(consumer: confluent_kafka.Consumer, wanted: Iterable[int]) -> list[confluent_kafka.Message]:
    """Return messages until all of these have come, in any order."""
    missing, messages = set(wanted), []
    ends_s = time.monotonic() + TIMEOUT_S
    while missing and time.monotonic() < ends_s:
        for message in consumer.consume(500, 0.2):
            if message.error() is None:
                messages.append(message)
                missing.discard(int(message.value() or b"-1"))
    assert not missing, f"{len(missing)} messages did not come: {sorted(missing)[:5]}"
    return messages


def highest(messages: Iterable[confluent_kafka.Message]) -> dict[int, int]:
    ends: dict[int, int] = {}
    for message in messages:
        ends[message.partition()] = max(ends.get(message.partition(), -1), message.offset())
    return ends


@pytest.mark.parametrize("policy", POLICIES)
def test_a_live_consumer_reads_all_messages_of_a_topic_that_is_created_again(
    cluster: LocalCluster, topic: str, policy: str
) -> None:
    """The topic is created again twice. The second time it has a new partition, which begins at 0."""
    create(cluster, topic)
    consumer = new_consumer(cluster, policy, topic)
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(2)])
    send(cluster, topic, OLD)
    seen = highest(consume(consumer, OLD))
    for partitions in (2, 3):
        delete(cluster, topic)
        create(cluster, topic, partitions)
        send(cluster, topic, NEW, partitions)
        new = consume(consumer, [value for value in NEW if value % partitions < 2])
        assert {int(message.value() or b"-1") for message in new} <= {*NEW}
        assert all(message.offset() > seen[message.partition()] for message in new)
        seen |= highest(new)
    assert [offset for offset, _ in read_partition(cluster.bootstrap_servers, topic, 2)][:2] == [0, 1]
    consumer.close()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("position", [0, 7], ids=["from 0 on", "lagging"])
def test_a_consumer_that_lags_behind_a_deletion_reads_all_of_the_new_topic(
    cluster: LocalCluster, topic: str, policy: str, position: int
) -> None:
    create(cluster, topic)
    send(cluster, topic, OLD)
    delete(cluster, topic)
    create(cluster, topic)
    send(cluster, topic, NEW)
    consumer = new_consumer(cluster, policy, topic)
    where = [TopicPartition(topic, partition, position) for partition in range(2)]
    consumer.assign(where)
    new = consume(consumer, NEW)
    assert len(new) == len(NEW)
    low, _ = consumer.get_watermark_offsets(where[0], TIMEOUT_S)
    assert low == min(message.offset() for message in new if message.partition() == 0) >= len(OLD) // 2
    consumer.close()


def test_a_consumer_that_waits_at_the_old_end_reads_the_first_message(cluster: LocalCluster, topic: str) -> None:
    """The new topic has no message yet when it asks: it waits, and is not sent elsewhere."""
    create(cluster, topic)
    send(cluster, topic, OLD)
    consumer = new_consumer(cluster, "latest", topic)
    consumer.assign([TopicPartition(topic, partition, OFFSET_END) for partition in range(2)])
    consumer.poll(2.0)
    delete(cluster, topic)
    create(cluster, topic)
    consumer.poll(2.0)
    send(cluster, topic, NEW)
    assert len(consume(consumer, NEW)) == len(NEW)
    consumer.close()


def test_a_topic_that_is_deleted_while_no_gateway_runs_goes_on_above_its_numbers(
    cluster: LocalCluster, topic: str
) -> None:
    create(cluster, topic)
    send(cluster, topic, OLD)
    old = dict(read_partition(cluster.bootstrap_servers, topic, 1))
    assert cluster.gateway is not None
    cluster.gateway.stop()
    client = connect(cluster.zk_connect, 6000)
    try:
        delete_topic(client, topic)
        floors = FloorRegistry(client).floors([topic])[topic]
    finally:
        client.shutdown()
    assert floors.of(1) > max(old)
    cluster.gateway.start()
    create(cluster, topic)
    send(cluster, topic, NEW)
    new = dict(read_partition(cluster.bootstrap_servers, topic, 1))
    assert min(new) >= floors.of(1)
    assert [int(value) for value in new.values()] == [value for value in NEW if value % 2]


@pytest.fixture
def registry(cluster: LocalCluster) -> Iterator[GatewayRegistry]:
    with connect(cluster.zk_connect, 6000) as client:
        yield GatewayRegistry(client)


def test_an_idempotent_producer_that_goes_on_through_deletions_leaves_no_duplicates(
    cluster: LocalCluster, topic: str
) -> None:
    """The client fails those messages whose partition the new topic does not have yet."""
    create(cluster, topic)
    admin = admin_of(cluster)
    producer = idempotent_producer(cluster.bootstrap_servers)
    value = 0
    acknowledged: list[int] = []

    def note(error: object, message: confluent_kafka.Message) -> None:
        if error is None:
            acknowledged.append(int(message.value() or b"-1"))

    def produce_for(seconds: float) -> None:
        nonlocal value
        ends_s = time.monotonic() + seconds
        while time.monotonic() < ends_s:
            with suppress(confluent_kafka.KafkaException):
                producer.produce(topic, b"%d" % value, partition=value % 2, on_delivery=note)
            value += 1
            producer.poll(0.001)

    for _ in range(4):
        produce_for(0.7)
        [future] = admin.delete_topics([topic]).values()
        while not future.done():
            produce_for(0.05)
        future.result()
        produce_for(0.1)
        with suppress(confluent_kafka.KafkaException):  # the producer's question for it has created it by now
            create(cluster, topic)
    produce_for(1.0)
    assert producer.flush(TIMEOUT_S) == 0
    assert len(acknowledged) > value // 2
    for partition in range(2):
        values = [int(read) for _, read in read_partition(cluster.bootstrap_servers, topic, partition)]
        assert len(values) == len(set(values)), "a message is there twice"
        assert values == sorted(values)
        assert values[-1] == max(sent for sent in acknowledged if sent % 2 == partition)


def test_a_list_that_is_marked_as_deleted_is_noticed_though_the_topic_is_there(
    cluster: LocalCluster, topic: str, registry: GatewayRegistry
) -> None:
    """A producer has created it again before the deletion was complete."""
    create(cluster, topic)
    send(cluster, topic, OLD)
    before = registry.lists([topic])[topic]
    registry.forget(topic)

    def is_listed_again() -> bool:
        now = registry.lists([topic])[topic]
        return now is not None and not now.is_deleted

    eventually(is_listed_again, TIMEOUT_S)
    after = registry.lists([topic])[topic]
    assert before is not None
    assert after is not None
    assert after.topic_id != before.topic_id
    read = read_partition(cluster.bootstrap_servers, topic, 0)
    assert [int(value) for _, value in read] == [value for value in OLD if value % 2 == 0]
    assert read[0][0] == registry.floors.floors([topic])[topic].of(0) >= len(OLD) // 2
