"""Events and counters whose reports stay in memory."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from kafka2011.audit.report import AuditReport
from kafka2011.errors import KafkaError
from kafka2011.events.codec import EventEncoder, Stamp
from kafka2011.events.schemas import event_schema
from kafka2011.message.message_set import Message

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from kafka2011.audit.progress_report import ProgressReport
    from zk.cluster import TopicPartition

TOPIC = "views"
_SCHEMA = event_schema("View")
_ENCODER = EventEncoder(None, {TOPIC: _SCHEMA})  # type: ignore[arg-type] # never asked


class ReportsInMemory:
    """Keeps what is published; fails while `is_away`."""

    def __init__(self) -> None:
        self.reports: list[AuditReport] = []
        self.progress_reports: list[ProgressReport] = []
        self.is_away = False
        self.on_publish: Callable[[], object] = lambda: None
        self.is_closed = False

    def publish(self, reports: Sequence[AuditReport | ProgressReport]) -> None:
        if self.is_away:
            raise KafkaError("the broker is away")
        for each in reports:
            if isinstance(each, AuditReport):
                self.reports.append(each)
            else:
                self.progress_reports.append(each)
        self.on_publish()

    def close(self) -> None:
        self.is_closed = True

    @property
    def counted(self) -> int:
        """How many messages all reports count."""
        return sum(report.count for report in self.reports)


class EndsInMemory:
    """Partitions that end where they are told to."""

    def __init__(self, ends: dict[TopicPartition, tuple[int, int] | None], cluster_ms: int | None = 2**60) -> None:
        self.ends = ends
        self.cluster_ms = cluster_ms
        self.asked = 0
        self.is_closed = False

    def look_up(self, _topic: str) -> dict[TopicPartition, tuple[int, int] | None]:
        return self.ends

    def clock_ms(self) -> int | None:
        self.asked += 1
        return self.cluster_ms

    def close(self) -> None:
        self.is_closed = True


def new_stamp(chance: random.Random, published_at_us: int = 1_700_000_000_000_000) -> Stamp:
    return Stamp(published_at_us, str(uuid.UUID(int=chance.getrandbits(128), version=4)), published_at_us)


def payload_of(stamp: Stamp) -> bytes:
    fields = {"time": stamp.time_us, "published_at": stamp.published_at_us, "server": "web1", "id": stamp.id}
    return _ENCODER.encode(TOPIC, fields)


def messages_of(
    payloads: Sequence[bytes], *, topic: str = TOPIC, partition: int = 0, first_offset: int = 0
) -> list[Message]:
    """Return messages of one partition, each of them ten bytes after the one before."""
    return [
        Message(topic, 0, partition, first_offset + 10 * number, first_offset + 10 * number + 10, 0, payload)
        for number, payload in enumerate(payloads)
    ]
