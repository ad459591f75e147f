"""Draws bytes for a student: a hex dump, and marks below the bytes that differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LINE_BYTES = 16
MOST_LINES = 8
_INDENT = "  "


def first_difference(wanted: bytes, came: bytes) -> int | None:
    """Return the position of the first byte that differs, or None if both are the same."""
    for position, (one, other) in enumerate(zip(wanted, came, strict=False)):
        if one != other:
            return position
    return None if len(wanted) == len(came) else min(len(wanted), len(came))


def dump(data: bytes, around: int = 0) -> str:
    """Return lines of hex and text. Of long data, only the lines near the byte at `around`."""
    return "\n".join(_lines(data, frozenset(), around)) or f"{_INDENT}(nothing)"


def dump_difference(came: bytes, wanted: bytes) -> str:
    """Return lines of hex and text of what came, with marks below each byte that is not as wanted."""
    if not came:
        return dump(came)
    longest = max(len(came), len(wanted))
    marked = frozenset(at for at in range(longest) if came[at : at + 1] != wanted[at : at + 1])
    first = min(marked, default=0)
    return "\n".join(_lines(came, marked, first)) or f"{_INDENT}(nothing)"


def explain_difference(wanted: bytes, came: bytes) -> str:
    """Return a sentence that names the first byte that differs."""
    at = first_difference(wanted, came)
    if at is None:
        return "All bytes are as wanted."
    if at >= len(came):
        return f"{len(came)} bytes came, {len(wanted)} were wanted: byte {at} is missing."
    if at >= len(wanted):
        return f"{len(came)} bytes came, {len(wanted)} were wanted: byte {at} is one too many."
    what = f"Byte {at} differs: 0x{came[at]:02x} came, 0x{wanted[at]:02x} was wanted."
    for size in (8, 4):
        if at + size <= len(wanted) and came[at : at + size] == wanted[at : at + size][::-1]:
            return f"{what} The {size} bytes from there are in reverse order: numbers are big-endian."
    return what


def explain_answer(wanted: bytes, came: bytes) -> str:
    """Return the same for responses; if the byte is in the size or the error of one, its value is said."""
    what = explain_difference(wanted, came)
    at = first_difference(wanted, came)
    if at is None or at >= min(len(wanted), len(came)):
        return what
    start = following = 0
    while following <= at:
        start, following = following, following + 4 + int.from_bytes(wanted[following : following + 4], "big")
    for name, first, size in (("size", start, 4), ("error", start + 4, 2)):
        field = slice(first, first + size)
        if first <= at < first + size <= len(came):
            numbers = [int.from_bytes(data[field], "big", signed=True) for data in (came, wanted)]
            return f"{what} It is in the {name}: {numbers[0]} came, {numbers[1]} was wanted."
    return what


def _lines(data: bytes, marked: frozenset[int], around: int) -> Iterator[str]:
    count = -(-max(len(data), *(at + 1 for at in marked), 0) // LINE_BYTES) if marked else -(-len(data) // LINE_BYTES)
    first = max(0, min(around // LINE_BYTES - 1, count - MOST_LINES))
    last = min(count, first + MOST_LINES)
    if first:
        yield f"{_INDENT}({first * LINE_BYTES} bytes before)"
    for number in range(first, last):
        start = number * LINE_BYTES
        piece = data[start : start + LINE_BYTES]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in piece)
        yield f"{_INDENT}{start:04x}  {piece.hex(' '):<{LINE_BYTES * 3}} {text}".rstrip()
        if marks := "".join("^^ " if start + at in marked else "   " for at in range(LINE_BYTES)).rstrip():
            yield f"{_INDENT}      {marks}"
    if last < count:
        yield f"{_INDENT}({max(0, len(data) - last * LINE_BYTES)} bytes after)"
