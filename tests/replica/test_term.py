from __future__ import annotations

import pytest

from kafka2011.log.retention import most_deletable
from kafka2011.replica.exchange import Ask, ReplicaFetch, WrongEpochError
from kafka2011.replica.followed_log import FollowedLog, LeaderLacksReadableError, OtherBytesError
from kafka2011.replica.following import Following
from kafka2011.replica.in_sync import InSync, LeadLostError, StateRead
from kafka2011.replica.serving import Answer, answer_to_fetch
from kafka2011.replica.state import Follow, ReadableFloor, Replica, ReplicaState, StateWrite
from kafka2011.replica.term import Term, TermRules
from tests.models.replica.logs import ModelLog
from zk.cluster import TopicPartition

A, B, C = Replica("a", "9c2e"), Replica("b", "51f3"), Replica("c", "77")
VIEWS = TopicPartition("views", 3, 0)
LAG_S = 4.0


def _log(data: bytes = b"") -> ModelLog:
    log = ModelLog()
    log.append(data, 0)
    log.flush()
    return log


def _term(log: ModelLog, *in_sync: Replica, min_in_sync: int = 1, readable: int = 0, settled: int = 7) -> Term:
    term = Term(
        A,
        ReplicaState(7, A, frozenset({A, *in_sync}), settled=settled),
        12,
        TermRules(LAG_S, min_in_sync, max_bytes=4),
        logs={VIEWS: log},
        readable={VIEWS: readable},
        now_s=0.0,
    )
    term.note_members([A, *in_sync])
    return term


def _has(term: Term, replica: Replica, flushed: int, now_s: float = 0.0) -> None:
    term.answer(ReplicaFetch(7, replica, {VIEWS: Ask(flushed, flushed)}), now_s)


def test_what_all_in_sync_have_fsynced_can_be_read() -> None:
    """Neither more than the slowest has, nor what only the leader has in its page cache."""
    log = _log(b"m1m2m3")
    term = _term(log, B, C)
    _has(term, B, 6)
    assert term.readable(VIEWS) == 0
    _has(term, C, 4)
    assert term.readable(VIEWS) == 4
    log.append(b"m4", 0)
    for replica in (B, C):
        _has(term, replica, 8)
    assert term.readable(VIEWS) == 6
    log.flush()
    assert term.advance(0) == [VIEWS]
    assert term.readable(VIEWS) == 8


def test_nothing_can_be_read_while_too_few_are_in_sync() -> None:
    """And the leader takes no produces."""
    term = _term(_log(b"m1"), min_in_sync=2)
    assert term.advance(0) == []
    assert not term.takes_produces()


def test_who_lags_is_put_out_and_who_has_caught_up_is_put_in() -> None:
    """A follower that keeps asking but never has all there was a question ago lags, too."""
    log = _log(b"m1")
    term = _term(log, B)
    _has(term, B, 2, now_s=3)
    _has(term, B, 2, now_s=4)
    assert term.wanted(now_s=7) is None
    log.append(b"m2", 0)
    log.flush()
    for now_s in (5, 6, 7, 8.1):
        _has(term, B, 2, now_s)
    assert term.wanted(now_s=9.2) == StateWrite(ReplicaState(7, A, frozenset({A}), settled=7), 12)
    term.written()
    term.advance(0)
    assert term.readable(VIEWS) == 4
    term.note_members([A, B])
    _has(term, B, 4, now_s=10)
    _has(term, B, 4, now_s=11)
    assert term.wanted(now_s=11) == StateWrite(ReplicaState(7, A, frozenset({A, B}), settled=7), 13)


def test_who_has_no_member_node_is_put_out_at_once() -> None:
    """Its process has ended."""
    term = _term(_log(b"m1"), B)
    term.note_members([A])
    assert term.wanted(now_s=0) == StateWrite(ReplicaState(7, A, frozenset({A}), settled=7), 12)


