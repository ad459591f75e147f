"""Records one by one, in Python: what `code` falls back on, and what its C code is compared with.

Three forms of the same records: those of a batch (see `batch_format`), the inner set of a wrapper with the values, and
the notes beside it with everything else. A record's note is

    timestamp delta varlong | null flag int8 | key | header count varint | for each header: key, value

with the bytes that the batch has.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.gateway.records.batch_format import BATCH_HEADER, CHECKED_FROM, LENGTH_END, crc32c
from kafka2011.gateway.records.errors import CORRUPT_MESSAGE, INVALID_RECORD, InvalidRecordsError
from kafka2011.message.crc import crc32
from kafka2011.message.header import HEADER_1, LENGTH_AND_MAGIC, MAGIC_0_OVERHEAD_BYTES, MAGIC_1_OVERHEAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka2011.message.header import AnyBytes

_MAX_INT32 = 2**31 - 1
_INT32 = struct.Struct(">i")
_COUNTS_AND_TIMES = struct.Struct(">iqq")
_LENGTH_AT = LENGTH_END - 4
_LAST_DELTA_AT = 23
_MAX_TIMESTAMP_AT = 35
_COUNT_AT = BATCH_HEADER.size - 4


class _Record(NamedTuple):
    """Where the parts of a record are in a batch; `value_start` is -1 for null."""

    delta_start: int
    delta_end: int
    key_start: int
    key_end: int
    value_start: int
    value_end: int
    end: int
    offset_delta: int


def check(body: AnyBytes, records: int) -> bool:
    """Return True if bytes are a number of good records with ascending offsets. Raises InvalidRecordsError."""
    body = memoryview(body)  # whose slices are no copies
    position = 0
    for index in range(records):
        record = _read_record(body, position)
        if record.offset_delta != index:
            raise InvalidRecordsError(INVALID_RECORD, f"record {index} has the offset delta {record.offset_delta}")
        position = record.end
    if position != len(body):
        raise InvalidRecordsError(
            INVALID_RECORD, f"{len(body) - position} bytes are left behind the last of {records} records"
        )
    return True


def take(body: AnyBytes, position: int, most_records: int, most_bytes: int) -> tuple[bytes, bytes, int, int]:
    """Return the inner set and the notes of records from a position on, where those end, and how many they are.

    Together they have at most `most_bytes`, except of a single record.
    """
    body = memoryview(body)
    messages: list[bytes | memoryview] = []
    notes: list[bytes | memoryview] = []
    size = records = 0
    while records < most_records:
        record = _read_record(body, position)
        is_null = record.value_start < 0
        value = b"" if is_null else body[record.value_start : record.value_end]
        note = (
            body[record.delta_start : record.delta_end],
            b"\1" if is_null else b"\0",
            body[record.key_start : record.key_end],
            body[record.value_end : record.end],
        )
        more_bytes = MAGIC_1_OVERHEAD_BYTES + len(value) + sum(map(len, note))
        if records and size + more_bytes > most_bytes:
            break
        messages += (HEADER_1.pack(len(value) + MAGIC_1_OVERHEAD_BYTES - 4, 1, 0, crc32(value)), value)
        notes += note
        size += more_bytes
        records += 1
        position = record.end
    return b"".join(messages), b"".join(notes), position, records


def plain_batch(header: bytes, data: AnyBytes, start: int, end: int, skip: int, most_bytes: int) -> tuple[bytes, int]:
    """Return the batch for a run of good messages without the first `skip`, and how many it holds.

    It has at most `most_bytes`, but at least one message if there is one.
    """
    parts: list[bytes | memoryview] = []
    size = len(header)
    records = 0
    for value in _values(data, start, end):
        if skip:
            skip -= 1
            continue
        record = _with_length((b"\0\0", _varint(records), b"\1", _varint(len(value)), value, b"\0"))
        size += sum(map(len, record))
        if records and size > most_bytes:
            break
        parts += record
        records += 1
    return _sealed(header, parts, records), records


def wrapped_batch(header: bytes, inner: bytes, notes: AnyBytes, records: int, *, is_append_time: bool) -> bytes:
    """Return the batch of a wrapper's records. Raises InvalidRecordsError if it has not `records` of them."""
    base = _base_timestamp(header)
    max_timestamp: int | None = None
    parts: list[bytes | memoryview] = []
    position = found = 0
    try:
        for index, value in enumerate(_values(inner, 0, len(inner))):
            delta, delta_end = read_varint(notes, position)
            timestamp = as_int64(base + delta)
            max_timestamp = timestamp if max_timestamp is None else max(max_timestamp, timestamp)
            key_end = _behind(notes, delta_end + 1)
            end = _behind_headers(notes, key_end)
            is_null = notes[delta_end] == 1
            if is_null:
                value = b""  # noqa: PLW2901 (as it is, unless somebody forged the wrapper)
            parts += _with_length(
                (
                    b"\0",
                    notes[position:delta_end],
                    _varint(index),
                    notes[delta_end + 1 : key_end],
                    b"\1" if is_null else _varint(len(value)),
                    value,
                    notes[key_end:end],
                )
            )
            position = end
            found += 1
    except InvalidRecordsError as error:
        raise InvalidRecordsError(CORRUPT_MESSAGE, f"the notes of a wrapper are damaged: {error}") from error
    if found != records or position != len(notes):
        raise InvalidRecordsError(CORRUPT_MESSAGE, f"a wrapper of {records} records holds {found} values")
    return _sealed(header, parts, records, base if is_append_time else max_timestamp)


