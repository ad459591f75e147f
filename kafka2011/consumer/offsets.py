"""Commits to the offset registry, fenced against former owners (paper, section 3.2: the offset registry).

A commit is a conditional write, in the session that claimed the partition. Whoever takes a partition first writes its
start offset there, so that the versions that earlier owners know no longer commit. On a conflict the owner registry
decides who is right.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.consumer.feed import State
from kafka2011.errors import KafkaError
from zk.errors import MalformedNode, NotConnected, VersionConflict, ZkUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

    from kafka2011.consumer.owned_partition import OwnedPartition
    from zk.offsets import CommittedOffset

logger = logging.getLogger(__name__)

_CONFLICTS = 10
"""How often another may write between our read and our write before that is an error."""


class ContendedOffsetError(KafkaError):
    """Somebody else keeps on writing the offset of a partition that we own."""


class Left(NamedTuple):
    """What we knew of a partition when we last had it: the offset znode as we wrote it, and how far we consumed."""

    version: int
    committed_offset: int
    unanswered_offset: int | None
    consumed_offset: int

    @classmethod
    def of(cls, owned: OwnedPartition) -> Left | None:
        """Return it for a partition that is given up; None when the znode's state is not known."""
        if owned.version is None or owned.committed_offset is None or owned.commit_offset is None:
            return None
        return cls(owned.version, owned.committed_offset, owned.unanswered_offset, owned.commit_offset)

    def is_still(self, found: CommittedOffset) -> bool:
        """Say whether nobody else has written the znode since."""
        return (found.version, found.offset) in {
            (self.version, self.committed_offset),
            (self.version + 1, self.unanswered_offset),
        }


class OffsetCommitter:
    """Writes offsets of owned partitions; may be used by all threads of a connector.

    `counts` tells commits, those written again after another moved the offset, and those dropped as not ours.
    """

    def __init__(self, lock: AbstractContextManager[object] | None = None) -> None:
        self._lock = threading.Lock() if lock is None else lock
        self.counts: Counter[str] = Counter()

    def take(self, owned: OwnedPartition, left: Left | None) -> int | None:
        """Fence off former owners of a partition just claimed, and return where to start; None if nothing is known.

        If the offset stands as we ourselves `left` it, nobody had the partition meanwhile, and what we consumed since
        our last commit counts.
        """
        with self._lock:
            for _ in range(_CONFLICTS):
                found = _read(owned)
                if found is None:
                    return None
                offset = found.offset
                if left is not None and left.is_still(found):
                    offset = left.consumed_offset
                try:
                    version = owned.session.commit_offset(owned.where, offset, found.version)
                except VersionConflict:
                    continue
                _written(owned, offset, version)
                return offset
        raise _contended(owned)

    def write_start(self, owned: OwnedPartition, offset: int) -> bool:
        """Write where a partition starts that has no offset, or one out of range; False if it is ours no longer."""
        with self._lock:
            # A partition is committed under this lock before its owner node goes: while it is active, the node stands.
            return owned.feed.state is State.ACTIVE and self._write_as_owner(owned, offset)

    def commit(self, partitions: Iterable[OwnedPartition], *, last: bool = False) -> None:
        """Commit what was consumed of each partition; `last` for those that are given up, done or not.

        Raises ZkUnavailable when ZooKeeper does not answer, ContendedOffsetError after all others are committed.
        """
        every = list(partitions)
        contended: ContendedOffsetError | None = None
        with self._lock:
            try:
                for owned in every:
                    try:
                        self._commit_if_due(owned)
                    except ContendedOffsetError as error:
                        contended = error
            finally:
                for owned in every:
                    owned.is_closed = owned.is_closed or last
        if contended is not None:
            raise contended

    def _commit_if_due(self, owned: OwnedPartition) -> None:
        offset = owned.commit_offset
        is_known = owned.unanswered_offset is None
        if offset is not None and not owned.is_closed and not (is_known and offset == owned.committed_offset):
            self._commit(owned, offset)

    def _commit(self, owned: OwnedPartition, offset: int) -> None:
        if owned.version is not None:
            try:
                version = owned.session.commit_offset(owned.where, offset, owned.version)
            except VersionConflict:
                self.counts["conflicts"] += 1
            except NotConnected:
                raise  # nothing was sent
            except ZkUnavailable:
                owned.unanswered_offset = offset
                raise
            else:
                _written(owned, offset, version)
                self.counts["commits"] += 1
                return
        if self._write_as_owner(owned, offset):
            self.counts["commits"] += 1
            return
        self.counts["dropped_commits"] += 1
        logger.warning(
            "dropped the commit of offset %d for %s: it belongs to another now (%d dropped so far)",
            offset,
            owned.where,
            self.counts["dropped_commits"],
        )

    def _write_as_owner(self, owned: OwnedPartition, offset: int) -> bool:
        """Write whatever is there if we own the partition, as when a member of 0.7 come back to life moved its offset.

        False, and nothing written, if it belongs to another.
        """
        for _ in range(_CONFLICTS):
            found = _read(owned)
            # Asked after the read: who claims the partition after this answer writes, and moves the version on.
            if not owned.session.is_mine(owned.where):
                return False
            known = (owned.committed_offset, owned.unanswered_offset)
            if found is not None and owned.committed_offset is not None and found.offset not in known:
                self.counts["moved_offsets"] += 1
                logger.warning(
                    "another had moved the offset of %s to %d: writing %d", owned.where, found.offset, offset
                )
            owned.version, owned.committed_offset = (found.version, found.offset) if found else (None, None)
            owned.unanswered_offset = offset
            try:
                if found is None:
                    version = owned.session.write_offset(owned.where, offset)
                else:
                    version = owned.session.commit_offset(owned.where, offset, found.version)
            except VersionConflict:
                continue
            _written(owned, offset, version)
            return True
        raise _contended(owned)


def _read(owned: OwnedPartition) -> CommittedOffset | None:
    try:
        return owned.session.read_offset(owned.where)
    except MalformedNode as error:
        logger.warning("taken for absent: %s", error)
        return None


def _written(owned: OwnedPartition, offset: int, version: int) -> None:
    owned.version = version
    owned.committed_offset = offset
    owned.unanswered_offset = None


def _contended(owned: OwnedPartition) -> ContendedOffsetError:
    return ContendedOffsetError(f"the offset of {owned.where} is written by others all the time")
