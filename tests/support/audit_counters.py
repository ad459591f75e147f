"""Events and counters whose reports stay in memory."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from kafka2011.errors import KafkaError
from kafka2011.message import Message
from kafka2011.pipeline.events import EventEncoder, Stamp
from kafka2011.pipeline.schemas import event_schema

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from kafka2011.pipeline.audit.report import Report

TOPIC = "views"
_SCHEMA = event_schema("View")
_ENCODER = EventEncoder(None, {TOPIC: _SCHEMA})  # type: ignore[arg-type] # never asked


class ReportsInMemory:
    """Keeps what is published; fails while `is_away`."""

    def __init__(self) -> None:
        self.reports: list[Report] = []
        self.is_away = False
        self.on_publish: Callable[[], object] = lambda: None
        self.is_closed = False

    def publish(self, reports: Sequence[Report]) -> None:
        if self.is_away:
            raise KafkaError("the broker is away")
        self.reports += reports
        self.on_publish()

    def close(self) -> None:
        self.is_closed = True

    @property
    def counted(self) -> int:
        """How many messages all reports count."""
        return sum(report.count for report in self.reports)


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