def test_a_leader_may_register_once_its_end_at_takeover_can_be_read() -> None:
    """On the version of the state that is certain."""
    term = _term(_log(b"m1m2"), B)
    assert term.registration() is None
    _has(term, B, 4)
    assert term.registration() == 12
    term.note_members([A])
    term.wanted(now_s=0)
    assert term.registration() is None


def test_a_partition_is_at_all_in_sync_once_each_has_said_so() -> None:
    """An empty one too; one that compares it first has not, and who is not in sync does not count."""
    term = _term(_log(), B, C)
    _has(term, B, 0)
    assert not term.is_at_all_in_sync(VIEWS)
    term.answer(ReplicaFetch(7, C, {VIEWS: Ask(0, None)}), 0.0)
    assert not term.is_at_all_in_sync(VIEWS)
    term.note_members([A, B])
    term.wanted(now_s=0)
    assert not term.is_at_all_in_sync(VIEWS)  # until the write is answered, C may be in sync
    term.written()
    term.advance(0)
    assert term.is_at_all_in_sync(VIEWS)


def test_nothing_new_can_be_read_before_all_in_sync_are_known_to_have_the_epoch() -> None:
    """The state says so first: a disk that goes back to before that is known by it."""
    term = _term(_log(b"m1"), B, settled=6)
    assert term.wanted(now_s=0) is None
    assert term.wanted_floor(None) is None
    _has(term, B, 2)
    assert term.readable(VIEWS) == 0
    assert term.wanted(now_s=0) == StateWrite(ReplicaState(7, A, frozenset({A, B}), settled=7), 12)
    term.written()
    term.advance(0)
    assert term.readable(VIEWS) == 2


def test_what_a_follower_said_by_an_older_connection_counts_no_more() -> None:
    """Its disk may have gone back since; what is under way by the old one is refused."""
    term = _term(_log(b"m1m2"), B)
    _has(term, B, 4)
    term.hear(ReplicaFetch(7, B, {VIEWS: Ask(0, None)}, connection=1), 1.0)
    assert not term.is_at_all_in_sync(VIEWS)
    assert term.wanted(now_s=1) is None  # it has not said yet what it has
    with pytest.raises(WrongEpochError, match="connected again"):
        _has(term, B, 4)
    term.hear(ReplicaFetch(7, B, {VIEWS: Ask(2, 2)}, connection=1), 1.0)
    assert term.wanted(now_s=1) == StateWrite(ReplicaState(7, A, frozenset({A}), settled=7), 12)


def test_nobody_comes_in_that_has_not_asked_in_this_epoch() -> None:
    """Also while there is no partition: its disk may not have the epoch."""
    term = Term(A, ReplicaState(7, A, frozenset({A, B})), 12, TermRules(LAG_S, 1, 4), logs={}, readable={}, now_s=0.0)
    term.note_members([A])
    assert term.wanted(now_s=0) == StateWrite(ReplicaState(7, A, frozenset({A}), settled=7), 12)
    term.written()
    term.advance(0)
    term.note_members([A, B])
    assert term.wanted(now_s=0) is None
    term.hear(ReplicaFetch(7, B), 0)
    assert term.wanted(now_s=0) == StateWrite(ReplicaState(7, A, frozenset({A, B}), settled=7), 13)


def test_the_floor_is_what_can_be_read_and_never_sinks() -> None:
    """But by an accepted loss: what was noted before says nothing then."""
    term = _term(_log(b"m1m2"), readable=2)
    assert term.wanted_floor(None) == ReadableFloor(7, 2)
    assert term.wanted_floor(ReadableFloor(6, 2)) is None
    assert term.wanted_floor(ReadableFloor(6, 8)) is None
    term.advance(0)
    assert term.wanted_floor(ReadableFloor(7, 2)) == ReadableFloor(7, 4)
    state = ReplicaState(7, A, frozenset({A}), loss_epoch=7, settled=7)
    after_loss = Term(A, state, 12, TermRules(LAG_S, 1, 4), logs={}, readable={}, now_s=0.0)
    assert after_loss.wanted_floor(ReadableFloor(6, 8)) == ReadableFloor(7, 0)


