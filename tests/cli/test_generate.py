"""How `kafka2011 generate` publishes a stream, without a cluster."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from kafka2011.cli.app import main
from kafka2011.cli.generate import Publishing
from kafka2011.events.generate import Generated

if TYPE_CHECKING:
    from kafka2011.events.machine import Machine
    from kafka2011.events.publisher import EventPublisher


class PublisherInMemory:
    """Keeps what is published; may stop the stream."""

    def __init__(self) -> None:
        self.sets: list[tuple[str, list[dict[str, Any]]]] = []
        self.stop = threading.Event()
        self.stops_after = 1_000_000

    def publish_all(self, topic: str, events: list[dict[str, Any]]) -> None:
        self.sets.append((topic, list(events)))
        if len(self.sets) >= self.stops_after:
            self.stop.set()


class MachineInMemory:
    def stats(self) -> dict[str, Any]:
        return {"cpu_percent": 1.0}


def publishing(publisher: PublisherInMemory, machine: MachineInMemory | None = None) -> Publishing:
    as_publisher: EventPublisher = publisher  # type: ignore[assignment]
    as_machine: Machine | None = machine  # type: ignore[assignment]
    return Publishing(as_publisher, publisher.stop, as_machine)


def stream(*at_s: float) -> list[Generated]:
    return [Generated(each, "views" if number % 2 else "clicks", {"n": number}) for number, each in enumerate(at_s)]


def test_at_once_everything_goes_out_in_sets() -> None:
    """Whenever it would be due; of no more than a thousand."""
    publisher = PublisherInMemory()
    at_work = publishing(publisher)
    at_work.run(stream(*(float(number) for number in range(2500))), at_once=True)
    assert at_work.counts == {"clicks": 1250, "views": 1250}
    assert sum(len(events) for _, events in publisher.sets) == 2500
    assert max(len(events) for _, events in publisher.sets) <= 1000
    of_views = [event["n"] for topic, events in publisher.sets if topic == "views" for event in events]
    assert of_views == sorted(of_views)


def test_what_is_due_together_goes_out_together() -> None:
    """Before what is due later."""
    publisher = PublisherInMemory()
    publishing(publisher).run(stream(0, 0, 0, 0, 0.2, 0.2), at_once=False)
    assert [(topic, [event["n"] for event in events]) for topic, events in publisher.sets] == [
        ("clicks", [0, 2]),
        ("views", [1, 3]),
        ("clicks", [4]),
        ("views", [5]),
    ]


def test_it_stops_when_it_is_told_to() -> None:
    """Also while it waits for an event of tomorrow; what went out is counted."""
    publisher = PublisherInMemory()
    publisher.stops_after = 1
    at_work = publishing(publisher)
    at_work.run(stream(0, 86_400), at_once=False)
    assert at_work.counts == {"clicks": 1}


def test_that_it_cannot_keep_up_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """Not for every event."""
    publishing(PublisherInMemory()).run(stream(-9, -8, -7), at_once=False)
    assert caplog.text.count("s behind") == 1


def test_the_machine_is_measured_meanwhile() -> None:
    """As one more server, with the name of the host."""
    publisher = PublisherInMemory()
    publishing(publisher, MachineInMemory()).run(stream(0.1), at_once=False)
    [stats] = [events for topic, events in publisher.sets if topic == "server_stats"]
    assert stats[0]["cpu_percent"] == 1.0
    assert stats[0]["server"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--at-once"],
        ["--late", "2"],
        ["--rate", "0"],
        ["--start", "tomorrow"],
        ["--property", "zk.connect=h:1"],
        ["--property", "confirm=false"],
        ["--property", "serializer.class=a:B"],
    ],
)
def test_what_makes_no_sense_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is connected."""
    assert main(["generate", *arguments]) == 2
    assert "error" in capsys.readouterr().err
