"""Reads the topic `audit`: the reports of all counters, from every available partition."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeGuard

from kafka2011.admin.partition_cursor import open_cursors, to_the_end
from kafka2011.audit.cluster_clock import earlier_ms
from kafka2011.audit.encoding import InvalidReportError, open_decoder, report_from
from kafka2011.audit.late import LateReports
from kafka2011.audit.progress_report import Acceptance, ProgressReport
from kafka2011.audit.report import AUDIT_TOPIC, AuditReport
from kafka2011.audit.scan import AGAIN_MS, AuditScan
from kafka2011.audit.state import ReadPlace
from kafka2011.config import SimpleConsumerConfig
from kafka2011.errors import KafkaError, OffsetOutOfRangeError
from kafka2011.events.codec import read_stamps
from kafka2011.events.errors import UndecodableEventError
from kafka2011.events.schema_registry import SchemaRegistry
from zk.audit import AuditNodes
from zk.brokers import BrokerRegistry
from zk.clock import SYSTEM_CLOCK
from zk.errors import NotAllowed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from kafka2011.admin.partition_cursor import PartitionCursor
    from kafka2011.audit.encoding import AnyReport
    from kafka2011.audit.received import ReceivedReports
    from kafka2011.events.codec import EventDecoder
    from kafka2011.message.message_set import Message
    from zk.client import ZkClient
    from zk.clock import Clock
    from zk.cluster import Broker

logger = logging.getLogger(__name__)

BACK_MS = AGAIN_MS
"""How far before the wanted windows progress reports are read: instances make them every window."""


class AuditReader:
    """Reads the reports of windows from a time on, as often as requested. Not thread-safe.

    `unreadable` counts the messages in the last scan that were not reports; each is logged. `scan` says what
    could not be read at all, such as partitions whose broker is away. A reader may go on at the `place` of another,
    or behind ends up to which windows were judged: then `late` has the reports of earlier windows that came since.
    """

    def __init__(
        self, config: SimpleConsumerConfig | None = None, clock: Clock = SYSTEM_CLOCK, place: ReadPlace | None = None
    ) -> None:
        self._config = config or SimpleConsumerConfig()
        self._clock = clock
        self._from_ms, self._starts, self._ends = place or ReadPlace(None, {}, {})
        self._judged_ends = None if place is None else place.ends
        self._judged_before_ms: int | None = None
        self.late = LateReports()
        self._since_ms: int | None = None  # the time since when no report was deleted
        self.unreadable = 0
        self.scan = AuditScan(at_ms=0)

    @property
    def place(self) -> ReadPlace:
        """Where the next scan goes on, if it is for windows that begin no earlier."""
        return ReadPlace(self._from_ms, dict(self._starts), dict(self._ends))

    def judge_again(self, judged_ends: Mapping[tuple[int, int], int], judged_before_ms: int | None) -> None:
        """Take what comes behind these ends, by broker and partition, for late where it is of windows before a time."""
        self._judged_ends, self._judged_before_ms = dict(judged_ends), judged_before_ms
        self._ends = dict(judged_ends)

    def read(
        self,
        client: ZkClient,
        topics: Collection[str] = (),
        from_ms: int | None = None,
        received: ReceivedReports | None = None,
    ) -> Iterator[AuditReport]:
        """Yield all reports of windows that begin at `from_ms` or later, for these topics or, without any, all.

        `client` is connected to the cluster's ZooKeeper.

        `received` gets every report about the topics from half an hour before that on. `scan` describes this
        scan once everything was yielded. When asked again for windows that begin no earlier, it skips what it need
        not read again. Raises KafkaError when there is no topic `audit`.
        """
        self.unreadable = 0
        self.late = LateReports(
            self._judged_ends, from_ms if self._judged_before_ms is None else self._judged_before_ms
        )
        self._since_ms = None
        if from_ms is None or self._from_ms is None or from_ms < self._from_ms:
            self._starts.clear()
        nodes = AuditNodes(client)
        clock_ms = zookeeper_ms(client)
        at_ms = earlier_ms(int(self._clock.wall_s() * 1000), clock_ms)
        noted = nodes.brokers()
        decoder = open_decoder(SchemaRegistry(client))
        partitions = _partitions(client)
        away = sorted(noted - {broker.id for broker, _ in partitions})
        faults = [f"broker {broker_id} is away, and may hold reports" for broker_id in away]
        for broker, partition in partitions:
            try:
                for report in self._read(broker, partition, decoder, topics, from_ms):
                    if received is not None:
                        received.add(report)
                    if isinstance(report, AuditReport) and not _is_before(report, from_ms):
                        yield report
            except KafkaError as error:
                logger.warning("partition %d of broker %d may hold reports: %s", partition, broker.id, error)
                faults.append(f"broker {broker.id} cannot be read, and may hold reports")
        self._from_ms = from_ms
        self.scan = AuditScan(
            at_ms=at_ms, clock_ms=clock_ms, home=nodes.cluster_id(), faults=tuple(faults), since_ms=self._since_ms
        )

    def _read(
        self,
        broker: Broker,
        partition: int,
        decoder: EventDecoder,
        topics: Collection[str],
        from_ms: int | None,
    ) -> Iterator[AnyReport]:
        """Yield everything in one partition that may be needed, and note where it begins and ends."""
        first: int | None = None
        with ExitStack() as stack:
            [place] = open_cursors(stack, AUDIT_TOPIC, [(broker, partition)], self._config)
            is_cut = self._go_to_start(place, broker.id, from_ms)
            for message in to_the_end([place]):
                report = self.read_report(message, decoder)
                # Deleted events are older than the first one that can be read, by whichever clock is later.
                if is_cut and (stamp := read_stamps([message.payload])[0]) is not None:
                    is_cut = False
                    clock_ms = 0 if report is None or isinstance(report, Acceptance) else report.clock_ms or 0
                    self._since_ms = max(self._since_ms or 0, max(stamp.published_at_us // 1000, clock_ms) + BACK_MS)
                if report is None:
                    continue
                if first is None and (from_ms is None or _about_ms(report) >= from_ms):
                    first = message.offset
                if not _is_of(report, topics):
                    continue
                self.late.note(report, (broker.id, partition), message.offset)
                yield report
            self._starts[broker.id, partition] = place.offset if first is None else first
            self._ends[broker.id, partition] = place.offset

    def _go_to_start(self, place: PartitionCursor, broker_id: int, from_ms: int | None) -> bool:
        """Seek to the first report that may be needed; say whether the log was cut, and so may lack some."""
        start = self._starts.get((broker_id, place.partition))
        if start is not None:
            try:
                place.consumer.fetch(AUDIT_TOPIC, place.partition, start, 0)
            except OffsetOutOfRangeError:
                logger.warning("partition %d of %s was cut before offset %d", place.partition, AUDIT_TOPIC, start)
            else:
                place.go_to(start)
                return False
        place.go_to("earliest")
        earliest = place.offset
        if from_ms is not None:
            place.go_to(f"@{from_ms - BACK_MS}")
        return 0 < earliest == place.offset

    def read_report(self, message: Message, decoder: EventDecoder) -> AnyReport | None:
        """Decode a report; log and count one that is not readable, and return None."""
        try:
            return report_from(decoder.decode(message))
        except (UndecodableEventError, InvalidReportError) as error:
            self.unreadable += 1
            logger.warning("%s", error)
            return None


def zookeeper_ms(client: ZkClient) -> int | None:
    """Return ZooKeeper's time, in ms since 1970; None for a user who may not write what that takes. Raises ZkError."""
    try:
        return AuditNodes(client).clock_ms()
    except NotAllowed as error:
        logger.warning("ZooKeeper's time is unknown; the audit uses this machine's clock: %s", error)
        return None


