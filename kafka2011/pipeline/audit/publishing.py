"""Publishes reports into the topic `audit`, confirmed."""

from __future__ import annotations

import socket
from concurrent.futures import wait
from typing import TYPE_CHECKING

from kafka2011.pipeline.audit.counter import AuditCounter
from kafka2011.pipeline.audit.encoding import AUDIT_COUNT, to_event
from kafka2011.pipeline.audit.report import AUDIT_TOPIC
from kafka2011.pipeline.events import EventEncoder
from kafka2011.pipeline.registry import SchemaRegistry
from kafka2011.producer.producer import Producer
from zk.clock import SYSTEM_CLOCK
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafka2011.pipeline.audit.report import Report
    from kafka2011.pipeline.audit.windows import Windows
    from zk.clock import Clock

MAX_SET_BYTES = 300 * 1024
"""Of reports that are compressed together: what a consumer of 0.7 fetches at once, unless told otherwise."""


class ReportPublisher:
    """Publishes reports through a producer, which should confirm, and is closed with it."""

    def __init__(self, producer: Producer, encoder: EventEncoder, clock: Clock = SYSTEM_CLOCK) -> None:
        self._producer = producer
        self._encoder = encoder
        self._server = socket.gethostname()
        self._clock = clock

    def publish(self, reports: Sequence[Report]) -> None:
        """Publish reports, and return when all have arrived. Raises the first error of those that have not."""
        now_us = int(self._clock.wall_s() * 1_000_000)
        futures = [
            self._producer.send(AUDIT_TOPIC, self._encoder.encode(AUDIT_TOPIC, to_event(report, now_us, self._server)))
            for report in reports
        ]
        self._producer.flush()
        wait(futures)
        for future in futures:
            future.result()

    def close(self) -> None:
        """Close the producer."""
        self._producer.close()


def open_counter(
    tier: str,
    zk_connect: str,
    *,
    producer: Mapping[str, object] | None = None,
    cluster: str = "",
    windows: Windows | None = None,
) -> AuditCounter:
    """Return a counter that reports to a cluster.

    `cluster` names the cluster that the tier reads from, where tiers of one name read from several. For `producer` and
    errors see `open_publisher`.
    """
    return AuditCounter(tier, open_publisher(zk_connect, producer), cluster=cluster, windows=windows)


def open_publisher(zk_connect: str, producer: Mapping[str, object] | None = None) -> ReportPublisher:
    """Return a publisher of reports with a producer of its own, which confirms.

    `producer` holds more of that one's settings, such as a broker.list. Registers the schema of reports. Raises ZkError
    when ZooKeeper does not answer, and what `SchemaRegistry.register` raises.
    """
    given = dict(producer or {})
    where = {} if "broker.list" in given else {"zk.connect": zk_connect}
    defaults = {"compression.codec": 1, "max.message.size": MAX_SET_BYTES}
    settings = {**defaults, **where, **given, "producer.type": "async", "confirm": True}
    with connect(zk_connect) as client:
        registry = SchemaRegistry(client)
        registry.register(AUDIT_TOPIC, AUDIT_COUNT)
    encoder = EventEncoder(registry, {AUDIT_TOPIC: AUDIT_COUNT})  # which never has to ask for another schema
    return ReportPublisher(Producer(settings), encoder)
