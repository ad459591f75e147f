"""Which key each line of a log gets, so that lines of one key keep their order and all partitions get lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kafka2011.producer.partitioner import DefaultPartitioner

if TYPE_CHECKING:
    from collections.abc import Sequence

_MEMBER = re.compile(rb'"member": "([^"]+)"')
_FIRST_WORD = re.compile(rb"(\S+)")
_PIECES = 30
"""About one for each second of a replay."""
_LEAST_SHARE = 2
"""In each piece, at least one in this many partitions must get a line."""
_NUMBERED_KEYS = 64


def key_of(line: bytes) -> str:
    """Return what keeps lines together: the member of an event, else the first word, such as a client's address."""
    match = _MEMBER.search(line) or _FIRST_WORD.search(line)
    return match[1].decode(errors="replace") if match else ""


def keys_of(lines: Sequence[bytes], partitions: int) -> tuple[list[str], bool]:
    """Return a key for each line, and whether these are the lines' own.

    A log whose lines begin with a date or a constant would go to one partition at a time: it gets keys by line number.
    """
    own = [key_of(line) for line in lines]
    if _spreads(own, partitions):
        return own, True
    return [f"line {number % _NUMBERED_KEYS}" for number in range(len(lines))], False


def _spreads(keys: Sequence[str], partitions: int) -> bool:
    partition_of = DefaultPartitioner().partition
    size = -(-len(keys) // _PIECES)
    pieces = [keys[start : start + size] for start in range(0, len(keys) - size + 1, size)]  # except a shorter last one
    return all(
        len({partition_of(key, partitions) for key in set(piece)}) * _LEAST_SHARE >= partitions for piece in pieces
    )
