"""Numbers and timestamps of the records in encoded batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.gateway.records.batch_format import APPEND_TIME_BIT, BATCH_HEADER, LENGTH_END, NO_TIMESTAMP
from kafka2011.gateway.records.records_python import as_int64, read_varint

if TYPE_CHECKING:
    from collections.abc import Iterator

_ATTRIBUTES_SIZE = 1


def batches_of(records: bytes) -> Iterator[bytes]:
    """Yield the batches that lie back to back."""
    position = 0
    while position < len(records):
        _, length, *_ = BATCH_HEADER.unpack_from(records, position)
        end = position + LENGTH_END + length
        yield records[position:end]
        position = end


def base_of(batch: bytes) -> int:
    """Return the number of the first record."""
    base, *_ = BATCH_HEADER.unpack_from(batch)
    return int(base)


def end_of(batch: bytes) -> int:
    """Return the number after the last record."""
    base, _, _, _, _, _, last_delta, *_ = BATCH_HEADER.unpack_from(batch)
    return int(base + last_delta + 1)


def has_timestamps(batch: bytes) -> bool:
    """Say whether a batch has timestamps: those of messages that 0.7's producers sent have none."""
    *_, max_timestamp, _, _, _, _ = BATCH_HEADER.unpack_from(batch)
    return bool(max_timestamp != NO_TIMESTAMP)


def largest_in(batch: bytes) -> tuple[int, int] | None:
    """Return which record of an uncompressed batch has the largest timestamp first, and that; None if none has any."""
    _, _, _, _, _, _, _, _, latest, _, _, _, _ = BATCH_HEADER.unpack_from(batch)
    return None if latest == NO_TIMESTAMP else first_at(batch, latest)


def first_at(batch: bytes, time_ms: int) -> tuple[int, int] | None:
    """Return which record of an uncompressed batch is the first that is not older than a time, and its timestamp.

    None if all are older.
    """
    _, _, _, _, _, attributes, _, base, latest, _, _, _, records = BATCH_HEADER.unpack_from(batch)
    if latest < time_ms or not records:
        return None
    if attributes & APPEND_TIME_BIT:
        return 0, latest
    position = BATCH_HEADER.size
    for index in range(records):
        size, position = read_varint(batch, position)
        delta, _ = read_varint(batch, position + _ATTRIBUTES_SIZE)
        timestamp = as_int64(base + delta)
        if timestamp >= time_ms:
            return index, timestamp
        position += size
    return None
