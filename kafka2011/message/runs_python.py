"""Runs of uncompressed messages, in Python: what `runs` falls back on, and what its C code is compared with.

A run ends before anything that is not a good, uncompressed message: only `kafka2011.message.message_set` knows what
else there is, and what is wrong with it.
"""

from __future__ import annotations

from array import array
from itertools import accumulate, repeat
from typing import TYPE_CHECKING

from kafka2011.message.crc import crc32
from kafka2011.message.header import (
    HEADER_0,
    HEADER_1,
    HEADER_1_BY_KIND,
    LENGTH,
    LENGTH_BYTES,
    MAGIC_0_OVERHEAD_BYTES,
    MIN_LENGTH,
    UNCOMPRESSED_MAGIC_1,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from kafka2011.message.header import AnyBytes

    T = TypeVar("T", bound=tuple[object, ...])

_FORMATS = (
    (HEADER_1_BY_KIND.unpack_from, *UNCOMPRESSED_MAGIC_1),
    (HEADER_0.unpack_from, 0xFF, 0, MAGIC_0_OVERHEAD_BYTES),
)
"""Of magic 1 and 0: what reads length, kind and CRC, the kind's mask and value, and the bytes before the payload."""

DESCRIPTION = "messages in Python"


def encode(payloads: Sequence[bytes], magic: int = 1) -> tuple[bytes, int]:
    """Return the messages for all payloads, and the size of the largest payload."""
    parts: list[bytes] = []
    largest = 0
    pack = HEADER_1.pack
    pack_0 = HEADER_0.pack
    for payload in payloads:
        size = len(payload)
        if size > largest:  # noqa: PLR1730 (a hot loop, and max() costs a call)
            largest = size
        header = pack(size + 6, 1, 0, crc32(payload)) if magic else pack_0(size + 5, 0, crc32(payload))
        parts += (header, payload)
    return b"".join(parts), largest


def measure(payloads: list[bytes]) -> tuple[int, int] | None:
    """Return how many bytes payloads have, and the largest of them; None unless all are bytes."""
    if not isinstance(payloads, list) or not set(map(type, payloads)) <= {bytes}:  # no Python code for each payload
        return None
    sizes = list(map(len, payloads))
    return sum(sizes), max(sizes, default=0)


def walk(
    data: AnyBytes, position: int, stop: int, max_messages: int, checksum: Callable[[AnyBytes], int] = crc32
) -> tuple[int, int, int]:
    """Return where a run from a position on ends, how many messages it has, and the size of its largest payload.

    Only messages that start before `stop` count, and no more than `max_messages`, unless that is below 0.
    """
    size = len(data)
    messages = largest = 0
    while True:
        before = messages
        for unpack, mask, kind, overhead in _FORMATS:
            last = min(stop, size - overhead + 1)
            while position < last and messages != max_messages:
                length, beginning, crc = unpack(data, position)
                start, end = position + overhead, position + 4 + length
                if beginning & mask != kind or start > end or end > size or checksum(data[start:end]) != crc:
                    break
                if end - start > largest:  # noqa: PLR1730 (as above)
                    largest = end - start
                messages += 1
                position = end
        if messages == before:
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
    payloads, edges, end = _found(data, position, len(data), max_messages, offset)
    fields = zip(repeat(topic), repeat(broker_id), repeat(partition), edges, edges[1:], repeat(0), payloads)
    return list(map(tuple.__new__, repeat(kind), fields)), end


def columns(
    data: bytes, position: int, stop: int, max_messages: int, base: int
) -> tuple[int, int, bytes, bytes, bytes]:
    """Return where a run from a position on ends, its number of messages, and three buffers of this machine's integers.

    They are its edges (int64, one more than messages, `base` being the offset of the data's first byte), where each
    payload ends (int32, after a 0), and the payloads. Only messages that start before `stop` count.
    """
    if type(data) is not bytes:
        raise TypeError("columns() takes bytes only")
    payloads, edges, end = _found(data, position, stop, max_messages, base)
    ends = array("i", accumulate(map(len, payloads), initial=0))
    return end, len(payloads), array("q", edges).tobytes(), ends.tobytes(), b"".join(payloads)


def _found(data: bytes, position: int, stop: int, max_messages: int, offset: int) -> tuple[list[bytes], list[int], int]:
    """Return the payloads of a run, the offsets of its edges, one more, and its end."""
    size = len(data)
    left = max_messages if max_messages >= 0 else size
    checksum = crc32
    payloads: list[bytes] = []
    edges = [offset + position]
    add_payload, add_edge = payloads.append, edges.append
    before = -1
    while len(payloads) != before:
        before = len(payloads)
        for unpack, mask, magic_kind, overhead in _FORMATS:
            last = min(stop, size - overhead + 1)
            for _ in range(left - len(payloads)):
                if position >= last:
                    break
                length, beginning, crc = unpack(data, position)
                start, end = position + overhead, position + 4 + length
                if beginning & mask != magic_kind or start > end or end > size:
                    break
                payload = data[start:end]
                if checksum(payload) != crc:
                    break
                add_payload(payload)
                add_edge(offset + end)
                position = end
    return payloads, edges, position


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


def open_stored(_data: AnyBytes, _max_opened_bytes: int) -> bytes | None:
    """Return None: zlib opens payloads of stored blocks as it does any others."""
    return None
