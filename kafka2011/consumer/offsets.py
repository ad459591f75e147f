"""Commits to the offset registry, fenced against former owners (paper, section 3.2: the offset registry).

A commit is a conditional write. Whoever takes a partition first writes its start offset there, so that the versions
that earlier owners know no longer commit. On a conflict the owner registry decides who is right.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from typing import TYPE_CHECKING

from kafka2011.consumer.owned_partition import State
from kafka2011.errors import KafkaError
from zk.errors import MalformedNode, VersionConflict, ZkUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafka2011.consumer.group import GroupSession
    from kafka2011.consumer.owned_partition import OwnedPartition

logger = logging.getLogger(__name__)

_CONFLICTS = 10
"""How often another may write between our read and our write before that is an error."""


class ContendedOffsetError(KafkaError):
    """Somebody else keeps on writing the offset of a partition that we own."""


class OffsetCommitter:
    """Writes offsets of owned partitions; may be used by all threads of a connector.

    `counts` tells commits, those written again after another moved the offset, and those dropped as not ours.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()

    def take(self, session: GroupSession, owned: OwnedPartition, expected: tuple[int, int] | None) -> int | None:
        """Fence off former owners of a partition just claimed, and return where to start; None if nothing is known.

        `expected` is what we ourselves knew when we last had it, as (version, offset): still at that version, nobody
        had it meanwhile, and what we consumed since the last commit counts.
        """
        with self._lock:
            for _ in range(_CONFLICTS):
                try:
                    found = session.read_offset(owned.where)
                except MalformedNode as error:
                    logger.warning("%s: taken for absent", error)
                    return None
                if found is None:
                    return None
                offset = found.offset
                if expected is not None and expected[0] == found.version:
                    offset = expected[1]
                try:
                    owned.version = session.commit_offset(owned.where, offset, found.version)
                except VersionConflict:
                    continue
                owned.committed_offset = offset
                return offset
        raise ContendedOffsetError(f"the offset of {owned.where.full_name} is written by others all the time")

    def write_start(self, session: GroupSession, owned: OwnedPartition, offset: int) -> bool:
        """Write where a partition starts that has no offset, or one out of range; False if it is ours no longer."""
        with self._lock:
            # A partition is committed under this lock before its owner node goes: while it is active, the node stands.
            if owned.state is not State.ACTIVE or not session.is_mine(owned.where):
                return False
            owned.version = session.write_offset(owned.where, offset)
            owned.committed_offset = offset
            return True

    def commit(self, session: GroupSession, partitions: Iterable[OwnedPartition]) -> None:
        """Commit what was consumed of each partition. Raises ZkUnavailable when ZooKeeper does not answer."""
        with self._lock:
            for owned in partitions:
                offset = owned.commit_offset
                if offset is not None and offset != owned.committed_offset:
                    self._commit(session, owned, offset)

    def _commit(self, session: GroupSession, owned: OwnedPartition, offset: int) -> None:
        version = owned.version
        try:
            if version is not None:
                try:
                    self._written(owned, offset, session.commit_offset(owned.where, offset, version))
                except VersionConflict:
                    self.counts["conflicts"] += 1
                else:
                    return
            self._commit_as_owner(session, owned, offset)
        except ZkUnavailable:
            owned.version = None  # it may have been written
            raise

    def _commit_as_owner(self, session: GroupSession, owned: OwnedPartition, offset: int) -> None:
        """Write again if we own the partition: another, a member of 0.7 come back to life, moved its offset."""
        for _ in range(_CONFLICTS):
            try:
                found = session.read_offset(owned.where)
            except MalformedNode as error:
                logger.warning("%s: written over", error)
                found = None
            # Asked after the read: who claims the partition after this answer writes, and moves the version on.
            if not session.is_mine(owned.where):
                self.counts["dropped_commits"] += 1
                logger.warning(
                    "dropped the commit of offset %d for %s: it belongs to another now (%d dropped so far)",
                    offset,
                    owned.where.full_name,
                    self.counts["dropped_commits"],
                )
                return
            try:
                if found is None:
                    version = session.write_offset(owned.where, offset)
                else:
                    version = session.commit_offset(owned.where, offset, found.version)
            except VersionConflict:
                continue
            if found is not None and found.offset != owned.committed_offset:
                self.counts["moved_offsets"] += 1
                logger.warning(
                    "another had moved the offset of %s to %d: wrote %d", owned.where.full_name, found.offset, offset
                )
            self._written(owned, offset, version)
            return
        raise ContendedOffsetError(f"the offset of {owned.where.full_name} is written by others all the time")

    def _written(self, owned: OwnedPartition, offset: int, version: int) -> None:
        owned.version = version
        owned.committed_offset = offset
        self.counts["commits"] += 1
