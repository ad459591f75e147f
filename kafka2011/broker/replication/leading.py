"""A replica that leads: what it gives to followers and lets clients read, and which of their requests it takes.

The rules are those of `kafka2011.replica.term`; here they meet logs, parked requests and greenlets. Everything but
`await_barrier` and `answer` returns without waiting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import gevent
from gevent.event import Event

from kafka2011.broker.requests.handlers import RefusedError, Reply
from kafka2011.log.segment import LogSlice
from kafka2011.replica.codec import encode_data
from kafka2011.replica.standing import encode_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Set

    from kafka2011.broker.connections.client_connection import Connection
    from kafka2011.broker.replication.catch_up import CatchUp
    from kafka2011.broker.replication.replica_log import ReplicaLogs
    from kafka2011.broker.requests.parking import Parking, PartitionKey
    from kafka2011.log.log import Log
    from kafka2011.replica.barriers import Barrier, ClientAppends
    from kafka2011.replica.codec import WaitingFetch
    from kafka2011.replica.exchange import ReplicaData, ReplicaFetch
    from kafka2011.replica.standing import Standing
    from kafka2011.replica.state import Replica
    from kafka2011.replica.term import Term
    from zk.clock import Clock
    from zk.cluster import TopicPartition
    from zk.sessions import SessionLease

FOLLOWERS: PartitionKey = ("", -1)
"""What followers wait under for more of any log: no partition has this name."""
MAX_WAIT_MS = 500
"""How long a follower may wait."""
WAIT_SHARE = 1 / 4
"""Of `replica.lag.time.max.ms` it waits no longer than this: its next question says what it has."""

BARRIER_LOOK_S = 0.5
"""How often one who waits to be confirmed looks by itself: the lease may run out."""


class AwaitedNews:
    """What a follower's fetch waits for: more of any log than it asks for."""

    partitions = (FOLLOWERS,)

    def __init__(self, term: Term, fetch: ReplicaFetch, logs: ReplicaLogs) -> None:
        self._term = term
        self._fetch = fetch
        self._logs = logs

    def begin(self) -> bool:
        """Say whether there is something by now."""
        return self._term.has_ended or self._term.has_news(self._fetch)

    def is_there(self, log: Log) -> bool:
        """Say whether there is something, now that a log has changed."""
        ask = self._fetch.asks.get(self._logs.where(log))
        return ask is None or log.appended_end_offset > ask.offset


