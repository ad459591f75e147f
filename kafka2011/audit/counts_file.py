"""The counts of a commit as bytes, which a table keeps until they are published. Pure.

    {"version": 1, "window_ms": 10000, "parts": [[window, broker, partition, start, end, messages, sizes...], ...]}
    ids, offsets and indexes of each part, packed as in a report, all compressed with zlib

The first is a line of JSON.
"""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kafka2011.audit.packing import pack, unpack
from kafka2011.audit.report import ID_TYPE, INDEX_TYPE, MAX_REPORT_MESSAGES, OFFSET_TYPE, AuditReport, Places
from kafka2011.audit.table_report import CommitPart, part_id
from kafka2011.errors import KafkaError
from kafka2011.json_document import read_document
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafka2011.audit.table_report import CommitKey

_VERSION = 1
_KINDS: tuple[np.dtype[Any], ...] = (ID_TYPE, OFFSET_TYPE, INDEX_TYPE)
_MOST_BYTES = 2**27
"""No file of counts is larger when it is unpacked."""


class MalformedCountsError(KafkaError):
    """Bytes are not the counts of a commit; the text says why."""


class CountedPart(NamedTuple):
    """What was counted of one partition in one window: all of it, or a part. `read` is the range that was read."""

    window_ms: int
    start_ms: int
    where: TopicPartition
    read: tuple[int | None, int | None]
    ids: Any
    places: Places


def parts_of_reports(reports: Iterable[AuditReport]) -> list[CountedPart]:
    """Return what the reports of a reader of partitions count, in the order of their windows."""
    parts = []
    for report in reports:
        assert report.where is not None
        assert report.places is not None
        read = (report.start_offset, report.end_offset)
        parts.append(CountedPart(report.window_ms, report.start_ms, report.where, read, report.ids, report.places))
    return sorted(parts, key=lambda part: (part.start_ms, part.where))


def encode(parts: Sequence[CountedPart]) -> bytes:
    """Return parts, one at least and all of one topic, as bytes."""
    packed = [_pack(part) for part in parts]
    header = {
        "version": _VERSION,
        "window_ms": parts[0].window_ms,
        "parts": [
            [part.start_ms, part.where.broker_id, part.where.partition, *part.read, len(part.ids), *map(len, columns)]
            for part, columns in zip(parts, packed, strict=True)
        ],
    }
    body = b"".join(column for columns in packed for column in columns)
    compressor = zlib.compressobj(1, strategy=zlib.Z_RLE)  # packed numbers have runs, and repeat nothing else
    packed_body = compressor.compress(body) + compressor.flush()
    return json.dumps(header, separators=(",", ":")).encode() + b"\n" + packed_body


def _pack(part: CountedPart) -> tuple[bytes, bytes, bytes]:
    offsets, indexes = part.places
    order = np.lexsort((indexes, offsets))
    return (
        pack(np.sort(part.ids).astype(ID_TYPE, copy=False)),
        pack(offsets[order].astype(OFFSET_TYPE, copy=False)),
        pack(indexes[order].astype(INDEX_TYPE, copy=False)),
    )


def decode(data: bytes, topic: str) -> list[CountedPart]:
    """Return the parts in the bytes of a topic's counts. Raises MalformedCountsError."""
    head, _, body = data.partition(b"\n")

    def parts(document: dict[str, Any]) -> list[CountedPart]:
        inflater = zlib.decompressobj()
        columns = inflater.decompress(body, _MOST_BYTES)
        if not inflater.eof:
            raise ValueError("its body was cut short")
        return list(_unpacked(document, columns, topic))

    try:
        return read_document(head, parts, MalformedCountsError, "these are no counts of a commit", version=_VERSION)
    except zlib.error as error:
        raise MalformedCountsError(f"not the counts of a commit: {error}") from error


def _unpacked(document: dict[str, Any], columns: bytes, topic: str) -> Iterator[CountedPart]:
    at, window_ms = 0, int(document["window_ms"])
    for start_ms, broker_id, partition, start, end, messages, *sizes in document["parts"]:
        if not 0 < messages <= MAX_REPORT_MESSAGES or window_ms < 1:
            raise ValueError(f"{messages} messages in a window of {window_ms} ms")
        cut = []
        for size in sizes:
            cut.append(columns[at : at + size])
            at += size
        ids, offsets, indexes = (unpack(column, messages, kind) for column, kind in zip(cut, _KINDS, strict=True))
        where = TopicPartition(topic, int(broker_id), int(partition))
        yield CountedPart(window_ms, int(start_ms), where, (start, end), ids, Places(offsets, indexes))
    if at != len(columns):
        raise ValueError(f"{len(columns)} bytes of columns, and its parts have {at}")


def windows_before(windows: Sequence[Sequence[int]]) -> list[list[tuple[int, int | None]]]:
    """Return the number of each part of each file, and the window of the part before it, given all their windows."""
    order = sorted(
        (start_ms, file, place) for file, starts in enumerate(windows) for place, start_ms in enumerate(starts)
    )
    found: list[list[tuple[int, int | None]]] = [[(0, None)] * len(starts) for starts in windows]
    for number, (_, file, place) in enumerate(order):
        found[file][place] = (number, order[number - 1][0] if number else None)
    return found


def reports_of(
    parts: Sequence[CountedPart],
    numbers: Sequence[tuple[int, int | None]],
    tier: str,
    commit: CommitKey,
) -> list[AuditReport]:
    """Return the reports of a file's parts, which have these numbers in the commit, and windows before them."""
    return [
        AuditReport(
            tier=tier,
            instance=commit.table,
            topic=part.where.topic,
            window_ms=part.window_ms,
            start_ms=part.start_ms,
            ids=part.ids,
            where=part.where,
            start_offset=part.read[0],
            end_offset=part.read[1],
            places=part.places,
            part=CommitPart(commit, number, before_ms),
            report_id=part_id(tier, part.where.topic, commit, number),
        )
        for part, (number, before_ms) in zip(parts, numbers, strict=True)
    ]
