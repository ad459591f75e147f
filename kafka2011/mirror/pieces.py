"""Cutting a set into parts that a broker accepts and messages that it would refuse. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka2011.message.header import LENGTH, LENGTH_BYTES, MIN_LENGTH
from kafka2011.message.message_set import scan

if TYPE_CHECKING:
    from collections.abc import Iterator


class SetPiece(NamedTuple):
    """Whole messages of a set, from one position to another. `fault` says why a broker would refuse this one."""

    start: int
    end: int
    fault: str | None = None


def pieces(data: bytes, max_payload_bytes: int) -> Iterator[SetPiece]:
    """Yield runs of messages that a broker takes, and single ones that it would not.

    Those are messages whose payload is larger than `max_payload_bytes`, or whose CRC or magic is wrong. What follows a
    length that cannot be one is a single piece to the end of the set.
    """
    start = position = 0
    while position < len(data):
        scanned = scan(data, position, max_messages=1)
        fault = scanned.fault
        if fault is None and scanned.messages and scanned.largest_payload_bytes <= max_payload_bytes:
            position = scanned.end
            continue
        if start < position:
            yield SetPiece(start, position)
        end = scanned.end if scanned.messages else _end_by_length(data, position)
        yield SetPiece(
            position,
            end,
            fault
            or f"its payload of {scanned.largest_payload_bytes} bytes exceeds max.message.size {max_payload_bytes}",
        )
        start = position = end
    if start < position:
        yield SetPiece(start, position)


def halves(data: bytes) -> tuple[bytes, bytes] | None:
    """Divide a good set in the middle, by the number of its messages; None when it has only one."""
    messages = scan(data).messages
    if messages < 2:
        return None
    middle = scan(data, max_messages=messages // 2).end
    return data[:middle], data[middle:]


def _end_by_length(data: bytes, position: int) -> int:
    if len(data) - position < LENGTH_BYTES:
        return len(data)
    length = LENGTH.unpack_from(data, position)[0]
    return min(position + LENGTH_BYTES + length, len(data)) if length >= MIN_LENGTH else len(data)
