"""A cluster at one moment: brokers, replicas, topics, where logs begin and end, and consumer groups. Immutable, pure.

A new column of `kafka2011 groups` is a field of GroupPartition that `columns` names: the command and the console show
it, and doctor and monitor can read it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.consumer.topic_count import MalformedSubscriptionError, TopicCount
from kafka2011.errors import KafkaError
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafka2011.admin.replicas import BrokerReplicas
    from zk.cluster import Broker
    from zk.gateway_members import GatewayMember
    from zk.offsets import CommittedOffset
    from zk.owners import Owner


class LogOffsets(NamedTuple):
    """The first offset of a partition, and its readable end."""

    earliest: int
    latest: int


class PartitionEnds(NamedTuple):
    """Describes a partition: its broker, its first offset and its flushed end; None: not known."""

    where: TopicPartition
    broker: Broker | None
    earliest: int | None
    latest: int | None


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """A registered broker, when ZooKeeper took its node, and why it does not answer."""

    broker: Broker
    since_ms: int
    error: str = ""


class MemberInfo(NamedTuple):
    """The text of a member's subscription, since when it has been a member, and which of today's clients it is.

    `client` is None for a member of 0.7.
    """

    subscription: str
    since_ms: int
    client: GatewayMember | None = None


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """A group: its members by id, who owns what, what is committed, and the topics where it ever did either."""

    members: Mapping[str, MemberInfo] = field(default_factory=dict)
    owners: Mapping[TopicPartition, Owner] = field(default_factory=dict)
    offsets: Mapping[TopicPartition, CommittedOffset] = field(default_factory=dict)
    topics: frozenset[str] = frozenset()

    def described(self, stream_id: str) -> str:
        """Return an owner; of one of today's clients also the client's id and address."""
        info = self.members.get(member_of(stream_id))
        if info is None or info.client is None:
            return stream_id
        return f"{stream_id} ({info.client.client_id} at {info.client.host})"

    def subscribed(self, topics: Iterable[str]) -> set[str]:
        """Return the topics that its members subscribe to; `topics` are those that there are."""
        return {topic for count in self._subscriptions() if count is not None for topic in count.topics(topics)}

    @property
    def malformed(self) -> list[str]:
        """The members whose subscription cannot be read: every member of 0.7 stalls on it."""
        return [member for member, count in zip(self.members, self._subscriptions(), strict=True) if count is None]

    def _subscriptions(self) -> Iterable[TopicCount | None]:
        return (_parsed(member.subscription) for member in self.members.values())


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a log grows and a group follows, and about how long it is behind; None while that is not known."""

    appended_bytes_per_s: float | None = None
    committed_bytes_per_s: float | None = None
    lag_s: float | None = None


