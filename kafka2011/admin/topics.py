"""Creating topics, and where their partitions begin and end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.errors import KafkaError
from kafka2011.producer.sync_producer import SyncProducer
from kafka2011.protocol import EARLIEST, LATEST
from kafka2011.topic import validate_topic
from zk.brokers import BrokerRegistry

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from zk.client import ZkClient
    from zk.cluster import Broker

REGISTER_TIMEOUT_S = 10.0
ASK_TIMEOUT_MS = 5000
_POLL_S = 0.05


class CreatedTopic(NamedTuple):
    """A broker, and how many partitions of the topic it has registered."""

    broker: Broker
    partitions: int


def create_topic(client: ZkClient, topic: str, broker_ids: Collection[int] | None = None) -> list[CreatedTopic]:
    """Make a topic on brokers, all live ones by default, and wait until it is registered.

    Sends each an empty set, which creates and registers a topic on brokers of 0.7 too. Raises KafkaError naming the
    brokers that are not registered, or do not register the topic in time.
    """
    validate_topic(topic)
    registry = BrokerRegistry(client)
    live = registry.brokers()
    missing = [str(number) for number in broker_ids or () if number not in live]
    if missing or not live:
        raise KafkaError(f"broker {', '.join(missing) or 'of any number'} is not registered in ZooKeeper")
    chosen = [live[number] for number in sorted(set(broker_ids))] if broker_ids else list(live.values())
    for broker in chosen:
        with SyncProducer(broker.host, broker.port) as producer:
            producer.send(topic, [])
    partitions = _await_registration(registry, topic, chosen)
    return [CreatedTopic(broker, partitions[broker.id]) for broker in chosen]


def asking(broker: Broker) -> SimpleConsumer:
    """Return a consumer for questions to a broker, which may be away: it does not wait long."""
    return SimpleConsumer.of(broker, {"socket.timeout.ms": ASK_TIMEOUT_MS})


def ends_of(consumer: SimpleConsumer, topic: str, partition: int) -> tuple[int, int]:
    """Ask a broker for the first offset and the flushed end of a partition."""
    earliest, latest = (consumer.get_offsets_before(topic, partition, end, 1)[0] for end in (EARLIEST, LATEST))
    return earliest, latest


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
