"""What a replica does before what: on disk, in its term, and towards its leader. Else confirmed messages are lost."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import gevent
import gevent.socket
import pytest
from gevent.event import Event
from gevent.threadpool import ThreadPool

from kafka2011.broker.replication.knowledge import Knowledge
from kafka2011.broker.replication.leader_state import LeaderState
from kafka2011.broker.replication.leading import Leading
from kafka2011.broker.replication.states import FollowerState, ReplicaParts
from kafka2011.broker.requests.handlers import RefusedError
from kafka2011.replica.codec import decode_fetch, encode_data
from kafka2011.replica.exchange import Given, ReplicaData, ReplicaFetch
from kafka2011.replica.in_sync import LeadLostError
from kafka2011.replica.known_file import KnownFile, NotStoredNowError
from kafka2011.replica.state import Follow, Lead, Replica, ReplicaState, StateWrite
from kafka2011.replica.term import Term, TermRules
from tests.models.replica.logs import ModelLog
from tests.support.clocks import ManualClock
from tests.support.waiting import TIMEOUT_S
from zk.cluster import TopicPartition
from zk.replicas import Member, ReplicaNodes

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from kafka2011.replica.known import Known

ID = 3
B = Replica("b", "51f3")
VIEWS = TopicPartition("views", ID, 0)
_SIZE = struct.Struct(">i")


class Logs:
    """A replica's logs, in memory."""

    def __init__(self) -> None:
        self.log = ModelLog()
        self.obstacles: dict[TopicPartition, Any] = {}
        self.on_deletion: Callable[[], None] = lambda: None

    def all(self) -> list[tuple[TopicPartition, Any]]:
        return [(VIEWS, self.log)]

    def make(self, _where: TopicPartition) -> ModelLog:
        return self.log

    def flush(self) -> None:
        self.log.flush()

    def exact_counts(self) -> dict[str, int]:
        return {}

    def log_at(self, _where: TopicPartition) -> None:
        return None

    def delete(self, topic: str) -> None:
        assert topic == VIEWS.topic
        self.log = ModelLog()
        self.on_deletion()


class FakeLeader:
    """Listens, keeps what a follower asks, and gives what the test says."""

    def __init__(self) -> None:
        self.asked: list[ReplicaFetch] = []
        self.epochs: list[int] = []
        self.gives: list[Given] = []
        self.is_done = Event()

    def serve(self, listener: socket.socket, file: KnownFile) -> None:
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as reader:
            for given in self.gives:
                known = file.load()
                self.epochs.append(0 if known is None else known.epoch)
                fetch = decode_fetch(reader.read(*_SIZE.unpack(reader.read(_SIZE.size))), ID).fetch
                self.asked.append(fetch)
                for piece in encode_data(ReplicaData(fetch.epoch, {VIEWS: given})):
                    connection.sendall(cast("bytes", piece))
        self.is_done.set()


@pytest.fixture
def threads() -> Iterator[ThreadPool]:
    pool = ThreadPool(2)
    yield pool
    pool.kill()


class FailingFile(KnownFile):
    """The file `replica`, which cannot be written while `fails` is true."""

    fails = False

    def store(self, known: Known) -> None:
        """Write it, or fail."""
        if self.fails:
            raise NotStoredNowError("no descriptor is left")
        super().store(known)


def new_parts(logs: Logs, file: KnownFile, threads: ThreadPool) -> ReplicaParts:
    """Return what a replica `a` works with."""
    knowledge = Knowledge(file)
    knowledge.load("a", cast("Any", logs))
    config = SimpleNamespace(
        brokerid=ID,
        replica_lag_time_max_ms=4000,
        min_insync_replicas=1,
        replica_max_bytes_per_second=0,
        replica_address_gap_ms=60_000,
    )
    parts: list[Any] = [config, logs, knowledge, *(None,) * 6]
    parts[-1] = threads
    return ReplicaParts(*parts)


