"""The registries of one consumer group, as the rebalance and the commits see them.

`GroupSession` is what a member can do in one ZooKeeper session: none of it is ever retried, or sent in another
session. `ZkGroup` has the real one; tests can use one in memory instead.
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
    """What a member holds while its session is certainly alive."""

    until_s: float
    """Until when it is, on the lease clock; moves on as requests to ZooKeeper are answered."""

    @property
    def renew_interval_s(self) -> float:
        """How often to renew."""

    def renew(self) -> None:
        """Ask ZooKeeper something. Raises ZkUnavailable when it does not answer."""

    def end(self) -> None:
        """Give the lease up for good."""


class GroupSession(Protocol):
    """One member's view of its group's registries in one session.

    Every method raises ZkUnavailable when ZooKeeper does not answer or the session is no longer the same. A method that
    writes many znodes tries all of them first; those that were not answered may have been written. `wake` is called
    once when what was read may have changed; it only sets an event.
    """

    session_id: int
    """The session that all this happens in."""

    @property
    def lease(self) -> Lease:
        """How long the session is certain to live."""

    def register(self, consumer_id: str, subscription: str, rule: str | None = None) -> None:
        """Become a member, who says how to divide where that is not as in 0.7."""

    def deregister(self, consumer_id: str) -> None:
        """Stop being a member."""

    def refresh(self) -> None:
        """Compare what was read with the registries, so that what has changed unnoticed is read again."""

    def subscriptions(self, wake: Wake) -> dict[str, str]:
        """Return what each member subscribes to, by consumer id."""

    def rules(self, wake: Wake) -> dict[str, str]:
        """Return what those say who say how they would divide, by consumer id."""

    def topics(self, wake: Wake) -> list[str]:
        """List all topics."""

    def partitions_of(self, topics: Iterable[str], wake: Wake) -> dict[str, dict[int, int]]:
        """Return how many partitions of each topic each broker has."""

    def brokers(self, wake: Wake) -> dict[int, Broker]:
        """Return the live brokers."""

    def claim(self, streams: Mapping[TopicPartition, str]) -> dict[TopicPartition, NodeHeld]:
        """Make streams of ours the owners of partitions, and return those that others own."""

    def release(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop owning these partitions."""

    def mine(self, partitions: Collection[TopicPartition], wake: Wake) -> set[TopicPartition]:
        """Return which of these partitions are ours; `wake` is called when one of them no longer is."""

    def is_mine(self, where: TopicPartition) -> bool:
        """Ask whether a partition is ours now."""

    def still_mine(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """Ask which of these partitions are ours now."""

    def watch_owners(self, partitions: Iterable[TopicPartition], wake: Wake) -> bool:
        """Call `wake` once when another gives one of these up; False if one of them already has no owner."""

    def read_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, CommittedOffset | MalformedNode]:
        """Read the group's offsets and their versions; partitions without one are left out."""

    def create_offset(self, where: TopicPartition, offset: int) -> int:
        """Write the first offset and return its version. Raises VersionConflict when there is one."""

    def create_offsets(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | ZkError]:
        """Write first offsets; return the version of each, or the error, VersionConflict where there is one.

        Raises ZkUnavailable where nothing could be written.
        """

    def write_offset(self, where: TopicPartition, offset: int) -> int:
        """Write the offset whatever is there, and return its version."""

    def commit_offsets(self, commits: Iterable[OffsetCommit]) -> dict[TopicPartition, int | ZkError]:
        """Write each offset if it is still at its version; return the new version of each, or the error.

        Raises nothing: VersionConflict, NotConnected and other ZkUnavailable errors are returned.
        """


class GroupRegistries(Protocol):
    """Gives the present session."""

    def current(self) -> GroupSession | None:
        """Return the present session, the same object while it is the same session; None while there is none."""
