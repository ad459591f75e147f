"""The registries of one consumer group, as the rebalance and the commits see them.

`GroupSession` is what a member can do in one ZooKeeper session: nothing of it is ever retried, or sent in another
session. `ZkGroup` has the real one; a test can put one in memory in its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from zk.cluster import Broker, TopicPartition
    from zk.errors import MalformedNode, NodeHeld, ZkError
    from zk.offsets import CommittedOffset, OffsetCommit

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

    Every method raises ZkUnavailable when ZooKeeper does not answer or the session is another one by now; what writes
    to many znodes tries all of them first, and each that was not answered may have been written. `wake` is called once
    when what was read may have changed; it only sets an event.
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

    def refresh(self) -> None:
        """Compare what was read with the registries, so that what has changed without a word is read again."""

    def subscriptions(self, wake: Wake) -> dict[str, str]:
        """Tell what each member subscribes to, by consumer id."""

    def topics(self, wake: Wake) -> list[str]:
        """List all topics."""

    def partitions_of(self, topics: Iterable[str], wake: Wake) -> dict[str, dict[int, int]]:
        """Tell how many partitions of each topic each broker has."""

    def brokers(self, wake: Wake) -> dict[int, Broker]:
        """Return the live brokers."""

    def claim(self, streams: Mapping[TopicPartition, str]) -> dict[TopicPartition, NodeHeld]:
        """Make streams of ours the owners of partitions, and return those that others own."""

    def release(self, partitions: Iterable[TopicPartition]) -> None:
        """Own these partitions no longer."""

    def mine(self, partitions: Collection[TopicPartition], wake: Wake) -> set[TopicPartition]:
        """Tell which of these partitions this session owns; `wake` is called when it owns one of them no longer."""

    def is_mine(self, where: TopicPartition) -> bool:
        """Ask whether this session owns a partition now."""

    def watch_owners(self, partitions: Iterable[TopicPartition], wake: Wake) -> bool:
        """Call `wake` once when another gives one of these up; False if one of them has no owner already."""

    def read_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, CommittedOffset | MalformedNode]:
        """Read the group's offsets and their versions; partitions without one are left out."""

    def write_offset(self, where: TopicPartition, offset: int) -> int:
        """Write the offset whatever is there, and return its version."""

    def commit_offsets(self, commits: Iterable[OffsetCommit]) -> dict[TopicPartition, int | ZkError]:
        """Write each offset if it is still at its version; tell the new version of each, or the error.

        Raises nothing: VersionConflict, NotConnected and other ZkUnavailable are among what it tells.
        """


class GroupRegistries(Protocol):
    """Gives the session that there is."""

    def current(self) -> GroupSession | None:
        """Return the present session, the same object as long as it is the same; None while there is none."""
