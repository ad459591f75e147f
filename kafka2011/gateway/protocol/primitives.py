"""What compiled readers and writers call: numbers of variable length, optional fields, strings and records."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from kafka2011.gateway.protocol.errors import MalformedRequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka2011.message.header import AnyBytes

    Part = bytes | bytearray | memoryview
    """Some bytes of a response; all parts follow each other."""

LONGEST_STRING = 0x7FFF
MOST_TAGS = 32
"""Optional fields of one struct; Kafka has five at most. Skipping millions would keep all other clients waiting."""
JOINED_BYTES = 4096
"""Records up to this size are copied to the bytes around them: a part of its own costs more than the copy."""

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_MOST_VARINT_BYTES = 5


# Reading -------------------------------------------------------------------------------------------------------------


def read_varint(data: AnyBytes, at: int) -> tuple[int, int]:
    """Return an unsigned number of up to 32 bits, and where it ends. Raises MalformedRequestError, IndexError."""
    value = 0
    for index in range(_MOST_VARINT_BYTES):
        byte = data[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value & 0xFFFFFFFF, at + index + 1
    raise MalformedRequestError(f"the number at {at} is longer than {_MOST_VARINT_BYTES} bytes")


def skip_tags(data: AnyBytes, at: int, size: int) -> int:
    """Return where the optional fields of a struct end. Raises MalformedRequestError, IndexError."""
    count, at = read_varint(data, at)
    if count > MOST_TAGS:
        raise too_many("optional fields", count, at)
    for _ in range(count):
        _, at = read_varint(data, at)
        length, at = read_varint(data, at)
        at += length
        if at > size:
            raise too_short("an optional field", at)
    return at


def too_short(name: str, at: int) -> MalformedRequestError:
    """Make the error of a field that claims more bytes than a request has."""
    return MalformedRequestError(f"{name} claims more bytes than the request has, at byte {at}")


def too_many(name: str, length: int, at: int) -> MalformedRequestError:
    """Make the error of an array that is too long for the bytes that are left, or for any request."""
    return MalformedRequestError(
        f"{name} claims {length} elements, more than a request of this size may have, at byte {at}"
    )


def too_long(name: str, at: int) -> MalformedRequestError:
    """Make the error of a string that is longer than Kafka allows."""
    return MalformedRequestError(f"{name} is longer than {LONGEST_STRING} bytes, at byte {at}")


def no_null(name: str, at: int) -> MalformedRequestError:
    """Make the error of a field that must not be null."""
    return MalformedRequestError(f"{name} is null, at byte {at}")


# Writing -------------------------------------------------------------------------------------------------------------


def put_varint(out: bytearray, value: int) -> None:
    """Append an unsigned number of variable length."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def put_count(out: bytearray, value: Sequence[Any] | None) -> Sequence[Any]:
    """Append how many elements follow, and return them: none for null."""
    out += _INT32.pack(-1 if value is None else len(value))
    return value or ()


def put_compact_count(out: bytearray, value: Sequence[Any] | None) -> Sequence[Any]:
    """Append how many elements follow as flexible versions do, and return them: none for null."""
    count = 0 if value is None else len(value) + 1
    if count <= 0x7F:
        out.append(count)
    else:
        put_varint(out, count)
    return value or ()


def put_string(out: bytearray, value: str | None) -> None:
    """Append a string, or null."""
    if value is None:
        out += b"\xff\xff"
        return
    data = value.encode("utf-8", "replace")
    out += _INT16.pack(len(data))
    out += data


def put_compact_string(out: bytearray, value: str | None) -> None:
    """Append a string, or null, as flexible versions do."""
    if value is None:
        out.append(0)
        return
    data = value.encode("utf-8", "replace")
    if len(data) < 0x7F:
        out.append(len(data) + 1)
    else:
        put_varint(out, len(data) + 1)
    out += data


def put_bytes(out: bytearray, value: AnyBytes | None) -> None:
    """Append bytes, or null."""
    put_count(out, value)
    out += value or b""


def put_compact_bytes(out: bytearray, value: AnyBytes | None) -> None:
    """Append bytes, or null, as flexible versions do."""
    put_compact_count(out, value)
    out += value or b""


def put_records(
    out: bytearray, parts: list[Part], value: AnyBytes | Sequence[AnyBytes] | None, *, is_flexible: bool
) -> bytearray:
    """Append records, which may come in pieces, and return what to append to from now on.

    Large pieces become parts of their own, so that they are not copied.
    """
    pieces = value if isinstance(value, list | tuple) else (value or b"",)
    size = sum(map(len, pieces))
    if is_flexible:
        put_varint(out, 0 if value is None else size + 1)
    else:
        out += _INT32.pack(-1 if value is None else size)
    for piece in pieces:
        if len(piece) <= JOINED_BYTES:
            out += piece
        else:
            parts += (out, piece)
            out = bytearray()
    return out
