"""Creating topics, and where their partitions begin and end."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.admin.exact_creation import ExactCreation, await_registration
from kafka2011.admin.partitions import count_on
from kafka2011.admin.request_waiting import REQUEST_TIMEOUT_S
from kafka2011.admin.snapshot.cluster_reader import ClusterReader
from kafka2011.admin.snapshot.log_offsets import warn_of_brokers, with_log_offsets
from kafka2011.errors import KafkaError
from kafka2011.message.topic import validate_topic
from kafka2011.producer.sync_producer import SyncProducer
from zk.brokers import BrokerRegistry
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection

    from kafka2011.admin.snapshot.cluster_snapshot import PartitionEnds
    from zk.client import ZkClient
    from zk.cluster import Broker

logger = logging.getLogger(__name__)


class CreatedTopic(NamedTuple):
    """Tells how many partitions of the topic a broker has registered."""

    broker: Broker
    partitions: int


def create_topic(
    client: ZkClient,
    topic: str,
    broker_ids: Collection[int] | None = None,
    *,
    partitions: int | None = None,
    per_broker: int | None = None,
    dry_run: bool = False,
    timeout_s: float = REQUEST_TIMEOUT_S,
) -> list[CreatedTopic]:
    """Make a topic on brokers, all live ones by default, and wait until it is registered.

    It has `partitions` partitions in all, spread evenly, or `per_broker` on each broker, or else on each broker as many
    as its settings say. An exact number is made by all or by none: brokers of 0.7 take part if their settings make
    their share. Raises KafkaError, naming the brokers that are not registered, would make another number, or do not
    register the topic in time; PartitionCountError and TopicExistsError, with nothing changed. With `dry_run` nothing
    is changed, and the result says what would be.
    """
    validate_topic(topic)
    if partitions is not None and per_broker is not None:
        raise ValueError("partitions in all, or per_broker, not both")
    registry = BrokerRegistry(client)
    live = registry.brokers()
    missing = [str(number) for number in broker_ids or () if number not in live]
    if missing or not live:
        raise KafkaError(f"broker {', '.join(missing) or 'of any number'} is not registered in ZooKeeper")
    chosen = [live[number] for number in sorted(set(broker_ids))] if broker_ids else list(live.values())
    if partitions is not None or per_broker is not None:
        creation = ExactCreation(client, topic, {broker.id: broker for broker in chosen})
        if partitions is not None:
            plan = creation.plan(partitions, on_all=bool(broker_ids))
        else:
            plan = creation.plan_each(per_broker or 0)
        if not dry_run:
            creation.create(plan, timeout_s)
        return [CreatedTopic(live[number], count) for number, count in plan.counts.items()]
    if dry_run:
        return [CreatedTopic(broker, count_on(broker, topic)) for broker in chosen]
    for broker in chosen:
        with SyncProducer(broker.host, broker.port, security=broker.security) as producer:
            producer.send(topic, [])
    registered = await_registration(registry, topic, [broker.id for broker in chosen])
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
