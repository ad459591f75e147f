"""What one of today's clients may be processing, what it is to be told, and what may be given up. Nothing here waits.

The rebalance claims partitions for a member and wants to give some up. The client learns of both only by its next
heartbeat, and says in its next JoinGroup what it still has. A partition is given up once the client no longer has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.gateway.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from zk.cluster import TopicPartition


class MemberState:
    """A member's share and what its client knows of it. `generation` counts how often the client has joined."""

    def __init__(self) -> None:
        self.generation = 0
        self.share: set[TopicPartition] = set()  # claimed for it, and to be kept
        self.releasing: set[TopicPartition] = set()  # claimed for it, and to be given up
        self.held: set[TopicPartition] = set()  # what its client may be processing
        self.is_gone = False  # its client has left, or counts as dead
        self._told: frozenset[TopicPartition] | None = None  # the client's share, as SyncGroup has told it

    # What the rebalance does

    def take(self, partitions: Iterable[TopicPartition]) -> None:
        """Have partitions that were claimed."""
        self.share.update(partitions)

    def begin_release(self, where: TopicPartition) -> None:
        """Be going to give a partition up."""
        self.share.discard(where)
        self.releasing.add(where)

    def may_release(self, where: TopicPartition) -> bool:
        """Say whether the client no longer has a partition."""
        return self.is_gone or where not in self.held

    def end_release(self, where: TopicPartition) -> None:
        """Have a partition no more, or lose it with a session."""
        self.share.discard(where)
        self.releasing.discard(where)

    @property
    def waits_for_client(self) -> bool:
        """Whether a partition cannot be given up before the client has joined once more."""
        return not self.releasing.isdisjoint(self.held)

    # What the client does

    def join(self, owned: Collection[TopicPartition]) -> None:
        """Join, or join again: of what it had, the client still has only this."""
        self.held.intersection_update(owned)
        self._told = None

    def answer_join(self) -> int:
        """Return the generation that begins with the answer to JoinGroup."""
        self.generation += 1
        return self.generation

    def sync(
        self, generation: int, may_have: Callable[[TopicPartition], bool] = lambda _: True
    ) -> frozenset[TopicPartition] | ErrorCode:
        """Return what the client may process from now on: those of its share that it may have already."""
        error = self._check(generation)
        if error:
            return error
        self._told = frozenset(filter(may_have, self.share))
        self.held.update(self._told)
        return self._told

    def heartbeat(self, generation: int) -> ErrorCode:
        """Say whether the client is to join again."""
        error = self._check(generation)
        if error or self._told is None:
            return error
        return ErrorCode.NONE if self._told == self.share else ErrorCode.REBALANCE_IN_PROGRESS

    def may_commit(self, generation: int) -> ErrorCode:
        """Say whether the client may commit offsets: only in the generation that it knows."""
        return self._check(generation)

    def leave(self) -> None:
        """Be gone: nothing waits for the client any more."""
        self.is_gone = True
        self.held.clear()

    def restart(self) -> None:
        """Be another process of the same static member, which has nothing yet."""
        self.held.clear()
        self._told = None

    def _check(self, generation: int) -> ErrorCode:
        if self.is_gone:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if generation == self.generation else ErrorCode.ILLEGAL_GENERATION
