"""Checks whether a log is still the one that was read before, by the bytes before the offset where reading goes on.

Offsets of a topic that was deleted and created again count from 0 again. Once its log has grown past the offset where
a reader stopped, only its bytes show that it is another log. So loads and streams keep a checksum of the last bytes
before each offset, and compare it before they read on.

Bytes that retention has removed cannot be compared: such a log is taken for the same one.
"""

from __future__ import annotations

import logging
import zlib
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.errors import BrokerConnectionError, OffsetOutOfRangeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafka2011.spark.lookup import OffsetLookup
    from kafka2011.spark.offset_ranges import OffsetRange
    from zk.cluster import TopicPartition

logger = logging.getLogger(__name__)

CHECKED_BYTES = 1024
"""Length of what is compared, in bytes: an event has less, and an id of its own."""

_UNKNOWN = -1


class LogCheck(NamedTuple):
    """The CRC-32 of a log's bytes between two offsets; at the second one, reading goes on."""

    start: int
    end: int
    crc32: int


class Compared(NamedTuple):
    """The result of a comparison: checks for the next read, partitions with another log, and those not answered for."""

    checks: dict[TopicPartition, LogCheck]
    others: frozenset[TopicPartition]
    unanswered: frozenset[TopicPartition] = frozenset()


def checks_to_json(checks: Mapping[TopicPartition, LogCheck]) -> dict[str, list[int]]:
    """Return checks of one topic as a commit stores them, by the names of partitions."""
    return {where.znode_name: list(check) for where, check in sorted(checks.items())}


def nest_checks(checks: Mapping[TopicPartition, LogCheck]) -> dict[str, dict[str, list[int]]]:
    """Return checks as offsets of a stream have them: `{"topic": {"0-1": [number of bytes, CRC-32]}}`, sorted."""
    nested: dict[str, dict[str, list[int]]] = {}
    for partition, check in sorted(checks.items()):
        nested.setdefault(partition.topic, {})[partition.znode_name] = [check.end - check.start, check.crc32]
    return nested


def flatten_checks(
    nested: Mapping[str, Mapping[str, Sequence[int]]], offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, LogCheck]:
    """Return the checks that stand beside the offsets of a stream. The reverse of `nest_checks`."""
    checks: dict[TopicPartition, LogCheck] = {}
    for partition, offset in offsets.items():
        stored = nested.get(partition.topic, {}).get(partition.znode_name)
        if stored is not None:
            size_bytes, crc32 = stored
            checks[partition] = LogCheck(offset - size_bytes, offset, crc32)
    return checks


def compare(lookup: OffsetLookup, ranges: Iterable[OffsetRange], checks: Mapping[TopicPartition, LogCheck]) -> Compared:
    """Compare the logs that have something to read with the checks of the last load, and make new ones.

    A partition that is not read keeps its check. Waits for brokers that are down. Raises KafkaError.
    """
    kept = dict(checks)
    wanted: list[tuple[TopicPartition, LogCheck]] = []
    for offset_range in ranges:
        where = offset_range.topic_partition
        check = checks.get(where)
        if offset_range.size_bytes:
            kept.pop(where, None)
            wanted.append((where, _unknown_before(offset_range.end, offset_range.start)))
            if check is not None and check.end == offset_range.start:
                wanted.append((where, check))
    found = _fetch(lookup, wanted, is_patient=True)
    return found._replace(checks={**kept, **found.checks})


def compare_now(lookup: OffsetLookup, checks: Iterable[tuple[TopicPartition, LogCheck]]) -> Compared:
    """Compare logs with checks, without waiting for brokers that are down: their partitions are `unanswered`."""
    return _fetch(lookup, list(checks), is_patient=False)


def check_now(lookup: OffsetLookup, offsets: Mapping[TopicPartition, int]) -> Compared:
    """Make checks of the bytes before some offsets, without waiting for brokers that are down.

    There is none for an offset before which the log has no bytes.
    """
    wanted = [(where, _unknown_before(offset)) for where, offset in offsets.items() if offset]
    return _fetch(lookup, wanted, is_patient=False)


def _unknown_before(end: int, first: int = 0) -> LogCheck:
    return LogCheck(max(first, end - CHECKED_BYTES), end, _UNKNOWN)


def _fetch(lookup: OffsetLookup, wanted: list[tuple[TopicPartition, LogCheck]], *, is_patient: bool) -> Compared:
    """Fetch the bytes of all checks with one request to each broker, compare those with a checksum, make the others."""
    made: dict[TopicPartition, LogCheck] = {}
    others: set[TopicPartition] = set()
    unanswered: set[TopicPartition] = set()
    pieces = lookup.fetch_together(
        ((where, check.start, check.end - check.start) for where, check in wanted), is_patient=is_patient
    )
    for (where, check), piece in zip(wanted, pieces, strict=True):
        if isinstance(piece, BrokerConnectionError):
            unanswered.add(where)
            continue
        data = _whole(lookup, where, check, piece)
        if data is None:
            logger.debug("%s: offsets %d to %d are gone and cannot be compared", where, check.start, check.end)
        elif check.crc32 == _UNKNOWN:
            made[where] = check._replace(crc32=zlib.crc32(data))
        elif zlib.crc32(data) != check.crc32:
            others.add(where)
    return Compared(made, frozenset(others), frozenset(unanswered))


def _whole(lookup: OffsetLookup, where: TopicPartition, check: LogCheck, data: bytes | None) -> bytes | None:
    """Return all bytes of a check, whose first ones have been fetched; None if the log has them no more.

    A fetch returns bytes of one segment.
    """
    while data is not None and len(data) < check.end - check.start:
        try:
            more = lookup.fetch(where, check.start + len(data), check.end - check.start - len(data))
        except OffsetOutOfRangeError:
            return None
        data = data + more if more else None
    return data