def timestamps(notes: AnyBytes, records: int, first_timestamp: int) -> Iterator[int]:
    """Yield the timestamps of a wrapper's records. Raises InvalidRecordsError if its notes are damaged."""
    position = 0
    for _ in range(records):
        delta, delta_end = read_varint(notes, position)
        yield as_int64(first_timestamp + delta)
        position = _behind_headers(notes, _behind(notes, delta_end + 1))
    if position != len(notes):
        raise InvalidRecordsError(CORRUPT_MESSAGE, f"a wrapper of {records} records has notes of others")


def _sealed(header: bytes, parts: list[bytes | memoryview], records: int, max_timestamp: int | None = None) -> bytes:
    """Return a whole batch: its header with everything that depends on the records, and these."""
    batch = bytearray(header)
    if records:
        _INT32.pack_into(batch, _LAST_DELTA_AT, records - 1)
    if max_timestamp is not None:
        struct.pack_into(">q", batch, _MAX_TIMESTAMP_AT, max_timestamp)
    _INT32.pack_into(batch, _COUNT_AT, records)
    for part in parts:
        batch += part
    _INT32.pack_into(batch, _LENGTH_AT, len(batch) - LENGTH_END)
    struct.pack_into(">I", batch, CHECKED_FROM - 4, crc32c(memoryview(batch)[CHECKED_FROM:]))
    return bytes(batch)


def empty_batch(header: bytes) -> bytes:
    """Return the batch that has a header and no records."""
    return _sealed(header, [], 0)


def _base_timestamp(header: bytes) -> int:
    _, base, _ = _COUNTS_AND_TIMES.unpack_from(header, _LAST_DELTA_AT)
    return int(base)


def _values(data: AnyBytes, start: int, end: int) -> Iterator[AnyBytes]:
    """Yield the payloads of a run, whose CRCs were checked before. Raises InvalidRecordsError if it is none."""
    while start < end:
        if end - start < MAGIC_0_OVERHEAD_BYTES:
            raise InvalidRecordsError(CORRUPT_MESSAGE, "a set ends within a message")
        length, magic = LENGTH_AND_MAGIC.unpack_from(data, start)
        value_start, stop = start + MAGIC_0_OVERHEAD_BYTES + magic, start + 4 + length
        if magic > 1 or value_start > stop or stop > end or (magic == 1 and data[start + 5] & 3):
            raise InvalidRecordsError(CORRUPT_MESSAGE, "a set has other than plain messages")
        yield data[value_start:stop]
        start = stop


def _read_record(body: memoryview, position: int) -> _Record:
    length, start = read_varint(body, position, _MAX_INT32)
    end = start + length
    if length < 0 or end > len(body):
        raise InvalidRecordsError(INVALID_RECORD, f"a record of {length} bytes does not fit its batch")
    body = body[:end]
    delta_start = start + 1  # behind the attributes, which have no meaning yet
    _, delta_end = read_varint(body, delta_start)
    offset_delta, key_start = read_varint(body, delta_end, _MAX_INT32)
    key_end = _behind(body, key_start)
    value_bytes, value_start = read_varint(body, key_end, _MAX_INT32)
    value_end = _behind(body, key_end)
    if _behind_headers(body, value_end) != end:
        raise InvalidRecordsError(INVALID_RECORD, f"a record of {length} bytes does not end with its headers")
    is_null = value_bytes < 0
    return _Record(
        delta_start, delta_end, key_start, key_end, -1 if is_null else value_start, value_end, end, offset_delta
    )


def _behind(data: AnyBytes, position: int, least: int = -1) -> int:
    """Return where a key or value ends that may be null, or not if `least` is 0."""
    size, start = read_varint(data, position, _MAX_INT32)
    if size < least or max(size, 0) > len(data) - start:
        raise InvalidRecordsError(INVALID_RECORD, f"a key, value or header of {size} bytes does not fit its record")
    return start + max(size, 0)


def _behind_headers(data: AnyBytes, position: int) -> int:
    headers, position = read_varint(data, position, _MAX_INT32)
    if not 0 <= headers <= len(data) - position:
        raise InvalidRecordsError(INVALID_RECORD, f"a record has {headers} headers")
    for _ in range(headers):
        position = _behind(data, _behind(data, position, 0))
    return position


def read_varint(data: AnyBytes, position: int, most: int = 2**63 - 1) -> tuple[int, int]:
    """Return a varint in zigzag form, and where it ends. Raises InvalidRecordsError."""
    value = shift = 0
    while position < len(data) and shift <= 63:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= 2**64 - 1
            value = (value >> 1) ^ -(value & 1)
            if not -most - 1 <= value <= most:
                break
            return value, position
        shift += 7
    raise InvalidRecordsError(INVALID_RECORD, "a record ends within a number, or a number is too large")


def _varint(value: int) -> bytes:
    """Return a number from 0 on as a varint in zigzag form."""
    value <<= 1
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _with_length(parts: tuple[bytes | memoryview, ...]) -> tuple[bytes | memoryview, ...]:
    return (_varint(sum(map(len, parts))), *parts)


def as_int64(value: int) -> int:
    """Return what int64 arithmetic makes of a sum. Clients add a timestamp delta to the base like this."""
    return (value + 2**63) % 2**64 - 2**63
