"""Finds records of a partition by their timestamps, which need not ascend. Messages of 0.7 have none."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import gevent

from kafka2011.errors import KafkaError
from kafka2011.gateway.numbering.time_stretches import UNKNOWN, newest_of
from kafka2011.gateway.partition_log import FETCH_BYTES
from kafka2011.gateway.records.batch_format import NO_TIMESTAMP
from kafka2011.gateway.records.times import first_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka2011.gateway.partition_log import PartitionLog


class UnfinishedSearchError(KafkaError):
    """Means that the log was changed meanwhile, or that more than the usual must be read; then the next search goes on.

    That is so once after an older gateway has written the index.
    """


class Dated(NamedTuple):
    """The number of a message, and its timestamp; NO_TIMESTAMP for a message of 0.7."""

    number: int
    timestamp: int


def number_at_time(log: PartitionLog, time_ms: int, ends_s: float) -> Dated | None:
    """Return the first record that is not older than a time; None without one. Raises what reading raises.

    Messages of 0.7 have the time of their segment, as in 0.7: the first one in a segment that was written after the
    time is returned if it comes before that record, unless the record has just this time.
    """
    record = _first_record(log, time_ms, ends_s)
    times = log.index().times
    if (record is not None and record.timestamp == time_ms) or times.undated() is None:
        return record
    position = log.written_after(time_ms)
    while position is not None and (stretch := times.undated(position)) is not None:
        for number, newest, _ in _pieces(log, *stretch, ends_s):
            if record is not None and number >= record.number:
                return record
            if newest == NO_TIMESTAMP:
                return Dated(number, NO_TIMESTAMP)
        position = stretch[1]
    return record


def largest_time(log: PartitionLog, ends_s: float) -> Dated | None:
    """Return the first record with the largest timestamp; None if none has one. Raises what reading raises."""
    found = _first_record(log, UNKNOWN, ends_s)  # which reads what is unknown
    newest = log.index().times.newest
    return found if found is not None or newest < 0 else _first_record(log, newest, ends_s)


def _first_record(log: PartitionLog, time_ms: int, ends_s: float) -> Dated | None:
    times, position = log.index().times, 0
    while (stretch := times.reaching(time_ms, position)) is not None:
        for number, newest, data in _pieces(log, *stretch, ends_s):
            found = first_in(data, time_ms) if newest >= time_ms else None
            if found is not None:
                return Dated(number + found[0], found[1])
        position = stretch[1]
    return None


def _pieces(log: PartitionLog, start: int, end: int, ends_s: float) -> Iterator[tuple[int, int, memoryview]]:
    """Yield the numbers of a range's pieces, with their largest timestamps, which the index then knows, and bytes."""
    index = log.index()
    times, place = index.times, index.place_at(start)
    first_number, is_unknown = place.number, times.reaching(UNKNOWN, start) == (start, end)
    while place.position < end:
        chunk = log.chunk_of(place.number, FETCH_BYTES)
        if chunk is None or log.index().times is not times:
            raise UnfinishedSearchError(f"{log.where} was changed while it was searched")
        for each in chunk.pieces:
            piece = each.piece
            if start < piece.end and piece.start < end:
                newest = newest_of(each, chunk.data, chunk.position, index.newest_in)
                times.note(min(piece.end, end), newest)
                data = memoryview(chunk.data)[piece.start - chunk.position : piece.end - chunk.position]
                yield max(each.first_number, first_number), newest, data
        place = place._replace(position=chunk.end, number=chunk.end_number)
        gevent.sleep(0)
        if is_unknown and place.position < end and time.monotonic() > ends_s:
            raise UnfinishedSearchError(f"{log.where} is not searched up to {end} yet")
