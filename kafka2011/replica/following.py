"""A follower's time behind one leader, in one epoch: one question and one answer at a time, for all partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.errors import KafkaError, LogClosedError
from kafka2011.replica.comparison import RANGE_BYTES
from kafka2011.replica.exchange import ReplicaFetch, WrongEpochError
from kafka2011.replica.followed_log import LOOK_BACK_BYTES, FollowedLog, LeaderLacksReadableError, OtherBytesError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafka2011.errors import LogError
    from kafka2011.replica.exchange import CopiedLog, Given, ReplicaData
    from kafka2011.replica.segments import DamageGiven
    from kafka2011.replica.state import Follow, Replica
    from zk.cluster import TopicPartition


MOST_LOOK_BACK_BYTES = 64 << 20
"""Of all partitions together: the leader reads as much for one question."""


class Following:
    """Follows a leader with these logs, which all are compared first.

    `readable` is up to where this disk has what clients may have read. `new_log` makes the log of a partition that the
    leader has and this replica has not. `note_exact` notes a topic's exact number of partitions, where the leader tells
    those. `asks_before_cuts` is as of FollowedLog.
    """

    def __init__(
        self,
        me: Replica,
        role: Follow,
        *,
        logs: Mapping[TopicPartition, CopiedLog],
        readable: Mapping[TopicPartition, int],
        new_log: Callable[[TopicPartition], CopiedLog],
        note_exact: Callable[[str, int], object] | None = None,
        range_bytes: int = RANGE_BYTES,
        look_back_bytes: int = LOOK_BACK_BYTES,
        asks_before_cuts: bool = False,
    ) -> None:
        self.me = me
        self.role = role
        self._new_log = new_log
        self._note_exact = note_exact
        self._range_bytes = range_bytes
        self._fetches = 0
        look_back_bytes = min(look_back_bytes, MOST_LOOK_BACK_BYTES // max(1, len(logs)))
        self._logs = {
            where: FollowedLog(
                where,
                log,
                readable.get(where, 0),
                range_bytes=range_bytes,
                look_back_bytes=look_back_bytes,
                asks_before_cuts=asks_before_cuts,
            )
            for where, log in logs.items()
        }

    def fetch(self) -> ReplicaFetch:
        """Return what to ask the leader next, each time another partition first: what it may give is limited."""
        logs = list(self._logs.items())
        first = self._fetches % len(logs) if logs else 0
        self._fetches += 1
        asks = {where: log.ask() for where, log in (*logs[first:], *logs[:first])}
        return ReplicaFetch(self.role.epoch, self.me, asks)

    def take(self, data: ReplicaData) -> None:
        """Do what the answer to the newest question asks for, in each partition whatever becomes of the others.

        Raises WrongEpochError, LogClosedError, and last of all what one of the partitions raised: an error that an
        operator has to know of, LeaderLacksReadableError or OtherBytesError, before any other KafkaError.
        """
        if data.epoch != self.role.epoch:
            raise WrongEpochError(f"{self.role.leader} answers in epoch {data.epoch}, not {self.role.epoch}")
        errors: list[KafkaError] = []
        for where, given in data.given.items():
            try:
                if self._note_exact is not None and given.segment and not given.data_bytes:
                    self._note_exact(where.topic, given.segment)  # before its logs
                self._take(where, given)
            except LogClosedError:
                raise
            except KafkaError as error:
                errors.append(error)
        if errors:
            raise min(errors, key=lambda error: not isinstance(error, LeaderLacksReadableError | OtherBytesError))

    def _take(self, where: TopicPartition, given: Given) -> None:
        log = self._logs.get(where)
        if log is not None:
            log.take(given)
        else:
            self._logs[where] = FollowedLog(where, self._new_log(where), 0, range_bytes=self._range_bytes)

    def obstacles(self) -> dict[TopicPartition, LogError]:
        """Return the partitions that take nothing for now, and why. The others go on."""
        return {where: log.obstacle for where, log in self._logs.items() if log.obstacle is not None}

    def retry(self, partitions: Iterable[TopicPartition]) -> None:
        """Ask again for what some partitions could not take."""
        for where in partitions:
            self._logs[where].retry()

    def end_of(self, where: TopicPartition) -> int:
        """Return the offset where a partition goes on."""
        return self._logs[where].end

    def copy_damaged(self, where: TopicPartition, offset: int, given: DamageGiven) -> bool:
        """Append bytes of a partition as they are, as FollowedLog does."""
        return self._logs[where].copy_damaged(offset, given)

    def pass_damaged(self, where: TopicPartition, offset: int, end: int) -> bool:
        """Compare what comes after bytes that are damaged at the leader, as FollowedLog does."""
        return self._logs[where].pass_damaged(offset, end)

    def confirm_cut(self, where: TopicPartition, offset: int) -> None:
        """Let bytes of a partition be cut, as FollowedLog does."""
        self._logs[where].confirm_cut(offset)

    def readable(self) -> dict[TopicPartition, int]:
        """Return up to where this disk has what clients may have read."""
        return {where: log.readable for where, log in self._logs.items()}
