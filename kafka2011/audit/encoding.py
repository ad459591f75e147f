"""The monitoring event: a report of counts or of progress, as an Avro event of the topic `audit`, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kafka2011.audit.packing import pack, unpack
from kafka2011.audit.progress_report import Acceptance, Ends, ProgressReport, Reported
from kafka2011.audit.report import ID_TYPE, INDEX_TYPE, MAX_REPORT_MESSAGES, OFFSET_TYPE, AuditReport, Places
from kafka2011.audit.table_report import CommitKey, CommitPart, ListedCommit, TableDoubt, TableReport
from kafka2011.errors import KafkaError
from kafka2011.events.codec import EventDecoder
from kafka2011.events.schemas import event_schema
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kafka2011.events.codec import Event, Schemas

    AnyReport = AuditReport | ProgressReport | Acceptance | TableReport

_NO_PLACES = Places(np.empty(0, OFFSET_TYPE), np.empty(0, INDEX_TYPE))
_NOTHING_COUNTED = {"window_ms": 0, "window_start": 0, "count": 0, "ids": b""}
_PACKED = 1
"""The layout of what is written; 0 is what was written before there were layouts."""

_PROGRESS_REPORT = {
    "type": "record",
    "name": "AuditStatement",
    "fields": [
        {"name": "first", "type": "int", "doc": "number from which on all must be there for this to hold"},
        {"name": "at", "type": "long", "doc": "ms since 1970, by the clock of whoever speaks, like all times here"},
        {"name": "home", "type": "string", "doc": "id of the cluster that it reports to"},
        {"name": "follows", "type": {"type": "array", "items": "string"}, "doc": "ended instances it speaks for"},
        {"name": "through", "type": ["null", "long"], "doc": "all that was stamped before is counted"},
        {"name": "is_last", "type": "boolean"},
        {
            "name": "reported",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "ReportedOffsets",
                    "fields": [
                        {"name": "broker_id", "type": "int"},
                        {"name": "partition", "type": "int"},
                        {"name": "start", "type": "long"},
                        {"name": "end", "type": "long"},
                    ],
                },
            },
        },
        {"name": "ends_at", "type": ["null", "long"], "doc": "when the ends of partitions were asked for"},
        {
            "name": "ends",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "PartitionEnds",
                    "fields": [
                        {"name": "broker_id", "type": "int"},
                        {"name": "partition", "type": "int"},
                        {"name": "start", "type": ["null", "long"]},
                        {"name": "end", "type": ["null", "long"]},
                    ],
                },
            },
        },
        {"name": "copies", "type": "string", "doc": "id of the cluster whose reports were copied"},
    ],
}

_COMMIT_PART = {
    "type": "record",
    "name": "CommitPart",
    "fields": [
        {"name": "table", "type": "string", "doc": "id of the table, Delta's"},
        {"name": "number", "type": "long", "doc": "of the commit"},
        {"name": "attempt", "type": "string", "doc": "tells the commit from others of the same number"},
        {"name": "part", "type": "int", "doc": "which of the reports of this commit, from 0 on, by window"},
        {"name": "before", "type": ["null", "long"], "doc": "the window of the part before"},
    ],
}
_SPAN_FIELDS = [
    {"name": "broker_id", "type": "int"},
    {"name": "partition", "type": "int"},
    {"name": "start", "type": ["null", "long"]},
    {"name": "end", "type": ["null", "long"]},
]
_TABLE_REPORT = {
    "type": "record",
    "name": "TableReport",
    "fields": [
        {"name": "table", "type": "string", "doc": "id of the table, Delta's"},
        {"name": "generation", "type": "int", "doc": "grows when another table takes over the tier"},
        {"name": "sequence", "type": "long", "doc": "the newest one has the largest"},
        {"name": "at", "type": "long", "doc": "ms since 1970, by ZooKeeper's clock"},
        {"name": "home", "type": "string", "doc": "id of the cluster that it is reported to"},
        {"name": "version", "type": "long", "doc": "of the table, Delta's"},
        {
            "name": "commits",
            "doc": "whose rows are in that version, newest first",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "ListedCommit",
                    "fields": [
                        {"name": "number", "type": "long"},
                        {"name": "attempt", "type": "string"},
                        {"name": "parts", "type": "int", "doc": "how many reports count it"},
                        {"name": "last", "type": ["null", "long"], "doc": "the newest window that they count"},
                    ],
                },
            },
        },
        {"name": "is_whole", "type": "boolean", "doc": "nothing came before the last one"},
        {
            "name": "doubts",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "TableDoubt",
                    "fields": [
                        {"name": "name", "type": "string", "doc": "that an operator accepts"},
                        {"name": "until", "type": "long", "doc": "of events published before"},
                        {"name": "why", "type": "string"},
                        {"name": "is_removal", "type": "boolean", "doc": "of rows that were counted"},
                    ],
                },
            },
        },
        {
            "name": "reported",
            "doc": "up to where the table has read each partition",
            "type": {"type": "array", "items": {"type": "record", "name": "TableOffsets", "fields": _SPAN_FIELDS}},
        },
        {
            "name": "earlier",
            "doc": "up to where a release counted that named no commits",
            "type": {"type": "array", "items": "TableOffsets"},
        },
        {"name": "ends_at", "type": ["null", "long"], "doc": "when the ends of partitions were asked for"},
        {"name": "ends", "type": {"type": "array", "items": "TableOffsets"}},
    ],
}

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
        "doc": "a uint64 for each message: id's upper 8 bytes * 9e3779b97f4a7c15, xor the lower 8",
    },
    {"name": "cluster", "type": "string", "default": "", "doc": "where the partition is"},
    {"name": "broker_id", "type": ["null", "int"], "default": None, "doc": "null: not read from a partition"},
    {"name": "partition", "type": ["null", "int"], "default": None},
    {"name": "start_offset", "type": ["null", "long"], "default": None, "doc": "of what was read"},
    {"name": "end_offset", "type": ["null", "long"], "default": None},
    {"name": "offsets", "type": "bytes", "default": "", "doc": "an int64 for each message"},
    {
        "name": "indexes",
        "type": "bytes",
        "default": "",
        "doc": "an int32 for each message: its number in its compressed set; empty where all are 0",
    },
    {
        "name": "layout",
        "type": "int",
        "default": 0,
        "doc": "of ids, offsets and indexes. 0: little-endian. 1: packed; ids sorted, and apart from them the places",
    },
    {"name": "number", "type": ["null", "int"], "default": None, "doc": "among all that it says of the topic"},
    {"name": "statement", "type": ["null", _PROGRESS_REPORT], "default": None, "doc": "what it says beside counting"},
    {
        "name": "clock",
        "type": ["null", "long"],
        "default": None,
        "doc": "ZooKeeper's ms since 1970; all of it was so then",
    },
    {"name": "accepted", "type": ["null", "string"], "default": None, "doc": "of what nothing more is expected"},
    {
        "name": "part",
        "type": ["null", _COMMIT_PART],
        "default": None,
        "doc": "of a table's commit, whose rows it counts",
    },
    {"name": "table", "type": ["null", _TABLE_REPORT], "default": None, "doc": "what a loader states of its table"},
    doc="What one counter has counted of one topic in one window, one more part of it, or what it says beside that.",
)


class InvalidReportError(KafkaError):
    """An event that is not a valid report."""


def to_event(report: AnyReport, now_us: int, server: str) -> dict[str, Any]:
    """Return a report as the fields of its event."""
    head = {"time": now_us, "published_at": now_us, "server": server}
    if isinstance(report, Acceptance):
        nothing = {"tier": "", "instance": "", "topic": "", **_NOTHING_COUNTED, "window_start": report.at_ms}
        return {**head, "id": report.acceptance_id, **nothing, "accepted": report.accepted}
    if isinstance(report, TableReport):
        names = {"id": report.report_id, "tier": report.tier, "instance": report.table, "topic": report.topic}
        return {**head, **names, **_NOTHING_COUNTED, "clock": report.clock_ms, "table": _table_fields(report)}
    head |= {
        "id": report.report_id,
        "tier": report.tier,
        "instance": report.instance,
        "topic": report.topic,
        "cluster": report.cluster,
        "number": report.number,
        "clock": report.clock_ms,
    }
    return head | (_statement_fields(report) if isinstance(report, ProgressReport) else _count_fields(report))


def _statement_fields(progress_report: ProgressReport) -> dict[str, Any]:
    return {
        **_NOTHING_COUNTED,
        "statement": {
            "first": progress_report.first,
            "at": progress_report.at_ms,
            "home": progress_report.home,
            "follows": list(progress_report.follows),
            "through": progress_report.through_ms,
            "is_last": progress_report.is_last,
            "reported": list(map(_span, progress_report.reported)),
            "ends_at": progress_report.ends_at_ms,
            "ends": list(map(_span, progress_report.ends)),
            "copies": progress_report.copies,
        },
    }


def _table_fields(report: TableReport) -> dict[str, Any]:
    return {
        "table": report.table,
        "generation": report.generation,
        "sequence": report.sequence,
        "at": report.at_ms,
        "home": report.home,
        "version": report.version,
        "commits": [
            {"number": commit.number, "attempt": commit.attempt, "parts": commit.parts, "last": commit.last_ms}
            for commit in report.commits
        ],
        "is_whole": report.is_whole,
        "doubts": [
            {"name": doubt.name, "until": doubt.until_ms, "why": doubt.why, "is_removal": doubt.is_removal}
            for doubt in report.doubts
        ],
        "reported": list(map(_span, report.reported)),
        "earlier": list(map(_span, report.earlier)),
        "ends_at": report.ends_at_ms,
        "ends": list(map(_span, report.ends)),
    }


def _part_fields(part: CommitPart | None) -> dict[str, Any] | None:
    if part is None:
        return None
    return {**part.commit._asdict(), "part": part.number, "before": part.before_ms}


def _span(span: Reported | Ends) -> dict[str, Any]:
    where, start, end = span
    return {"broker_id": where.broker_id, "partition": where.partition, "start": start, "end": end}


def _count_fields(report: AuditReport) -> dict[str, Any]:
    where = report.where
    offsets, indexes = report.places or _NO_PLACES
    order = np.lexsort((indexes, offsets))
    return {
        "window_ms": report.window_ms,
        "window_start": report.start_ms,
        "count": report.count,
        "ids": pack(np.sort(report.ids).astype(ID_TYPE, copy=False)),
        "broker_id": None if where is None else where.broker_id,
        "partition": None if where is None else where.partition,
        "start_offset": report.start_offset,
        "end_offset": report.end_offset,
        "offsets": pack(offsets[order].astype(OFFSET_TYPE, copy=False)),
        "indexes": pack(indexes[order].astype(INDEX_TYPE, copy=False)),
        "layout": _PACKED,
        "part": _part_fields(report.part),
    }


def open_decoder(schemas: Schemas) -> EventDecoder:
    """Return a decoder of what `report_from` takes: fields of these types, whatever an event was written with."""
    return EventDecoder(schemas, AUDIT_COUNT)


def report_from(event: Event) -> AnyReport:
    """Return the report in an event that `open_decoder` decodes. Raises InvalidReportError."""
    fields = event.fields
    try:
        if fields.get("accepted") is not None:
            accepted, at_ms = fields["accepted"], fields["window_start"]
            return Acceptance(accepted=accepted, at_ms=at_ms, acceptance_id=fields["id"])
        if fields.get("table") is not None:
            return _table_report_of(fields, fields["table"])
        if fields.get("statement") is not None:
            return _progress_report_of(fields, fields["statement"])
        return _report_of(fields)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidReportError(f"{event.schema.name} {fields.get('id')} is not a report: {error}") from error


def _progress_report_of(fields: dict[str, Any], progress: dict[str, Any]) -> ProgressReport:
    number, first = fields["number"], progress["first"]
    if number is None or not 0 <= first <= number:
        raise ValueError(f"number {number}, first {first}")

    def place(each: dict[str, Any]) -> tuple[TopicPartition, Any, Any]:
        return TopicPartition(fields["topic"], each["broker_id"], each["partition"]), each["start"], each["end"]

    return ProgressReport(
        tier=fields["tier"],
        instance=fields["instance"],
        topic=fields["topic"],
        number=number,
        first=first,
        at_ms=progress["at"],
        home=progress["home"],
        follows=tuple(progress["follows"]),
        through_ms=progress["through"],
        is_last=progress["is_last"],
        cluster=fields["cluster"],
        reported=tuple(Reported(*place(span)) for span in progress["reported"]),
        ends_at_ms=progress["ends_at"],
        ends=tuple(Ends(*place(span)) for span in progress["ends"]),
        copies=progress["copies"],
        clock_ms=fields.get("clock"),
        report_id=fields["id"],
    )


def _table_report_of(fields: dict[str, Any], table: dict[str, Any]) -> TableReport:
    def place(each: dict[str, Any]) -> tuple[TopicPartition, Any, Any]:
        return TopicPartition(fields["topic"], each["broker_id"], each["partition"]), each["start"], each["end"]

    if any(span["end"] is None for span in (*table["reported"], *table["earlier"])):
        raise ValueError("a partition was read to an unknown offset")
    return TableReport(
        tier=fields["tier"],
        topic=fields["topic"],
        table=table["table"],
        generation=table["generation"],
        sequence=table["sequence"],
        at_ms=table["at"],
        home=table["home"],
        version=table["version"],
        commits=tuple(
            ListedCommit(commit["number"], commit["attempt"], commit["parts"], commit["last"])
            for commit in table["commits"]
        ),
        is_whole=table["is_whole"],
        doubts=tuple(
            TableDoubt(doubt["name"], doubt["until"], doubt["why"], doubt["is_removal"]) for doubt in table["doubts"]
        ),
        reported=tuple(Reported(*place(span)) for span in table["reported"]),
        earlier=tuple(Reported(*place(span)) for span in table["earlier"]),
        ends_at_ms=table["ends_at"],
        ends=tuple(Ends(*place(span)) for span in table["ends"]),
        clock_ms=fields.get("clock"),
        report_id=fields["id"],
    )


def _part_of(part: dict[str, Any] | None) -> CommitPart | None:
    if part is None:
        return None
    return CommitPart(CommitKey(part["table"], part["number"], part["attempt"]), part["part"], part["before"])


def _report_of(fields: dict[str, Any]) -> AuditReport:
    count, window_ms, broker_id, partition = (fields[name] for name in ("count", "window_ms", "broker_id", "partition"))
    if count < 1 or window_ms < 1 or (broker_id is None) != (partition is None):
        raise ValueError(f"count {count}, window_ms {window_ms}, broker_id {broker_id}, partition {partition}")
    where = places = None
    ids = _numbers(fields, "ids", ID_TYPE)
    if broker_id is not None:
        where = TopicPartition(fields["topic"], broker_id, partition)
        places = Places(_numbers(fields, "offsets", OFFSET_TYPE), _numbers(fields, "indexes", INDEX_TYPE))
    return AuditReport(
        tier=fields["tier"],
        instance=fields["instance"],
        topic=fields["topic"],
        window_ms=window_ms,
        start_ms=fields["window_start"],
        ids=ids,
        cluster=fields["cluster"],
        where=where,
        start_offset=fields["start_offset"],
        end_offset=fields["end_offset"],
        places=places,
        number=fields.get("number"),
        clock_ms=fields.get("clock"),
        part=_part_of(fields.get("part")),
        report_id=fields["id"],
    )


def _numbers(fields: dict[str, Any], name: str, kind: np.dtype[Any]) -> NDArray[Any]:
    """Return a report's ids, offsets or indexes. Raises ValueError."""
    data, count, layout = fields[name], fields["count"], fields.get("layout", 0)
    if layout == _PACKED:
        if count > MAX_REPORT_MESSAGES:
            raise ValueError(f"count {count}, and at most {MAX_REPORT_MESSAGES} are reported at once")
        return unpack(data, count, kind)
    if layout:
        raise ValueError(f"layout {layout} is not understood")
    if name == "indexes" and not data:
        return np.zeros(count, kind)
    numbers = np.frombuffer(data, kind)
    if len(numbers) != count:
        raise ValueError(f"{len(numbers)} {name}, count {count}")
    return numbers
