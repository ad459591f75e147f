"""Tells whether a log goes on where the last load ended, or another one is in its place.

A topic that was deleted and made again has offsets that count from 0 anew. Once its log has grown past the offset that
a table has, only its bytes show that it is another one. So each commit keeps a checksum of the last bytes before the
offset of every partition, and the next load that has something to read there compares them first. One request to each
broker fetches what is compared, and what the commit of this load will keep.

Bytes that retention has removed meanwhile cannot be compared: nothing is wrong with such a log. If it is another one
all the same, nobody can tell.
"""

from __future__ import annotations

import logging
import zlib
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.errors import OffsetOutOfRangeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafka2011.spark.lookup import OffsetLookup
    from kafka2011.spark.offset_ranges import OffsetRange
    from zk.cluster import TopicPartition

logger = logging.getLogger(__name__)

CHECKED_BYTES = 1024
"""Enough for an event, which has an id of its own."""


class LogCheck(NamedTuple):
    """The CRC-32 of a log's bytes between two offsets; the latter is where a load ended."""

    start: int
    end: int
    crc32: int


class Compared(NamedTuple):
    """What a look at some logs has found: checks for the next load, and which partitions have another log now."""

    checks: dict[TopicPartition, LogCheck]
    others: frozenset[TopicPartition]


def checks_to_json(checks: Mapping[TopicPartition, LogCheck]) -> dict[str, list[int]]:
    """Return what a commit keeps."""
    return {where.znode_name: list(check) for where, check in sorted(checks.items())}


def compare(lookup: OffsetLookup, ranges: Iterable[OffsetRange], checks: Mapping[TopicPartition, LogCheck]) -> Compared:
    """Compare the logs that have something to read with the checks of the last load, and make new ones.

    A partition that is not read keeps its check. Raises KafkaError.
    """
    kept = dict(checks)
    others: set[TopicPartition] = set()
    wanted: list[tuple[TopicPartition, LogCheck]] = []
    for offset_range in ranges:
        where = offset_range.topic_partition
        check = checks.get(where)
        if offset_range.size_bytes:
            kept.pop(where, None)
            wanted.append(
                (where, LogCheck(max(offset_range.start, offset_range.end - CHECKED_BYTES), offset_range.end, -1))
            )
            if check is not None and check.end == offset_range.start:
                wanted.append((where, check))
    pieces = lookup.fetch_together((where, check.start, check.end - check.start) for where, check in wanted)
    for (where, check), piece in zip(wanted, pieces, strict=True):
        data = _whole(lookup, where, check, piece)
        if data is None:
            logger.debug("%s: offsets %d to %d are gone and cannot be compared", where, check.start, check.end)
        elif check.crc32 < 0:
            kept[where] = check._replace(crc32=zlib.crc32(data))
        elif zlib.crc32(data) != check.crc32:
            others.add(where)
    return Compared(kept, frozenset(others))


def _whole(lookup: OffsetLookup, where: TopicPartition, check: LogCheck, data: bytes | None) -> bytes | None:
    """Return all bytes of a check, whose first ones have been fetched; None where they are gone.

    A fetch returns bytes of one segment.
    """
    while data is not None and len(data) < check.end - check.start:
        try:
            more = lookup.fetch(where, check.start + len(data), check.end - check.start - len(data))
        except OffsetOutOfRangeError:
            return None
        data = data + more if more else None
    return data