def test_a_follower_has_the_epoch_on_disk_when_it_asks_and_what_it_got_when_it_asks_again(
    tmp_path: Path, threads: ThreadPool
) -> None:
    """What it says that it has must be there after a power cut, and so must the epoch in which it says so."""
    logs, file = Logs(), KnownFile(tmp_path)
    parts = new_parts(logs, file, threads)
    leader = FakeLeader()
    leader.gives = [Given(0, 4, 0), Given(0, 4, 0, data=b"m1m2"), Given(0, 4, 2), Given(0, 4, 4)]
    listener = gevent.socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    session: Any = SimpleNamespace(client=SimpleNamespace(security=SimpleNamespace(path="")))
    member = Member("127.0.0.1", listener.getsockname()[1], B.disk)
    state = ReplicaState(7, B, frozenset({B}))
    following: FollowerState | None = None
    try:
        serving = gevent.spawn(leader.serve, listener, file)
        following = FollowerState(parts, session, Follow(7, B), state, 12, member)
        assert leader.is_done.wait(TIMEOUT_S)
        serving.get(timeout=TIMEOUT_S)
    finally:
        if following is not None:
            following.end()
        listener.close()
    assert leader.epochs == [7] * 4
    assert [fetch.asks[VIEWS].flushed for fetch in leader.asked] == [None, 0, 4, 4]
    assert logs.log.on_disk == ((0, b"m1m2"),)
    known = file.load()
    assert known is not None
    assert known.readable.get(VIEWS, 0) >= 2, "what clients could read is on disk when it ends"


def new_session(renew: Callable[[], None], *members: Member) -> Any:
    """Return a session in which the lead can be had, and in which there are these members after that."""
    nodes = ReplicaNodes("", 13, "", True, {f"m{number}": member for number, member in enumerate(members)})
    return SimpleNamespace(
        registry=SimpleNamespace(lead=lambda *_: 13),
        lease=SimpleNamespace(renew=renew, until_s=0.0),
        read=lambda: nodes,
    )


def test_a_leader_does_nothing_in_its_epoch_if_somebody_has_come_who_has_seen_a_newer_state(
    tmp_path: Path, threads: ThreadPool
) -> None:
    """ZooKeeper has gone back, and that one was not there yet at the look before."""
    logs, file = Logs(), KnownFile(tmp_path)
    parts = new_parts(logs, file, threads)
    me, done = parts.knowledge.me, list[str]()
    role = Lead(StateWrite(ReplicaState(8, me, frozenset({me})), 12))
    session = new_session(lambda: done.append("renews"), Member("127.0.0.1", 1, "51f3", seen="8:d:14"))
    with pytest.raises(LeadLostError, match="has seen epoch 8, version 14"):
        LeaderState.take(parts, session, role, {}, None)
    assert not done
    known = file.load()
    assert known is None or known.epoch == 0


def test_a_leader_has_its_epoch_on_disk_when_its_term_begins(tmp_path: Path, threads: ThreadPool) -> None:
    """Else it could take the same epoch again after a restart."""
    logs, file = Logs(), KnownFile(tmp_path)
    logs.log.append(b"m1", 0)
    parts = new_parts(logs, file, threads)
    me = parts.knowledge.me
    epochs: list[int] = []

    def renew() -> None:  # the first thing that is done in the term
        known = file.load()
        epochs.append(0 if known is None else known.epoch)

    session = new_session(renew)
    role = Lead(StateWrite(ReplicaState(8, me, frozenset({me})), 12))
    taken = LeaderState.take(parts, session, role, {me: Member("127.0.0.1", 1, me.disk)}, None)
    assert epochs == [8]
    assert taken.leading.term.epoch == 8
    assert logs.log.on_disk == ((0, b"m1"),)