def _partitions(client: ZkClient) -> list[tuple[Broker, int]]:
    """Return the topic's partitions on live brokers. Raises KafkaError when the topic is unknown."""
    registry = BrokerRegistry(client)
    if AUDIT_TOPIC not in registry.topics():
        raise KafkaError(f"topic {AUDIT_TOPIC} is not registered in ZooKeeper")
    brokers = registry.brokers()
    counts = registry.partitions_of(AUDIT_TOPIC)
    return [
        (brokers[broker_id], number)
        for broker_id, count in counts.items()
        if broker_id in brokers
        for number in range(count)
    ]


def _about_ms(report: AnyReport) -> int:
    """Return a time; half an hour after it the event is no longer needed."""
    if isinstance(report, AuditReport):
        return report.start_ms
    clock_ms = report.clock_ms if isinstance(report, ProgressReport) else None
    return max(report.at_ms, clock_ms or 0) + BACK_MS  # a clock that is behind must not make it look old


def _is_before(report: AnyReport, from_ms: int | None) -> TypeGuard[AuditReport]:
    """Say whether it is a report of a window that begins before a time."""
    return isinstance(report, AuditReport) and from_ms is not None and report.start_ms < from_ms


def _is_of(report: AnyReport, topics: Collection[str]) -> bool:
    """Say whether it matters for some topics: progress reports on copies of the topic audit itself matter for all."""
    return not topics or isinstance(report, Acceptance) or report.topic in topics or report.topic == AUDIT_TOPIC


def has_audit(client: ZkClient) -> bool:
    """Say whether a cluster has ever received a report."""
    return AUDIT_TOPIC in BrokerRegistry(client).topics()
