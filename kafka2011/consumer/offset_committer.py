"""Commits to the offset registry, fenced against former owners (paper, section 3.2: the offset registry).

A commit is a conditional write, in the session that claimed the partition. A new owner first writes its start offset
there, so commits with the versions that earlier owners know fail. On a conflict the owner registry decides.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.consumer.feed import State
from kafka2011.errors import KafkaError
from zk.errors import MalformedNode, NotConnected, VersionConflict, ZkError, ZkUnavailable, raise_first
from zk.offsets import CommittedOffset, OffsetCommit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from contextlib import AbstractContextManager

    from kafka2011.consumer.group_registries import GroupSession
    from kafka2011.consumer.owned_partition import F, OwnedPartition
    from zk.cluster import TopicPartition

logger = logging.getLogger(__name__)

_CONFLICTS = 10
"""How often others may write between our read and our write before it is an error."""


class ContendedOffsetError(KafkaError):
    """Somebody else keeps writing the offset of a partition that we own."""


class Left(NamedTuple):
    """What we knew of a partition when we last had it: the offset znode as we wrote it, and how far we consumed."""

    version: int
    committed_offset: int
    unanswered_offset: int | None
    consumed_offset: int

    @classmethod
    def of(cls, owned: OwnedPartition[F]) -> Left | None:
        """Return it for a partition that is given up; None when the znode's state is not known."""
        if owned.version is None or owned.committed_offset is None or owned.commit_offset is None:
            return None
        return cls(owned.version, owned.committed_offset, owned.unanswered_offset, owned.commit_offset)

    def is_still(self, committed: CommittedOffset) -> bool:
        """Say whether nobody else has written the znode since.

        An unanswered write of the same offset looks just like a write by the partition's next owner.
        """
        known = {(self.version, self.committed_offset)}
        if self.unanswered_offset not in {None, self.committed_offset}:
            known.add((self.version + 1, self.unanswered_offset))
        return (committed.version, committed.offset) in known


