"""Record batches as today's clients send and read them, written by hand: tests must not ask what they test."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, NamedTuple

import cramjam

from kafka2011.message.compression import SNAPPY_HEADER

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER = struct.Struct(">qiibIhiqqqhii")
APPEND_TIME = 8
_POLYNOMIAL = 0x82F63B78


class Record(NamedTuple):
    """One record as a client sees it."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    timestamp: int = -1


class ReadBatch(NamedTuple):
    """One batch as a client reads it."""

    base_offset: int
    last_delta: int
    attributes: int
    max_timestamp: int
    producer: tuple[int, int, int]
    records: list[Record]


def _step(crc: int) -> int:
    for _ in range(8):
        crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
    return crc


_TABLE = [_step(byte) for byte in range(256)]


def crc32c(data: bytes) -> int:
    """Return the CRC-32C, byte by byte."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def varint(number: int) -> bytes:
    """Return a number as records have it."""
    number = (number << 1 ^ number >> 63) & 2**64 - 1
    out = []
    while number >= 128:
        out.append(number % 128 + 128)
        number //= 128
    return bytes([*out, number])


def as_int64(number: int) -> int:
    """Return what is left of a sum or difference in 64 bits: clients keep timestamp deltas so."""
    return (number + 2**63) % 2**64 - 2**63


def sized(data: bytes | None) -> bytes:
    """Return a key or value with its size."""
    return varint(-1) if data is None else varint(len(data)) + data


def body_of(records: list[Record], base: int) -> bytes:
    """Return records without a batch."""
    parts = []
    for index, record in enumerate(records):
        body = b"\0" + varint(as_int64(record.timestamp - base)) + varint(index)
        body += sized(record.key) + sized(record.value)
        body += varint(len(record.headers)) + b"".join(sized(name) + sized(value) for name, value in record.headers)
        parts += [varint(len(body)), body]
    return b"".join(parts)


def compressed(codec: int | str, body: bytes) -> bytes:
    """Return a body in one of Kafka's codecs; "raw snappy" is the block alone, as librdkafka sends it."""
    if codec == 1:
        packer = zlib.compressobj(wbits=31)
        return packer.compress(body) + packer.flush()
    if codec == 2:
        blocks = [bytes(cramjam.snappy.compress_raw(body[at : at + 32768])) for at in range(0, len(body), 32768)]
        return SNAPPY_HEADER + b"".join(struct.pack(">i", len(block)) + block for block in blocks)
    if codec == "raw snappy":
        return bytes(cramjam.snappy.compress_raw(body))
    if codec == 3:
        return bytes(cramjam.lz4.compress(body))
    if codec == 4:
        return bytes(cramjam.zstd.compress(body))
    return body


def batch_of(
    records: list[Record],
    codec: int | str = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    attributes: int = 0,
    max_timestamp: int | None = None,
) -> bytes:
    """Return the batch that a client sends."""
    base = records[0].timestamp
    number = 2 if isinstance(codec, str) else codec
    latest = max(record.timestamp for record in records) if max_timestamp is None else max_timestamp
    return sealed(
        attributes | number,
        len(records) - 1,
        base,
        latest,
        producer,
        len(records),
        compressed(codec, body_of(records, base)),
    )


def sealed(
    attributes: int, last_delta: int, base: int, latest: int, producer: tuple[int, int, int], count: int, body: bytes
) -> bytes:
    """Return a batch of any content whose length and CRC are right."""
    rest = struct.pack(">hiqqqhii", attributes, last_delta, base, latest, *producer, count) + body
    return struct.pack(">qiibI", 0, len(rest) + 9, -1, 2, crc32c(rest)) + rest


def batches_in(records: bytes) -> Iterator[bytes]:
    """Yield the batches that lie back to back."""
    while records:
        size = 12 + int.from_bytes(records[8:12], "big")
        yield records[:size]
        records = records[size:]


def read_batch(data: bytes) -> ReadBatch:
    """Return an uncompressed batch, and check everything that a client could."""
    base_offset, length, _, magic, crc, attributes, last_delta, base, latest, *producer, count = HEADER.unpack_from(
        data
    )
    assert (magic, length, attributes & 7) == (2, len(data) - 12, 0)
    assert crc == crc32c(data[21:])
    at = HEADER.size
    records = []
    for index in range(count):
        size, at = read_varint(data, at)
        end = at + size
        assert data[at] == 0
        delta, at = read_varint(data, at + 1)
        number, at = read_varint(data, at)
        assert number == index
        key, at = read_sized(data, at)
        value, at = read_sized(data, at)
        headers = []
        header_count, at = read_varint(data, at)
        for _ in range(header_count):
            name, at = read_sized(data, at)
            content, at = read_sized(data, at)
            assert name is not None
            headers.append((name, content))
        assert at == end
        timestamp = latest if attributes & APPEND_TIME else as_int64(base + delta)
        records.append(Record(value, key, tuple(headers), timestamp))
    assert at == len(data)
    return ReadBatch(base_offset, last_delta, attributes, latest, (producer[0], producer[1], producer[2]), records)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number, and where it ends."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number += (byte % 128) << shift
        shift += 7
        if byte < 128:
            return (-(number + 1) // 2 if number % 2 else number // 2), at


def read_sized(data: bytes, at: int) -> tuple[bytes | None, int]:
    """Return a key or value, and where it ends."""
    size, at = read_varint(data, at)
    return (None, at) if size < 0 else (data[at : at + size], at + size)