def test_another_epoch_is_refused() -> None:
    """By the leader and by the follower."""
    term = _term(_log(b"m1"), B)
    with pytest.raises(WrongEpochError):
        term.answer(ReplicaFetch(6, B), 0)
    following = Following(B, Follow(8, A), logs={}, readable={}, new_log=lambda _: _log())
    with pytest.raises(WrongEpochError):
        following.take(term.answer(ReplicaFetch(7, B), 0))


def test_a_follower_becomes_the_same_and_rolls_where_the_leader_rolled() -> None:
    """Piece by piece, a partition that it did not have as well, and without the one that the leader lacks."""
    log, other = _log(b"m1m2"), TopicPartition("clicks", 3, 0)
    log.roll()
    log.append(b"m3m4m5", 4)
    term = _term(log, B)
    logs = {other: _log(b"c1")}

    def new_log(where: TopicPartition) -> ModelLog:
        logs[where] = _log()
        return logs[where]

    following = Following(B, Follow(7, A), logs=logs, readable={}, new_log=new_log)
    for _ in range(8):
        following.take(term.answer(following.fetch(), 0))
    assert logs[VIEWS].now == log.now
    assert logs[other].now == ((0, b""),)


@pytest.mark.parametrize("has_log", [True, False])
def test_what_was_readable_is_never_cut(*, has_log: bool) -> None:
    """A leader without it has lost it: an operator has to say which is to be believed."""
    log = _log(b"m1m2m3")
    term = _term(_log(b"m1m2"), B)
    where = VIEWS if has_log else TopicPartition("clicks", 3, 0)
    followed = FollowedLog(where, log, 6)
    given = term.answer(ReplicaFetch(7, B, {where: followed.ask()}), 0).given[where]
    with pytest.raises(LeaderLacksReadableError, match=rf"{where} ends at offset {4 if has_log else 0} .* to 6"):
        followed.take(given)
    assert log.appended_end_offset == 6


class DamagedLog(ModelLog):
    """A log whose messages all fail their checksums."""

    def is_good_at(self, _offset: int) -> bool:
        return False


def _compared(leader: ModelLog, log: ModelLog, readable: int, look_back_bytes: int) -> FollowedLog:
    """Have a follower compare its log with its leader's until it knows."""
    followed = FollowedLog(VIEWS, log, readable, look_back_bytes=look_back_bytes)
    _compare(followed, leader)
    return followed


def _compare(followed: FollowedLog, leader: ModelLog) -> None:
    term = _term(leader, readable=leader.appended_end_offset)
    while followed.ask().flushed is None:
        followed.take(term.answer(ReplicaFetch(7, B, {VIEWS: followed.ask()}), 0).given[VIEWS])


def test_other_bytes_below_what_was_readable_are_not_cut() -> None:
    """Two disks differ, and either may be right; it says so until they are the same."""
    leader, log = _log(b"m1m2m3"), _log(b"m1m4m3")
    followed = FollowedLog(VIEWS, log, 6, look_back_bytes=4)
    for _ in range(2):
        with pytest.raises(OtherBytesError, match=f"{VIEWS} has another message here .* at offset 2,.* up to 6"):
            _compare(followed, leader)
    assert log.now == ((0, b"m1m4m3"),)
    leader.now = log.now
    _compare(followed, leader)
    assert followed.ask() == Ask(6, 6)


def test_no_more_is_looked_at_than_was_said() -> None:
    """And nothing before the first offset."""
    _compared(_log(b"m1m2m3"), _log(b"m4m2m3"), 6, 4)
    with pytest.raises(OtherBytesError):
        _compared(_log(b"m1m2m3"), _log(b"m4m2m3"), 6, 100)


