"""What a replica knows of itself, in its file on disk before anything is done by it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kafka2011.replica.known_file import NotStoredNowError
from kafka2011.replica.lineage import read_seen
from kafka2011.replica.state import ReplicaStateError, why_too_old
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka2011.broker.replication.replica_log import ReplicaLogs
    from kafka2011.replica.known import Known
    from kafka2011.replica.known_file import KnownFile
    from kafka2011.replica.state import Replica, ReplicaState
    from zk.cluster import TopicPartition
    from zk.replicas import Member

logger = logging.getLogger(__name__)

STORE_S = 5.0
"""How often what can be read is noted on disk: what lies before that need not be compared after a restart."""


class Knowledge:
    """Keeps what a replica knows in its file; there is nothing before `load`."""

    def __init__(self, file: KnownFile) -> None:
        self._file = file
        self._known: Known | None = None
        self._logs: ReplicaLogs | None = None
        self._stored_s = 0.0

    @property
    def is_loaded(self) -> bool:
        """Whether it was loaded."""
        return self._known is not None

    @property
    def known(self) -> Known:
        """What is known now."""
        assert self._known is not None, "it was not loaded"
        return self._known

    @property
    def me(self) -> Replica:
        """This replica."""
        return self.known.replica

    def load(self, name: str, logs: ReplicaLogs) -> None:
        """Load or begin the file of the replica of a name. Raises ReplicaStateError if the disk has not what it had."""
        known = self._file.load_or_begin(name)
        _check_logs(known, logs)
        self._known, self._logs = known, logs

    def enter(self, state: ReplicaState, version: int) -> None:
        """Note a state of that version on disk before anything is done by it, if that was not noted.

        First of all delete the topics that the state says are deleted, and this disk has not. Raises NotStoredNowError,
        ReplicaStateError, and LogFailedError.
        """
        self._delete(state.deleted_since(self.known.epoch))
        known = self.known.entering(state, version)
        if (known.epoch, known.seen) != (self.known.epoch, self.known.seen):
            self._file.store(known)
            self._known = known

    def _delete(self, topics: frozenset[str]) -> None:
        """Delete topics, so that a crash leaves either all to do again, or nothing that would be missed."""
        if not topics:  # as at nearly every look
            return
        assert self._logs is not None, "it was not loaded"
        doomed = topics & {where.topic for where in (*self.known.readable, *(where for where, _ in self._logs.all()))}
        if not doomed:
            return
        known = self.known.without(doomed)
        if known != self.known:
            self._file.store(known)
            self._known = known
        for topic in sorted(doomed):
            self._logs.delete(topic)

    def why_too_old(self, state: ReplicaState, version: int, members: Mapping[Replica, Member]) -> str:
        """Say why nothing may be done by a state of that version, as this disk or a member's has seen a newer one.

        Empty if none has.
        """
        seen = read_seen({replica: member.seen for replica, member in members.items()})
        return why_too_old(state, version, {**seen, self.me: self.known.newest_seen})

    def note_readable(self, readable: Mapping[TopicPartition, int]) -> None:
        """Note up to which offsets logs could be read; it is on disk with the next `store`."""
        self._known = self.known.with_readable(readable)

    @property
    def is_store_due(self) -> bool:
        """Whether it is time to store what is known by now."""
        return SYSTEM_CLOCK.monotonic_s() - self._stored_s >= STORE_S

    def store(self) -> None:
        """Write what is known to disk, or with the next one if that cannot be now. Raises ReplicaStateError."""
        self._stored_s = SYSTEM_CLOCK.monotonic_s()
        try:
            self._file.store(self.known)
        except NotStoredNowError as error:
            logger.warning("%s: retrying within %g s", error, STORE_S)


def _check_logs(known: Known, logs: ReplicaLogs) -> None:
    on_disk = dict(logs.all())
    missing = known.missing(on_disk)
    if missing:
        raise ReplicaStateError(
            f"replica {known.replica} has had {', '.join(map(str, missing[:10]))}, and its disk has not: with an"
            " empty log.dir it comes back as a new replica"
        )
    for where, readable in known.readable.items():
        end = on_disk[where].appended_end_offset
        if end < readable:
            raise ReplicaStateError(
                f"replica {known.replica} has had {where} up to offset {readable}, and its disk has it up to {end}:"
                " with an empty log.dir it comes back as a new replica"
            )
