"""The registries of one consumer group, as the rebalance and the commits see them.

`GroupSession` is what a member can do in one ZooKeeper session: nothing of it is ever retried, or sent in another
session. `ZkGroup` is the real one; a test can put one in memory in its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from zk import paths
from zk.brokers import BrokerRegistry
from zk.consumers import ConsumerRegistry
from zk.nodes import Nodes
from zk.offsets import OffsetRegistry
from zk.owners import OwnerRegistry
from zk.sessions import SessionLease

if TYPE_CHECKING:
    from collections.abc import Callable

    from zk.client import ZkClient
    from zk.cluster import Broker, TopicPartition
    from zk.offsets import CommittedOffset

    Wake = Callable[[], None]


class Lease(Protocol):
    """What a member holds while its session surely lives."""

    until_s: float
    """Until when it does, on the lease clock; moves on as questions to ZooKeeper are answered."""

    @property
    def renew_interval_s(self) -> float:
        """How often to renew."""

    def renew(self) -> None:
        """Ask ZooKeeper something. Raises ZkUnavailable when it does not answer."""

    def end(self) -> None:
        """Give the lease up for good."""


class GroupSession(Protocol):
    """One member's view of its group's registries in one session.

    Every method raises ZkUnavailable when ZooKeeper does not answer or the session is another one by now. `wake` is
    called once when what was read may have changed; it only sets an event.
    """

    session_id: int
    """The session that all this happens in."""

    @property
    def lease(self) -> Lease:
        """How long the session surely lives."""

    def register(self, consumer_id: str, subscription: str) -> None:
        """Become a member."""

    def deregister(self, consumer_id: str) -> None:
        """Be a member no longer."""

    def subscriptions(self, wake: Wake) -> dict[str, str]:
        """Read what each member subscribes to, by consumer id."""

    def topics(self, wake: Wake) -> list[str]:
        """List all topics."""

    def partitions_of(self, topic: str, wake: Wake) -> dict[int, int]:
        """Tell how many partitions of a topic each broker has."""

    def brokers(self) -> dict[int, Broker]:
        """Return the live brokers."""

    def claim(self, where: TopicPartition, stream_id: str) -> None:
        """Become the owner of a partition. Raises NodeHeld."""

    def release(self, where: TopicPartition) -> None:
        """Be the owner no longer."""

    def is_mine(self, where: TopicPartition, wake: Wake | None = None) -> bool:
        """Say whether the owner's node is this session's; `wake` is called when it no longer is."""

    def watch_owner(self, where: TopicPartition, wake: Wake) -> bool:
        """Call `wake` once when another gives a partition up; False if there is no owner already."""

    def read_offset(self, where: TopicPartition) -> CommittedOffset | None:
        """Read the group's offset and its version. Raises MalformedNode."""

    def write_offset(self, where: TopicPartition, offset: int) -> int:
        """Write the offset whatever is there, and return its version."""

    def commit_offset(self, where: TopicPartition, offset: int, version: int) -> int:
        """Write the offset if it is still at this version, and return the new one. Raises VersionConflict."""


class GroupRegistries(Protocol):
    """Gives the session that there is."""

    def current(self) -> GroupSession | None:
        """Return the present session, the same object as long as it is the same; None while there is none."""


class ZkGroup:
    """The registries of a group in ZooKeeper."""

    def __init__(self, client: ZkClient, group: str) -> None:
        self._client = client
        self._group = group
        self._session: ZkGroupSession | None = None

    def current(self) -> ZkGroupSession | None:
        """Return the present session, the same object as long as it is the same; None while there is none."""
        session_id = self._client.session_id
        if session_id is None:
            return None
        if self._session is None or self._session.session_id != session_id:
            self._session = ZkGroupSession(self._client, self._group, session_id)
        return self._session


class ZkGroupSession:
    """A group's registries, bound to one ZooKeeper session."""

    def __init__(self, client: ZkClient, group: str, session_id: int) -> None:
        self._group = group
        self.session_id = session_id
        self.lease = SessionLease(client, session_id)
        self._brokers = BrokerRegistry(client)
        self._consumers = ConsumerRegistry(client, session_id)
        self._owners = OwnerRegistry(client, session_id)
        self._nodes = Nodes(client, session_id)
        self._offsets = OffsetRegistry(client, session_id)

    def register(self, consumer_id: str, subscription: str) -> None:
        """Become a member; the registries' parents are made first, so that they can be watched."""
        self._consumers.ensure_group(self._group)
        self._brokers.ensure_parents()
        self._consumers.register(self._group, consumer_id, subscription)

    def deregister(self, consumer_id: str) -> None:
        """Be a member no longer."""
        self._consumers.deregister(self._group, consumer_id)

    def subscriptions(self, wake: Wake) -> dict[str, str]:
        """Read what each member subscribes to, by consumer id."""
        return self._consumers.subscriptions(self._group, _Watch(wake))

    def topics(self, wake: Wake) -> list[str]:
        """List all topics."""
        return self._brokers.topics(_Watch(wake))

    def partitions_of(self, topic: str, wake: Wake) -> dict[int, int]:
        """Tell how many partitions of a topic each broker has."""
        return self._brokers.partitions_of(topic, _Watch(wake))

    def brokers(self) -> dict[int, Broker]:
        """Return the live brokers."""
        return self._brokers.brokers()

    def claim(self, where: TopicPartition, stream_id: str) -> None:
        """Become the owner of a partition. Raises NodeHeld."""
        self._owners.claim(self._group, where, stream_id)

    def release(self, where: TopicPartition) -> None:
        """Be the owner no longer."""
        self._owners.release(self._group, where)

    def is_mine(self, where: TopicPartition, wake: Wake | None = None) -> bool:
        """Say whether the owner's node is this session's; `wake` is called when it no longer is."""
        node = self._nodes.get(self._owner_path(where), None if wake is None else _Watch(wake))
        return node is not None and node.owner == self.session_id

    def watch_owner(self, where: TopicPartition, wake: Wake) -> bool:
        """Call `wake` once when another gives a partition up; False if there is no owner already."""
        return self._nodes.exists(self._owner_path(where), _Watch(wake))

    def read_offset(self, where: TopicPartition) -> CommittedOffset | None:
        """Read the group's offset and its version. Raises MalformedNode."""
        return self._offsets.read(self._group, where)

    def write_offset(self, where: TopicPartition, offset: int) -> int:
        """Write the offset whatever is there, and return its version."""
        return self._offsets.write(self._group, where, offset)

    def commit_offset(self, where: TopicPartition, offset: int, version: int) -> int:
        """Write the offset if it is still at this version, and return the new one. Raises VersionConflict."""
        return self._offsets.commit(self._group, where, offset, version)

    def _owner_path(self, where: TopicPartition) -> str:
        return paths.owner(self._group, where)


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