def test_what_is_known_of_a_deleted_topic_is_gone_from_disk_before_its_logs_and_the_epoch_is_there_after(
    tmp_path: Path, threads: ThreadPool
) -> None:
    """Else a crash would leave a replica that misses what it has deleted, or one that never deletes it."""
    logs, file = Logs(), KnownFile(tmp_path)
    logs.log.append(b"m1", 0)
    logs.flush()
    parts = new_parts(logs, file, threads)
    parts.knowledge.note_readable({VIEWS: 2})
    parts.knowledge.store()
    before: list[tuple[int, Mapping[TopicPartition, int]]] = []

    def note() -> None:
        known = file.load()
        assert known is not None
        before.append((known.epoch, known.readable))

    logs.on_deletion = note
    state = ReplicaState(7, B, frozenset({B})).deleting(VIEWS.topic, "1-0", 11, "draw")
    parts.knowledge.enter(state.led_by(B, 12, "another"), 13)
    assert before == [(0, {})]
    assert logs.log.now == ((0, b""),)
    known = file.load()
    assert known is not None
    assert (known.epoch, known.readable) == (9, {})
    logs.log.append(b"n1", 0)
    parts.knowledge.enter(state.led_by(B, 12, "another").led_by(B, 14, "third"), 15)
    assert len(before) == 1, "it is deleted once"


def test_a_leader_serves_nobody_once_its_lease_has_run_out() -> None:
    """Also when nobody has told it that it does not lead any more: another one may."""
    clock, me = ManualClock(), Replica("a", "9c2e")
    state = ReplicaState(7, me, frozenset({me}), settled=7)
    term = Term(me, state, 12, TermRules(4.0, 1, 4), logs={}, readable={}, now_s=0.0)
    lease: Any = SimpleNamespace(until_s=clock.monotonic_s() + 1)
    nothing: Any = None
    logs: Any = SimpleNamespace(all=list)
    leading = Leading(term, logs, lease, catch_up=nothing, parking=nothing, request_flush=nothing, clock=clock)
    leading.may_serve = True
    leading.check()
    leading.check_produce()
    lease.until_s = clock.monotonic_s()
    for check in (leading.check, leading.check_produce):
        with pytest.raises(RefusedError):
            check()


def test_a_leader_has_the_state_that_it_wrote_on_disk_before_more_can_be_read(
    tmp_path: Path, threads: ThreadPool
) -> None:
    """Else ZooKeeper could go back to before that write, and this disk would not tell."""
    logs, file = Logs(), FailingFile(tmp_path)
    logs.log.append(b"m1", 0)
    parts = new_parts(logs, file, threads)
    me = parts.knowledge.me
    session = new_session(lambda: None)
    state = ReplicaState(8, me, frozenset({me, B}))
    former = B  # whose address has to be left alone for a while: so nobody registers yet
    leader = LeaderState.take(parts, session, Lead(StateWrite(state, 12)), {}, former)
    written: list[str] = []

    def write(text: str, version: int) -> int:
        written.append(text)
        return version + 1

    session.registry.write = write
    file.fails = True
    with pytest.raises(NotStoredNowError):
        leader.go_on()
    assert len(written) == 1
    assert leader.leading.term.readable(VIEWS) == 0
    session.read = lambda: ReplicaNodes(written[0], 14, str(me), True, {})
    with pytest.raises(NotStoredNowError):
        leader.go_on()
    assert leader.leading.term.readable(VIEWS) == 0
    file.fails = False
    leader.go_on()
    known = file.load()
    assert known is not None
    assert known.newest_seen.version == 14
    assert leader.leading.term.readable(VIEWS) == 2


def test_a_leader_gives_up_the_lead_when_somebody_comes_who_has_seen_a_newer_state(
    tmp_path: Path, threads: ThreadPool
) -> None:
    """ZooKeeper has gone back, and this replica has led since then."""
    parts = new_parts(Logs(), KnownFile(tmp_path), threads)
    me = parts.knowledge.me
    session = new_session(lambda: None)
    state = ReplicaState(8, me, frozenset({me}))
    leader = LeaderState.take(parts, session, Lead(StateWrite(state, 12)), {}, None)
    nodes = session.read()
    leader.check(nodes, state, {B: Member("127.0.0.1", 1, B.disk, seen="8::13")})
    with pytest.raises(LeadLostError, match="b:51f3 has seen epoch 9, version 10"):
        leader.check(nodes, state, {B: Member("127.0.0.1", 1, B.disk, seen="9:d:10")})
