"""Publishes events: fills in what every event has, encodes, sends, and tells a counter what arrived."""

from __future__ import annotations

import logging
import os
import socket
import threading
import uuid
from typing import TYPE_CHECKING, Any, Protocol

from kafka2011.pipeline.events import read_stamp
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from concurrent.futures import Future

    from kafka2011.pipeline.events import EventEncoder, Stamp
    from kafka2011.producer.batch import Receipt
    from kafka2011.producer.producer import Producer
    from zk.clock import Clock

logger = logging.getLogger(__name__)


class Counter(Protocol):
    """Counts what was published; the audit's is one."""

    def count(self, topic: str, stamps: list[Stamp]) -> object:
        """Count events, each once its batch was written or, with confirm=true, confirmed."""


class EventPublisher:
    """Publishes events through a producer, which stays the caller's to close.

        with Producer({"zk.connect": "localhost:2181", "producer.type": "async", "confirm": True}) as producer:
            publisher = EventPublisher(producer, EventEncoder(SchemaRegistry(client)))
            publisher.publish("views", {"member_id": 42, "url": "/jobs"})

    Fills in `published_at`, `server` (this host's name unless given), `id`, and `time` where it is missing or None;
    what the event has stays. May be shared by threads.
    `counter.count(topic, stamps)` is called, from the producer's thread for callbacks, for every batch that ended well.
    What failed, or was cut off by a crash before that, is not counted.
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
        self._lock = threading.Lock()
        self._uncounted: dict[Future[Receipt], tuple[str, list[Stamp]]] = {}

    def publish(self, topic: str, event: Mapping[str, Any], key: object = None) -> Future[Receipt]:
        """Publish one event; returns and raises as `Producer.send` does. Raises UnencodableEventError before that."""
        payload = self._encoder.encode(topic, self._filled(event, self._now_us()))
        return self._counted(self._producer.send(topic, payload, key), topic, [payload])

    def publish_all(self, topic: str, events: Iterable[Mapping[str, Any]], key: object = None) -> Future[Receipt]:
        """Publish events to one partition, in order; they have one `published_at`, and one future."""
        now_us = self._now_us()
        payloads = self._encoder.encode_all(topic, (self._filled(event, now_us) for event in events))
        return self._counted(self._producer.send(topic, payloads, key), topic, payloads)

    def _now_us(self) -> int:
        return int(self._clock.wall_s() * 1_000_000)

    def _filled(self, event: Mapping[str, Any], now_us: int) -> dict[str, Any]:
        filled = {"time": now_us, "server": self._server, **event, "published_at": now_us}
        if filled["time"] is None:
            filled["time"] = now_us
        if filled.get("id") is None:
            filled["id"] = str(uuid.UUID(bytes=os.urandom(16), version=4))
        return filled

    def _counted(self, future: Future[Receipt], topic: str, payloads: list[bytes]) -> Future[Receipt]:
        """Count payloads when the future, which many sends may share, has ended; also when it just has. Returns it."""
        if self._counter is None:
            return future
        stamps = [read_stamp(payload) for payload in payloads]
        with self._lock:
            waiting = self._uncounted.setdefault(future, (topic, stamps))[1]
            is_first = waiting is stamps
            if not is_first:
                waiting += stamps
        if is_first:
            future.add_done_callback(self._ended)
        return future

    def _ended(self, future: Future[Receipt]) -> None:
        with self._lock:
            topic, stamps = self._uncounted.pop(future)
        if future.exception() is not None:
            return
        assert self._counter is not None
        try:
            self._counter.count(topic, stamps)
        except Exception:
            logger.exception("The counter failed: %d events of topic %s are not counted", len(stamps), topic)
