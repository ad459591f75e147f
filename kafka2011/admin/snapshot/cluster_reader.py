"""Reads a cluster's registries into a snapshot: once, or again and again only what a watch has told of."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

from kafka2011.admin.snapshot.cluster_snapshot import BrokerInfo, ClusterSnapshot, GroupInfo, MemberInfo
from kafka2011.consumer.known import CachedNodes, nobody
from zk import paths
from zk.brokers import BrokerRegistry
from zk.cluster import text_from
from zk.consumers import ConsumerRegistry
from zk.errors import MalformedNode
from zk.gateway_members import GatewayMemberRegistry
from zk.known_nodes import KnownNodes, KnownTopic, read_again
from zk.malformed import MalformedNodes
from zk.nodes import Nodes
from zk.offsets import OffsetRegistry
from zk.owners import OwnerRegistry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from zk.brokers import Registration
    from zk.client import ZkClient
    from zk.cluster import TopicPartition
    from zk.nodes import Watch
    from zk.offsets import CommittedOffset
    from zk.owners import Owner

logger = logging.getLogger(__name__)

Value = TypeVar("Value")


class ClusterReader:
    """Reads brokers, topics and groups. For one thread. Every reading raises ZkUnavailable.

    With `wake` it watches what it has read, and reads again only what has changed; `wake` is called, from kazoo's
    thread, when there is something to read. Offsets are watched too, and wake nobody: a group that commits often would
    wake often. Without `wake` there are no watches: it is for one reading.
    """

    def __init__(self, client: ZkClient, wake: Callable[[], None] | None = None) -> None:
        self._nodes = Nodes(client)
        self._registry = BrokerRegistry(client)
        self._consumers = ConsumerRegistry(client)
        self._owners = OwnerRegistry(client)
        self._offsets = OffsetRegistry(client)
        self._gateway_members = GatewayMemberRegistry(client)
        self._malformed = MalformedNodes(logger)
        self._is_watching = wake is not None
        self._wake = wake or nobody
        self._brokers = self._known(paths.BROKER_IDS, self._registry.registrations)
        self._topic_names = self._known(paths.BROKER_TOPICS, self._registry.topics)
        self._group_names = self._known(paths.CONSUMERS, self._consumers.groups)
        self._groups_of_today = self._known(paths.GATEWAY_MEMBERS, self._gateway_members.groups)
        self._topics: dict[str, KnownTopic] = {}
        self._groups: dict[str, _KnownGroup] = {}

    def read(self, with_offsets: Callable[[str], bool] = lambda _group: True) -> ClusterSnapshot:
        """Return all of the cluster as it is now; of groups that are not wanted the offsets as they were read last."""
        registrations = self._brokers.value(self._wake)
        topics = self._follow_topics(self._topic_names.value(self._wake))
        groups = self._follow_groups(self._group_names.value(self._wake), with_offsets)
        self._read_again([*topics, *groups])
        return self._snapshot(registrations)

    def read_groups(self, names: Collection[str] | None = None, *, with_offsets: bool = True) -> ClusterSnapshot:
        """Return groups, all of them by default, and the topics that concern them; unknown groups are left out."""
        known = self._group_names.value(self._wake)
        wanted = [name for name in known if names is None or name in names]
        self._read_again(self._follow_groups(wanted, lambda _: with_offsets))
        infos = [self._group_info(group) for group in self._groups.values()]
        registered = self._topic_names.value(self._wake) if any(info.members for info in infos) else ()
        topics = {topic for info in infos for topic in info.topics | info.subscribed(registered)}
        return self.read_topics(sorted(topics))

    def read_topics(self, names: Iterable[str]) -> ClusterSnapshot:
        """Return topics, registered or not, and the groups that were read last."""
        registrations = self._brokers.value(self._wake)
        self._read_again(self._follow_topics(names))
        return self._snapshot(registrations)

    def count_offsets(self) -> int:
        """Return how many offsets there are, as far as is known."""
        return sum(len(known.nodes) for group in self._groups.values() for known in group.offsets.values())

    @property
    def malformed(self) -> list[str]:
        """What is wrong with znodes that were left out."""
        registries = (self._registry, self._consumers, self._owners, self._offsets, self._gateway_members)
        return [*self._malformed.texts, *(text for registry in registries for text in registry.malformed.texts)]

    def _known(self, path: str, read: Callable[[Watch | None], Value]) -> CachedNodes[Value]:
        return CachedNodes(path, read if self._is_watching else lambda _: read(None))

    def _read_again(self, wanted: Iterable[KnownNodes]) -> None:
        read_again(self._nodes, wanted, is_watched=self._is_watching)

    def _follow_topics(self, names: Iterable[str]) -> Iterable[KnownNodes]:
        """Follow these topics, and no others; return what may have to be read."""
        self._topics = {name: self._topics.get(name) or KnownTopic(name, self._wake) for name in names}
        return self._topics.values()

    def _follow_groups(self, names: Iterable[str], with_offsets: Callable[[str], bool]) -> list[KnownNodes]:
        self._groups = {name: self._groups.get(name) or self._known_group(name) for name in names}
        of_today = frozenset(self._groups_of_today.value(self._wake) if self._groups else ())
        return [
            known
            for name, group in self._groups.items()
            for known in group.to_read(self._wake, with_offsets=with_offsets(name), is_of_today=name in of_today)
        ]

    def _known_group(self, name: str) -> _KnownGroup:
        return _KnownGroup(
            name,
            KnownNodes(paths.consumer_ids(name), self._wake),
            self._known(paths.group_owners(name), lambda watch: self._owners.topics(name, watch)),
            self._known(paths.group_offsets(name), lambda watch: self._offsets.topics(name, watch)),
        )

    def _snapshot(self, registrations: Mapping[int, Registration]) -> ClusterSnapshot:
        return ClusterSnapshot(
            {number: BrokerInfo(broker, since_ms) for number, (broker, since_ms) in registrations.items()},
            {name: self._registry.counts_of(known) for name, known in self._topics.items()},
            {name: self._group_info(group) for name, group in self._groups.items()},
        )

    def _group_info(self, group: _KnownGroup) -> GroupInfo:
        clients = self._gateway_members.members_of(group.clients) if group.clients is not None else {}
        members: dict[str, MemberInfo] = {}
        for node in group.members.nodes:
            try:
                text = text_from(node.path, node.data)
            except MalformedNode as error:
                self._malformed.skip(error)
            else:
                name = node.path.rpartition("/")[2]
                members[name] = MemberInfo(text, node.created_ms, clients.get(name))
        owners: dict[TopicPartition, Owner] = {}
        offsets: dict[TopicPartition, CommittedOffset] = {}
        for known in group.owners.values():
            owners |= self._owners.owners_of(known)
        for known in group.offsets.values():
            offsets |= self._offsets.offsets_of(known)
        return GroupInfo(members, owners, offsets, frozenset(group.owners) | frozenset(group.offsets))


class _KnownGroup:
    """What was read of one group."""

    def __init__(
        self,
        name: str,
        members: KnownNodes,
        owner_topics: CachedNodes[list[str]],
        offset_topics: CachedNodes[list[str]],
    ) -> None:
        self._name = name
        self._owner_topics = owner_topics
        self._offset_topics = offset_topics
        self.members = members
        self.clients: KnownNodes | None = None
        self.owners: dict[str, KnownNodes] = {}
        self.offsets: dict[str, KnownNodes] = {}

    def to_read(self, wake: Callable[[], None], *, with_offsets: bool, is_of_today: bool) -> list[KnownNodes]:
        """Return what may have to be read; gateways say something only of groups that have members of today."""
        self.clients = (self.clients or KnownNodes(paths.gateway_members(self._name), wake)) if is_of_today else None
        self.owners = {
            topic: self.owners.get(topic) or KnownNodes(paths.owners(self._name, topic), wake)
            for topic in self._owner_topics.value(wake)
        }
        if with_offsets:  # who commits wakes nobody: offsets are looked at now and then
            self.offsets = {
                topic: self.offsets.get(topic) or KnownNodes(paths.offsets(self._name, topic), nobody)
                for topic in self._offset_topics.value(nobody)
            }
        clients = [] if self.clients is None else [self.clients]
        return [self.members, *clients, *self.owners.values(), *(self.offsets.values() if with_offsets else ())]
