"""Admin: what operators do to topics and groups, for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.admin.groups import Groups
from kafka2011.admin.topic_changes import delete_topic
from kafka2011.admin.topic_growth import grow_topic
from kafka2011.admin.topics import create_topic, describe_topic
from zk.brokers import BrokerRegistry
from zk.closing import Closing
from zk.cluster import TopicPartition
from zk.connecting import DEFAULT_SESSION_TIMEOUT_MS, connect

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafka2011.admin.snapshot.cluster_snapshot import GroupPartition, PartitionEnds
    from kafka2011.admin.topic_changes import TopicDeletion
    from kafka2011.admin.topic_growth import BrokerChange
    from kafka2011.admin.topics import CreatedTopic
    from zk.cluster import Broker


class Admin(Closing):
    """Shows and changes the topics and groups of a cluster, as `kafka2011 topics` and `kafka2011 groups` do.

        with Admin("localhost:2181") as admin:
            admin.create_topic("views")
            admin.reset_group("reports", "views", "earliest")

    A context manager; may be shared by threads. Every method raises ZkError when ZooKeeper is away, KafkaError when a
    broker is, or when something is not there.
    """

    def __init__(self, zk_connect: str, *, session_timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS) -> None:
        if not isinstance(zk_connect, str):
            raise TypeError(f"zk_connect is text, host:port,host:port/chroot, not {type(zk_connect).__name__}")
        self._zk_connect = zk_connect
        self._client = connect(zk_connect, session_timeout_ms)
        self._registry = BrokerRegistry(self._client)
        self._groups = Groups(self._client)

    def __repr__(self) -> str:
        return f"<Admin of {self._zk_connect}, {'connected' if self._client.connected else 'not connected'}>"

    def brokers(self) -> dict[int, Broker]:
        """Return the live brokers by id."""
        return self._registry.brokers()

    def topics(self) -> dict[str, list[TopicPartition]]:
        """Return all topics that were ever registered, each with its partitions on living brokers."""
        registry = self._registry
        return {topic: TopicPartition.all_of(topic, registry.partitions_of(topic)) for topic in registry.topics()}

    def create_topic(
        self,
        topic: str,
        broker_ids: Collection[int] | None = None,
        *,
        partitions: int | None = None,
        per_broker: int | None = None,
    ) -> list[CreatedTopic]:
        """Create a topic on `broker_ids`, by default on all live brokers, and wait until it is registered.

        It has `partitions` partitions in all, spread evenly, or `per_broker` on each broker; without either, as many on
        each broker as its settings say. Raises KafkaError when the brokers cannot make that number; none of it is left.
        """
        return create_topic(self._client, topic, broker_ids, partitions=partitions, per_broker=per_broker)

    def describe_topic(self, topic: str) -> list[PartitionEnds]:
        """Return the partitions of a topic, each with its broker, first offset and flushed end."""
        return describe_topic(self._client, topic)

    def grow_topic(
        self,
        topic: str,
        partitions: int | None = None,
        broker_ids: Collection[int] | None = None,
        *,
        per_broker: int | None = None,
        dry_run: bool = False,
    ) -> list[BrokerChange]:
        """Give a topic `partitions` partitions in all, or `per_broker` on each live broker that has it.

        A number in all includes partitions of brokers that are down; new ones go to the brokers with the fewest, of
        `broker_ids` or of all live ones. Brokers of 0.7 stay as they are. With `dry_run` nothing is changed, and the
        result says what would be.
        """
        return grow_topic(self._client, topic, partitions, broker_ids, per_broker=per_broker, dry_run=dry_run)

    def delete_topic(self, topic: str, *, offsets: bool = True, dry_run: bool = False) -> TopicDeletion:
        """Delete a topic, with `offsets` also the groups' offsets in it; brokers of 0.7 stay as they are.

        Brokers that are down delete it when they start. A producer that publishes to the topic creates it again. With
        `dry_run` nothing is changed.
        """
        return delete_topic(self._client, topic, offsets=offsets, dry_run=dry_run)

    def groups(self) -> list[str]:
        """Return the names of all consumer groups that ZooKeeper knows."""
        return self._groups.names()

    def members(self, group: str) -> dict[str, str]:
        """Return the live members of a group, each with the text of its subscription."""
        return self._groups.members(group)

    def describe_group(self, group: str) -> list[GroupPartition]:
        """Return each partition that a group subscribes to, owns or has an offset of: owner, offset, end, lag."""
        return self._groups.describe(group)

    def problems(self, group: str) -> list[str]:
        """Return what keeps a group from having one live owner for each partition; empty if all is well."""
        return self._groups.problems(group)

    def reset_group(
        self,
        group: str,
        topic: str,
        to: int | str,
        partitions: Collection[TopicPartition] = (),
        *,
        dry_run: bool = False,
    ) -> dict[TopicPartition, int]:
        """Move a group's offsets of a topic, or of some of its partitions, and return them.

        `to` is `earliest`, `latest`, `@` and a time in ms since 1970, or an offset at which a message starts. With
        `dry_run` nothing is written. Raises GroupInUse while the group has members.
        """
        return self._groups.reset(group, topic, to, partitions, dry_run=dry_run)

    def shift_group(
        self,
        group: str,
        topic: str,
        messages: int,
        partitions: Collection[TopicPartition] = (),
        *,
        dry_run: bool = False,
    ) -> dict[TopicPartition, int]:
        """Move a group's offsets of a topic by `messages` messages, back if negative, and return them.

        An offset never leaves its partition. A compressed set counts as one message. With `dry_run` nothing is written.
        Raises what `reset_group` raises.
        """
        return self._groups.shift(group, topic, messages, partitions, dry_run=dry_run)

    def export_offsets(self, group: str) -> dict[str, dict[str, int]]:
        """Return all offsets of a group: topic to `{broker}-{partition}` to offset."""
        return self._groups.export_offsets(group)

    def import_offsets(self, group: str, offsets: Mapping[str, Mapping[str, int]], *, check: bool = True) -> int:
        """Write offsets in the form of `export_offsets`, and return how many. Raises GroupInUse while it has members.

        With `check` they must lie in partitions of living brokers.
        """
        return self._groups.import_offsets(group, offsets, check=check)

    def delete_group(self, group: str) -> None:
        """Remove a group with its offsets. Raises GroupInUse while it has members."""
        self._groups.delete(group)

    def close(self) -> None:
        """End the ZooKeeper session; may be called twice."""
        self._client.shutdown()
