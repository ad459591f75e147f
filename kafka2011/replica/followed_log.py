"""A follower's side of one partition: compare, cut, then append what the leader has, in the same segments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.errors import LogClosedError, LogError
from kafka2011.replica.comparison import RANGE_BYTES, Comparison
from kafka2011.replica.exchange import Ask

if TYPE_CHECKING:
    from kafka2011.replica.exchange import CopiedLog, Given
    from kafka2011.replica.segments import DamageGiven
    from zk.cluster import TopicPartition


class LeaderLacksReadableError(LogError):
    """The leader has not all that clients may have read: its disk has lost it. A replica that has it stays out."""


class OtherBytesError(LogError):
    """Leader and follower have different messages at an offset that clients may have read, and this one is good.

    Nothing is cut.
    """

    def __init__(self, text: str, where: TopicPartition, offset: int) -> None:
        super().__init__(text)
        self.where = where
        self.offset = offset


class DoubtfulCutError(OtherBytesError):
    """A good message would be cut that differs from the leader's, which may be damaged: nobody has asked yet."""


class DamagedBytesError(LogError):
    """The leader has no good message at the offset where this log goes on."""


LOOK_BACK_BYTES = 64 * 1024
"""How much is compared below what is known to have been readable, whenever a follower begins to follow."""


