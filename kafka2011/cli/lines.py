"""Lines of a file or pipe, in sets that are sent at once, and the partition that a line's key chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from kafka2011.errors import MessageSizeTooLargeError
from kafka2011.producer.partitioner import DefaultPartitioner
from kafka2011.wire.protocol import ANY_PARTITION

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterator

READ_BYTES = 256 * 1024


def line_sets(
    file: BinaryIO,
    max_line_bytes: int,
    on_read: Callable[[int], None] = lambda _read_bytes: None,
    *,
    delimiter: bytes = b"\n",
    on_too_long: Callable[[int], None] | None = None,
) -> Iterator[list[bytes]]:
    """Yield lists of whole lines, without their delimiters, as they arrive: nothing waits for a set to fill.

    A line that is too long is never in memory as a whole. `on_too_long` is called with its number, from 1, and the line
    is left out; without it MessageSizeTooLargeError is raised, after the lines before it were given.
    """
    read: Callable[[int], bytes] = getattr(file, "read1", file.read)
    cut_bytes = len(delimiter) - 1  # this much of a delimiter may wait at the end of what was read
    rest = b""
    number = 0
    is_skipping = False
    while chunk := read(READ_BYTES):
        on_read(len(chunk))
        lines = (rest + chunk).split(delimiter)
        rest = lines.pop()
        if is_skipping and lines:
            del lines[0]
            number += 1
            is_skipping = False
        kept = [line for line in lines if len(line) <= max_line_bytes]
        if len(kept) == len(lines):
            if kept:
                yield kept
        else:
            yield from _short_enough(lines, number, max_line_bytes, on_too_long)
        number += len(lines)
        if not is_skipping and len(rest) > max_line_bytes + cut_bytes:
            _too_long(number + 1, max_line_bytes, on_too_long)
            is_skipping = True
        if is_skipping:
            rest = rest[len(rest) - cut_bytes :]
    if rest and not is_skipping:
        if len(rest) > max_line_bytes:
            _too_long(number + 1, max_line_bytes, on_too_long)
        else:
            yield [rest]


def _short_enough(
    lines: list[bytes], number: int, max_line_bytes: int, on_too_long: Callable[[int], None] | None
) -> Iterator[list[bytes]]:
    """Yield the lines between those that are too long."""
    kept: list[bytes] = []
    for place, line in enumerate(lines, start=number + 1):
        if len(line) <= max_line_bytes:
            kept.append(line)
            continue
        if kept:
            yield kept
            kept = []
        _too_long(place, max_line_bytes, on_too_long)
    if kept:
        yield kept


def _too_long(number: int, max_line_bytes: int, on_too_long: Callable[[int], None] | None) -> None:
    if on_too_long is None:
        raise MessageSizeTooLargeError(f"line {number} is longer than max.message.size, {max_line_bytes} bytes")
    on_too_long(number)


def key_of(line: bytes, pattern: re.Pattern[bytes]) -> str | None:
    """Return what the first group of the pattern, or the whole of it, finds in a line; None if it finds nothing."""
    match = pattern.search(line)
    if match is None:
        return None
    key: bytes | None = match[1] if pattern.groups else match[0]
    return None if key is None else key.decode("utf-8", "replace")


def by_partition(lines: list[bytes], pattern: re.Pattern[bytes], partitions: int) -> dict[int, list[bytes]]:
    """Sort lines by the partition of their keys; within one, the order stays. -1: no key, any partition."""
    partition_of = DefaultPartitioner().partition
    chosen: dict[int, list[bytes]] = {}
    for line in lines:
        key = key_of(line, pattern)
        chosen.setdefault(ANY_PARTITION if key is None else partition_of(key, partitions), []).append(line)
    return chosen