class OffsetCommitter:
    """Writes offsets of owned partitions; may be used by all threads of a connector.

    `counts` holds commits, those written again after another moved the offset, and those dropped as not ours.
    """

    def __init__(self, lock: AbstractContextManager[object] | None = None) -> None:
        self._lock = threading.Lock() if lock is None else lock
        self.counts: Counter[str] = Counter()

    def take(
        self, session: GroupSession, claimed: Mapping[OwnedPartition[F], Left | None]
    ) -> dict[OwnedPartition[F], int | None]:
        """Fence off former owners of partitions just claimed, and return where each starts; None if nothing is known.

        If an offset is as we ourselves left it, nobody had the partition meanwhile, and what we consumed since
        our last commit counts.
        """
        starts: dict[OwnedPartition[F], int | None] = {}
        unwritten = dict(claimed)
        with self._lock:
            for _ in range(_CONFLICTS):
                offsets: dict[TopicPartition, CommittedOffset] = {}
                by_partition = _read(session, [owned.where for owned in unwritten])
                for owned, left in unwritten.items():
                    committed = by_partition.get(owned.where)
                    if committed is None:
                        starts[owned] = None
                    elif left is not None and left.is_still(committed):
                        offsets[owned.where] = CommittedOffset(left.consumed_offset, committed.version)
                    else:
                        offsets[owned.where] = committed
                outcomes = session.commit_offsets(OffsetCommit(w, c.offset, c.version) for w, c in offsets.items())
                for owned in [owned for owned in unwritten if owned not in starts]:
                    outcome = outcomes[owned.where]
                    if not isinstance(outcome, ZkError):
                        starts[owned] = offset = offsets[owned.where].offset
                        _written(owned, offset, outcome)
                raise_first(outcomes.values(), but=VersionConflict)
                unwritten = {owned: left for owned, left in unwritten.items() if owned not in starts}
                if not unwritten:
                    return starts
        raise _contended(next(iter(unwritten)))

    def write_starts(self, offsets: Mapping[OwnedPartition[F], int]) -> dict[OwnedPartition[F], bool | KafkaError]:
        """Write the starts of partitions without a usable offset.

        Returns True for those that were written, False for those that are no longer ours, and the error of each other.
        """
        outcomes: dict[OwnedPartition[F], bool | KafkaError] = {}
        with self._lock:
            # A partition is committed under this lock before its owner node goes: while it is active, the node exists.
            active = {owned: offset for owned, offset in offsets.items() if owned.feed.state is State.ACTIVE}
            unknown = [owned for owned in active if _is_unknown(owned)]
            if len(unknown) > 1:
                for session in {owned.session: None for owned in unknown}:
                    its = {owned: active[owned] for owned in unknown if owned.session is session}
                    outcomes.update(_create_starts(session, its))
            away = next((outcome for outcome in outcomes.values() if isinstance(outcome, ZkUnavailable)), None)
            for owned in [owned for owned in active if owned not in outcomes]:
                try:
                    outcomes[owned] = away or self._write_as_owner(owned, active[owned])
                except (ZkError, ContendedOffsetError) as error:
                    outcomes[owned] = error
                    away = error if isinstance(error, ZkUnavailable) else None
        return {owned: outcomes.get(owned, False) for owned in offsets}

    def commit(self, partitions: Iterable[OwnedPartition[F]], *, last: bool = False) -> None:
        """Commit what was consumed of each partition. `last` closes those with nothing left to commit.

        Raises the first error after all were tried. With `last`, a partition whose commit ZooKeeper has not answered
        stays open, to be committed again; one that could not be committed for another reason is closed too.
        """
        every = list(partitions)
        errors: dict[OwnedPartition[F], KafkaError] = {}
        with self._lock:
            due = {owned: offset for owned in every if (offset := _due_offset(owned)) is not None}
            for session in {owned.session: None for owned in due}:  # one, or after a new session two
                self._commit(session, {o: offset for o, offset in due.items() if o.session is session}, errors)
            if last:
                for owned in every:
                    owned.is_closed = owned.is_closed or not isinstance(errors.get(owned), ZkUnavailable)
        raise_first(errors.values())

    def _commit(
        self,
        session: GroupSession,
        offsets: Mapping[OwnedPartition[F], int],
        errors: dict[OwnedPartition[F], KafkaError],
    ) -> None:
        commits = {
            owned: OffsetCommit(owned.where, offset, owned.version)
            for owned, offset in offsets.items()
            if owned.version is not None
        }
        # Before the write: an exception out of a signal handler may come while its answer is on its way.
        unsure = {owned for owned in commits if owned.unanswered_offset is None}
        for owned in unsure:
            owned.unanswered_offset = offsets[owned]
        outcomes = session.commit_offsets(commits.values())
        away: ZkUnavailable | None = None
        for owned, offset in offsets.items():
            outcome = outcomes.get(owned.where)
            if isinstance(outcome, int):
                _written(owned, offset, outcome)
                self.counts["commits"] += 1
            elif outcome is not None and not isinstance(outcome, VersionConflict):
                errors[owned] = outcome
                if not isinstance(outcome, NotConnected):
                    owned.unanswered_offset = offset
                elif owned in unsure:  # nothing was sent
                    owned.unanswered_offset = None
            elif away is not None:
                errors[owned] = away  # without waiting for ZooKeeper again
            else:
                self.counts["conflicts"] += outcome is not None
                try:
                    self._commit_as_owner(owned, offset)
                except (ZkError, ContendedOffsetError) as error:
                    errors[owned] = error
                    away = error if isinstance(error, ZkUnavailable) else None

    def _commit_as_owner(self, owned: OwnedPartition[F], offset: int) -> None:
        if self._write_as_owner(owned, offset):
            self.counts["commits"] += 1
            return
        self.counts["dropped_commits"] += 1
        logger.warning(
            "dropped the commit of offset %d for %s: another member owns the partition now (%d dropped so far)",
            offset,
            owned.where,
            self.counts["dropped_commits"],
        )

    def _write_as_owner(self, owned: OwnedPartition[F], offset: int) -> bool:
        """Overwrite the offset if we own the partition, as when a revived member of 0.7 has moved it.

        False, and nothing written, if the partition belongs to another.
        """
        for _ in range(_CONFLICTS):
            read = owned.session.read_offsets([owned.where]).get(owned.where)
            committed = read if isinstance(read, CommittedOffset) else None
            # Asked after the read: anyone who claims the partition after this answer writes, which changes the version.
            if not owned.session.is_mine(owned.where):
                return False
            known = (owned.committed_offset, owned.unanswered_offset)
            if committed is not None and owned.committed_offset is not None and committed.offset not in known:
                self.counts["moved_offsets"] += 1
                logger.warning(
                    "another process had moved the offset of %s to %d: writing %d",
                    owned.where,
                    committed.offset,
                    offset,
                )
            owned.version, owned.committed_offset = (committed.version, committed.offset) if committed else (None, None)
            owned.unanswered_offset = offset
            try:
                version = _replace(owned, read, offset)
            except VersionConflict:
                continue
            _written(owned, offset, version)
            return True
        raise _contended(owned)