class FollowedLog:
    """One partition of a follower, in one epoch. `readable` is up to where this disk has what clients may have read.

    With `asks_before_cuts`, a good message that differs from the leader's is cut only after `confirm_cut`: the leader's
    may be damaged, and this one the only good copy. `obstacle` says why it takes nothing until `retry`; None while it
    goes on.
    """

    def __init__(
        self,
        where: TopicPartition,
        log: CopiedLog,
        readable: int,
        *,
        range_bytes: int = RANGE_BYTES,
        look_back_bytes: int = LOOK_BACK_BYTES,
        asks_before_cuts: bool = False,
    ) -> None:
        self._asks_before_cuts = asks_before_cuts
        self._confirmed_cut: int | None = None
        self._where = where
        self._log = log
        self._range_bytes = range_bytes
        self._first_offset = max(0, readable - look_back_bytes)
        self._comparison: Comparison | None = self._compare_from(self._first_offset)
        self.readable = readable
        self.obstacle: LogError | None = None
        self._leader_end = 0
        self._is_trying_again = False
        self._damaged_segment: int | None = None  # that damaged bytes were copied to last

    def ask(self) -> Ask:
        """Return what to ask the leader for next.

        A log that takes nothing asks from the leader's end on, or each answer would come at once, with what is of no
        use. It says truly what it has on disk, so it is not in sync.
        """
        log, comparison = self._log, self._comparison
        if self._is_waiting:
            return Ask(self._leader_end, log.flushed_end_offset)
        if comparison is None:
            return Ask(log.appended_end_offset, log.flushed_end_offset)
        return Ask(log.appended_end_offset, None, comparison.question() if comparison.cut is None else ())

    def take(self, given: Given) -> None:
        """Do what the answer to the newest question asks for.

        An error while it appends becomes its obstacle. Raises LeaderLacksReadableError and OtherBytesError, and
        LogError while it compares: then it does that again with the next question. Raises LogClosedError.
        """
        self._leader_end = given.end
        if self._is_waiting:
            return
        self._check(given)
        try:
            self._go_on(given)
        except (LogClosedError, OtherBytesError):
            raise
        except LogError as error:
            if self._comparison is not None:
                raise
            self.obstacle, self._is_trying_again = error, False
            return
        if given.data or given.end <= self._log.appended_end_offset:
            self.obstacle = None

    @property
    def _is_waiting(self) -> bool:
        return self.obstacle is not None and not self._is_trying_again

    def retry(self) -> None:
        """Ask for what comes next again; the obstacle stays until something has come."""
        self._is_trying_again = True

    @property
    def end(self) -> int:
        """The offset where this log goes on."""
        return self._log.appended_end_offset

    def copy_damaged(self, offset: int, given: DamageGiven) -> bool:
        """Append bytes as they are that the leader says are damaged, if this log goes on there; say whether it did.

        Raises LogError.
        """
        if self._comparison is not None or offset != self._log.appended_end_offset:
            return False
        self._log.append_damaged(given.data, given.segment, given.modified_ms)
        self._damaged_segment = given.segment
        self.obstacle, self._is_trying_again = None, False
        return True

    def pass_damaged(self, offset: int, end: int) -> bool:
        """Compare what comes after bytes that are damaged at the leader, if they are good here; say whether they are.

        Raises LogError.
        """
        if not self._log.are_good(offset, end):
            return False
        self._first_offset = end
        self._comparison = self._compare_from(end)
        return True

    def confirm_cut(self, offset: int) -> None:
        """Let what differs from an offset on be cut: the leader's message there is good."""
        self._confirmed_cut = offset

    def _go_on(self, given: Given) -> None:
        log, comparison = self._log, self._comparison
        if given.start > log.appended_end_offset:
            log.begin_at(given.start)
            self._comparison = None
        elif comparison is None:
            if given.data:
                assert isinstance(given.data, bytes), "a follower has what it was sent in memory"
                log.append(given.data, given.segment, given.modified_ms)
        elif given.start > comparison.start:
            self._comparison = self._compare_from(given.start)  # what the leader has deleted is not compared
        else:
            self._compare(comparison, given)
        if self._comparison is None:
            if given.start > log.start_offset:
                log.delete_before(given.start)
            if given.data and given.segment != self._damaged_segment:
                self._damaged_segment = None
            if self._damaged_segment is not None:
                return  # while it is the last segment, recovery after a crash would cut it before what is damaged
            # What is not on disk may be other bytes after a power cut, and has to be compared then.
            self.readable = max(self.readable, min(given.readable, log.flushed_end_offset))

    def _check(self, given: Given) -> None:
        has = min(self.readable, self._log.appended_end_offset)
        if given.end < has:
            raise LeaderLacksReadableError(
                f"{self._where} ends at offset {given.end} at the leader, and this replica has what clients may have"
                f" read up to {has}: nothing is cut here until an operator accepts the loss"
            )

    def _check_cut(self, cut: int, leader_end: int) -> None:
        """Raise OtherBytesError if what clients may have read would be cut, unless this disk has damaged it.

        Raises DoubtfulCutError where the leader has another message, which may be damaged.
        """
        end = self._log.appended_end_offset
        was_readable = cut < min(self.readable, end)
        is_doubtful = self._asks_before_cuts and cut < min(leader_end, end) and cut != self._confirmed_cut
        if not (was_readable or is_doubtful) or not self._log.is_good_at(cut):
            return
        self._comparison = self._compare_from(self._first_offset)
        if not was_readable:
            raise DoubtfulCutError(
                f"{self._where} has another good message here than at the leader at offset {cut}", self._where, cut
            )
        raise OtherBytesError(
            f"{self._where} has another message here than at the leader at offset {cut}, and clients may have read this"
            f" replica up to {self.readable}: nothing is cut here until an operator says which is to be believed",
            self._where,
            cut,
        )

    def _compare_from(self, offset: int) -> Comparison:
        return Comparison(self._log, offset, range_bytes=self._range_bytes)

    def _compare(self, comparison: Comparison, given: Given) -> None:
        log = self._log
        if comparison.cut is None:
            comparison.answered(given.equal)
        cut = comparison.cut
        if cut is None:
            return
        self._check_cut(cut, given.end)
        if cut > max(log.start_offset, given.start):
            log.cut(cut)  # also when nothing differs: the leader may not have begun an empty segment at the end
        else:
            # Nothing that both have is the same. What only this one has, since the leader has deleted its own, may be
            # of another line as well, and a segment here may start where the leader's does not. A cut keeps it: an
            # operator may have accepted the loss of all of it.
            log.cut(log.start_offset)
            log.begin_at(given.start)
        self._comparison = None
