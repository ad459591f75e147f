"""What stands before a message's payload, and how to read it: the one place that knows these bytes.

    length int32 | magic int8 | crc uint32                      magic 0
    length int32 | magic int8 | attributes int8 | crc uint32    magic 1

The length counts the bytes after itself. Hot loops use the structs and numbers directly; everything else uses
`read_header`.
"""

from __future__ import annotations

import struct
from typing import NamedTuple, TypeAlias

AnyBytes: TypeAlias = bytes | memoryview
"""Bytes, or a view of bytes that are too many to copy."""

LENGTH = struct.Struct(">i")
LENGTH_BYTES = LENGTH.size
LENGTH_AND_MAGIC = struct.Struct(">iB")
HEADER_0 = struct.Struct(">iBI")
HEADER_1 = struct.Struct(">iBBI")
HEADER_1_BY_KIND = struct.Struct(">iHI")
"""Magic and the byte after it are one number: see MessageFormat."""

MAGIC_0_OVERHEAD_BYTES = HEADER_0.size
MAGIC_1_OVERHEAD_BYTES = HEADER_1.size
MIN_LENGTH = MAGIC_0_OVERHEAD_BYTES - LENGTH_BYTES
"""The length of an empty message of magic 0; one of magic 1 has one more byte, its attributes."""

CODEC_MASK = 0x03


class MessageFormat(NamedTuple):
    """How messages that are not compressed begin: their kind, under a mask, and the bytes before the payload."""

    mask: int
    kind: int
    overhead_bytes: int


UNCOMPRESSED_MAGIC_1 = MessageFormat(0xFF00 | CODEC_MASK, 0x0100, MAGIC_1_OVERHEAD_BYTES)


class MessageHeader(NamedTuple):
    """One header: `length` as stored, `codec` 0 for magic 0, and the stored CRC."""

    length: int
    magic: int
    codec: int
    crc: int

    @property
    def overhead_bytes(self) -> int:
        """How many bytes come before the payload."""
        return MAGIC_0_OVERHEAD_BYTES + self.magic

    @property
    def message_bytes(self) -> int:
        """How many bytes the whole message takes."""
        return LENGTH_BYTES + self.length


def header_fault(length: int, magic: int) -> str | None:
    """Say what is wrong with the beginning of a message, whatever follows; None when nothing is."""
    if length < MIN_LENGTH:
        return f"length {length}"
    if magic > 1:
        return f"magic {magic}"
    if length < MIN_LENGTH + magic:
        return f"length {length}"
    return None


def read_header(data: AnyBytes, position: int = 0) -> MessageHeader | str | None:
    """Read the header at a position: return it, or what is wrong with it, or None if the bytes end within it.

    What follows the header need not be there.
    """
    left = len(data) - position
    if left < LENGTH_AND_MAGIC.size:
        if left < LENGTH_BYTES:
            return None
        return header_fault(LENGTH.unpack_from(data, position)[0], 0)
    length, magic = LENGTH_AND_MAGIC.unpack_from(data, position)
    fault = header_fault(length, magic)
    if fault is not None:
        return fault
    if left < MAGIC_0_OVERHEAD_BYTES + magic:
        return None
    if magic == 0:
        return MessageHeader(length, 0, 0, HEADER_0.unpack_from(data, position)[2])
    _, _, attributes, crc = HEADER_1.unpack_from(data, position)
    return MessageHeader(length, 1, attributes & CODEC_MASK, crc)
