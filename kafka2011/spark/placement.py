"""Where the sink's rows go: planned on the driver from the registry, used on executors without one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka2011.producer.broker_partition_info import ListedBrokers, on_every_broker
from kafka2011.producer.errors import InvalidPartitionError, NoBrokersError
from kafka2011.producer.router import Router
from kafka2011.producer.setup import own_partitioner
from kafka2011.protocol import ANY_PARTITION
from zk.cluster import Broker, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafka2011.producer.broker_partition_info import BrokerPartitionInfo
    from kafka2011.spark.options import WriteOptions


@dataclass(frozen=True, slots=True)
class Placement:
    """Brokers, and the partitions of each topic, as they were when a batch was planned.

    A topic that nobody had yet is on partition 0 of every broker. `partitions_by_topic` is None when brokers are all
    that is known.
    """

    brokers: tuple[Broker, ...]
    partitions_by_topic: Mapping[str, tuple[TopicPartition, ...]] | None

    def info(self) -> BrokerPartitionInfo:
        """Return it as a producer wants it."""
        if self.partitions_by_topic is None:
            return ListedBrokers(self.brokers)
        return PlannedPartitions(self.brokers, self.partitions_by_topic)


class PlannedPartitions:
    """Partitions that do not change while a task runs: a broker that is away is waited for where it was."""

    def __init__(
        self, brokers: tuple[Broker, ...], partitions_by_topic: Mapping[str, tuple[TopicPartition, ...]]
    ) -> None:
        self._brokers = {broker.id: broker for broker in brokers}
        self._partitions = partitions_by_topic

    def partitions(self, topic: str) -> tuple[TopicPartition, ...]:
        """Return a topic's partitions, sorted."""
        return self._partitions.get(topic) or on_every_broker(self._brokers, topic, 0)

    def choices(self, topic: str) -> tuple[TopicPartition, ...]:
        """Return the same; of a topic that nobody had, whichever partition a broker picks."""
        return self._partitions.get(topic) or on_every_broker(self._brokers, topic, ANY_PARTITION)

    def broker(self, broker_id: int) -> Broker | None:
        """Return where a broker listens."""
        return self._brokers.get(broker_id)

    def refresh(self) -> None:
        """Do nothing: nobody here could tell more."""

    def close(self) -> None:
        """Do nothing: there is nothing open."""


class PlacingRouter(Router):
    """A router for which a key may also be the partition itself, chosen before."""

    def choose(self, topic: str, key: object, avoid: Collection[int] = ()) -> TopicPartition:
        """Return the partition that is the key, or the one that the key belongs to."""
        if not isinstance(key, TopicPartition):
            return super().choose(topic, key, avoid)
        if self.info.broker(key.broker_id) is None:
            raise NoBrokersError(f"broker {key.broker_id} of topic {topic} is not alive")
        return key

    def check_place(self, topic: str, place: TopicPartition) -> None:
        """Raise InvalidPartitionError unless the topic has the partition."""
        if place not in self.info.partitions(topic):
            raise InvalidPartitionError(f"topic {topic} has no partition {place.znode_name}")


def open_router(placement: Placement, options: WriteOptions) -> PlacingRouter:
    """Return the router of one task. Raises ConfigError."""
    return PlacingRouter(placement.info(), own_partitioner(options), 0)


def plan_placement(options: WriteOptions) -> Placement:
    """Read brokers and partitions, on the driver. Raises NoBrokersError, and ZkError without ZooKeeper."""
    from zk.brokers import BrokerRegistry  # noqa: PLC0415 (not on executors)
    from zk.connecting import connect  # noqa: PLC0415

    if options.broker_list:
        return Placement(options.broker_list, None)
    with connect(options.zk_connect, options.zk_sessiontimeout_ms, options.zk_connectiontimeout_ms) as client:
        registry = BrokerRegistry(client)
        live = registry.brokers()
        if not live:
            raise NoBrokersError(f"no broker is registered in ZooKeeper at {options.zk_connect}")
        topics = [options.topic] if options.topic else registry.topics()
        counts = {topic: registry.partitions_of(topic) for topic in topics}
    partitions = {
        topic: tuple(where for where in TopicPartition.all_of(topic, of_topic) if where.broker_id in live)
        for topic, of_topic in counts.items()
    }
    return Placement(tuple(live.values()), {topic: found for topic, found in partitions.items() if found})