class Leading:
    """One term of this process. `request_flush` has a log flushed soon, and does not wait."""

    def __init__(
        self,
        term: Term,
        logs: ReplicaLogs,
        lease: SessionLease,
        *,
        catch_up: CatchUp,
        parking: Parking,
        request_flush: Callable[[Log], None],
        clock: Clock,
    ) -> None:
        self.term = term
        self.may_serve = False
        """Whether all that there was at takeover can be read: before, clients are refused."""
        self.followers: Set[Replica] = frozenset()
        """Whose member nodes were there when they were read last: nobody else is answered."""
        self._logs = logs
        self._lease = lease
        self._catch_up = catch_up
        self._parking = parking
        self._request_flush = request_flush
        self._clock = clock
        self._moved = Event()
        self.publish(where for where, _ in logs.all())

    @property
    def has_lease(self) -> bool:
        """Whether nobody else can lead yet, judging by the session and a clock."""
        return not self.term.has_ended and self._clock.monotonic_s() < self._lease.until_s

    @property
    def has_other_in_sync(self) -> bool:
        """Whether another replica is in sync and alive, which would lead if this one did not."""
        return any(map(self.term.is_in_sync, self.followers))

    def end(self) -> None:
        """Note that the lead is lost; those who wait for it go away unanswered."""
        self.term.end()
        self._moved.set()

    # The logs

    def note_logs(self) -> None:
        """Note the logs that were made."""
        for where, log in self._logs.all():
            if not self.term.has_log(where):
                self.term.add_log(where, log)
                self.publish([where])

    def make(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Make the logs that are absent, and tell followers; return all of them. Raises KafkaError."""
        made = list(partitions)
        for where in made:
            self._logs.make(where)
        self.note_logs()
        for where in made:
            log = self._logs.log_at(where)
            if log is not None:
                self.appended(log)
        return made

    def flushed(self, log: Log) -> None:
        """Note that more of a log is on this disk."""
        where = self._logs.where(log)
        if not self.term.has_log(where):
            self.term.add_log(where, self._logs.of(log))
        self.publish(self.term.advance(self._clock.monotonic_s(), [where]))

    def appended(self, log: Log) -> None:
        """Note that a log has more: followers get it."""
        self._parking.note(FOLLOWERS, log)

    def publish(self, partitions: Iterable[TopicPartition]) -> None:
        """Let clients read what they may."""
        for where in partitions:
            log = self._logs.log_at(where)
            if log is not None:
                log.let_read(self.term.readable(where))
                self._moved.set()

    def publish_all(self) -> None:
        """Let clients read what they may, after in_sync has changed."""
        self.publish(where for where, _ in self._logs.all())
        self._moved.set()  # also for those who wait with too few in sync

    # Clients

    def check(self) -> None:
        """Raise RefusedError unless this replica serves clients now."""
        if not self.may_serve or not self.has_lease:
            raise RefusedError("this replica does not lead, or does not know whether it still does")

    def check_produce(self) -> None:
        """Raise RefusedError unless enough replicas are in sync to take anything."""
        self.check()
        if not self.term.takes_produces():
            raise RefusedError("fewer replicas than min.insync.replicas are in sync")

    def client_appended(self, account: ClientAppends, log: Log, end: int) -> None:
        """Note what was appended for a client. Raises LeadLostError."""
        where = self._logs.where(log)
        if not self.term.has_log(where):
            self.term.add_log(where, self._logs.of(log))
        account.appended(where, end)

    def await_barrier(self, account: ClientAppends) -> None:
        """Wait until all that a client had appended can be read, which is flushed for it at once.

        Raises LeadLostError, and RefusedError when too few replicas are in sync.
        """
        barrier = account.barrier()
        if not barrier.ends:
            return
        self._flush_for(barrier)
        while not barrier.is_due(self.term.readable):
            self.check_produce()
            self._moved.clear()
            self._moved.wait(BARRIER_LOOK_S)
        self.check()

    def _flush_for(self, barrier: Barrier) -> None:
        for where, end in barrier.ends.items():
            log = self._logs.log_at(where)
            if log is not None and log.flushed_end_offset < end and not log.is_flush_requested:
                log.is_flush_requested = True
                self._request_flush(log)

    # Followers

    def standings(self) -> Reply:
        """Say how far each of them is behind."""
        return Reply((encode_answer(self.term.standings(self._clock.monotonic_s())),))

    def alive(self, now_s: float) -> dict[str, Standing | None]:
        """Return how far each that is alive is behind, by name; None if it has not asked for anything yet."""
        standings = {standing.replica: standing for standing in self.term.standings(now_s)}
        return {replica.name: standings.get(replica) for replica in self.followers}

    def answer(self, request: WaitingFetch, connection: Connection) -> Reply | None:
        """Answer a follower, once there is something for it. Raises WrongEpochError and RefusedError."""
        fetch = request.fetch
        if fetch.follower not in self.followers:
            raise RefusedError(f"{fetch.follower} has no znode among the members")
        term = self.term
        self._hear(fetch)
        wait_ms = min(request.max_wait_ms, MAX_WAIT_MS, term.max_lag_s * 1000 * WAIT_SHARE)
        if wait_ms > 0 and not term.has_news(fetch):
            if not connection.park(self._parking, AwaitedNews(term, fetch, self._logs), wait_ms / 1000):
                return None
            self._hear(fetch)
        data = self._give(fetch)
        try:
            slices = [given.data for given in data.given.values() if isinstance(given.data, LogSlice)]
            for piece in slices[1:]:  # the first to be sent keeps its file open, the others wait for their turn
                piece.park()
            return Reply(cast("tuple[bytes | LogSlice, ...]", encode_data(data)))
        except BaseException:
            data.release()
            raise

    def _give(self, fetch: ReplicaFetch) -> ReplicaData:
        follower, now_s = fetch.follower, self._clock.monotonic_s()
        turn = None if self.term.is_in_sync(follower) else self._catch_up.turn(follower, now_s)
        if turn is None:
            return self.term.give(fetch)
        if turn.wait_s:
            gevent.sleep(turn.wait_s)
        data = self.term.give(fetch, turn.max_bytes)
        size_bytes = sum(given.data_bytes for given in data.given.values())
        self._catch_up.given(follower, size_bytes, self._clock.monotonic_s())
        return data

    def _hear(self, fetch: ReplicaFetch) -> None:
        self.note_logs()
        self.publish(self.term.hear(fetch, self._clock.monotonic_s()))
