"""Messages whose checksums are right, whatever else is wrong with them: or nothing would look behind a checksum."""

from __future__ import annotations

import struct
import zlib

_LENGTH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_MOST = 200


def with_right_checksums(data: bytes) -> bytes:
    """Return a set in which each message, as far as lengths lead from one to the next, has the checksum of its bytes.

    Written by hand: what is tried must not say what it is tried with.
    """
    out = bytearray(data)
    position = 0
    for _ in range(_MOST):
        if position + 9 > len(out):
            break
        (length,) = _LENGTH.unpack_from(out, position)
        end = position + 4 + length
        at = position + 5 + (out[position + 4] == 1)
        if end > len(out) or at + 4 > end:
            break
        _CRC.pack_into(out, at, zlib.crc32(out[at + 4 : end]))
        position = end
    return bytes(out)


def wrapped(payload: bytes, codec: int) -> bytes:
    """Return one message of magic 1 with a payload that is said to be compressed."""
    return struct.pack(">iBBI", len(payload) + 6, 1, codec, zlib.crc32(payload)) + payload
