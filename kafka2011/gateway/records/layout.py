"""How a wrapper holds records: one 0.7 message of codec GZIP whose gzip stream has a field of the gateway.

    member:  gzip header with FEXTRA: "KG" | size uint16 | notes      deflate: the inner set of plain values
    member:  the same with more of the notes, where they exceed 64 KiB                deflate: nothing

Every gzip reader skips FEXTRA (RFC 1952, section 2.3.1.1), so readers of 0.7 find the values. The notes begin with

    version int8 = 1 | topic id (16 bytes) | partition int32 | producer id int64 | producer epoch int16 |
    first sequence int32 | record count int32 | mark (8 bytes) | first timestamp int64 | timestamp type int8 |
    bytes of what follows uint32

and go on with a note for each record (`records_python`). The partition is Kafka's number. The timestamp type is that of
Kafka: 0 for the time of creation, 1 for the time of the append, which is then the first timestamp, of all records.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Final, NamedTuple

from kafka2011.gateway.records.errors import CORRUPT_MESSAGE, InvalidRecordsError
from kafka2011.gateway.records.found import Origin
from kafka2011.message import runs
from kafka2011.message.compression import Codec
from kafka2011.message.header import MAGIC_1_OVERHEAD_BYTES
from kafka2011.message.message_set import encode

if TYPE_CHECKING:
    from kafka2011.message.header import AnyBytes

FIELD_ID: Final = b"KG"
VERSION: Final = 1
LEAST_NOTE_BYTES: Final = 4
"""Of a record: each of the four parts has at least a byte."""

_GZIP_HEADER: Final = bytes((0x1F, 0x8B, 8, 4, 0, 0, 0, 0, 0, 0xFF))  # deflate, FEXTRA, no time, unknown system
_EXTRA = struct.Struct("<H2sH")
_TRAILER = struct.Struct("<II")
_NOTES = struct.Struct(">B16siqhii8sqBI")
_BEFORE_NOTES: Final = len(_GZIP_HEADER) + _EXTRA.size
_MOST_NOTES: Final = 0xFFFF - 4
HEAD_BYTES: Final = MAGIC_1_OVERHEAD_BYTES + _BEFORE_NOTES + struct.calcsize(">B16siqhii8s")
"""Of a wrapper's message, up to its mark: its length, its CRC and who sent it. No two wrappers begin with the same."""
_NOTHING: Final = b"\x03\x00"  # in deflate, and its CRC and size
_EMPTY_REST: Final = _NOTHING + bytes(_TRAILER.size)
_STORED_BYTES: Final = 0xFFFF
_STORED = struct.Struct("<BHH")


class KafkaPartition(NamedTuple):
    """A partition: the id of its topic (16 bytes) and Kafka's number for it."""

    topic_id: bytes
    partition: int


class Records(NamedTuple):
    """A wrapper's records, in no compressed form: the inner set, the notes, and what holds for all of them."""

    inner: bytes
    notes: bytes
    first_timestamp: int
    is_append_time: bool


class OwnWrapper(NamedTuple):
    """What the first member of a wrapper says, and where its parts are in the payload."""

    place: KafkaPartition
    origin: Origin
    first_timestamp: int
    is_append_time: bool
    note_bytes: int
    values_start: int
    values_end: int


def largest_content(wrapper_bytes: int) -> int:
    """Return how many bytes an inner set and its notes may have together to fit a wrapper of a size, compressed or not.

    Beside those, there are at most 26 bytes for each 65,531 of the notes, 5 for each 16 KiB of the values, and headers.
    """
    return wrapper_bytes - wrapper_bytes // 2048 - 256


def notes_head(
    place: KafkaPartition, origin: Origin, first_timestamp: int, note_bytes: int, *, is_append_time: bool
) -> bytes:
    """Return what notes begin with."""
    return _NOTES.pack(
        VERSION,
        *place,
        origin.producer_id,
        origin.producer_epoch,
        origin.first_sequence,
        origin.records,
        origin.mark,
        first_timestamp,
        is_append_time,
        note_bytes,
    )


def make_wrapper(records: Records, place: KafkaPartition, origin: Origin, level: int) -> bytes:
    """Return the message that holds records. A `level` of 0 stores the values as they are; others are zlib's."""
    head = notes_head(place, origin, records.first_timestamp, len(records.notes), is_append_time=records.is_append_time)
    notes = head + records.notes
    inner = records.inner
    parts: list[AnyBytes] = []
    if level:
        deflate = zlib.compressobj(level, wbits=-zlib.MAX_WBITS)
        values: list[AnyBytes] = [deflate.compress(inner), deflate.flush()]
    else:
        values = _stored(inner)
    for start in range(0, len(notes), _MOST_NOTES):
        piece = notes[start : start + _MOST_NOTES]
        parts += (_GZIP_HEADER, _EXTRA.pack(len(piece) + 4, FIELD_ID, len(piece)), piece)
        parts += (_EMPTY_REST,) if start else (*values, _TRAILER.pack(runs.chosen.crc32(inner), len(inner)))
    return encode(b"".join(parts), Codec.GZIP)


