"""What may be committed of a source: all below it is settled, whatever else is."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Future

from hypothesis import given
from hypothesis import strategies as st

from kafka2011.message.message_set import MessageSet
from kafka2011.mirror.commit_window import OVERHEAD_BYTES, STUCK_S, CommitWindow, SentSet
from kafka2011.producer.batch import Receipt
from tests.support.clocks import ManualClock
from zk.cluster import TopicPartition

ONE = TopicPartition("views", 0, 0)
OTHER = TopicPartition("views", 0, 1)
THIRD = TopicPartition("views", 0, 2)
RECEIPT = Receipt("views", 0, 0, 1, True, 0)


def sent(where: TopicPartition, offset: int, next_offset: int, broker_id: int | None = None) -> SentSet:
    return SentSet(where, offset, next_offset, MessageSet(), Future(), broker_id)


def confirm(*sets: SentSet) -> None:
    for each in sets:
        assert each.future is not None
        each.future.set_result(RECEIPT)


def settle(window: CommitWindow) -> list[SentSet]:
    settled = []
    for each in window.done():
        window.settle(each)
        settled.append(each)
    return settled


def test_nothing_is_due_above_what_is_not_confirmed() -> None:
    """Later sets that are confirmed wait for the first one."""
    window = CommitWindow(1000)
    sets = [sent(ONE, 10, 20), sent(ONE, 20, 30), sent(ONE, 30, 40)]
    for each in sets:
        window.add(each)
    confirm(sets[1])
    assert settle(window) == []
    assert window.due() == {}
    confirm(sets[0])
    assert settle(window) == sets[:2]
    assert window.due() == {ONE: 30}


def test_what_was_committed_is_due_no_more() -> None:
    """Until the partition moves on."""
    window = CommitWindow(1000)
    first, second = sent(ONE, 0, 10), sent(ONE, 10, 20)
    window.add(first)
    window.add(second)
    confirm(first)
    settle(window)
    window.committed(ONE, 10)
    assert window.due() == {}
    confirm(second)
    settle(window)
    assert window.due() == {ONE: 20}


def test_a_partition_that_is_stuck_stops_no_other() -> None:
    """A set that is done and not settled, such as a refused one, is given once, and stays."""
    window = CommitWindow(1000)
    refused, good = sent(ONE, 0, 10), sent(OTHER, 0, 10)
    window.add(refused)
    window.add(good)
    confirm(refused, good)
    given = []
    for each in window.done():
        given.append(each)
        if each is not refused:
            window.settle(each)
    assert given == [refused, good]
    assert window.due() == {OTHER: 10}
    assert window.oldest() == [refused]


def test_what_was_left_out_counts_as_settled() -> None:
    """It has no future, and lets the commit pass."""
    window = CommitWindow(1000)
    before = sent(ONE, 0, 10)
    window.add(before)
    window.add(SentSet(ONE, 10, 25, None, None))
    assert settle(window) == []
    confirm(before)
    settle(window)
    assert window.due() == {ONE: 25}


def test_it_is_bounded_in_bytes() -> None:
    """A single set always fits; many small ones count for what they take, and as much stays free for other brokers."""
    window = CommitWindow(20 * (OVERHEAD_BYTES + 1))
    assert window.fits(10**9)
    sets = [sent(ONE, offset, offset + 1) for offset in range(10)]
    for each in sets:
        assert window.fits(1)
        window.add(each)
    assert not window.fits(1)
    confirm(*sets)
    settle(window)
    assert window.fits(10**9)


def test_a_large_set_waits_for_room() -> None:
    """It fits beside others up to the last byte, and counts for as much."""
    window = CommitWindow(20_000)
    window.add(sent(ONE, 0, 100))
    room_bytes = 10_000 - (100 + OVERHEAD_BYTES)
    assert window.fits(room_bytes - OVERHEAD_BYTES)
    assert not window.fits(room_bytes - OVERHEAD_BYTES + 1)
    assert not window.fits(10**9)


def test_brokers_that_are_away_leave_room_for_the_others() -> None:
    """Each may have as much as is left free, so the more are away, the less each of them has."""
    window = CommitWindow(60 * (OVERHEAD_BYTES + 1))
    held: Counter[int] = Counter()
    for number in range(100):
        for broker_id, where in ((1, ONE), (2, OTHER)):
            if window.fits(1, broker_id):
                held[broker_id] += 1
                window.add(sent(where, number, number + 1, broker_id))
    assert held == {1: 20, 2: 20}
    for number in range(10):
        assert window.fits(1, 3)
        window.add(sent(THIRD, number, number + 1, 3))


def test_a_broker_is_stuck_once_it_confirms_nothing_for_a_while() -> None:
    """From when something began to wait for it, or from what it confirmed last; and never while nothing waits."""
    clock = ManualClock()
    window = CommitWindow(10_000, clock)
    first, second = sent(ONE, 0, 10, 1), sent(ONE, 10, 20, 1)
    clock.now_s += 2 * STUCK_S
    assert not window.is_stuck(1)
    window.add(first)
    window.add(second)
    assert not window.is_stuck(1)
    assert window.awaited(1) == [first.future]
    assert window.awaited(2) == []
    clock.now_s += STUCK_S
    assert window.is_stuck(1)
    assert not window.is_stuck(2)
    window.settle(first)
    assert not window.is_stuck(1)
    clock.now_s += STUCK_S
    assert window.is_stuck(1)
    window.drop(ONE)
    assert not window.is_stuck(1)
    clock.now_s += STUCK_S
    window.add(first)
    assert not window.is_stuck(1)
    clock.now_s += STUCK_S / 2
    window.add(second)
    clock.now_s += STUCK_S / 2
    assert window.is_stuck(1), "one more that waits is no sign of life"


def test_what_was_left_out_waits_for_no_broker() -> None:
    """Though it may be behind a set that does."""
    clock = ManualClock()
    window = CommitWindow(10_000, clock)
    before = sent(ONE, 0, 10, 1)
    window.add(before)
    window.add(SentSet(ONE, 10, 25, None, None))
    clock.now_s += STUCK_S
    assert not window.is_stuck(None)
    assert window.fits(10**9)
    window.drop(ONE)
    quarter_bytes = 2500 - OVERHEAD_BYTES
    window.add(sent(ONE, 0, quarter_bytes, 1))
    assert window.fits(quarter_bytes, 1), "what was dropped takes no room"
    assert not window.fits(quarter_bytes + 1, 1)


def test_only_the_first_set_of_a_partition_is_settled() -> None:
    """Not another one, none twice, and none of a partition that has gone."""
    window = CommitWindow(10_000)
    first, second = sent(ONE, 0, 10), sent(ONE, 10, 20)
    window.add(first)
    window.add(second)
    window.settle(second)
    assert window.due() == {}
    for each in (first, second, second):
        window.settle(each)
    assert window.due() == {ONE: 20}
    window.drop(ONE)
    window.settle(second)
    assert window.due() == {}


def test_a_partition_that_goes_is_forgotten() -> None:
    """Its late confirmations move nothing, also when the partition has come back; what may repeat is told."""
    window = CommitWindow(5000)
    first, second = sent(ONE, 0, 10), sent(ONE, 10, 30)
    window.add(first)
    window.add(second)
    confirm(first)
    settle(window)
    assert window.futures_of([ONE, OTHER]) == [second.future]
    assert window.drop(ONE) == 30
    assert window.drop(ONE) == 0
    assert window.due() == {}
    again = sent(ONE, 0, 10)
    window.add(again)
    confirm(second)
    window.settle(second)
    assert window.due() == {}
    assert window.oldest() == [again]
    confirm(again)
    settle(window)
    window.committed(ONE, 10)
    assert window.drop(ONE) == 0
    assert window.fits(10**9)


@given(st.data())
def test_whatever_is_confirmed_when_all_below_a_due_offset_is(data: st.DataObject) -> None:
    """In any order of confirmations, settling and committing, for two partitions."""
    window = CommitWindow(10**6)
    pending: list[SentSet] = []
    confirmed: dict[TopicPartition, set[int]] = {ONE: set(), OTHER: set()}
    ends = {ONE: 0, OTHER: 0}
    for _ in range(data.draw(st.integers(1, 30))):
        step = data.draw(st.sampled_from(["add", "confirm", "settle", "commit"]))
        if step == "add":
            where = data.draw(st.sampled_from([ONE, OTHER]))
            pending.append(sent(where, ends[where], ends[where] + 1))
            ends[where] += 1
            window.add(pending[-1])
        elif step == "confirm" and pending:
            each = pending.pop(data.draw(st.integers(0, len(pending) - 1)))
            confirm(each)
            confirmed[each.where].add(each.offset)
        elif step == "settle":
            settle(window)
        else:
            for where, offset in window.due().items():
                assert confirmed[where] >= set(range(offset))
                window.committed(where, offset)
    settle(window)
    for where, offset in window.due().items():
        assert confirmed[where] >= set(range(offset))
        assert offset not in confirmed[where]
