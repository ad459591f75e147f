"""The bytes of a record batch (magic 2), as Kafka's protocol has them.

    base offset int64 | length int32 | leader epoch int32 | magic int8 = 2 | CRC-32C uint32 | attributes int16 |
    last offset delta int32 | base timestamp int64 | max timestamp int64 | producer id int64 | producer epoch int16 |
    base sequence int32 | record count int32 | records

The length counts the bytes after itself, and the CRC covers those from the attributes on. A record is

    length varint | attributes int8 | timestamp delta varlong | offset delta varint | key | value |
    header count varint | for each header: key, value

where a key or value is its size as a varint, -1 for null, and its bytes. Varints are in zigzag form.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import crc32c as crc32c_package

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.message.header import AnyBytes

BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")
LENGTH_END: Final = 12
"""Where the length ends, which counts what follows."""
MAGIC_AT: Final = 16
CHECKED_FROM: Final = 21
MAGIC: Final = 2
CODEC_BITS: Final = 0x07
APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20

NO_TIMESTAMP: Final = -1
NO_PRODUCER: Final = (-1, -1, -1)
"""Id, epoch and sequence of a producer without idempotence."""

crc32c: Callable[[AnyBytes], int] = crc32c_package.crc32c


def batch_header(
    first_number: int, last_delta: int, producer: tuple[int, int, int], timestamp: int, *, is_append_time: bool = False
) -> bytes:
    """Return the header of a batch without records; what makes it whole fills in length, CRC, counts and max timestamp.

    `timestamp` is the base timestamp, and the max timestamp of a batch that has no other.
    """
    attributes = APPEND_TIME_BIT if is_append_time else 0
    return BATCH_HEADER.pack(first_number, 0, 0, MAGIC, 0, attributes, last_delta, timestamp, timestamp, *producer, 0)
