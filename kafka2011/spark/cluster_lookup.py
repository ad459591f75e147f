"""Which partitions there are, and where: from ZooKeeper's registries, or from listed brokers by asking them.

Runs on the driver only.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

from kafka2011.admin.groups import Groups
from kafka2011.admin.partitions import count_partitions
from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.errors import BrokerConnectionError, KafkaError
from kafka2011.message.topic import InvalidTopicError, validate_topic
from kafka2011.spark.offset_ranges import nest
from zk.brokers import BrokerRegistry
from zk.cluster import TopicPartition
from zk.connecting import connect
from zk.consumers import ConsumerRegistry
from zk.offsets import OffsetRegistry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kafka2011.spark.options import ReadOptions
    from zk.client import ZkClient
    from zk.cluster import Broker

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Cluster:
    """What is there at one time: live brokers, their partitions of the wanted topics, and all topics ever registered.

    A broker that is away is missing here with all its partitions.
    """

    brokers: Mapping[int, Broker]
    partitions: tuple[TopicPartition, ...]
    topics: frozenset[str]


class PartitionLookup(Protocol):
    """Finds brokers and partitions."""

    def cluster(self, wants: Callable[[str], bool]) -> Cluster:
        """Return those of the wanted topics that exist now. Raises KafkaError."""

    def committed(self, group: str, topics: Iterable[str]) -> dict[TopicPartition, int]:
        """Return what a group has committed of some topics."""

    def remembered(self, wants: Callable[[str], bool]) -> set[TopicPartition]:
        """Return the partitions of wanted topics that any group has ever committed; they may be gone."""

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Write where a group goes on. Raises GroupInUse, ZkError."""

    def close(self) -> None:
        """Free what is open; may be called twice."""


class RegistryLookup:
    """Reads the registries in ZooKeeper. Owns `client`, unless others use it too."""

    def __init__(self, client: ZkClient, *, is_shared: bool = False) -> None:
        self._client = client
        self._is_shared = is_shared
        self._brokers = BrokerRegistry(client)
        self._offsets = OffsetRegistry(client)

    @classmethod
    def connect(cls, options: ReadOptions) -> Self:
        """Open a session. Raises ZkError, naming zk.connect, when nobody answers."""
        return cls(connect(options.zk_connect, options.zk_sessiontimeout_ms, options.zk_connectiontimeout_ms))

    def cluster(self, wants: Callable[[str], bool]) -> Cluster:
        """Read the broker registry. Raises ZkUnavailable."""
        topics = self._brokers.topics()
        brokers = self._brokers.brokers()
        partitions = [partition for topic in topics if wants(topic) for partition in self._partitions(topic, brokers)]
        return Cluster(brokers, tuple(sorted(partitions)), frozenset(topics))

    def committed(self, group: str, topics: Iterable[str]) -> dict[TopicPartition, int]:
        """Read the offset registry. Raises ZkUnavailable."""
        return {
            partition: committed.offset
            for topic in topics
            for partition, committed in self._offsets.offsets(group, topic).items()
        }

    def remembered(self, wants: Callable[[str], bool]) -> set[TopicPartition]:
        """Read the names of the offsets of all groups. Raises ZkUnavailable."""
        return {
            partition
            for group in ConsumerRegistry(self._client).groups()
            for topic in self._offsets.topics(group)
            if wants(topic)
            for partition in self._offsets.offsets(group, topic)
        }

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Write to the offset registry. Raises GroupInUse, ZkUnavailable."""
        Groups(self._client).import_offsets(group, nest(offsets))

    def close(self) -> None:
        """End the session, if nobody else has it."""
        if not self._is_shared:
            self._client.shutdown()

    def _partitions(self, topic: str, brokers: Mapping[int, Broker]) -> Iterator[TopicPartition]:
        try:
            validate_topic(topic)
        except InvalidTopicError as error:  # a 0.7 broker's, which allows more
            logger.warning("left out: %s", error)
            return
        every = TopicPartition.all_of(topic, self._brokers.partitions_of(topic))
        yield from (partition for partition in every if partition.broker_id in brokers)


class ListedLookup:
    """Asks the brokers of broker.list for the topics that are subscribed to by name.

    A broker answers a fetch of a partition that it does not have with a distinct error, even for a topic of which it
    has nothing yet; so the partitions can be counted.
    """

    def __init__(self, brokers: Iterable[Broker], topics: Iterable[str], socket_timeout_ms: int) -> None:
        self._brokers = {broker.id: broker for broker in brokers}
        self._topics = tuple(topics)
        self._timeout = {"socket.timeout.ms": socket_timeout_ms}

    def cluster(self, wants: Callable[[str], bool]) -> Cluster:
        """Ask every broker; those that cannot be reached are left out, with a warning."""
        on_brokers: list[TopicPartition] = []
        alive: dict[int, Broker] = {}
        for broker_id, broker in self._brokers.items():
            try:
                with SimpleConsumer.of(broker, self._timeout) as consumer:
                    for topic in filter(wants, self._topics):
                        count = count_partitions(consumer, topic)
                        on_brokers += (TopicPartition(topic, broker_id, number) for number in range(count))
            except BrokerConnectionError as error:
                logger.warning("broker %d is left out: %s", broker_id, error)
            else:
                alive[broker_id] = broker
        return Cluster(alive, tuple(sorted(on_brokers)), frozenset(self._topics))

    def committed(self, group: str, topics: Iterable[str]) -> dict[TopicPartition, int]:  # noqa: ARG002 (of the protocol)
        """Raise KafkaError: groups are in ZooKeeper."""
        raise KafkaError(f"the offsets of group {group} are in ZooKeeper: set zk.connect")

    def remembered(self, wants: Callable[[str], bool]) -> set[TopicPartition]:  # noqa: ARG002
        """Return nothing: there is nobody to remember."""
        return set()

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:  # noqa: ARG002
        """Raise KafkaError: groups are in ZooKeeper."""
        raise KafkaError(f"group {group} is in ZooKeeper: set zk.connect")

    def close(self) -> None:
        """Do nothing: there is nothing open."""


def open_lookup(options: ReadOptions) -> PartitionLookup:
    """Return the lookup that the options ask for. Raises ZkError."""
    if options.zk_connect:
        return RegistryLookup.connect(options)
    return ListedLookup(options.broker_list, options.topics, options.socket_timeout_ms)
