"""Which groups there are, and who their members are: of 0.7 and of today, as ZooKeeper knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka2011.admin.snapshot.cluster_reader import ClusterReader
from kafka2011.admin.snapshot.cluster_snapshot import member_of
from kafka2011.consumer.topic_count import MalformedSubscriptionError, TopicCount
from zk.consumers import ConsumerRegistry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafka2011.admin.snapshot.cluster_snapshot import ClusterSnapshot
    from zk.client import ZkClient
    from zk.cluster import TopicPartition
    from zk.gateway_members import GatewayMember

STABLE = "Stable"
EMPTY = "Empty"
DEAD = "Dead"


class DescribedMember(NamedTuple):
    """A member of a group; `client` is what a gateway says of it, None for one of 0.7."""

    consumer_id: str
    client: GatewayMember | None
    topics: tuple[str, ...]
    partitions: tuple[TopicPartition, ...]


class DescribedGroup(NamedTuple):
    """A group and its members."""

    state: str
    members: tuple[DescribedMember, ...] = ()


class GroupDirectory:
    """Reads groups and their members, and deletes groups. Raises ZkError while ZooKeeper is away."""

    def __init__(self, client: ZkClient) -> None:
        self._client = client
        self._consumers = ConsumerRegistry(client)

    def states(self) -> dict[str, str]:
        """Return the state of each group."""
        members = self._consumers.members_of_many(self._consumers.groups())
        return {group: STABLE if members[group] else EMPTY for group in members}

    def has_members(self, group: str) -> bool:
        """Say whether a group has members, of 0.7 or of today."""
        return bool(self._consumers.members(group))

    def state(self, group: str) -> str:
        """Return the state of one group."""
        if self.has_members(group):
            return STABLE
        return EMPTY if group in self._consumers.groups() else DEAD

    def subscribed_topics(self, group: str) -> set[str]:
        """Return the topics that a group's members want."""
        return {topic for member in self.describe([group])[group].members for topic in member.topics}

    def describe(self, groups: Iterable[str]) -> dict[str, DescribedGroup]:
        """Return groups with their members; one that does not exist is dead."""
        names = set(groups)
        snapshot = ClusterReader(self._client).read_groups(names, with_offsets=False)
        return {
            name: self._described(name, snapshot) if name in snapshot.groups else DescribedGroup(DEAD) for name in names
        }

    def delete(self, group: str) -> None:
        """Delete a group with its offsets. Raises GroupInUse while it has members."""
        self._consumers.delete_group(group)

    def _described(self, name: str, snapshot: ClusterSnapshot) -> DescribedGroup:
        group = snapshot.groups[name]
        owned: dict[str, list[TopicPartition]] = {}
        for where, owner in group.owners.items():
            owned.setdefault(member_of(owner.stream_id), []).append(where)
        members = tuple(
            DescribedMember(
                consumer_id,
                info.client,
                _topics_of(info.subscription, snapshot.topics),
                tuple(sorted(owned.get(consumer_id, ()))),
            )
            for consumer_id, info in group.members.items()
        )
        return DescribedGroup(STABLE if members else EMPTY, members)


def _topics_of(subscription: str, topics: Iterable[str]) -> tuple[str, ...]:
    try:
        return tuple(TopicCount.parse(subscription).topics(sorted(topics)))
    except MalformedSubscriptionError:
        return ()
