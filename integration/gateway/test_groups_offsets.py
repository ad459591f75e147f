"""Groups whose clients assign partitions themselves: what one commits another goes on with, of 2011 or of today."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest
from confluent_kafka import OFFSET_STORED, ConsumerGroupTopicPartitions, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaTopicPartition
from kafka.admin import KafkaAdminClient
from kafka.structs import OffsetAndMetadata

from integration.gateway.test_clients import TIMEOUT_S, first_broker
from kafka2011 import ConsumerConnector, SyncProducer
from kafka2011.message.compression import Codec
from kafka2011.message.message_set import MessageSet
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka2011.local_cluster import LocalCluster

FIRST, PLAIN, SECOND = range(10), range(10, 15), range(15, 25)
"""The numbers of a wrapper's messages, of plain ones, and of another wrapper's."""


@pytest.fixture
def filled(cluster: LocalCluster, topic: str, consumer: confluent_kafka.Consumer) -> str:
    """Fill partition 0 with two wrappers and plain messages between them; a message is its number."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(TIMEOUT_S)
    broker = first_broker(cluster, topic)
    with SyncProducer(broker.host, broker.port) as producer:
        for numbers, codec in ((FIRST, Codec.GZIP), (PLAIN, Codec.NONE), (SECOND, Codec.GZIP)):
            producer.send(topic, MessageSet([b"%d" % number for number in numbers], codec), partition=0)
    where = TopicPartition(topic, 0)
    eventually(
        lambda: consumer.get_watermark_offsets(where, timeout=TIMEOUT_S) == (0, SECOND.stop), what="all messages"
    )
    return topic


@pytest.fixture
def consumer(cluster: LocalCluster, topic: str) -> Iterator[confluent_kafka.Consumer]:
    """Make a consumer of a group that is called as the topic, and assigns itself partitions."""
    made = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": topic, "enable.auto.commit": False}
    )
    yield made
    made.close()


def next_of(consumer: confluent_kafka.Consumer, topic: str) -> tuple[int | None, bytes | None]:
    """Return number and value of the message with which the group goes on."""
    consumer.assign([TopicPartition(topic, 0, OFFSET_STORED)])
    message = consumer.poll(TIMEOUT_S)
    assert message is not None
    assert message.error() is None, message.error()
    return message.offset(), message.value()


def commit(consumer: confluent_kafka.Consumer, topic: str, number: int) -> None:
    consumer.commit(offsets=[TopicPartition(topic, 0, number)], asynchronous=False)


def consume_07(cluster: LocalCluster, topic: str, number: int) -> list[bytes]:
    """Consume messages as a member of 0.7, and commit."""
    settings = {"zk.connect": cluster.zk_connect, "groupid": topic, "consumer.timeout.ms": TIMEOUT_S * 1000}
    with ConsumerConnector(settings) as connector:
        [stream] = connector.create_message_streams({topic: 1})[topic]
        values = [next(stream).payload for _ in range(number)]
        connector.commit_offsets()
    return values


def test_a_group_goes_on_where_it_has_come_whoever_reads(
    cluster: LocalCluster, filled: str, consumer: confluent_kafka.Consumer
) -> None:
    """Today's clients go on within a wrapper, those of 0.7 at its start; so nothing is skipped."""
    commit(consumer, filled, 4)
    assert next_of(consumer, filled) == (4, b"4")
    assert consume_07(cluster, filled, 12) == [b"%d" % number for number in range(12)]
    assert next_of(consumer, filled) == (12, b"12")
    commit(consumer, filled, 20)
    assert next_of(consumer, filled) == (20, b"20")
    assert consume_07(cluster, filled, 7)[0] == b"15"
    assert next_of(consumer, filled)[0] in SECOND
    commit(consumer, filled, 25)
    [committed] = consumer.committed([TopicPartition(filled, 0)], TIMEOUT_S)
    assert committed.offset == 25


@pytest.mark.parametrize("number", [-1, -2, 10**12])
def test_a_number_that_no_message_has_is_committed_until_a_client_of_0_7_commits(
    cluster: LocalCluster, filled: str, number: int
) -> None:
    """The 0.7 client continues at the end for -1 and above the end, and at the start for -2."""
    where = KafkaTopicPartition(filled, 0)
    settings = {"group_id": filled, "enable_auto_commit": False, "bootstrap_servers": cluster.bootstrap_servers}

    with closing(KafkaConsumer(**settings)) as consumer:
        consumer.assign([where])
        consumer.commit({where: OffsetAndMetadata(number, "größe", -1)})
    with SyncProducer(first_broker(cluster, filled).host, first_broker(cluster, filled).port) as producer:
        producer.send(filled, [b"25", b"26"], partition=0)
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)) as admin:
        assert admin.list_group_offsets({filled: None})[filled][where][:2] == (number, "größe")
        assert consume_07(cluster, filled, 1) == [b"0" if number == -2 else b"25"]
        assert admin.list_group_offsets({filled: None})[filled][where][:2] == (0 if number == -2 else 26, "")


def test_administrators_see_groups_of_both_times_and_move_those_without_members(
    cluster: LocalCluster, filled: str, consumer: confluent_kafka.Consumer
) -> None:
    commit(consumer, filled, 4)
    today = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})

    def states() -> dict[str, Any]:
        groups = today.list_consumer_groups(request_timeout=TIMEOUT_S).result().valid
        return {group.group_id: group.state.name for group in groups if group.group_id == filled}

    def moved(number: int) -> KafkaError | None:
        where = ConsumerGroupTopicPartitions(filled, [TopicPartition(filled, 0, number)])
        done = today.alter_consumer_group_offsets([where], request_timeout=TIMEOUT_S)[filled].result()
        error: KafkaError | None = done.topic_partitions[0].error
        return error

    assert states() == {filled: "EMPTY"}
    settings = {"zk.connect": cluster.zk_connect, "groupid": filled}
    with ConsumerConnector(settings) as connector:
        connector.create_message_streams({filled: 1})
        assert states() == {filled: "STABLE"}
        eventually(lambda: len(connector.owned_partitions()) == 2)
        [member] = today.describe_consumer_groups([filled], request_timeout=TIMEOUT_S)[filled].result().members
        assert member.member_id == connector.consumer_id
        assert {(each.topic, each.partition) for each in member.assignment.topic_partitions} == {
            (filled, 0),
            (filled, 1),
        }
        refused = moved(1)
        assert refused is not None
        assert refused.name() == "UNKNOWN_MEMBER_ID"
    assert moved(7) is None
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)) as admin:
        assert filled in {group["group_id"] for group in admin.list_groups()}
        assert admin.describe_groups([filled])[filled]["group_state"] == "Empty"
        offsets = admin.list_group_offsets({filled: None})[filled]
    assert {where.partition: each.offset for where, each in offsets.items()} == {0: 7, 1: 0}
    today.delete_consumer_groups([filled], request_timeout=TIMEOUT_S)[filled].result()
    assert states() == {}
