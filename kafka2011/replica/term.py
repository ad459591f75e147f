"""One replica's time as the leader, in one epoch: who has what, who is in sync, and what may be read.

The readable end of a partition is what everyone who may be in in_sync has fsynced in this epoch, the leader too. What
is only in a page cache does not count: after a power cut of all, one that had received it could lead, and the one that
had it on disk would cut it.

    begun ──all that it had at takeover can be read──▶ may register ──▶ lead lost
      └──────────────────────────────────────────────────────────────▶
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka2011.replica.barriers import ClientAppends
from kafka2011.replica.comparison import count_equal
from kafka2011.replica.exchange import Given, ReplicaData, WrongEpochError
from kafka2011.replica.in_sync import InSync, LeadLostError, StateRead
from kafka2011.replica.standing import Standing
from kafka2011.replica.state import ReadableFloor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafka2011.replica.exchange import Ask, CopiedLog, ReplicaFetch
    from kafka2011.replica.state import Replica, ReplicaState, StateWrite
    from zk.cluster import TopicPartition


class TermRules(NamedTuple):
    """The settings that a term goes by: `replica.lag.time.max.ms`, `min.insync.replicas`, and the most for a fetch.

    A single message may be larger than `max_bytes`.
    """

    max_lag_s: float
    min_in_sync: int
    max_bytes: int


class _Follower:
    """What a leader knows of a follower by one connection: fsynced ends, and as of when it had all that there was.

    What it said by an older one says nothing of its disk now. `connection` is None before it asks in this epoch.
    """

    def __init__(self, now_s: float, connection: int | None = None) -> None:
        self.connection = connection
        self.flushed: dict[TopicPartition, int] = {}
        self.caught_up_s = now_s
        self.asked_s = now_s
        self._ends_then: dict[TopicPartition, int] = {}

    def note(self, fetch: ReplicaFetch, ends: Mapping[TopicPartition, int], now_s: float) -> None:
        for where, ask in fetch.asks.items():
            if ask.flushed is not None:
                self.flushed[where] = ask.flushed
        if self.has(self._ends_then):
            self.caught_up_s = self.asked_s
        self.asked_s, self._ends_then = now_s, dict(ends)

    def of_another_session(self, ends: Mapping[TopicPartition, int]) -> _Follower:
        """Return what is known once it has another session: what it lacks of these ends, if it has said that."""
        known = _Follower(self.caught_up_s)
        known.flushed = {where: end for where, end in self.flushed.items() if end < ends.get(where, 0)}
        return known

    def lacks(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Say whether it has said of any partition that it has not fsynced up to this end."""
        return any(end < ends.get(where, 0) for where, end in self.flushed.items())

    def has(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Say whether it has fsynced all partitions up to these ends, those without a message as well."""
        return all(self.flushed.get(where, -1) >= end for where, end in ends.items())


class Term:
    """A leader's time, which begins with the state that it has written, on that version.

    `logs` are its partitions at takeover, and `readable` what it knows to have been readable of them. `exact_counts`
    returns the topics that were created with an exact number of partitions, with that number.
    """

    def __init__(
        self,
        me: Replica,
        state: ReplicaState,
        version: int,
        rules: TermRules,
        *,
        logs: Mapping[TopicPartition, CopiedLog],
        readable: Mapping[TopicPartition, int],
        now_s: float,
        exact_counts: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        self.me = me
        self.epoch = state.epoch
        self._floor_epoch = state.floor_epoch
        self.has_ended = False
        self._rules = rules
        self._exact_counts = exact_counts
        self._in_sync = InSync(state, version)
        self._logs = dict(logs)
        self._at_takeover = self._appended()
        self._readable = {where: readable.get(where, log.start_offset) for where, log in logs.items()}
        self._followers = {each: _Follower(now_s) for each in sorted(state.in_sync) if each != me}
        self._able: frozenset[Replica] | None = None
        self._last_connection: dict[Replica, int] = {}  # of those who went away
        self._sessions: dict[Replica, int] = {}

    def end(self) -> None:
        """Note that the lead is lost: the session has ended, or the state was written by another."""
        self.has_ended = True

    # What the leader's own log does

    def add_log(self, where: TopicPartition, log: CopiedLog) -> None:
        """Note a partition that was made."""
        self._logs[where] = log
        self._readable.setdefault(where, log.start_offset)

    def has_log(self, where: TopicPartition) -> bool:
        """Say whether a partition was noted."""
        return where in self._logs

    def readable(self, where: TopicPartition) -> int:
        """Return the offset after the last byte that may be read."""
        return self._readable.get(where, 0)

    @property
    def state_version(self) -> int | None:
        """The version of the state's znode; None while that is not certain."""
        return self._in_sync.version

    def wanted_floor(self, noted: ReadableFloor | None) -> ReadableFloor | None:
        """Return what to note in place of what is noted; None if that is to stay. It sinks by a loss or a deletion."""
        if self._in_sync.settled < self.epoch:
            return None
        floor = ReadableFloor(self.epoch, sum(self._readable.values()))
        if noted is None or noted.epoch < self._floor_epoch or noted.readable_bytes < floor.readable_bytes:
            return floor
        return None

    def advance(self, now_s: float, partitions: Iterable[TopicPartition] | None = None) -> list[TopicPartition]:
        """Move the readable ends to what all who count have fsynced, and return the partitions whose end has moved.

        Of all partitions, or of these alone. None moves before the state says that all in sync have this epoch on disk:
        so a disk that goes back to before that is known by the epoch that it has not seen. What a follower said longer
        ago than it may be behind moves none either, even while it is still in sync: it may have come back without that.
        """
        others = self._in_sync.counted() - {self.me}
        if self._in_sync.settled < self.epoch or 1 + len(others) < self._rules.min_in_sync:
            return []
        if any(self._is_silent(each, now_s) for each in others):
            return []
        moved = []
        for where in self._logs if partitions is None else partitions:
            log = self._logs[where]
            ends = [log.flushed_end_offset]
            ends += [self._flushed_by(each, where) for each in others]
            end = min(ends)
            if end > self._readable[where]:
                self._readable[where] = end
                moved.append(where)
        return moved

    def _flushed_by(self, replica: Replica, where: TopicPartition) -> int:
        follower = self._followers.get(replica)
        return -1 if follower is None else follower.flushed.get(where, -1)

    def _is_silent(self, replica: Replica, now_s: float) -> bool:
        """Say whether a follower has said nothing for longer than it may be behind."""
        follower = self._followers.get(replica)
        return follower is None or now_s - follower.asked_s > self._rules.max_lag_s

    def _appended(self) -> dict[TopicPartition, int]:
        return {where: log.appended_end_offset for where, log in self._logs.items()}

    # Followers

    def answer(self, fetch: ReplicaFetch, now_s: float) -> ReplicaData:
        """Note what a follower has, and answer it. Raises WrongEpochError."""
        self.hear(fetch, now_s)
        return self.give(fetch)

    def hear(self, fetch: ReplicaFetch, now_s: float) -> list[TopicPartition]:
        """Note what a follower has, and return the partitions whose readable end has moved. Raises WrongEpochError."""
        self._check(fetch)
        self._heard_by(fetch, now_s).note(fetch, self._appended(), now_s)
        return self.advance(now_s)

    def _heard_by(self, fetch: ReplicaFetch, now_s: float) -> _Follower:
        """Return what is known of a follower by this connection, which is nothing if it is a new one."""
        follower = self._followers.get(fetch.follower)
        if follower is not None and follower.connection is not None and fetch.connection < follower.connection:
            raise WrongEpochError(f"{fetch.follower} has connected again since it sent this")
        if 0 < fetch.connection <= self._last_connection.get(fetch.follower, 0):
            raise WrongEpochError(f"{fetch.follower} went away after it had sent this")
        if follower is None or follower.connection != fetch.connection:
            is_counted = follower is not None and fetch.follower in self._in_sync.counted()
            since_s = follower.caught_up_s if follower is not None and is_counted else now_s
            self._followers[fetch.follower] = follower = _Follower(since_s, fetch.connection)
        return follower

    def has_news(self, fetch: ReplicaFetch) -> bool:
        """Say whether a follower would get anything now: an answer to a comparison, bytes, or a partition."""
        asks, logs = fetch.asks, self._logs
        return not logs.keys() <= asks.keys() or any(
            ask.flushed is None
            or (where in logs and not logs[where].start_offset <= ask.offset == logs[where].appended_end_offset)
            for where, ask in asks.items()
        )

    def all_readable(self) -> bool:
        """Say whether all that was appended can be read."""
        return all(self.readable(where) >= log.appended_end_offset for where, log in self._logs.items())

    def give(self, fetch: ReplicaFetch, max_bytes: int | None = None) -> ReplicaData:
        """Return what a follower gets, at most so many bytes. Whoever sends it releases the data.

        Raises WrongEpochError.
        """
        self._check(fetch)
        given: dict[TopicPartition, Given] = {}
        left_bytes = self._rules.max_bytes if max_bytes is None else max_bytes
        try:
            for where, ask in fetch.asks.items():
                given[where] = each = self._give(where, ask, left_bytes)
                left_bytes -= each.data_bytes
            for where in sorted(self._logs.keys() - given.keys()):
                given[where] = self._give(where, None, 0)
            self._check(fetch)  # comparing may take a while
        except BaseException:
            ReplicaData(self.epoch, given).release()
            raise
        return ReplicaData(self.epoch, given)

    def _check(self, fetch: ReplicaFetch) -> None:
        if fetch.epoch != self.epoch or self.has_ended:
            raise WrongEpochError(f"{fetch.follower} follows epoch {fetch.epoch}; here it is {self.epoch}")

    def _give(self, where: TopicPartition, ask: Ask | None, max_bytes: int) -> Given:
        log, readable = self._logs.get(where), self.readable(where)
        if log is None:
            return Given(0, 0, readable)
        start, end, exact = log.start_offset, log.appended_end_offset, self._exact_counts().get(where.topic, 0)
        if ask is not None and ask.flushed is None:
            return Given(start, end, readable, equal=count_equal(log, ask.compare), segment=exact)
        if ask is not None and start <= ask.offset < end and max_bytes > 0:
            given = Given(start, end, readable, 0, *log.read(ask.offset, max_bytes))
            if given.data_bytes:
                return given
        return Given(start, end, readable, segment=exact)

    def standings(self, now_s: float) -> list[Standing]:
        """Return how far each follower is behind that was in sync in this epoch or has asked for something in it."""
        return [
            Standing(each, each in self._in_sync.certain, self._bytes_behind(follower), now_s - follower.caught_up_s)
            for each, follower in self._followers.items()
        ]

    def _bytes_behind(self, follower: _Follower) -> int:
        return sum(
            max(0, log.appended_end_offset - max(follower.flushed.get(where, 0), log.start_offset))
            for where, log in self._logs.items()
        )

    # The in-sync set

    def in_sync(self) -> frozenset[Replica]:
        """Return everyone who may be in in_sync."""
        return self._in_sync.counted()

    @property
    def max_lag_s(self) -> float:
        """For how long a follower in sync may not have all there is."""
        return self._rules.max_lag_s

    def is_in_sync(self, replica: Replica) -> bool:
        """Say whether a follower was in sync when that was last certain."""
        return replica in self._in_sync.certain

    def is_at_all_in_sync(self, where: TopicPartition) -> bool:
        """Say whether everyone who may be in in_sync has a partition, with or without messages."""
        return all(self._flushed_by(each, where) >= 0 for each in self._in_sync.counted() if each != self.me)

    def note_members(self, able: Iterable[Replica], sessions: Mapping[Replica, int] | None = None) -> None:
        """Note who may be in sync, and the sessions of all member nodes: the same replicas unless that is said.

        What a replica has said in a session that is over counts no more, but for what it lacks: it may come back with
        another disk, also between two looks of its leader.
        """
        self._able = frozenset(able)
        former, self._sessions = self._sessions, dict.fromkeys(self._able, 0) if sessions is None else dict(sessions)
        for replica in list(self._followers):
            session = self._sessions.get(replica)
            if session is not None and session == former.get(replica, session):
                continue
            gone = self._followers[replica]
            if gone.connection is not None:
                self._last_connection[replica] = gone.connection
                self._followers[replica] = gone.of_another_session(self._readable)

    def wanted(self, now_s: float) -> StateWrite | StateRead | None:
        """Return what to do with the state's znode next; exactly one of the methods below is called after that."""
        if self._in_sync.version is None:
            return self._in_sync.wanted_read()
        wanted = frozenset({self.me}) | {each for each in self._followers if self._belongs(each, now_s)}
        is_heard = all(self._followers[replica].connection is not None for replica in wanted - {self.me})
        settled = self.epoch if is_heard else self._in_sync.settled
        if wanted == self._in_sync.certain and settled == self._in_sync.settled:
            return None
        return self._in_sync.propose(wanted, settled)

    def _belongs(self, replica: Replica, now_s: float) -> bool:
        follower = self._followers[replica]
        if self._able is not None and replica not in self._able:
            return False
        if now_s - follower.caught_up_s > self._rules.max_lag_s:
            return False
        if replica in self._in_sync.certain:
            return not follower.lacks(self._readable)
        return follower.connection is not None and follower.has(self._due_of_new_ones())

    def _due_of_new_ones(self) -> dict[TopicPartition, int]:
        """Return up to where a follower must have fsynced to be in sync.

        What is readable is not enough: until the leader's end at takeover is, the readable end may lag behind what was
        readable at the leader before.
        """
        return {where: max(end, self._at_takeover.get(where, 0)) for where, end in self._readable.items()}

    def written(self) -> None:
        """Note that the state was written: more may be readable now."""
        self._in_sync.succeeded()

    def not_answered(self) -> None:
        """Note that the write of the state was not answered."""
        self._in_sync.not_answered()

    def refused(self) -> None:
        """Note that the write was refused. Raises LeadLostError; the term has ended."""
        self.end()
        self._in_sync.refused()

    def found(self, state: ReplicaState, version: int) -> None:
        """Note what a read of the state has found. Raises LeadLostError; the term has ended."""
        try:
            self._in_sync.found(state, version)
        except LeadLostError:
            self.end()
            raise

    # Clients

    def registration(self) -> int | None:
        """Return the state's version with which the leader may register as the broker now; None if it may not yet.

        Before all that it had at takeover can be read, "latest" offsets could be lower than those clients have seen.
        """
        if any(self.readable(where) < end for where, end in self._at_takeover.items()):
            return None
        return self._in_sync.version

    def takes_produces(self) -> bool:
        """Say whether enough replicas are in sync; connections that send a produce or a barrier are closed if not."""
        return not self.has_ended and len(self._in_sync.certain) >= self._rules.min_in_sync

    def new_client(self) -> ClientAppends:
        """Return the account of a new connection of a client."""
        return ClientAppends(lambda: self.has_ended)
