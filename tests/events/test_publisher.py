"""The publisher: what it fills in, and what it tells a counter."""

from __future__ import annotations

import uuid
from collections import Counter
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest

from kafka2011.events.codec import EventDecoder, EventEncoder, Stamp, read_stamp
from kafka2011.events.errors import UnencodableEventError
from kafka2011.events.publisher import EventPublisher
from kafka2011.events.schemas import KnownSchemas, event_schema
from kafka2011.producer.batch import Receipt
from tests.support.clocks import ManualClock

if TYPE_CHECKING:
    from kafka2011.producer.producer import Producer

SCHEMAS = KnownSchemas({"views": event_schema("View", {"name": "url", "type": "string"})})


class ProducerInMemory:
    """Keeps what is sent; all sends between two calls of `end` share one future."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, list[bytes], object]] = []
        self.future: Future[Receipt] = Future()

    def send(self, topic: str, messages: bytes | list[bytes], key: object = None) -> Future[Receipt]:
        self.sent.append((topic, [messages] if isinstance(messages, bytes) else messages, key))
        return self.future

    def end(self, error: Exception | None = None) -> None:
        future, self.future = self.future, Future()
        if error is None:
            future.set_result(Receipt("views", 0, 0, 1, confirmed=True, resends=0))
        else:
            future.set_exception(error)


class Counted:
    def __init__(self, error: Exception | None = None) -> None:
        self.stamps: list[tuple[str, list[Stamp]]] = []
        self.error = error
        self.under_way: Counter[tuple[str, int]] = Counter()

    def stamp(self, topic: str, now_us: int) -> int:
        self.under_way[topic, now_us] += 1
        return now_us

    def ended(self, topic: str, stamped_us: list[int]) -> None:
        for each in stamped_us:
            self.under_way[topic, each] -= 1
        self.under_way = +self.under_way

    def count(self, topic: str, stamps: list[Stamp]) -> None:
        self.stamps.append((topic, stamps))
        if self.error is not None:
            raise self.error


def publisher(
    producer: ProducerInMemory, counter: Counted | None = None, server: str | None = "web-1", now_s: float = 1000.5
) -> EventPublisher:
    as_producer: Producer = producer  # type: ignore[assignment]
    encoder = EventEncoder(SCHEMAS)
    return EventPublisher(as_producer, encoder, server=server, counter=counter, clock=ManualClock(now_s))


def decoded(payload: bytes) -> dict[str, Any]:
    return EventDecoder(SCHEMAS).decode_payload(payload).fields


def test_it_fills_in_the_header() -> None:
    """Time, time of publishing, server and a random UUID, whose version says so."""
    producer = ProducerInMemory()
    publisher(producer).publish("views", {"url": "/"}, key=42)
    [(topic, [payload], key)] = producer.sent
    event = decoded(payload)
    assert (topic, key) == ("views", 42)
    assert uuid.UUID(event.pop("id")).version == 8
    assert event == {"time": 1_000_500_000, "published_at": 1_000_500_000, "server": "web-1", "url": "/"}


def test_what_the_event_has_stays_but_for_when_it_was_published() -> None:
    """An event that is published again keeps its id, its server and its time."""
    producer = ProducerInMemory()
    publisher(producer).publish("views", {"time": 7, "published_at": 8, "server": "web-9", "id": "x", "url": "/"})
    [(_, [payload], _)] = producer.sent
    assert decoded(payload) == {"time": 7, "published_at": 1_000_500_000, "server": "web-9", "id": "x", "url": "/"}


def test_many_go_to_one_partition() -> None:
    """As one list, each with an id of its own."""
    producer = ProducerInMemory()
    publisher(producer).publish_all("views", [{"url": "/"}, {"url": "/jobs", "time": None}])
    [(_, payloads, _)] = producer.sent
    events = [decoded(payload) for payload in payloads]
    assert [each["url"] for each in events] == ["/", "/jobs"]
    assert len({each["id"] for each in events}) == 2
    assert {each["time"] for each in events} == {1_000_500_000}


def test_the_counter_gets_what_ended_well_once() -> None:
    """All sends of one batch together, when it is over."""
    producer, counter = ProducerInMemory(), Counted()
    at_work = publisher(producer, counter)
    at_work.publish("views", {"url": "/"})
    at_work.publish_all("views", [{"url": "/a"}, {"url": "/b"}])
    assert counter.stamps == []
    producer.end()
    payloads = [payload for _, payloads, _ in producer.sent for payload in payloads]
    assert counter.stamps == [("views", [read_stamp(payload) for payload in payloads])]


def test_a_batch_that_was_over_before_it_could_be_noted_is_counted() -> None:
    """The sender may be faster than whoever sends."""
    producer, counter = ProducerInMemory(), Counted()
    at_work = publisher(producer, counter)
    future = producer.future
    at_work.publish("views", {"url": "/"})
    producer.end()
    producer.future = future
    at_work.publish("views", {"url": "/"})
    assert [len(stamps) for _, stamps in counter.stamps] == [1, 1]


def test_what_failed_is_not_counted() -> None:
    """The audit would miss it at every tier after this one."""
    producer, counter = ProducerInMemory(), Counted()
    at_work = publisher(producer, counter)
    at_work.publish("views", {"url": "/"})
    producer.end(ConnectionError("gone"))
    at_work.publish("views", {"url": "/"})
    producer.end()
    assert len(counter.stamps) == 1
    assert not counter.under_way


def test_what_is_under_way_is_noted_until_it_has_ended() -> None:
    """The counter says through when all is counted, and what has not ended may yet arrive."""
    producer, counter = ProducerInMemory(), Counted()
    at_work = publisher(producer, counter)
    at_work.publish("views", {"url": "/"})
    at_work.publish_all("views", [{"url": "/a"}, {"url": "/b"}])
    assert counter.under_way == {("views", 1_000_500_000): 2}
    with pytest.raises(UnencodableEventError):
        at_work.publish("views", {"url": 1})
    assert counter.under_way == {("views", 1_000_500_000): 2}
    producer.end()
    assert not counter.under_way
    at_work.await_counted()


def test_a_counter_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Publishing goes on."""
    producer = ProducerInMemory()
    at_work = publisher(producer, Counted(ValueError("full")))
    for _ in range(2):
        at_work.publish("views", {"url": "/"})
        producer.end()
    assert caplog.text.count("1 events of topic views are not counted") == 2


def test_an_event_that_does_not_fit_is_not_sent() -> None:
    """Nor are those that came with it."""
    producer = ProducerInMemory()
    with pytest.raises(UnencodableEventError):
        publisher(producer).publish_all("views", [{"url": "/"}, {"url": 1}])
    assert producer.sent == []
