"""One partition while this member owns it: its feed, the session that claimed it, and what is committed of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from kafka2011.consumer.feed import State
    from kafka2011.consumer.group_registries import GroupSession, Lease
    from zk.cluster import Broker, TopicPartition


class Feed(Protocol):
    """What a member does with a partition that it owns, as the rebalance and the commits see it."""

    where: TopicPartition
    stream_id: str
    state: State

    @property
    def consumed_offset(self) -> int | None:
        """Where the group goes on; None while that is not known."""

    def start_at(self, offset: int, epoch: int | None = None) -> bool:
        """Go on at an offset, which also counts as consumed so far; False while the partition is being given up."""

    def begin_release(self) -> None:
        """Hand out nothing new from now on."""

    def end_release(self, deadline_s: float) -> None:
        """Wait until the application has come back, or the deadline, and give the partition up."""

    def abandon(self) -> None:
        """Give the partition up at once, because it is no longer ours."""


F_co = TypeVar("F_co", bound=Feed, covariant=True)
F = TypeVar("F", bound=Feed)


class Stream(Protocol[F_co]):
    """Takes a share of a topic's partitions."""

    @property
    def stream_id(self) -> str:
        """Its id, `{consumer}-{number}`."""

    def feed(self, where: TopicPartition, lease: Lease) -> F_co:
        """Return the feed of a partition that is owned in the session of this lease."""


@dataclass(slots=True, eq=False)
class OwnedPartition(Generic[F]):
    """A partition that a stream of this member owns, in the session that claimed it.

    Offsets are where to go on, as in its feed.
    """

    feed: F
    session: GroupSession
    broker: Broker  # where it is fetched
    is_newborn: bool = False  # it did not exist when this member joined
    is_explicit: bool = False  # only offsets that the application gives are committed
    explicit_offset: int | None = None
    # Guarded by the committer's lock.
    version: int | None = None  # of the offset znode, as this owner last knew it to be; None: not known
    committed_offset: int | None = None  # what the znode held then
    unanswered_offset: int | None = None  # possibly written since: ZooKeeper did not answer
    is_closed: bool = False  # given up: nothing is committed any more

    @property
    def where(self) -> TopicPartition:
        """Which partition it is."""
        return self.feed.where

    @property
    def commit_offset(self) -> int | None:
        """What a commit should write: the application's own offset where it gives them, else what was consumed."""
        return self.explicit_offset if self.is_explicit else self.feed.consumed_offset

    def start_at(self, offset: int, epoch: int | None = None) -> bool:
        """Start, or rewind, at an offset, which is committed next; False when the feed does not (`start_at` there)."""
        if not self.feed.start_at(offset, epoch):
            return False
        self.explicit_offset = offset
        return True
