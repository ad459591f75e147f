"""The registries of one consumer group in ZooKeeper: read when they have changed, and written many at a time."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kafka2011.consumer.known import CachedNodes, KnownTexts, nobody
from zk import paths
from zk.brokers import BrokerRegistry
from zk.consumers import ConsumerRegistry
from zk.known_nodes import KnownTopic
from zk.nodes import Nodes
from zk.offsets import OffsetRegistry
from zk.owners import OwnerRegistry
from zk.sessions import SessionLease

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kafka2011.consumer.group_registries import Wake
    from zk.client import ZkClient
    from zk.cluster import Broker, TopicPartition
    from zk.errors import MalformedNode, NodeHeld, ZkError
    from zk.offsets import CommittedOffset, OffsetCommit

COMPARE_TOPICS_S = 10.0
"""How often topics are compared with the registry: there may be thousands of them, and watches tell what changes."""


class ZkGroup:
    """The registries of a group in ZooKeeper, for one member. Several members may use one client."""

    def __init__(self, client: ZkClient, group: str, consumer_id: str) -> None:
        self._client = client
        self._group = group
        self._consumer_id = consumer_id
        self.session: ZkGroupSession | None = None

    def current(self) -> ZkGroupSession | None:
        """Return the present session, the same object while it is the same session; None while there is none."""
        session_id = self._client.session_id
        if session_id is None:
            return None
        if self.session is None or self.session.session_id != session_id:
            self.session = ZkGroupSession(self._client, self._group, self._consumer_id, session_id)
        return self.session


class ZkGroupSession:
    """A group's registries, bound to one ZooKeeper session. Its readers are used by one thread at a time."""

    def __init__(self, client: ZkClient, group: str, consumer_id: str, session_id: int) -> None:
        self._group = group
        self._clock = client.clock
        self.topics_compared_s = self._clock.monotonic_s()
        self.session_id = session_id
        self.lease = SessionLease(client, session_id)
        self._brokers = BrokerRegistry(client)
        self._consumers = ConsumerRegistry(client, session_id)
        self._owners = OwnerRegistry(client, session_id, consumer_id)
        self._nodes = Nodes(client, session_id)
        self._offsets = OffsetRegistry(client, session_id)
        self.known_subscriptions = KnownTexts(
            paths.consumer_ids(group),
            partial(self._consumers.members, group),
            partial(self._consumers.subscriptions_of, group),
        )
        self.known_rules: KnownTexts | None = None
        self._known_topics = CachedNodes(paths.BROKER_TOPICS, self._brokers.topics)
        self.known_brokers = CachedNodes(paths.BROKER_IDS, self._brokers.brokers)
        self.known_partitions: dict[str, KnownTopic] = {}
        self.known_owned_names: dict[str, CachedNodes[frozenset[str]]] = {}  # not watched: they change all the time
        self._topics_with_owners: set[str] = set()
        self._topics_with_offsets: set[str] = set()
        self.standing: set[TopicPartition] = set()  # owner nodes of ours that are watched

    def register(self, consumer_id: str, subscription: str, rule: str | None = None) -> None:
        """Become a member; the registries' parents are made first, so that they can be watched."""
        self._consumers.ensure_group(self._group)
        self._brokers.ensure_parents()
        self._consumers.register(self._group, consumer_id, subscription, rule)

    def deregister(self, consumer_id: str) -> None:
        """Stop being a member."""
        self._consumers.deregister(self._group, consumer_id)

    # What others write, read when it has changed -----------------------------------------------------------------

    def refresh(self) -> None:
        """Compare how often each registry has changed, so that watches need not be trusted forever.

        Topics only now and then: asking about each of them whenever one has changed would cost the more, the more there
        are.
        """
        every: list[CachedNodes[Any]] = [
            self.known_subscriptions,
            *([] if self.known_rules is None else [self.known_rules]),
            self._known_topics,
            self.known_brokers,
            *self.known_owned_names.values(),
        ]
        changes = self._nodes.count_changes(known.path for known in every)
        for known in every:
            known.compare(changes[known.path])
        now_s = self._clock.monotonic_s()
        if now_s >= self.topics_compared_s + COMPARE_TOPICS_S:
            self._brokers.count_changes(self.known_partitions.values())
            self.topics_compared_s = now_s

    def subscriptions(self, wake: Wake) -> dict[str, str]:
        """Return what each member subscribes to, by consumer id."""
        return self.known_subscriptions.value(wake)

    def rules(self, wake: Wake) -> dict[str, str]:
        """Return what those say who say how they would divide, by consumer id."""
        if self.known_rules is None:  # members that divide as 0.7 does need not ask
            group, consumers = self._group, self._consumers
            self.known_rules = KnownTexts(
                paths.assignments(group), partial(consumers.who_says_rules, group), partial(consumers.rules_of, group)
            )
        return self.known_rules.value(wake)

    def topics(self, wake: Wake) -> list[str]:
        """List all topics."""
        return self._known_topics.value(wake)

    def partitions_of(self, topics: Iterable[str], wake: Wake) -> dict[str, dict[int, int]]:
        """Return how many partitions of each topic each broker has; what has to be read is read together."""
        every = [self._known_topic(topic, wake) for topic in topics]
        self._brokers.follow(every)
        return {known.topic: self._brokers.counts_of(known) for known in every}

    def _known_topic(self, topic: str, wake: Wake) -> KnownTopic:
        known = self.known_partitions.get(topic)
        if known is None:
            self.known_partitions[topic] = known = KnownTopic(topic, wake)
        known.wake = wake
        return known

    def brokers(self, wake: Wake) -> dict[int, Broker]:
        """Return the live brokers."""
        return self.known_brokers.value(wake)

    # Owners ------------------------------------------------------------------------------------------------------

    def claim(self, streams: Mapping[TopicPartition, str]) -> dict[TopicPartition, NodeHeld]:
        """Make streams of ours the owners of partitions, and return those that others own."""
        for topic in {where.topic for where in streams} - self._topics_with_owners:
            # Once, rather than after each of many creates that find no parent.
            self._nodes.ensure_persistent(paths.owners(self._group, topic))
            self._topics_with_owners.add(topic)
        return self._owners.claim_many(self._group, streams)

    def release(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop owning these partitions; this wakes nobody here."""
        every = list(partitions)
        self.standing.difference_update(every)
        self._owners.release_many(self._group, every)

    def mine(self, partitions: Collection[TopicPartition], wake: Wake) -> set[TopicPartition]:
        """Return which of these partitions are ours; `wake` is called when one of them no longer is.

        Reads only those not known from a watch, or whose node is missing from the list.
        """
        names = {topic: self._owned_names(topic) for topic in {where.topic for where in partitions}}
        known = {where for where in partitions if where in self.standing and where.znode_name in names[where.topic]}
        unknown = {self._owner_path(where): where for where in partitions if where not in known}
        # Noted before they are read: what a watch says while they are is not to be forgotten.
        self.standing.update(unknown.values())
        ours: set[TopicPartition] = set()
        try:
            nodes = self._nodes.get_many(unknown, lambda path: _OwnerWatch(self.standing, unknown[path], wake))
            ours.update(unknown[path] for path in self._owners.are_mine(nodes.values()))
        finally:
            self.standing.difference_update(where for where in unknown.values() if where not in ours)
        return known | ours

    def _owned_names(self, topic: str) -> frozenset[str]:
        known = self.known_owned_names.get(topic)
        if known is None:
            path = paths.owners(self._group, topic)
            known = CachedNodes(path, lambda _: frozenset(self._nodes.children(path)))
            self.known_owned_names[topic] = known
        return known.value(nobody)

    def is_mine(self, where: TopicPartition) -> bool:
        """Ask whether a partition is ours now."""
        return where in self.still_mine([where])

    def still_mine(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """Ask which of these partitions are ours now."""
        where_at = {self._owner_path(where): where for where in partitions}
        nodes = self._nodes.get_many(where_at)
        return {where_at[path] for path in self._owners.are_mine(nodes.values())}

    def watch_owners(self, partitions: Iterable[TopicPartition], wake: Wake) -> bool:
        """Call `wake` once when another gives one of these up; False if one of them already has no owner."""
        watch = _Watch(wake)
        return all(self._nodes.exist(map(self._owner_path, partitions), lambda _: watch).values())

    def _owner_path(self, where: TopicPartition) -> str:
        return paths.owner(self._group, where)

    # Offsets -----------------------------------------------------------------------------------------------------

    def read_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, CommittedOffset | MalformedNode]:
        """Read the group's offsets and their versions; partitions without one are left out."""
        return self._offsets.read_many(self._group, partitions)

    def create_offset(self, where: TopicPartition, offset: int) -> int:
        """Write the first offset and return its version. Raises VersionConflict when there is one."""
        return self._offsets.create(self._group, where, offset)

    def create_offsets(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | ZkError]:
        """Write first offsets; return the version of each, or the error, VersionConflict where there is one."""
        for topic in {where.topic for where in offsets} - self._topics_with_offsets:
            self._nodes.ensure_persistent(paths.offsets(self._group, topic))
            self._topics_with_offsets.add(topic)
        return self._offsets.create_many(self._group, offsets)

    def write_offset(self, where: TopicPartition, offset: int) -> int:
        """Write the offset whatever is there, and return its version."""
        return self._offsets.write(self._group, where, offset)

    def commit_offsets(self, commits: Iterable[OffsetCommit]) -> dict[TopicPartition, int | ZkError]:
        """Write each offset if it is still at its version; return the new version of each, or the error."""
        return self._offsets.commit_many(self._group, commits)


class _Watch:
    """A watch that compares equal for the same waker, so that reading often does not pile them up."""

    __slots__ = ("_wake",)

    def __init__(self, wake: Wake) -> None:
        self._wake = wake

    def __call__(self, _event: object) -> None:
        self._wake()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Watch) and self._wake == other._wake

    def __hash__(self) -> int:
        return hash(self._wake)


class _OwnerWatch:
    """The watch of an owner node of ours: wakes only if the node was thought to exist."""

    __slots__ = ("_wake", "_where", "standing")

    def __init__(self, standing: set[TopicPartition], where: TopicPartition, wake: Wake) -> None:
        self.standing = standing
        self._where = where
        self._wake = wake

    def __call__(self, _event: object) -> None:
        if self._where in self.standing:
            self.standing.discard(self._where)
            self._wake()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _OwnerWatch) and (self._where, self._wake) == (other._where, other._wake)

    def __hash__(self) -> int:
        return hash(self._where)