def test_what_this_disk_has_damaged_is_taken_from_the_leader() -> None:
    """Also where clients may have read it: the leader's is what they have read."""
    log = DamagedLog()
    log.append(b"m1m4m3", 0)
    log.flush()
    _compared(_log(b"m1m2m3"), log, 6, 4)
    assert log.now == ((0, b"m1"),)


def test_a_barrier_is_due_when_all_before_it_can_be_read() -> None:
    """Not what comes after it; and no more once the lead is lost."""
    log = _log(b"m1")
    term = _term(log, B)
    client = term.new_client()
    assert client.barrier().is_due(term.readable)
    client.appended(VIEWS, 2)
    barrier = client.barrier()
    client.appended(VIEWS, 4)
    assert not barrier.is_due(term.readable)
    _has(term, B, 2)
    assert barrier.is_due(term.readable)
    later = client.barrier()
    assert not later.is_due(term.readable)
    term.end()
    for ask in (client.barrier, lambda: later.is_due(term.readable), lambda: client.appended(VIEWS, 6)):
        with pytest.raises(LeadLostError):
            ask()


def test_in_doubt_the_larger_set_counts_until_a_read_after_a_sync() -> None:
    """Whether the write was done or not; another's write ends the lead."""
    state = ReplicaState(7, A, frozenset({A, B}))
    for version, left in ((12, frozenset({A, B})), (13, frozenset({A}))):
        in_sync = InSync(state, 12)
        write = in_sync.propose(frozenset({A}), settled=0)
        in_sync.not_answered()
        assert (in_sync.counted(), in_sync.version) == (frozenset({A, B}), None)
        assert in_sync.wanted_read() == StateRead(after_sync=True)
        in_sync.found(write.state if version == 13 else state, version)
        assert (in_sync.counted(), in_sync.version, in_sync.wanted_read()) == (left, version, None)
    in_sync = InSync(state, 12)
    in_sync.propose(frozenset({A}), settled=0)
    in_sync.not_answered()
    with pytest.raises(LeadLostError):
        in_sync.found(state.elected(B, 12, "e"), 13)


@pytest.mark.parametrize(
    ("offset", "is_leading", "answer"),
    [
        (1, True, Answer.OUT_OF_RANGE),
        (2, True, Answer.DATA),
        (6, True, Answer.EMPTY),
        (8, True, Answer.EMPTY),
        (9, True, Answer.OUT_OF_RANGE),
        (9, False, Answer.CLOSE),
        (2, False, Answer.CLOSE),
    ],
)
def test_what_was_readable_elsewhere_is_waited_for(offset: int, is_leading: bool, answer: Answer) -> None:
    """A log from 2 that is readable to 6 and goes to 8."""
    assert answer_to_fetch(offset, 2, 6, 8, is_leading=is_leading) is answer


def test_the_segment_that_becomes_the_oldest_must_be_readable_too() -> None:
    """At least its first message."""
    assert [most_deletable((0, 4, 8), readable) for readable in (0, 4, 6, 8, 10)] == [0, 0, 1, 1, 2]


def test_what_a_power_cut_may_bring_back_is_compared_again() -> None:
    """A message that was cut, but whose place was not brought to disk anew, although that may be read elsewhere."""
    leader, log = _log(b"m1m2"), _log(b"m1m3")
    term = _term(leader, readable=4)
    followed = FollowedLog(VIEWS, log, 0)
    while log.now != leader.now:
        followed.take(term.answer(ReplicaFetch(7, B, {VIEWS: followed.ask()}), 0).given[VIEWS])
    assert followed.readable == 2
    log.now = log.on_disk  # the power fails
    log.flush()
    again = FollowedLog(VIEWS, log, followed.readable)
    while again.readable < 4:
        again.take(term.answer(ReplicaFetch(7, B, {VIEWS: again.ask()}), 0).given[VIEWS])
        log.flush()
    assert log.now == leader.now
