"""What fetches wait for, over real logs, and when what they wait for is flushed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafka2011.broker.flushing.awaited_flushes import SOON_S, AwaitedFlushes
from kafka2011.broker.requests.awaited_bytes import AwaitedBytes, missing_bytes
from kafka2011.log.log_settings import LogSettings
from kafka2011.message.message_set import encode
from kafka2011.wire.protocol import FetchRequest
from tests.support.clocks import ManualClock
from tests.support.logs import new_log_manager

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafka2011.log.log import Log

ONE = encode(b"hello")
SIZE = len(ONE)


class Disks:
    """Logs of two partitions a topic, which flush only when told to, and what they say."""

    def __init__(self, log_dir: Path) -> None:
        self.clock = ManualClock(1000.0)
        self.readable: list[str] = []
        self.awaited: list[str] = []
        self.logs = new_log_manager(
            log_dir,
            num_partitions=2,
            of=lambda _: LogSettings(flush_interval=10),
            clock=self.clock,
            on_readable=lambda log: self.readable.append(log.topic),
            on_awaited=lambda log: self.awaited.append(log.topic),
        )

    def log(self, topic: str = "t") -> Log:
        return self.logs.get_or_create(topic, 0)

    def append(self, topic: str = "t", *, flush: bool = True) -> None:
        self.log(topic).append(ONE, 1)
        if flush:
            self.log(topic).flush()

    def missing(self, *fetches: FetchRequest, min_bytes: int = 1) -> AwaitedBytes | None:
        return missing_bytes(fetches, min_bytes, self.logs, lambda: None)


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[Disks]:
    """Give logs in a new directory, and close them."""
    made = Disks(tmp_path)
    with made.logs:
        yield made


def fetch(offset: int = 0, topic: str = "t", max_bytes: int = 1000) -> FetchRequest:
    return FetchRequest(topic, 0, offset, max_bytes)


def test_bytes_of_all_parts_count_together(disks: Disks) -> None:
    """Those that are there when the wait begins, and those that come."""
    disks.append("a")
    awaited = disks.missing(fetch(topic="a"), fetch(topic="b"), min_bytes=3 * SIZE)
    assert awaited is not None
    disks.append("a")  # before it begins
    assert not awaited.begin()
    assert not awaited.is_there(disks.log("a")), "looking twice counts once"
    disks.append("b")
    assert awaited.is_there(disks.log("b"))
    late = disks.missing(fetch(topic="c"), min_bytes=SIZE)
    assert late is not None
    disks.append("c")
    assert late.begin()


def test_no_part_counts_for_more_than_it_asks_for(disks: Disks) -> None:
    """More than all parts may bring is not waited for."""
    for _ in range(5):
        disks.append("a")
    assert disks.missing(fetch(topic="a", max_bytes=SIZE), min_bytes=2 * SIZE) is None
    parts = fetch(topic="a", max_bytes=SIZE), fetch(topic="b", max_bytes=SIZE)
    awaited = disks.missing(*parts, min_bytes=3 * SIZE)
    assert awaited is not None
    assert not awaited.begin()
    disks.append("b")
    assert awaited.is_there(disks.log("b"))


def test_an_offset_that_is_no_longer_there_ends_the_wait(disks: Disks) -> None:
    """There is an error to answer with."""
    disks.append()
    awaited = disks.missing(fetch(SIZE), min_bytes=100)
    assert awaited is not None
    lost = AwaitedBytes(disks.logs, [fetch(5 * SIZE)], 100)
    assert (awaited.begin(), lost.begin()) == (False, True)


def test_logs_tell_what_is_awaited(disks: Disks) -> None:
    """Of appends that no flush follows, until nobody wants to hear of it, and again once somebody waits."""
    disks.append(flush=False)
    assert disks.awaited == ["t"], "a new log tells: who waits for it could not say so"
    log = disks.log()
    log.is_awaited = False
    disks.append(flush=False)
    assert disks.awaited == ["t"]
    awaited = disks.missing(fetch())
    assert awaited is not None
    assert not awaited.begin()
    assert disks.awaited == ["t"] * 2, "of what was there before"
    disks.append(flush=False)
    assert disks.awaited == ["t"] * 3
    assert disks.readable == []
    log.flush()
    assert disks.readable == ["t"]
    log.append(ONE * 10, 10)
    assert disks.readable == ["t", "t"], "it was flushed at once"
    assert disks.awaited == ["t"] * 3


def test_the_first_message_after_a_pause_is_flushed_at_once(disks: Disks) -> None:
    """The following ones only after the interval, counted from the last flush, whatever that was for."""
    flushes = AwaitedFlushes(0.1)
    assert flushes.next_s() is None
    disks.append()
    assert flushes.add(disks.log())
    assert not flushes.add(disks.log())
    assert flushes.take_due(disks.clock.now_s) == []
    assert flushes.next_s() == pytest.approx(1000.1)
    disks.clock.now_s = 1000.15
    assert flushes.take_due(disks.clock.now_s) == [disks.log()]
    assert flushes.next_s() is None


def test_a_flush_for_another_reason_puts_it_off(disks: Disks) -> None:
    """So that one that is written to steadily has none for its readers."""
    flushes = AwaitedFlushes(0.1)
    for topic in "ab":
        disks.append(topic)
        flushes.add(disks.log(topic))
    disks.clock.now_s = 1000.08
    disks.append("a")
    assert flushes.take_due(1000.11) == [disks.log("b")]
    assert flushes.next_s() == pytest.approx(1000.18)
    assert flushes.take_due(1000.17) == []
    assert not flushes.add(disks.log("a"))
    assert flushes.take_due(1000.19) == [disks.log("a")]


def test_flushes_for_readers_leave_the_disk_time(disks: Disks) -> None:
    """After those that took long there is a pause as long, however many logs wait."""
    flushes = AwaitedFlushes(0.1)
    for topic in "ab":
        disks.append(topic)
    disks.clock.now_s = 1001.0
    flushes.add(disks.log("a"))
    assert flushes.take_due(1001.0) == [disks.log("a")]
    flushes.flushed(1001.0, 1003.0)
    flushes.add(disks.log("b"))
    assert flushes.next_s() == 1005.0
    assert flushes.take_due(1004.9) == []
    assert flushes.take_due(1005.0) == [disks.log("b")]


def test_a_single_slow_flush_is_not_waited_for_twice(disks: Disks) -> None:
    """The pause is as long as flushes take: on a disk that is always slow, half of the time is left to others."""
    flushes = AwaitedFlushes(0.001)
    disks.append()
    paused_s = 0.0
    now_s = 1001.0
    for lasted_s in (*[0.001] * 20, 0.016, *[0.020] * 200):
        flushes.flushed(now_s, now_s + lasted_s)
        now_s += lasted_s
        flushes.add(disks.log())
        next_s = flushes.next_s()
        assert next_s is not None
        assert next_s - now_s == pytest.approx(0.001) or lasted_s > 0.001
        if lasted_s == 0.016:
            assert next_s - now_s < 0.003
        paused_s += next_s - now_s
        now_s = next_s
        assert flushes.take_due(now_s + 1e-6) == [disks.log()]
    assert paused_s == pytest.approx(20 * 0.001 + 0.016 + 200 * 0.020, rel=0.05)


def test_a_log_that_fills_soon_is_left_to_its_own_flush(disks: Disks) -> None:
    """Which costs nothing more; where it does not come, readers wait a little and no longer."""
    flushes = AwaitedFlushes(0.001)
    disks.append()
    for messages, due_s in ((1, 0.001), (2, SOON_S)):
        for _ in range(messages):
            disks.append(flush=False)
        assert flushes.add(disks.log())
        began_s = disks.clock.now_s
        disks.clock.now_s = began_s + 0.0011
        taken = flushes.take_due(disks.clock.now_s)
        if due_s == SOON_S:
            assert taken == []
            disks.clock.now_s = began_s + SOON_S + 0.0001
            taken = flushes.take_due(disks.clock.now_s)
        assert taken == [disks.log()]
        disks.log().flush()
