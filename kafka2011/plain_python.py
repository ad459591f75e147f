"""Runs of plain messages, in Python: what `plain` falls back on, and what its C code is compared with.

A plain message is a good one of magic 1 that is not compressed. A run ends before anything that is not a plain message:
only `kafka2011.message` knows what else there is, and what is wrong with it.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING

from kafka2011.crc import crc32
from kafka2011.message_header import (
    CODEC_MASK,
    HEADER_1,
    HEADER_1_BY_KIND,
    LENGTH,
    LENGTH_BYTES,
    MAGIC_1_OVERHEAD_BYTES,
    MIN_LENGTH,
    PLAIN_MAGIC_1,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from kafka2011.message_header import AnyBytes

    T = TypeVar("T", bound=tuple[object, ...])

_MASK, _KIND, _ = PLAIN_MAGIC_1

DESCRIPTION = "messages in Python"
columns = None
"""The Spark source has its own way, with NumPy, which it needs for magic 0 anyway."""


def encode(payloads: Sequence[bytes]) -> tuple[bytes, int]:
    """Return the messages for all payloads, and the size of the largest payload."""
    parts: list[bytes] = []
    largest = 0
    pack = HEADER_1.pack
    for payload in payloads:
        size = len(payload)
        if size > largest:  # noqa: PLR1730 (a hot loop, and max() costs a call)
            largest = size
        parts += (pack(size + 6, 1, 0, crc32(payload)), payload)
    return b"".join(parts), largest


def walk(
    data: AnyBytes, position: int, stop: int, max_messages: int, checksum: Callable[[AnyBytes], int] = crc32
) -> tuple[int, int, int]:
    """Return where a run from a position on ends, how many messages it has, and the size of its largest payload.

    Only messages that start before `stop` count, and no more than `max_messages`, unless that is below 0.
    """
    size = len(data)
    stop = min(stop, size - MAGIC_1_OVERHEAD_BYTES + 1)
    unpack = HEADER_1.unpack_from
    messages = largest = 0
    while position < stop and messages != max_messages:
        length, magic, attributes, crc = unpack(data, position)
        end = position + 4 + length
        if magic != 1 or attributes & CODEC_MASK or length <= MIN_LENGTH or end > size:
            break
        if checksum(data[position + 10 : end]) != crc:
            break
        if length - 6 > largest:  # noqa: PLR1730 (as above)
            largest = length - 6
        messages += 1
        position = end
    return position, messages, largest


def decode(
    kind: type[T],
    data: bytes,
    position: int,
    max_messages: int,
    topic: str,
    broker_id: int | None,
    partition: int,
    offset: int,
) -> tuple[list[T], int]:
    """Return the messages of a run from a position on, each of a `kind` of tuple, and where it ends.

    `offset` is that of the data's first byte.
    """
    # The loop finds payloads and edges; all else that a message holds is added to them without any bytecode.
    size = len(data)
    last_header = size - MAGIC_1_OVERHEAD_BYTES
    unpack, checksum = HEADER_1_BY_KIND.unpack_from, crc32
    payloads: list[bytes] = []
    edges = [offset + position]
    add_payload, add_edge = payloads.append, edges.append
    for _ in range(max_messages if max_messages >= 0 else size):
        if position > last_header:
            break
        length, beginning, crc = unpack(data, position)
        end = position + 4 + length
        if beginning & _MASK != _KIND or length <= MIN_LENGTH or end > size:
            break
        payload = data[position + 10 : end]
        if checksum(payload) != crc:
            break
        add_payload(payload)
        add_edge(offset + end)
        position = end
    fields = zip(repeat(topic), repeat(broker_id), repeat(partition), edges, edges[1:], repeat(0), payloads)
    return list(map(tuple.__new__, repeat(kind), fields)), position


def decode_opened(
    kind: type[T],
    data: bytes,
    max_messages: int,
    topic: str,
    broker_id: int | None,
    partition: int,
    start: int,
    end: int,
) -> list[T] | None:
    """Return the messages of an opened set with the offsets that 0.7 gives them, its wrapper's `start` and `end`.

    None if the set is anything but one run of at most `max_messages`.
    """
    messages, position = decode(kind, data, 0, max_messages, topic, broker_id, partition, 0)
    if position != len(data):
        return None
    new = tuple.__new__
    last = len(messages) - 1
    return [
        new(kind, (topic, broker_id, partition, start, end if index == last else start, index, message[6]))
        for index, message in enumerate(messages)
    ]


def complete_prefix_bytes(data: bytes) -> int:
    """Return how many bytes of a set belong to complete messages, of any kind, by their lengths alone.

    Stops at an impossible length; decoding the set then finds out what is wrong there.
    """
    position = 0
    last_length = len(data) - LENGTH_BYTES
    unpack = LENGTH.unpack_from
    while position <= last_length:
        (length,) = unpack(data, position)
        end = position + 4 + length
        if length < MIN_LENGTH or end > len(data):
            break
        position = end
    return position
