"""Today's clients produce to, and read from, a cluster of 0.7, each in its own way."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, OffsetSpec
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPartition

from kafka2011 import SimpleConsumer, SyncProducer
from zk.connecting import connect
from zk.gateways import GatewayRegistry

if TYPE_CHECKING:
    from kafka2011.local_cluster import LocalBroker, LocalCluster

TIMEOUT_S = 60
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def first_broker(cluster: LocalCluster, topic: str) -> LocalBroker:
    """Return the broker that has partition 0: the one whose registration of the topic the gateway saw first."""
    with connect(cluster.zk_connect) as client:
        known = GatewayRegistry(client).lists([topic])[topic]
    assert known is not None
    return cluster.brokers[known.partitions[0].broker_id]


def produced(cluster: LocalCluster, topic: str, records: list[dict[str, Any]], **settings: object) -> list[int]:
    """Produce records with confluent-kafka, to partition 0 if they name none; return the offsets that it was told."""
    offsets: list[int] = []

    def note(error: object, message: confluent_kafka.Message) -> None:
        assert error is None, error
        offset = message.offset()
        assert offset is not None
        offsets.append(offset)

    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers, **settings})
    for record in records:
        producer.produce(topic, on_delivery=note, **{"partition": 0, **record})
    assert producer.flush(TIMEOUT_S) == 0
    return offsets


def read(cluster: LocalCluster, topic: str, number: int, start: int = confluent_kafka.OFFSET_BEGINNING) -> list[Any]:
    """Read `number` records of partition 0 with confluent-kafka."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "unused", "enable.auto.commit": False}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, start)])
    ends_s = time.monotonic() + TIMEOUT_S
    messages: list[Any] = []
    while len(messages) < number and time.monotonic() < ends_s:
        message = consumer.poll(0.5)
        if message is not None:
            assert message.error() is None, message.error()
            messages.append(message)
    consumer.close()
    return messages


@pytest.mark.parametrize("codec", CODECS)
def test_confluent_kafka_reads_what_it_produced(cluster: LocalCluster, topic: str, codec: str) -> None:
    records: list[dict[str, Any]] = [
        {"value": b"plain"},
        {"value": b"keyed", "key": b"k", "timestamp": 1_700_000_000_123},
        {"value": None, "key": b"deleted"},
        {"value": b"", "headers": [("trace", b"1"), ("trace", None)]},
        *({"value": b"%d" % number * 100} for number in range(200)),
    ]
    offsets = produced(
        cluster, topic, records, **{"compression.type": codec, "enable.idempotence": True, "linger.ms": 20}
    )

    assert offsets == list(range(len(records)))
    messages = read(cluster, topic, len(records))
    assert [message.offset() for message in messages] == offsets
    assert [(message.key(), message.value()) for message in messages] == [
        (record.get("key"), record["value"]) for record in records
    ]
    assert messages[1].timestamp() == (confluent_kafka.TIMESTAMP_CREATE_TIME, 1_700_000_000_123)
    assert messages[3].headers() == [("trace", b"1"), ("trace", None)]


def test_clients_of_both_times_share_a_partition(cluster: LocalCluster, topic: str) -> None:
    assert produced(cluster, topic, [{"value": b"today", "key": b"k"}]) == [0]
    broker = first_broker(cluster, topic)
    with SyncProducer(broker.host, broker.port) as producer:
        producer.send(topic, [b"2011", b"again"], partition=0)
    assert produced(cluster, topic, [{"value": b"tomorrow"}]) == [3]

    assert [message.value() for message in read(cluster, topic, 4)] == [b"today", b"2011", b"again", b"tomorrow"]
    with SimpleConsumer(broker.host, broker.port) as consumer:
        fetched = consumer.fetch(topic, 0, 0, 1024 * 1024)
        assert [message.payload for message in fetched] == [b"today", b"2011", b"again", b"tomorrow"]


def test_a_consumer_seeks_and_knows_the_ends(cluster: LocalCluster, topic: str) -> None:
    produced(cluster, topic, [{"value": b"%d" % number} for number in range(1000)])
    consumer = confluent_kafka.Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "unused"})
    where = confluent_kafka.TopicPartition(topic, 0)

    assert consumer.get_watermark_offsets(where, timeout=TIMEOUT_S) == (0, 1000)
    for start in (0, 1, 500, 999):
        assert read(cluster, topic, 1, start)[0].value() == b"%d" % start
    consumer.close()


def test_a_time_finds_the_first_record_that_is_not_older(cluster: LocalCluster, topic: str) -> None:
    times = [1_700_000_000_000 + 1000 * number for number in range(100)]
    produced(cluster, topic, [{"value": b"%d" % time_ms, "timestamp": time_ms} for time_ms in times])
    consumer = confluent_kafka.Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "unused"})
    wanted = {times[0] - 1: 0, times[50]: 50, times[50] + 1: 51, times[99]: 99}
    for time_ms, offset in wanted.items():
        [found] = consumer.offsets_for_times([confluent_kafka.TopicPartition(topic, 0, time_ms)], timeout=TIMEOUT_S)
        assert found.offset == offset
    consumer.close()

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    where = confluent_kafka.TopicPartition(topic, 0)
    largest = admin.list_offsets({where: OffsetSpec.max_timestamp()})[where].result(TIMEOUT_S)
    assert (largest.offset, largest.timestamp) == (99, times[99])