def _is_unknown(owned: OwnedPartition[F]) -> bool:
    """Say whether nothing is known of the offset znode: most likely there is none."""
    return owned.version is None and owned.committed_offset is None and owned.unanswered_offset is None


def _create_starts(
    session: GroupSession, offsets: Mapping[OwnedPartition[F], int]
) -> dict[OwnedPartition[F], bool | ZkError]:
    """Create offset znodes, many at once; those that there are already are left out.

    No read is needed before the owners are asked: whoever claims a partition after this answer either finds the znode
    that is created here, or has created it, so that this does not.
    """
    outcomes: dict[OwnedPartition[F], bool | ZkError] = {}
    try:
        mine = session.still_mine([owned.where for owned in offsets])
        outcomes.update(dict.fromkeys((owned for owned in offsets if owned.where not in mine), False))
        ours = {owned: offset for owned, offset in offsets.items() if owned.where in mine}
        for owned, offset in ours.items():
            owned.unanswered_offset = offset
        answers = session.create_offsets({owned.where: offset for owned, offset in ours.items()})
    except ZkUnavailable as error:
        return {owned: outcomes.get(owned, error) for owned in offsets}
    for owned, offset in ours.items():
        answer = answers[owned.where]
        if isinstance(answer, int):
            _written(owned, offset, answer)
            outcomes[owned] = True
        elif not isinstance(answer, VersionConflict):
            outcomes[owned] = answer
    return outcomes


def _due_offset(owned: OwnedPartition[F]) -> int | None:
    """Return what a commit has to write; None when there is nothing to commit."""
    if owned.is_closed or (owned.unanswered_offset is None and owned.commit_offset == owned.committed_offset):
        return None
    return owned.commit_offset


def _read(session: GroupSession, partitions: list[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
    """Read offsets, leaving out those that are absent or make no sense."""
    offsets: dict[TopicPartition, CommittedOffset] = {}
    for where, committed in session.read_offsets(partitions).items():
        if isinstance(committed, MalformedNode):
            logger.warning("ignored a malformed offset: %s", committed)
        else:
            offsets[where] = committed
    return offsets


def _replace(owned: OwnedPartition[F], read: CommittedOffset | MalformedNode | None, offset: int) -> int:
    """Write an offset in place of what was read, if that is still there. Raises VersionConflict."""
    if read is None:
        return owned.session.create_offset(owned.where, offset)
    if isinstance(read, MalformedNode):  # its version is not known
        return owned.session.write_offset(owned.where, offset)
    outcome = owned.session.commit_offsets([OffsetCommit(owned.where, offset, read.version)])[owned.where]
    if isinstance(outcome, ZkError):
        raise outcome
    return outcome


def _written(owned: OwnedPartition[F], offset: int, version: int) -> None:
    owned.version = version
    owned.committed_offset = offset
    owned.unanswered_offset = None


def _contended(owned: OwnedPartition[F]) -> ContendedOffsetError:
    return ContendedOffsetError(f"others keep writing the offset of {owned.where}")
