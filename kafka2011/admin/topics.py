"""Creating topics, and where their partitions begin and end."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.admin.partitions import asking, count_partitions
from kafka2011.admin.snapshot.cluster_reader import ClusterReader
from kafka2011.admin.snapshot.log_offsets import warn_of_brokers, with_log_offsets
from kafka2011.errors import KafkaError
from kafka2011.message.topic import validate_topic
from kafka2011.producer.sync_producer import SyncProducer
from zk.brokers import BrokerRegistry
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kafka2011.admin.snapshot.cluster_snapshot import PartitionEnds
    from zk.client import ZkClient
    from zk.cluster import Broker

logger = logging.getLogger(__name__)

REGISTER_TIMEOUT_S = 10.0
_POLL_S = 0.05


class CreatedTopic(NamedTuple):
    """Tells how many partitions of the topic a broker has registered."""

    broker: Broker
    partitions: int


def create_topic(
    client: ZkClient, topic: str, broker_ids: Collection[int] | None = None, *, partitions: int | None = None
) -> list[CreatedTopic]:
    """Make a topic on brokers, all live ones by default, and wait until it is registered.

    Sends each an empty set, which creates and registers a topic on brokers of 0.7 too. How many partitions it gets is
    a setting of each broker; with `partitions` nothing is made unless all would make that many. Raises KafkaError,
    naming the brokers that are not registered, would make another number, or do not register the topic in time.
    """
    validate_topic(topic)
    registry = BrokerRegistry(client)
    live = registry.brokers()
    missing = [str(number) for number in broker_ids or () if number not in live]
    if missing or not live:
        raise KafkaError(f"broker {', '.join(missing) or 'of any number'} is not registered in ZooKeeper")
    chosen = [live[number] for number in sorted(set(broker_ids))] if broker_ids else list(live.values())
    if partitions is not None:
        _check_partitions(topic, chosen, partitions)
    for broker in chosen:
        with SyncProducer(broker.host, broker.port, security=broker.security) as producer:
            producer.send(topic, [])
    registered = _await_registration(registry, topic, chosen)
    return [CreatedTopic(broker, registered[broker.id]) for broker in chosen]


def describe_topic(client: ZkClient, topic: str) -> list[PartitionEnds]:
    """Return the partitions of a topic with the ends that their brokers report. Raises KafkaError: unknown."""
    return describe_topics(client, [topic])


def describe_topics(client: ZkClient, topics: Collection[str] = ()) -> list[PartitionEnds]:
    """Return the same of many topics, all by default. The log says which brokers do not answer."""
    names = topics or BrokerRegistry(client).topics()
    snapshot = with_log_offsets(ClusterReader(client).read_topics(names))
    absent = [topic for topic in names if not snapshot.topics[topic]]
    unknown = sorted(set(absent) - set(BrokerRegistry(client).topics())) if absent and topics else []
    if unknown:
        raise KafkaError(f"topic {unknown[0]} is not registered in ZooKeeper")
    warn_of_brokers(snapshot)
    return [snapshot.partition_ends(where) for topic in names for where in snapshot.partitions(topic)]


def living_partitions(client: ZkClient, topic: str) -> dict[TopicPartition, Broker]:
    """Return a topic's partitions on living brokers, sorted, with their brokers. Raises KafkaError when there are none.

    Those of a broker that is away are not among them.
    """
    registry = BrokerRegistry(client)
    partitions = TopicPartition.all_of(topic, registry.partitions_of(topic))
    brokers = registry.brokers()
    is_known = topic in registry.topics()
    if not partitions:
        state = "has no partitions on living brokers" if is_known else "is not registered"
        raise KafkaError(f"topic {topic} {state} in ZooKeeper")
    missing = sorted({where.broker_id for where in partitions} - brokers.keys())
    if missing:
        raise KafkaError(f"topic {topic} is registered by broker {missing[0]}, which is not registered itself")
    return {where: brokers[where.broker_id] for where in sorted(partitions)}


def _check_partitions(topic: str, brokers: Sequence[Broker], wanted: int) -> None:
    """Raise KafkaError unless every broker has, or would make, that many partitions."""
    for broker in brokers:
        with asking(broker) as consumer:
            count = count_partitions(consumer, topic)
        if count != wanted:
            raise KafkaError(
                f"broker {broker.id} has, or would make, {count} partitions of topic {topic}, not {wanted}: start it"
                f" with topic.partition.count.map={topic}:{wanted} or num.partitions={wanted}; nothing was created"
            )


def _await_registration(registry: BrokerRegistry, topic: str, brokers: Sequence[Broker]) -> dict[int, int]:
    deadline_s = time.monotonic() + REGISTER_TIMEOUT_S
    while True:
        partitions = registry.partitions_of(topic)
        missing = [str(broker.id) for broker in brokers if broker.id not in partitions]
        if not missing:
            return partitions
        if time.monotonic() > deadline_s:
            raise KafkaError(
                f"topic {topic} was not registered by broker {', '.join(missing)} within {REGISTER_TIMEOUT_S:g} s"
            )
        time.sleep(_POLL_S)
