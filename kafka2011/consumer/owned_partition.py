"""One partition while this member owns it: how far it was fetched, handed out, consumed and committed."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafka2011.consumer.group import GroupSession
    from kafka2011.consumer.stream import MessageStream
    from zk.cluster import Broker, TopicPartition


class State(enum.Enum):
    """Where a partition stands between being taken and being given up."""

    ACTIVE = "active"
    RELEASING = "releasing"  # nothing new is handed out; the application is waited for
    RELEASED = "released"


@dataclass(slots=True, eq=False)
class OwnedPartition:
    """A partition that a stream of this member owns, in the session that claimed it.

    Offsets are where to go on: `fetch_offset` for the next fetch, `consumed_offset` for the group. `epoch` counts
    rewinds: what was fetched or handed out under an earlier one no longer moves anything.
    """

    where: TopicPartition
    stream: MessageStream
    session: GroupSession
    broker: Broker  # where it is fetched
    # Guarded by the stream's lock.
    fetch_offset: int | None = None  # None until the start is known
    consumed_offset: int | None = None
    state: State = State.ACTIVE
    epoch: int = 0
    not_before_s: float = 0.0  # the fetcher leaves the partition alone until then
    is_explicit: bool = False  # only offsets that the application gives are committed
    explicit_offset: int | None = None
    # Guarded by the committer's lock.
    version: int | None = None  # of the offset znode, as this owner last knew it to be; None: not known
    committed_offset: int | None = None  # what the znode held then
    unanswered_offset: int | None = None  # written since, or not: ZooKeeper did not say
    is_closed: bool = False  # given up: nothing is committed any more

    @property
    def commit_offset(self) -> int | None:
        """What a commit should write: the application's own offset where it gives them, else what was consumed."""
        return self.explicit_offset if self.is_explicit else self.consumed_offset
