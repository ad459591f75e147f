"""What a leader does before what, towards its disk, its clients and the state in ZooKeeper."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kafka2011.broker.replication.knowledge import Knowledge
from kafka2011.broker.replication.leader_state import LeaderState
from kafka2011.broker.replication.leading import Leading
from kafka2011.broker.replication.replica_log import ReplicaLogs
from kafka2011.broker.requests.handlers import RefusedError
from kafka2011.broker.server import KafkaServer
from kafka2011.errors import LogError
from kafka2011.message.message_set import encode
from kafka2011.replica.exchange import Ask, ReplicaFetch
from kafka2011.replica.known_file import KnownFile
from kafka2011.replica.state import Replica, ReplicaState, StateWrite
from kafka2011.replica.term import Term, TermRules
from tests.models.replica.logs import ModelLog
from tests.support.clocks import ManualClock
from tests.support.logs import new_log_manager
from zk.cluster import TopicPartition
from zk.errors import ZkUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ID, EPOCH, VERSION = 3, 7, 12
A, B = Replica("a", "9c2e"), Replica("b", "51f3")
VIEWS = TopicPartition("views", ID, 0)
GOOD = encode(b"good")
LAG_S = 4.0


class Lead:
    """A leader `a` of one log in memory, with a follower `b` in sync, and a clock that is set by hand.

    `done` is what it does, in order; `at_write` is called when it writes the state.
    """

    def __init__(self, directory: Path) -> None:
        self.done: list[str] = []
        self.clock = ManualClock()
        self.log = ModelLog()
        self.log.append(b"m1", 0)
        self.log.flush()
        self.readable_by_clients = 0
        self.lease = SimpleNamespace(until_s=1.0, renew=lambda: None)
        self.file = KnownFile(directory)
        self.knowledge = Knowledge(self.file)
        self.knowledge.load("a", self._logs())
        state = ReplicaState(EPOCH, A, frozenset({A, B}), settled=EPOCH)
        rules = TermRules(LAG_S, 1, 1000)
        self.term = Term(A, state, VERSION, rules, logs={VIEWS: self.log}, readable={}, now_s=0.0)
        self.leading = self._new_leading()
        self.leading.may_serve = True
        self.at_write: Callable[[], int] = lambda: VERSION + 1

    def _logs(self) -> Any:
        served = SimpleNamespace(let_read=self._let_read, flushed_end_offset=2)
        return SimpleNamespace(
            all=lambda: [(VIEWS, self.log)],
            log_at=lambda _where: served,
            let_nobody_read=lambda: self.done.append("nobody reads"),
        )

    def _let_read(self, end: int) -> None:
        self.readable_by_clients = end

    def _new_leading(self) -> Leading:
        lease: Any = self.lease
        nothing: Any = None
        return Leading(
            self.term,
            self._logs(),
            lease,
            catch_up=nothing,
            parking=nothing,
            request_flush=nothing,
            clock=self.clock,
        )

    def hear(self, flushed: int, connection: int = 1) -> None:
        """Hear what the follower has on its disk."""
        self.term.hear(ReplicaFetch(EPOCH, B, {VIEWS: Ask(flushed, flushed)}, connection), self.clock.monotonic_s())

    def state(self, session: Any = None) -> LeaderState:
        """Return the state that a replica is in while it leads so."""
        config = SimpleNamespace(brokerid=ID)
        parts: Any = SimpleNamespace(
            config=config,
            logs=self._logs(),
            knowledge=self.knowledge,
            close_clients=lambda: self.done.append("clients end"),
        )
        registry = SimpleNamespace(write=lambda _text, _version: self.at_write())
        session = session or SimpleNamespace(registry=registry, read=self._read)
        return LeaderState(parts, session, self.leading, register_from_s=float("inf"))

    def _read(self) -> Any:
        raise ZkUnavailable("a read is wanted")


@pytest.fixture
def lead(tmp_path: Path) -> Lead:
    return Lead(tmp_path)


def test_a_barrier_is_not_answered_when_the_lease_has_run_out_meanwhile(lead: Lead) -> None:
    """Another may lead by then, whose log lacks nothing of it only if this replica was believed to the end."""
    lead.hear(2)
    account = lead.leading.term.new_client()
    account.appended(VIEWS, 2)
    lead.clock.now_s = lead.lease.until_s
    with pytest.raises(RefusedError, match="does not know whether it still does"):
        lead.leading.await_barrier(account)


def test_clients_may_read_more_when_one_that_was_waited_for_is_no_longer_in_sync(lead: Lead) -> None:
    lead.leading.publish_all()
    assert lead.readable_by_clients == 0
    lead.clock.now_s = LAG_S + 1
    wanted = lead.term.wanted(lead.clock.monotonic_s())
    assert isinstance(wanted, StateWrite)
    assert wanted.state.in_sync == {A}
    lead.term.written()
    lead.term.advance(lead.clock.monotonic_s())
    lead.leading.publish_all()
    assert lead.readable_by_clients == 2


def test_clients_end_before_nobody_may_read_and_what_they_could_read_is_on_disk(lead: Lead) -> None:
    """Else a client could read what the next leader does not have, or be answered from a log that is being cut."""
    lead.hear(2)
    lead.state().end()
    assert lead.done == ["clients end", "nobody reads"]
    known = lead.file.load()
    assert known is not None
    assert known.readable == {VIEWS: 2}
    assert lead.term.has_ended


def test_a_write_of_the_state_that_is_not_answered_is_in_doubt_until_it_is_read(lead: Lead) -> None:
    """It may have been done: meanwhile whoever was to leave counts, and so does whoever was to come."""

    def lose_the_answer() -> int:
        raise ZkUnavailable("no answer")

    lead.at_write = lose_the_answer
    lead.leading.followers = frozenset()
    lead.term.note_members([A])
    state = lead.state()
    with pytest.raises(ZkUnavailable, match="no answer"):
        state.go_on()
    with pytest.raises(ZkUnavailable, match="a read is wanted"):
        state.go_on()
    assert lead.term.readable(VIEWS) == 0


def test_a_deletion_begins_an_epoch_and_is_done_once_for_each_request(lead: Lead) -> None:
    """In the term after that it is done. A new request for the same topic begins another epoch."""
    written: list[tuple[ReplicaState, int]] = []
    before = ReplicaState(EPOCH - 1, A, frozenset({A, B}))
    done = before.deleting("views", "1-0", VERSION - 1, "draw")
    nodes: Any = SimpleNamespace(state=done.text, version=VERSION, is_mine=True)
    session: Any = SimpleNamespace(
        read=lambda: nodes,
        registry=SimpleNamespace(
            write=lambda text, version: written.append((ReplicaState.of(text, "the test's"), version))
        ),
    )
    state = lead.state(session)
    state.delete("views", "1-0")
    state.delete("clicks", "2-0")
    assert written == []
    with pytest.raises(ZkUnavailable, match="topic views is deleted from epoch 8 on"):
        state.delete("views", "2-0")
    [(new, version)] = written
    assert (new.epoch, new.leader, version) == (EPOCH + 1, None, VERSION)
    assert new.deleted_since(EPOCH) == {"views"}
    nodes.version += 1
    with pytest.raises(ZkUnavailable, match="not certain"):
        state.delete("views", "3-0")
    nodes.is_mine = False
    with pytest.raises(ZkUnavailable, match="another replica leads"):
        state.delete("views", "3-0")
    assert len(written) == 1


def test_all_that_was_appended_is_on_disk_after_a_flush_of_a_replica(tmp_path: Path) -> None:
    """Also of a log that is waiting for another flush already: a follower tells its leader so next."""
    with new_log_manager(tmp_path, num_partitions=2) as manager:
        logs = [manager.get_or_create("views", partition) for partition in range(2)]
        for log in logs:
            log.append(GOOD, 1)
        assert [log.flushed_end_offset for log in logs] == [0, 0]
        ReplicaLogs(manager, ID).flush()
        assert [log.flushed_end_offset for log in logs] == [len(GOOD)] * 2


def test_a_follower_takes_only_messages_that_are_good(tmp_path: Path) -> None:
    """Up to the first that is not; a message that was damaged on its way must not be on two disks."""
    bad = GOOD[:-1] + b"?"
    with new_log_manager(tmp_path) as manager:
        log = ReplicaLogs(manager, ID).make(VIEWS)
        log.append(GOOD + bad + GOOD, 0, 1000)
        assert log.appended_end_offset == len(GOOD)
        with pytest.raises(LogError, match="at offset 14 is damaged"):
            log.append(bad + GOOD, 0, 1000)
        assert log.appended_end_offset == len(GOOD)


@pytest.mark.parametrize(
    ("replication", "passes"),
    [
        (None, 1),
        (SimpleNamespace(leading_now=lambda: None), 0),
        (SimpleNamespace(leading_now=lambda: "a term"), 1),
    ],
)
def test_segments_are_deleted_by_the_leader_alone(replication: Any, passes: int) -> None:
    """A follower deletes what its leader has deleted: otherwise it could lack what the leader still gives to others."""
    done: list[str] = []
    server: Any = object.__new__(KafkaServer)
    server.parts = SimpleNamespace(
        replication=replication,
        clock_comparison=SimpleNamespace(compare_before_pass=lambda: None),
        logs=SimpleNamespace(
            clean_up=lambda: done.append("a pass"), retention_clock=SimpleNamespace(note=lambda: None)
        ),
    )
    server.clean_up()
    assert len(done) == passes
