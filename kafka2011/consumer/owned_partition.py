"""One partition while this member owns it: its feed, the session that claimed it, and what is committed of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafka2011.consumer.feed import PartitionFeed
    from kafka2011.consumer.group_registries import GroupSession
    from zk.cluster import Broker, TopicPartition


@dataclass(slots=True, eq=False)
class OwnedPartition:
    """A partition that a stream of this member owns, in the session that claimed it.

    Offsets are where to go on, as in its feed.
    """

    feed: PartitionFeed
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
