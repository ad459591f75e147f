"""Lines of a file or pipe, in sets that are sent at once, and the partition that a line's key chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from kafka2011.errors import MessageSizeTooLargeError
from kafka2011.producer.partitioner import DefaultPartitioner
from kafka2011.protocol import ANY_PARTITION

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterator
READ_BYTES = 256 * 1024


def line_sets(
    file: BinaryIO, max_line_bytes: int, on_read: Callable[[int], None] = lambda _read_bytes: None
) -> Iterator[list[bytes]]:
    """Yield lists of whole lines, without their line feeds, as they arrive: nothing waits for a set to fill.

    Raises MessageSizeTooLargeError, naming the line, before it is in memory as a whole.
    """
    read: Callable[[int], bytes] = getattr(file, "read1", file.read)
    rest = b""
    number = 0
    while chunk := read(READ_BYTES):
        on_read(len(chunk))
        lines = (rest + chunk).split(b"\n")
        rest = lines.pop()
        for place, line in enumerate((*lines, rest), start=number + 1):
            if len(line) > max_line_bytes:
                raise MessageSizeTooLargeError(
                    f"line {place} is longer than max.message.size, {max_line_bytes} bytes; lines before it were sent"
                )
        number += len(lines)
        if lines:
            yield lines
    if rest:
        yield [rest]


def key_of(line: bytes, pattern: re.Pattern[bytes]) -> str | None:
    """Return what the first group of the pattern, or the whole of it, finds in a line; None if it finds nothing."""
    found = pattern.search(line)
    if found is None:
        return None
    key: bytes | None = found[1] if pattern.groups else found[0]
    return None if key is None else key.decode("utf-8", "replace")


def by_partition(lines: list[bytes], pattern: re.Pattern[bytes], partitions: int) -> dict[int, list[bytes]]:
    """Sort lines by the partition of their keys; within one, the order stays. -1: no key, any partition."""
    partition_of = DefaultPartitioner().partition
    found: dict[int, list[bytes]] = {}
    for line in lines:
        key = key_of(line, pattern)
        found.setdefault(ANY_PARTITION if key is None else partition_of(key, partitions), []).append(line)
    return found
