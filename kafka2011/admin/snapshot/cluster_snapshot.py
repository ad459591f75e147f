"""What the console has seen of a cluster at one moment. Pure values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.consumer.topic_count import MalformedSubscriptionError, TopicCount
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zk.cluster import Broker
    from zk.offsets import CommittedOffset
    from zk.owners import Owner


class Ends(NamedTuple):
    """The first offset of a partition, and its readable end."""

    first: int
    end: int


class SeenBroker(NamedTuple):
    """A registered broker, and when ZooKeeper took its node."""

    broker: Broker
    since_ms: int


class SeenMember(NamedTuple):
    """The text of a member's subscription, and since when it has been a member."""

    subscription: str
    since_ms: int


@dataclass(frozen=True, slots=True)
class SeenGroup:
    """A group: its members by id, who owns what, and what is committed."""

    members: Mapping[str, SeenMember] = field(default_factory=dict)
    owners: Mapping[TopicPartition, Owner] = field(default_factory=dict)
    offsets: Mapping[TopicPartition, CommittedOffset] = field(default_factory=dict)

    def partitions(self, topics: Mapping[str, Mapping[int, int]]) -> list[TopicPartition]:
        """List the partitions that it subscribes to, owns, or has an offset of, sorted."""
        subscribed: set[str] = set()
        for member in self.members.values():
            subscribed |= _topics(member.subscription, topics)
        found = {where for topic in subscribed for where in TopicPartition.all_of(topic, topics.get(topic, {}))}
        return sorted(found | self.owners.keys() | self.offsets.keys())


@dataclass(frozen=True, slots=True)
class SeenCluster:
    """Brokers by id, how many partitions of each topic each of them has, and groups by name."""

    brokers: Mapping[int, SeenBroker] = field(default_factory=dict)
    topics: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    groups: Mapping[str, SeenGroup] = field(default_factory=dict)

    def partitions(self) -> list[TopicPartition]:
        """List all that living brokers have, sorted."""
        return [where for topic in sorted(self.topics) for where in TopicPartition.all_of(topic, self.topics[topic])]

    def has(self, where: TopicPartition) -> bool:
        """Say whether a living broker has registered a partition."""
        return 0 <= where.partition < self.topics.get(where.topic, {}).get(where.broker_id, 0)


def member_of(stream_id: str) -> str:
    """Return the member that a stream belongs to: a stream is named `{consumer}-{number}`."""
    return stream_id.rpartition("-")[0]


def _topics(subscription: str, topics: Iterable[str]) -> set[str]:
    try:
        return set(TopicCount.parse(subscription).topics(topics))
    except MalformedSubscriptionError:  # every member of 0.7 stalls on it; the group's own members say so
        return set()
