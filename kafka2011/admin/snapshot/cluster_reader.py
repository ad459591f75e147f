"""Reads a cluster's registries, and of them again only what a watch has told of."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from kafka2011.admin.snapshot.cluster_snapshot import SeenBroker, SeenCluster, SeenGroup, SeenMember
from kafka2011.consumer.known import Known
from zk import paths
from zk.brokers import BrokerRegistry
from zk.cluster import text_from
from zk.consumers import ConsumerRegistry
from zk.errors import MalformedNode
from zk.known_nodes import KnownNodes, KnownTopic, read_again
from zk.malformed import MalformedNodes
from zk.nodes import Nodes
from zk.offsets import OffsetRegistry
from zk.owners import OwnerRegistry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from zk.client import ZkClient
    from zk.cluster import TopicPartition
    from zk.nodes import Watch
    from zk.offsets import CommittedOffset
    from zk.owners import Owner

logger = logging.getLogger(__name__)


class ClusterReader:
    """Follows brokers, topics and groups; `wake` is called, from kazoo's thread, when there is something to read.

    For one thread. Offsets are watched too, and a group that commits often tells often: who calls `read` says whose
    are wanted, and how soon again.
    """

    def __init__(self, client: ZkClient, wake: Callable[[], None]) -> None:
        self._nodes = Nodes(client)
        self._registry = BrokerRegistry(client)
        self._consumers = ConsumerRegistry(client)
        self._owners = OwnerRegistry(client)
        self._offsets = OffsetRegistry(client)
        self._malformed = MalformedNodes(logger)
        self._wake = wake
        self._brokers = Known(paths.BROKER_IDS, self._read_brokers)
        self._topic_names = Known(paths.BROKER_TOPICS, self._registry.topics)
        self._group_names = Known(paths.CONSUMERS, self._consumers.groups)
        self._topics: dict[str, KnownTopic] = {}
        self._groups: dict[str, _KnownGroup] = {}

    def read(self, with_offsets: Callable[[str], bool]) -> SeenCluster:
        """Return the cluster as it is now; offsets as they were read last, but for groups that are wanted.

        Raises ZkUnavailable.
        """
        brokers = self._brokers.value(self._wake)
        topics = self._topic_names.value(self._wake)
        names = self._group_names.value(self._wake)
        self._topics = {each: self._topics.get(each) or KnownTopic(each, self._wake) for each in topics}
        self._groups = {each: self._groups.get(each) or self._known_group(each) for each in names}
        unread: list[KnownNodes] = list(self._topics.values())
        for name, group in self._groups.items():
            unread += group.to_read(with_offsets=with_offsets(name))
        read_again(self._nodes, unread)
        return SeenCluster(
            brokers,
            {each: self._registry.counts_of(known) for each, known in self._topics.items()},
            {name: self._seen_group(group) for name, group in self._groups.items()},
        )

    def count_offsets(self) -> int:
        """Return how many offsets there are, as far as is known."""
        return sum(len(known.nodes) for group in self._groups.values() for known in group.offsets.values())

    def _read_brokers(self, watch: Watch) -> dict[int, SeenBroker]:
        found = self._registry.brokers(watch)
        nodes = self._nodes.get_many(paths.broker(number) for number in found)
        return {
            number: SeenBroker(broker, nodes[path].created_ms)
            for number, broker in found.items()
            if (path := paths.broker(number)) in nodes
        }

    def _known_group(self, name: str) -> _KnownGroup:
        return _KnownGroup(name, self._wake, partial(self._owners.topics, name), partial(self._offsets.topics, name))

    def _seen_group(self, group: _KnownGroup) -> SeenGroup:
        members: dict[str, SeenMember] = {}
        for node in group.members.nodes:
            try:
                text = text_from(node.path, node.data)
            except MalformedNode as error:
                self._malformed.skip(error)
            else:
                members[node.path.rpartition("/")[2]] = SeenMember(text, node.created_ms)
        owners: dict[TopicPartition, Owner] = {}
        offsets: dict[TopicPartition, CommittedOffset] = {}
        for known in group.owners.values():
            owners |= self._owners.owners_of(known)
        for known in group.offsets.values():
            offsets |= self._offsets.offsets_of(known)
        return SeenGroup(members, owners, offsets)


class _KnownGroup:
    """What was read of one group."""

    def __init__(
        self,
        name: str,
        wake: Callable[[], None],
        owner_topics: Callable[[Watch], list[str]],
        offset_topics: Callable[[Watch], list[str]],
    ) -> None:
        self._name = name
        self._wake = wake
        self._owner_topics = Known(paths.group_owners(name), owner_topics)
        self._offset_topics = Known(paths.group_offsets(name), offset_topics)
        self.members = KnownNodes(paths.consumer_ids(name), wake)
        self.owners: dict[str, KnownNodes] = {}
        self.offsets: dict[str, KnownNodes] = {}

    def to_read(self, *, with_offsets: bool) -> Iterable[KnownNodes]:
        """Return what may have to be read."""
        owned = self._owner_topics.value(self._wake)
        self.owners = {
            each: self.owners.get(each) or KnownNodes(paths.owners(self._name, each), self._wake) for each in owned
        }
        found: Collection[KnownNodes] = [self.members, *self.owners.values()]
        if with_offsets:
            committed = self._offset_topics.value(lambda: None)
            self.offsets = {
                each: self.offsets.get(each) or KnownNodes(paths.offsets(self._name, each), lambda: None)
                for each in committed  # who commits wakes nobody: offsets are looked at now and then
            }
            found = [*found, *self.offsets.values()]
        return found
