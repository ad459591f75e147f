"""Which streams an application leaves alone for too long: by what they say, on a clock that the test turns."""

from __future__ import annotations

from dataclasses import dataclass

from kafka2011.consumer.application_watch import ApplicationWatch
from tests.support.clocks import ManualClock


@dataclass(eq=False)
class Asked:
    """A stream of which only this is of interest."""

    stream_id: str
    is_asked: bool = False
    progress: int = 0


def test_a_stream_that_is_left_alone_is_silent_until_it_is_asked_again() -> None:
    """Not before the time is over; one that was never asked counts from the first look, and each by itself."""
    clock = ManualClock()
    busy, slow = Asked("m-0"), Asked("m-1")
    watch = ApplicationWatch(lambda: [busy, slow], 10.0, clock)
    assert watch.silent() == []
    for _ in range(10):
        clock.now_s += 1
        busy.progress += 1
        assert watch.silent() == []
    clock.now_s += 1
    assert watch.silent() == ["m-1"]
    clock.now_s += 20
    assert watch.silent() == ["m-0", "m-1"]
    slow.progress += 1
    busy.is_asked = True
    assert watch.silent() == []


def test_an_application_that_waits_is_not_silent() -> None:
    """However long there is nothing for it; its time begins when it has its message."""
    clock = ManualClock()
    stream = Asked("m-0", is_asked=True)
    watch = ApplicationWatch(lambda: [stream], 10.0, clock)
    for _ in range(5):
        clock.now_s += 100
        assert watch.silent() == []
    stream.is_asked = False
    clock.now_s += 10
    assert watch.silent() == []
    clock.now_s += 1
    assert watch.silent() == ["m-0"]


def test_it_looks_often_enough_and_not_too_often() -> None:
    """Ten times in the time that an application has, at least each second, at most a hundred times a second."""
    clock = ManualClock()
    assert [ApplicationWatch(list, each, clock).interval_s for each in (0.001, 1.0, 300.0)] == [0.01, 0.1, 1.0]
