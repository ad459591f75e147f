"""Reading the topic `audit`: the reports of all counters, from every partition of it that is there."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING

from kafka2011.admin.reading import open_places, to_the_end
from kafka2011.admin.topics import living_partitions
from kafka2011.config import SimpleConsumerConfig
from kafka2011.errors import OffsetOutOfRangeError
from kafka2011.pipeline.audit.encoding import InvalidReportError, report_of
from kafka2011.pipeline.audit.report import AUDIT_TOPIC
from kafka2011.pipeline.errors import UndecodableEventError
from kafka2011.pipeline.events import EventDecoder
from kafka2011.pipeline.registry import SchemaRegistry
from zk.brokers import BrokerRegistry

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from kafka2011.admin.reading import Place
    from kafka2011.message import Message
    from kafka2011.pipeline.audit.report import Report
    from zk.client import ZkClient

logger = logging.getLogger(__name__)


class AuditReader:
    """Reads the reports of windows from a time on, as often as one asks. Not for several threads.

    Reports of a partition whose broker is away are missing until it is back. `unreadable` counts those of the last
    reading that were no reports; each is logged.
    """

    def __init__(self, config: SimpleConsumerConfig | None = None) -> None:
        self._config = config or SimpleConsumerConfig()
        self._starts: dict[tuple[int | None, int], int] = {}  # where the first report is that may be needed again
        self._from_ms: int | None = None  # for which windows that is so
        self.unreadable = 0

    def read(self, client: ZkClient, topics: Collection[str] = (), from_ms: int | None = None) -> Iterator[Report]:
        """Yield all reports of windows that begin at `from_ms` or later, of these topics, of all without any.

        A reader that is asked again for windows that begin no earlier leaves out what it need not read again. Raises
        KafkaError when there is no topic `audit`, and when a broker does not answer.
        """
        self.unreadable = 0
        if from_ms is None or self._from_ms is None or from_ms < self._from_ms:
            self._starts.clear()
        decoder = EventDecoder(SchemaRegistry(client))
        starts: dict[tuple[int | None, int], int] = {}
        with ExitStack() as stack:
            partitions = [(broker, where.partition) for where, broker in living_partitions(client, AUDIT_TOPIC).items()]
            for place in open_places(stack, AUDIT_TOPIC, partitions, self._config):
                key = (place.consumer.broker_id, place.partition)
                self._go_to_start(place, from_ms)
                for message in to_the_end([place]):
                    report = self._report_of(message, decoder)
                    if report is None or (from_ms is not None and report.start_ms < from_ms):
                        continue
                    starts.setdefault(key, message.offset)
                    if not topics or report.topic in topics:
                        yield report
                starts.setdefault(key, place.offset)
        self._starts.update(starts)
        self._from_ms = from_ms

    def _go_to_start(self, place: Place, from_ms: int | None) -> None:
        """Go to where the first report may be that is needed."""
        start = self._starts.get((place.consumer.broker_id, place.partition))
        if start is not None:
            try:
                place.consumer.fetch(AUDIT_TOPIC, place.partition, start, 0)
            except OffsetOutOfRangeError:
                logger.warning("partition %d of %s was cut before offset %d", place.partition, AUDIT_TOPIC, start)
            else:
                place.go_to(start)
                return
        place.go_to("earliest" if from_ms is None else f"@{from_ms}")

    def _report_of(self, message: Message, decoder: EventDecoder) -> Report | None:
        try:
            return report_of(decoder.decode(message))
        except (UndecodableEventError, InvalidReportError) as error:
            self.unreadable += 1
            logger.warning("%s", error)
            return None


def has_audit(client: ZkClient) -> bool:
    """Say whether anything was ever reported to a cluster."""
    return AUDIT_TOPIC in BrokerRegistry(client).topics()
