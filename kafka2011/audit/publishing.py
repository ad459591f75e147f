"""Publishes reports to the topic `audit`, and waits until they are confirmed."""

from __future__ import annotations

import socket
from concurrent.futures import wait
from dataclasses import replace
from typing import TYPE_CHECKING

from kafka2011.audit.cluster_clock import ClusterClock
from kafka2011.audit.counter import AuditCounter
from kafka2011.audit.encoding import AUDIT_COUNT, to_event
from kafka2011.audit.ends_lookup import ClusterEndsLookup
from kafka2011.audit.progress_report import Acceptance
from kafka2011.audit.report import AUDIT_TOPIC
from kafka2011.events.codec import EventEncoder
from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.producer.producer import Producer
from zk.audit import AuditNodes
from zk.brokers import BrokerRegistry
from zk.clock import SYSTEM_CLOCK
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafka2011.audit.encoding import AnyReport
    from kafka2011.audit.windows import Windows
    from zk.clock import Clock

MAX_SET_BYTES = 300 * 1024
"""The limit for reports compressed together: what a consumer of 0.7 fetches at once by default."""


class ReportPublisher:
    """Publishes reports through a producer, which should confirm, and which it closes.

    `home` is the id of the cluster, and `cluster_clock` its time, which reports are given. `note` is called with the
    ids of brokers that hold reports for the first time, before those reports count as published.
    """

    def __init__(
        self,
        producer: Producer,
        encoder: EventEncoder,
        home: str,
        note: Callable[[set[int]], object],
        cluster_clock: ClusterClock,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.home = home
        self._cluster_clock = cluster_clock
        self._note = note
        self._noted: set[int] = set()
        self._producer = producer
        self._encoder = encoder
        self._server = socket.gethostname()
        self._clock = clock

    def publish(self, reports: Sequence[AnyReport]) -> None:
        """Publish reports, and return when all have arrived.

        Raises the first error if any has not, and ZkError when their brokers cannot be noted.
        """
        now_us = int(self._clock.wall_s() * 1_000_000)
        clock_ms = self._cluster_clock.now_ms()
        events = [
            to_event(
                report if isinstance(report, Acceptance) else replace(report, clock_ms=clock_ms), now_us, self._server
            )
            for report in reports
        ]
        futures = [self._producer.send(AUDIT_TOPIC, self._encoder.encode(AUDIT_TOPIC, event)) for event in events]
        self._producer.flush()
        wait(futures)
        brokers = {future.result().broker_id for future in futures} - self._noted
        if brokers:
            self._note(brokers)
            self._noted |= brokers

    def close(self) -> None:
        """Close the producer."""
        self._producer.close()


def open_counter(
    tier: str,
    zk_connect: str,
    *,
    producer: Mapping[str, object] | None = None,
    cluster: str = "",
    follows: Sequence[str] = (),
    ends_lookup: ClusterEndsLookup | None = None,
    windows: Windows | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> AuditCounter:
    """Return a counter of a tier that reports to the cluster of `zk_connect`.

    `cluster` names the cluster that the tier reads from, where tiers of one name read from several; `ends_lookup` finds
    where its partitions end, by default in the cluster reported to. For `follows` see `AuditCounter`, for
    `producer` and errors `open_publisher`.

    `windows` says how long windows are, by default ten seconds.
    """
    publisher = open_publisher(zk_connect, producer)
    ends_lookup = ends_lookup or ClusterEndsLookup(zk_connect)
    return AuditCounter(
        tier,
        publisher,
        cluster=cluster,
        home=publisher.home,
        follows=follows,
        ends_lookup=ends_lookup,
        windows=windows,
        clock=clock,
    )


def open_publisher(zk_connect: str, producer: Mapping[str, object] | None = None) -> ReportPublisher:
    """Return a publisher of reports with a producer of its own, which confirms.

    `producer` holds further settings of the producer, such as broker.list. Registers the schema of reports. Raises
    ZkError when ZooKeeper does not answer, and what `SchemaRegistry.register` raises.
    """
    given = dict(producer or {})
    where = {} if "broker.list" in given else {"zk.connect": zk_connect}
    defaults = {"compression.codec": 1, "max.message.size": MAX_SET_BYTES}
    settings = {**defaults, **where, **given, "producer.type": "async", "confirm": True}
    with connect(zk_connect) as client:
        registry = SchemaRegistry(client)
        registry.register(AUDIT_TOPIC, AUDIT_COUNT)
        home = AuditNodes(client).cluster_id()
    encoder = EventEncoder(registry, {AUDIT_TOPIC: AUDIT_COUNT})  # never has to look up another schema

    def note(broker_ids: set[int]) -> None:
        with connect(zk_connect) as client:
            if "zk.connect" not in settings:  # a list's ids need not be the cluster's, as behind a load balancer
                broker_ids = set(BrokerRegistry(client).brokers())
            AuditNodes(client).note_brokers(broker_ids)

    def clock_ms() -> int:
        with connect(zk_connect) as client:
            return AuditNodes(client).clock_ms()

    return ReportPublisher(Producer(settings), encoder, home, note, ClusterClock(clock_ms))