def test_a_record_that_was_just_written_is_found_by_its_time(cluster: LocalCluster, topic: str) -> None:
    """It is found even if its producer's clock is ahead of the broker's, and whatever times the files have."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "unused"})
    first_ms = int(time.time() * 1000) - 10
    for number in range(20):
        time_ms = first_ms + number if number < 15 else first_ms + 3_600_000 * number
        produced(cluster, topic, [{"value": b"now", "timestamp": time_ms}])
        [found] = consumer.offsets_for_times([confluent_kafka.TopicPartition(topic, 0, time_ms)], timeout=TIMEOUT_S)
        assert found.offset == number
    consumer.close()


def test_kafka_python_reads_what_it_produced(cluster: LocalCluster, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
    sent = [
        producer.send(topic, value=b"%d" % number, key=b"k", headers=[("h", b"1")], partition=0)
        for number in range(300)
    ]
    assert [future.get(TIMEOUT_S).offset for future in sent] == list(range(300))
    producer.close()

    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, consumer_timeout_ms=TIMEOUT_S * 1000)
    where = PythonPartition(topic, 0)
    consumer.assign([where])
    consumer.seek_to_beginning(where)
    messages = [next(consumer) for _ in range(300)]
    assert [message.value for message in messages] == [b"%d" % number for number in range(300)]
    assert messages[0].key == b"k"
    assert messages[0].headers == [("h", b"1")]
    assert consumer.end_offsets([where]) == {where: 300}
    consumer.close()


def test_aiokafka_reads_what_it_produced(cluster: LocalCluster, topic: str) -> None:
    async def main() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers, enable_idempotence=True, compression_type="gzip"
        ) as producer:
            done = [await producer.send(topic, b"%d" % number, partition=0) for number in range(100)]
            assert [(await each).offset for each in done] == list(range(100))
        async with AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
            where = TopicPartition(topic, 0)
            consumer.assign([where])
            await consumer.seek_to_beginning(where)
            assert [(await consumer.getone()).value for _ in range(100)] == [b"%d" % number for number in range(100)]

    asyncio.run(asyncio.wait_for(main(), TIMEOUT_S))


def test_a_fetch_is_limited_by_what_a_client_asks_of_a_partition(cluster: LocalCluster, topic: str) -> None:
    """Only the first batch may be larger, as in Kafka."""

    async def sizes() -> list[int]:
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for size in (10, 50_000, 50):
                told = await producer.send_and_wait(topic, b"x" * size, partition=0)
        assert told.log_start_offset == 0
        consumer = AIOKafkaConsumer(
            bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", max_partition_fetch_bytes=4000
        )
        async with consumer:
            consumer.assign([TopicPartition(topic, 0)])
            polls: list[int] = []
            while sum(polls) < 3:
                records = await asyncio.wait_for(consumer.getmany(timeout_ms=1000), TIMEOUT_S)
                polls.append(sum(map(len, records.values())))
            return [count for count in polls if count]

    assert asyncio.run(sizes()) == [1, 1, 1]


def test_topics_are_created_grown_and_deleted(cluster: LocalCluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 4, 1)])[topic].result(TIMEOUT_S)
    assert len(admin.list_topics(topic, TIMEOUT_S).topics[topic].partitions) == 4

    admin.create_topics([NewTopic(f"{topic}-odd", 3, 1)])[f"{topic}-odd"].result(TIMEOUT_S)
    assert len(admin.list_topics(f"{topic}-odd", TIMEOUT_S).topics[f"{topic}-odd"].partitions) == 3
    admin.create_partitions([NewPartitions(topic, 6)])[topic].result(TIMEOUT_S)
    assert len(admin.list_topics(topic, TIMEOUT_S).topics[topic].partitions) == 6

    assert produced(cluster, topic, [{"value": b"one"}] * 3) == [0, 1, 2]
    admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    assert topic not in admin.list_topics(timeout=TIMEOUT_S).topics
    [offset] = produced(cluster, topic, [{"value": b"another topic"}])
    assert offset >= 3  # it was never given to a message of the old topic


def test_settings_are_told_by_kafkas_names_and_a_topic_is_not_created_with_others(
    cluster: LocalCluster, topic: str
) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})

    def create(**config: str) -> None:
        new = NewTopic(topic, 2, 1, config={name.replace("_", "."): value for name, value in config.items()})
        admin.create_topics([new])[topic].result(TIMEOUT_S)

    def described(kind: ConfigResource.Type, name: str) -> dict[str, str | None]:
        resource = ConfigResource(kind, name)
        return {each.name: each.value for each in admin.describe_configs([resource])[resource].result().values()}

    with pytest.raises(confluent_kafka.KafkaException, match=r"retention\.ms=1"):
        create(retention_ms="1")
    create(retention_ms="604800000", cleanup_policy="delete")
    settings = described(ConfigResource.Type.TOPIC, topic)
    assert (settings["retention.ms"], settings["segment.bytes"]) == ("604800000", "1073741824")
    assert (settings["flush.ms"], settings["max.message.bytes"]) == ("200", "1000000")
    [node_id, *_] = admin.list_topics(timeout=TIMEOUT_S).brokers
    assert described(ConfigResource.Type.BROKER, str(node_id))["log.default.flush.scheduler.interval.ms"] == "200"


def test_what_was_acknowledged_is_there_after_the_gateway_is_killed(cluster: LocalCluster, topic: str) -> None:
    assert produced(cluster, topic, [{"value": b"before"}] * 10) == list(range(10))
    assert cluster.gateway is not None
    cluster.gateway.kill()
    cluster.gateway.start()

    assert produced(cluster, topic, [{"value": b"after"}]) == [10]
    messages = read(cluster, topic, 11)
    assert [message.offset() for message in messages] == list(range(11))
