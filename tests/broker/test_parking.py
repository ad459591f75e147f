"""Parked requests: each ends once, by what comes first, and leaves nothing behind."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, cast

import pytest

from kafka2011.broker.requests.parking import MAX_WAIT_S, ParkedRequest, Parking, WaitEnd
from kafka2011.broker.requests.timer_wheel import TICK_S, TimerWheel
from tests.support.clocks import ManualClock

if TYPE_CHECKING:
    from kafka2011.log.log import Log


class LogOf:
    """As much of a log as parking knows."""

    def __init__(self, topic: str, partition: int = 0) -> None:
        self.topic = topic
        self.partition = partition


class Wanted:
    """Waits for a number of calls, whatever log it is."""

    def __init__(self, *topics: str, calls: int = 1, is_there_at_once: bool = False) -> None:
        self.partitions = {(topic, 0) for topic in topics}
        self._missing = calls
        self._is_there_at_once = is_there_at_once

    def begin(self) -> bool:
        return self._is_there_at_once

    def is_there(self, log: Log) -> bool:
        assert (log.topic, log.partition) in self.partitions
        self._missing -= 1
        return self._missing == 0


class Lot:
    """A parking lot with a clock by hand, and what was resumed."""

    def __init__(self, max_parts: int = 1000) -> None:
        self.clock = ManualClock()
        self.deadlines = 0
        self.resumed: list[str] = []
        self.parking = Parking(max_parts, self.clock, self._note_deadline)

    def _note_deadline(self) -> None:
        self.deadlines += 1

    def park(self, name: str, wanted: Wanted, max_wait_s: float = 10.0) -> ParkedRequest:
        parked = self.parking.park(wanted, max_wait_s, lambda: self.resumed.append(name))
        assert parked is not None
        return parked

    def note(self, topic: str) -> None:
        self.parking.note_readable(cast("Log", LogOf(topic)))

    def is_awaited(self, topic: str) -> bool:
        return self.parking.is_awaited(cast("Log", LogOf(topic)))


def test_what_comes_ends_the_wait_of_those_who_wait_for_it() -> None:
    """One log, several requests, of which some want more of it, and some wait for others."""
    lot = Lot()
    first = lot.park("first", Wanted("a", "b"))
    lot.park("second", Wanted("a", calls=2))
    lot.park("third", Wanted("c"))
    lot.note("a")
    assert (lot.resumed, first.end) == (["first"], WaitEnd.READY)
    assert [lot.is_awaited(topic) for topic in "abcd"] == [True, False, True, False]
    lot.note("a")
    lot.note("b")
    lot.note("d")
    assert lot.resumed == ["first", "second"]
    assert lot.parking.counts == {"parked": 3, "parked_ready": 2}


def test_what_has_come_meanwhile_is_not_waited_for() -> None:
    """The request is resumed at once, and once."""
    lot = Lot()
    parked = lot.park("first", Wanted("a", is_there_at_once=True))
    assert (parked.end, lot.resumed, lot.is_awaited("a")) == (WaitEnd.READY, ["first"], False)


@pytest.mark.parametrize("why", [WaitEnd.GONE, WaitEnd.MORE, WaitEnd.STOPPED])
def test_a_wait_ends_once(why: WaitEnd) -> None:
    """Whatever comes later changes nothing."""
    lot = Lot()
    parked = lot.park("first", Wanted("a"))
    lot.parking.end(parked, why)
    lot.parking.end(parked, WaitEnd.GONE)
    lot.note("a")
    lot.clock.sleep(1000)
    assert lot.parking.end_late() is None
    assert (parked.end, lot.resumed) == (why, ["first"])
    assert lot.parking.counts == {"parked": 1, why.value: 1}


def test_time_is_up() -> None:
    """Never early, and little late; who drives the wheel learns of a time that is earlier than all before."""
    lot = Lot()
    lot.park("slow", Wanted("a"), 5.0)
    lot.park("slower", Wanted("a"), 6.0)
    assert lot.deadlines == 1
    lot.park("fast", Wanted("a"), 1.0)
    assert lot.deadlines == 2
    wait_s = lot.parking.end_late()
    assert wait_s is not None
    assert 1.0 <= wait_s <= 1.0 + TICK_S
    lot.clock.sleep(wait_s)
    wait_s = lot.parking.end_late()
    assert lot.resumed == ["fast"]
    assert wait_s is not None
    lot.clock.sleep(wait_s + 1)
    assert lot.parking.end_late() is None
    assert (sorted(lot.resumed), lot.parking.counts["parked_late"]) == (["fast", "slow", "slower"], 3)
    lot.park("again", Wanted("a"), 100.0)
    assert lot.deadlines == 3


def test_no_request_waits_for_very_long() -> None:
    """Whatever it asks for."""
    lot = Lot()
    lot.park("patient", Wanted("a"), 2**31)
    lot.clock.sleep(MAX_WAIT_S + TICK_S)
    assert lot.parking.end_late() is None
    assert lot.resumed == ["patient"]


def test_there_is_a_limit_on_what_is_waited_for() -> None:
    """A request that has no room is not parked; the room comes back with each that ends."""
    lot = Lot(max_parts=3)
    parked = lot.park("first", Wanted("a", "b"))
    assert lot.parking.park(Wanted("c", "d"), 1.0, lambda: None) is None
    assert lot.parking.counts["parked_refused"] == 1
    lot.park("second", Wanted("c"))
    assert lot.parking.park(Wanted("d"), 1.0, lambda: None) is None
    lot.parking.end(parked, WaitEnd.MORE)
    lot.park("third", Wanted("c", "d"))


def test_the_wheel_gives_out_what_is_due() -> None:
    """Against a list: in and out at random, never early, and no later than the next look after the end of its tick."""
    rng = Random(1)
    wheel: TimerWheel[int] = TimerWheel()
    due: dict[int, tuple[float, int]] = {}
    now_s = 100.0
    for number in range(5000):
        due_s = now_s + rng.choice((0.0, rng.random(), 50 * rng.random()))
        due[number] = due_s, wheel.put(number, due_s)
        if rng.random() < 0.5:
            gone = rng.choice(list(due))
            wheel.take_out(gone, due.pop(gone)[1])
        now_s += rng.random() / 10
        taken = wheel.take_due(now_s)
        assert len(set(taken)) == len(taken)
        for each in taken:
            assert due.pop(each)[0] <= now_s
        assert all(due_s > now_s - TICK_S for due_s, _ in due.values())
        next_s = wheel.next_s
        assert (next_s is None) == (not due)
        if next_s is not None:
            assert 0 <= next_s - min(due_s for due_s, _ in due.values()) <= TICK_S
