"""The monitoring event: a report as an Avro event of the topic `audit`, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kafka2011.errors import KafkaError
from kafka2011.pipeline.audit.report import ID_TYPE, INDEX_TYPE, OFFSET_TYPE, Places, Report
from kafka2011.pipeline.schemas import event_schema
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kafka2011.pipeline.events import Event

AUDIT_COUNT = event_schema(
    "AuditCount",
    {"name": "tier", "type": "string"},
    {"name": "instance", "type": "string", "doc": "one process of the tier"},
    {"name": "topic", "type": "string", "doc": "that was counted"},
    {"name": "window_ms", "type": "int", "doc": "length of the window"},
    {"name": "window_start", "type": {"type": "long", "logicalType": "timestamp-millis"}, "doc": "of published_at"},
    {"name": "count", "type": "int", "doc": "of messages"},
    {
        "name": "ids",
        "type": "bytes",
        "doc": "uint64 little-endian for each message: id's upper 8 bytes * 9e3779b97f4a7c15, xor the lower 8",
    },
    {"name": "cluster", "type": "string", "default": "", "doc": "where the partition is"},
    {"name": "broker_id", "type": ["null", "int"], "default": None, "doc": "null: not read from a partition"},
    {"name": "partition", "type": ["null", "int"], "default": None},
    {"name": "start_offset", "type": ["null", "long"], "default": None, "doc": "of what was read"},
    {"name": "end_offset", "type": ["null", "long"], "default": None},
    {"name": "offsets", "type": "bytes", "default": "", "doc": "int64 little-endian for each message"},
    {
        "name": "indexes",
        "type": "bytes",
        "default": "",
        "doc": "int32 little-endian for each message: its number in its compressed set; empty where all are 0",
    },
    doc="What one counter has counted of one topic in one window, or one more part of it.",
)


class InvalidReportError(KafkaError):
    """An event that is not what a counter reports."""


def to_event(report: Report, now_us: int, server: str) -> dict[str, Any]:
    """Return a report as the fields of its event."""
    where, places = report.where, report.places
    return {
        "time": now_us,
        "published_at": now_us,
        "server": server,
        "id": report.report_id,
        "tier": report.tier,
        "instance": report.instance,
        "topic": report.topic,
        "window_ms": report.window_ms,
        "window_start": report.start_ms,
        "count": report.count,
        "ids": _bytes_of(report.ids, ID_TYPE),
        "cluster": report.cluster,
        "broker_id": None if where is None else where.broker_id,
        "partition": None if where is None else where.partition,
        "start_offset": report.start_offset,
        "end_offset": report.end_offset,
        "offsets": b"" if places is None else _bytes_of(places.offsets, OFFSET_TYPE),
        "indexes": b"" if places is None or not places.indexes.any() else _bytes_of(places.indexes, INDEX_TYPE),
    }


def _bytes_of(numbers: NDArray[Any], kind: np.dtype[Any]) -> bytes:
    return numbers.astype(kind, copy=False).tobytes()


def report_of(event: Event) -> Report:
    """Return the report that an event is. Raises InvalidReportError."""
    fields = event.fields
    try:
        return _report_of(fields)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidReportError(f"{event.schema.name} {fields.get('id')} is no report: {error}") from error


def _report_of(fields: dict[str, Any]) -> Report:
    ids = np.frombuffer(fields["ids"], ID_TYPE)
    if not 0 < len(ids) == fields["count"] or fields["window_ms"] < 1:
        raise ValueError(f"{len(ids)} ids, count {fields['count']}, window_ms {fields['window_ms']}")
    where = places = None
    if fields["broker_id"] is not None:
        where = TopicPartition(fields["topic"], fields["broker_id"], fields["partition"])
        offsets = np.frombuffer(fields["offsets"], OFFSET_TYPE)
        indexes = np.frombuffer(fields["indexes"] or bytes(INDEX_TYPE.itemsize * len(ids)), INDEX_TYPE)
        places = Places(offsets, indexes)
        if not len(ids) == len(offsets) == len(indexes):
            raise ValueError(f"{len(ids)} ids, {len(offsets)} offsets, {len(indexes)} indexes")
    return Report(
        tier=fields["tier"],
        instance=fields["instance"],
        topic=fields["topic"],
        window_ms=fields["window_ms"],
        start_ms=fields["window_start"],
        ids=ids,
        cluster=fields["cluster"],
        where=where,
        start_offset=fields["start_offset"],
        end_offset=fields["end_offset"],
        places=places,
        report_id=fields["id"],
    )
