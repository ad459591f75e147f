"""Publishes events: fills in the header, encodes, sends, and reports to a counter what arrived."""

from __future__ import annotations

import logging
import socket
import threading
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kafka2011.events.codec import Stamp, read_stamp
from kafka2011.events.event_ids import EventIds
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from concurrent.futures import Future

    from kafka2011.events.codec import EventEncoder
    from kafka2011.producer.batch import Receipt
    from kafka2011.producer.producer import Producer
    from zk.clock import Clock

logger = logging.getLogger(__name__)

_MOMENT_S = 0.1


class Counter(Protocol):
    """Counts published events; the audit's `AuditCounter` is one."""

    def stamp(self, topic: str, now_us: int) -> int:
        """Return the `published_at` of an event sent now. Raises KafkaError when nothing may be sent."""

    def ended(self, topic: str, stamped_us: list[int]) -> object:
        """Note that the events stamped with these times were counted or failed."""

    def count(self, topic: str, stamps: list[Stamp]) -> object:
        """Count events, each when its batch has been written or, with confirm=true, confirmed."""


class _Uncounted(NamedTuple):
    """Events that share a future: their stamps, and the time stamped on each send."""

    topic: str
    stamps: list[Stamp]
    stamped_us: list[int]


class EventPublisher:
    """Publishes events through a producer, which the caller closes; `encoder` encodes them.

        with Producer({"zk.connect": "localhost:2181", "producer.type": "async", "confirm": True}) as producer:
            publisher = EventPublisher(producer, EventEncoder(SchemaRegistry(client)))
            publisher.publish("views", {"member_id": 42, "url": "/jobs"})

    Sets `published_at`, and fills in `server` (this host's name unless given) where it is missing, `id` and `time`
    where they are missing or None. May be shared by threads.
    `counter.count(topic, stamps)` is called, from the producer's thread for callbacks, for every batch that succeeded.
    Events that failed, or that a crash cut off before that, are not counted. A counter has the last word on
    `published_at`, and must be able to announce that it begins; else nothing is published and KafkaError is raised.
    """

    def __init__(
        self,
        producer: Producer,
        encoder: EventEncoder,
        *,
        server: str | None = None,
        counter: Counter | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._producer = producer
        self._encoder = encoder
        self._server = socket.gethostname() if server is None else server
        self._counter = counter
        self._clock = clock
        self._ids = EventIds()
        self._lock = threading.Condition()
        self._uncounted: dict[Future[Receipt], _Uncounted] = {}
        self._counting = 0

    def publish(self, topic: str, event: Mapping[str, Any], key: object = None) -> Future[Receipt]:
        """Publish one event; returns and raises as `Producer.send` does. Raises UnencodableEventError before that."""
        return self._publish(topic, [event], key, alone=True)

    def publish_all(self, topic: str, events: Iterable[Mapping[str, Any]], key: object = None) -> Future[Receipt]:
        """Publish events to one partition, in order; they share one `published_at` and one future."""
        return self._publish(topic, events, key)

    def await_counted(self) -> None:
        """Wait until all events that have arrived so far are counted, which takes milliseconds."""
        with self._lock:
            while self._counting or any(future.done() for future in self._uncounted):
                self._lock.wait(_MOMENT_S)

    def _publish(
        self, topic: str, events: Iterable[Mapping[str, Any]], key: object, *, alone: bool = False
    ) -> Future[Receipt]:
        now_us = self._now_us()
        if self._counter is None:
            payloads = self._encoder.encode_all(topic, (self._filled(event, now_us) for event in events))
            return self._send(topic, payloads, key, alone=alone)
        now_us = self._counter.stamp(topic, now_us)
        try:
            filled = [self._filled(event, now_us) for event in events]
            payloads = self._encoder.encode_all(topic, filled)
            future = self._send(topic, payloads, key, alone=alone)
        except BaseException:
            self._counter.ended(topic, [now_us])
            raise
        return self._counted(future, topic, list(map(_stamp, filled, payloads)), now_us)

    def _send(self, topic: str, payloads: list[bytes], key: object, *, alone: bool) -> Future[Receipt]:
        return self._producer.send(topic, payloads[0] if alone else payloads, key)

    def _now_us(self) -> int:
        return int(self._clock.wall_s() * 1_000_000)

    def _filled(self, event: Mapping[str, Any], now_us: int) -> dict[str, Any]:
        filled = {"time": now_us, "server": self._server, **event, "published_at": now_us}
        if filled["time"] is None:
            filled["time"] = now_us
        if filled.get("id") is None:
            filled["id"] = self._ids.next()
        return filled

    def _counted(self, future: Future[Receipt], topic: str, stamps: list[Stamp], stamped_us: int) -> Future[Receipt]:
        """Count events when the future, which many sends may share, is done; at once if it already is. Returns it."""
        with self._lock:
            waiting = self._uncounted.get(future)
            is_first = waiting is None
            if waiting is None:
                waiting = self._uncounted[future] = _Uncounted(topic, [], [])
            waiting.stamps.extend(stamps)
            waiting.stamped_us.append(stamped_us)
        if is_first:
            future.add_done_callback(self._ended)
        return future

    def _ended(self, future: Future[Receipt]) -> None:
        with self._lock:
            topic, stamps, stamped_us = self._uncounted.pop(future)
            self._counting += 1
        assert self._counter is not None
        try:
            self._count(future, topic, stamps, stamped_us)
        finally:
            with self._lock:
                self._counting -= 1
                self._lock.notify_all()

    def _count(self, future: Future[Receipt], topic: str, stamps: list[Stamp], stamped_us: list[int]) -> None:
        assert self._counter is not None
        if future.exception() is None:
            try:
                self._counter.count(topic, stamps)
            except Exception:
                logger.exception("The counter failed: %d events of topic %s are not counted", len(stamps), topic)
                return  # and it must not say that these are
        self._counter.ended(topic, stamped_us)


def _stamp(event: Mapping[str, Any], payload: bytes) -> Stamp:
    """Return what the header of a payload says, without reading it where the event plainly has that."""
    time_us, event_id = event["time"], event["id"]
    if type(time_us) is int and type(event_id) is str:
        return Stamp(event["published_at"], event_id, time_us)
    return read_stamp(payload)