class GroupPartition(NamedTuple):
    """Describes one partition as a group sees it; None: no owner, nothing committed, or no broker that answers."""

    where: TopicPartition
    owner: str | None
    committed: int | None
    end: int | None
    earliest: int | None = None
    owned_since_ms: int | None = None
    committed_at_ms: int | None = None
    commit_version: int | None = None
    is_subscribed: bool = False
    pace: Pace | None = None
    """None unless the group has been watched for a while."""

    @property
    def lag_bytes(self) -> int | None:
        """Return how many bytes of the log are flushed and not committed as consumed."""
        return None if self.committed is None or self.end is None else self.end - self.committed

    @property
    def lag_s(self) -> float | None:
        """Return about how many seconds the group lags."""
        return None if self.pace is None else self.pace.lag_s

    def columns(self) -> dict[str, object]:
        """Return the fields that commands and the console show."""
        columns: dict[str, object] = {
            "partition": str(self.where),
            "owner": self.owner,
            "committed": self.committed,
            "end": self.end,
            "lag_bytes": self.lag_bytes,
        }
        if self.pace is not None:
            columns["appended_bytes_per_s"] = self.pace.appended_bytes_per_s
            columns["committed_bytes_per_s"] = self.pace.committed_bytes_per_s
            columns["lag_s"] = self.pace.lag_s
        return columns


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """Brokers by id, how many partitions of each topic each of them has, where these begin and end, and groups."""

    brokers: Mapping[int, BrokerInfo] = field(default_factory=dict)
    topics: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    groups: Mapping[str, GroupInfo] = field(default_factory=dict)
    log_offsets: Mapping[TopicPartition, LogOffsets] = field(default_factory=dict)
    """Of the partitions whose brokers were asked and have answered."""
    replicas: Mapping[int, BrokerReplicas] = field(default_factory=dict)
    """Of the broker ids that have some, if they were asked for."""

    def partitions(self, *topics: str) -> list[TopicPartition]:
        """List the partitions of topics that living brokers have, sorted; of all topics by default."""
        names = sorted(topics or self.topics)
        return [where for topic in names for where in TopicPartition.all_of(topic, self.topics.get(topic, {}))]

    def partition_ends(self, where: TopicPartition) -> PartitionEnds:
        """Return a partition with its broker, and where it begins and ends."""
        info = self.brokers.get(where.broker_id)
        earliest, latest = self.log_offsets.get(where, (None, None))
        return PartitionEnds(where, None if info is None else info.broker, earliest, latest)

    def has(self, where: TopicPartition) -> bool:
        """Say whether a living broker has registered a partition."""
        return 0 <= where.partition < self.topics.get(where.topic, {}).get(where.broker_id, 0)

    def group(self, name: str) -> GroupInfo:
        """Return a group. Raises KafkaError when it is unknown."""
        if name not in self.groups:
            raise KafkaError(f"there is no group {name}")
        return self.groups[name]

    def group_partitions(self, name: str) -> list[GroupPartition]:
        """List the partitions of the topics that a group subscribes to, owns or has an offset of; sorted.

        Raises KafkaError when the group is unknown.
        """
        group = self.group(name)
        subscribed = group.subscribed(self.topics)
        registered = self._registered(subscribed | group.topics)
        return [
            self._group_partition(group, where, is_subscribed=where.topic in subscribed and where in registered)
            for where in sorted(registered | group.owners.keys() | group.offsets.keys())
        ]

    def _group_partition(self, group: GroupInfo, where: TopicPartition, *, is_subscribed: bool) -> GroupPartition:
        owner, committed, log = group.owners.get(where), group.offsets.get(where), self.log_offsets.get(where)
        earliest, end = (None, None) if log is None else log
        return GroupPartition(
            where,
            owner=None if owner is None else owner.stream_id,
            committed=None if committed is None else committed.offset,
            end=end,
            earliest=earliest,
            owned_since_ms=None if owner is None else owner.since_ms,
            committed_at_ms=None if committed is None else committed.at_ms,
            commit_version=None if committed is None else committed.version,
            is_subscribed=is_subscribed,
        )

    def problems(self, name: str) -> list[str]:
        """Say what keeps a group from having exactly one live owner for every partition; nothing if all is well.

        Raises KafkaError when the group is unknown.
        """
        group = self.group(name)
        if not group.members:
            return [f"group {name} has no members"]
        subscribed = group.subscribed(self.topics)
        registered = self._registered(subscribed)
        problems: list[str] = []
        for topic in sorted(subscribed):
            owners = {where: owner for where, owner in group.owners.items() if where.topic == topic}
            unowned = sorted(where for where in registered - owners.keys() if where.topic == topic)
            problems += [f"{where} has no owner" for where in unowned]
            for where, owner in owners.items():
                if where not in registered:
                    problems.append(f"{where} is owned by {owner.stream_id}, but no broker has it")
                elif member_of(owner.stream_id) not in group.members:
                    problems.append(f"{where} is owned by {owner.stream_id}, which is no member")
        return problems

    def _registered(self, topics: Iterable[str]) -> set[TopicPartition]:
        return {where for topic in topics for where in TopicPartition.all_of(topic, self.topics.get(topic, {}))}


def member_of(stream_id: str) -> str:
    """Return the member that a stream belongs to: a stream is named `{consumer}-{number}`."""
    return stream_id.rpartition("-")[0]


def _parsed(subscription: str) -> TopicCount | None:
    try:
        return TopicCount.parse(subscription)
    except MalformedSubscriptionError:
        return None
