"""The endless feed: its pace, its keys, and what it does while nothing can be sent."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, cast

import pytest

from kafka2011.demo import paced_events as feeding
from kafka2011.errors import KafkaError
from kafka2011.producer.counts import Counts

if TYPE_CHECKING:
    from pathlib import Path

    from kafka2011.producer.producer import Producer


class Recorder:
    """A producer that notes what it is given, fails the first `failures` times, and ends the feed after `count`."""

    def __init__(self, stop: threading.Event, count: int, failures: int = 0, *, confirms: bool = True) -> None:
        self.confirms = confirms
        self.counts = Counts()
        self.sent: list[tuple[str, bytes, object]] = []
        self.failures = failures
        self._stop = stop
        self._count = count

    def send(self, topic: str, messages: bytes, key: object = None) -> None:
        if self.failures:
            self.failures -= 1
            raise KafkaError("no broker lives")
        self.sent.append((topic, messages, key))
        self.counts.add(messages_sent=self.confirms)
        if len(self.sent) == self._count:
            self._stop.set()


class Waits(threading.Event):
    """An event whose waits take no time but are added up."""

    total_s = 0.0

    def wait(self, timeout: float | None = None) -> bool:
        self.total_s += timeout or 0.0
        return self.is_set()

    def monotonic_s(self) -> float:
        return self.total_s

    def wall_s(self) -> float:
        return self.total_s


def run(count: int, per_second: float, failures: int = 0) -> tuple[Recorder, Waits]:
    stop = Waits()
    recorder = Recorder(stop, count, failures)
    feeding.feed(cast("Producer", recorder), "activity", per_second, stop, clock=stop)
    return recorder, stop


def test_events_come_at_the_pace_that_was_asked_for() -> None:
    """A hundred events at twenty a second take five seconds, each keyed by its member."""
    recorder, stop = run(100, 20.0)
    assert len(recorder.sent) == 100
    assert stop.total_s == pytest.approx(5.0, abs=0.1)
    for topic, event, key in recorder.sent:
        assert topic == "activity"
        assert json.loads(event)["member"] == key


def test_an_event_that_cannot_be_sent_is_tried_again() -> None:
    """While no broker lives, the same event is tried every second, and the pace goes on from there."""
    recorder, stop = run(3, 10.0, failures=4)
    assert len({event for _, event, _ in recorder.sent}) == 3
    assert stop.total_s == pytest.approx(4 * feeding.RETRY_INTERVAL_S + 0.3, abs=0.11)


@pytest.mark.parametrize("confirms", [True, False])
def test_the_heartbeat_is_that_of_confirmed_events(confirms: bool, tmp_path: Path) -> None:
    """The file is touched while events are confirmed, and left alone while they are only sent."""
    heartbeat = tmp_path / "confirmed"
    stop = Waits()
    recorder = Recorder(stop, 100, confirms=confirms)
    feeding.feed(cast("Producer", recorder), "activity", 10.0, stop, stop, heartbeat)
    assert heartbeat.exists() == confirms


def test_a_day_follows_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """When a day's events are used up, another day's come."""
    monkeypatch.setattr(feeding, "EVENTS_A_DAY", 5)
    recorder, _ = run(12, 1000.0)
    assert len({event for _, event, _ in recorder.sent}) == 12


@pytest.mark.parametrize("pace", ["0", "-1", "1e9", "fast"])
def test_a_bad_pace_is_a_usage_error(pace: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Anything that is no pace ends with status 2 and names the option."""
    with pytest.raises(SystemExit) as ended:
        feeding.main(["--per-second", pace])
    assert ended.value.code == 2
    assert "--per-second" in capsys.readouterr().err