def _stored(data: bytes) -> list[AnyBytes]:
    """Return the parts of a deflate stream that stores data as it is."""
    view = memoryview(data)
    parts: list[AnyBytes] = []
    for start in range(0, len(data), _STORED_BYTES):
        block = view[start : start + _STORED_BYTES]
        is_last = start + len(block) == len(data)
        parts += (_STORED.pack(is_last, len(block), len(block) ^ 0xFFFF), block)
    return parts


def find_wrapper(payload: AnyBytes) -> OwnWrapper | None:
    """Return what stands in the payload of a wrapper that a gateway made; None for any other payload."""
    if len(payload) < _BEFORE_NOTES + _NOTES.size or payload[: len(_GZIP_HEADER)] != _GZIP_HEADER:
        return None
    extra_bytes, field_id, notes_here = _EXTRA.unpack_from(payload, len(_GZIP_HEADER))
    (
        version, topic_id, partition, producer_id, producer_epoch, first_sequence,
        records, mark, first_timestamp, timestamp_type, note_bytes,
    ) = _NOTES.unpack_from(payload, _BEFORE_NOTES)  # fmt: skip
    if field_id != FIELD_ID or version != VERSION:
        return None
    first, later_bytes = _pieces(note_bytes)
    values_start = _BEFORE_NOTES + first
    values_end = len(payload) - later_bytes - _TRAILER.size
    if notes_here != first or extra_bytes != first + 4 or values_end <= values_start:
        return None
    if not 1 <= records <= note_bytes // LEAST_NOTE_BYTES or timestamp_type > 1:
        return None
    origin = Origin(producer_id, producer_epoch, first_sequence, records, mark)
    return OwnWrapper(
        KafkaPartition(topic_id, partition),
        origin,
        first_timestamp,
        timestamp_type == 1,
        note_bytes,
        values_start,
        values_end,
    )


def open_wrapper(payload: AnyBytes, found: OwnWrapper, max_opened_bytes: int) -> Records:
    """Return the records of a wrapper. Raises InvalidRecordsError if it does not open as it says."""
    values = payload[found.values_start : found.values_end]
    _, inner_bytes = _TRAILER.unpack_from(payload, found.values_end)
    if inner_bytes > max_opened_bytes:
        raise InvalidRecordsError(CORRUPT_MESSAGE, f"a wrapper claims to open to {inner_bytes} bytes")
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        inner = inflate.decompress(values, inner_bytes + 1)  # one more, to come to the end of the stream
    except zlib.error as error:
        raise InvalidRecordsError(CORRUPT_MESSAGE, f"a wrapper does not open: {error}") from error
    if len(inner) != inner_bytes or not inflate.eof or inflate.unused_data:
        raise InvalidRecordsError(CORRUPT_MESSAGE, "a wrapper opens to other than it says")
    return Records(inner, notes_of(payload, found), found.first_timestamp, found.is_append_time)


def notes_of(payload: AnyBytes, found: OwnWrapper) -> bytes:
    """Return the records' notes from all members. Raises InvalidRecordsError if a wrapper has others."""
    parts = [payload[_BEFORE_NOTES + _NOTES.size : found.values_start]]
    left = found.note_bytes - len(parts[0])
    position = found.values_end + _TRAILER.size
    while left:
        size = min(left, _MOST_NOTES)
        start, end = position + _BEFORE_NOTES, position + _BEFORE_NOTES + size
        before = _GZIP_HEADER + _EXTRA.pack(size + 4, FIELD_ID, size)
        position = end + len(_EMPTY_REST)
        if payload[start - len(before) : start] != before or payload[end:position] != _EMPTY_REST:
            raise InvalidRecordsError(CORRUPT_MESSAGE, "a wrapper has other members than it says")
        parts.append(payload[start:end])
        left -= size
    return b"".join(parts)


def _pieces(note_bytes: int) -> tuple[int, int]:
    """Return how many bytes of notes the first member has, and how many bytes the later members take."""
    total = _NOTES.size + note_bytes
    first = min(total, _MOST_NOTES)
    later = total - first
    return first, later + -(-later // _MOST_NOTES) * (_BEFORE_NOTES + len(_EMPTY_REST))
