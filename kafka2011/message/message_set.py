"""Messages and message sets: the bytes that go over the wire and, unchanged, into the log (paper, section 3.1).

    length int32 | magic int8 | attributes int8 (only magic 1) | crc uint32 | payload

Sets are messages back to back without a header. All functions work on whole sets at positions inside one `bytes`
object; nothing here knows of files, sockets or topics' whereabouts.
"""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.errors import InvalidMessageError, InvalidMessageSizeError
from kafka2011.message import runs, runs_python
from kafka2011.message.compression import DEFAULT_MAX_OPENED_BYTES, Codec, compress, decompress
from kafka2011.message.crc import crc32
from kafka2011.message.header import (
    HEADER_0,
    HEADER_1,
    LENGTH,
    LENGTH_BYTES,
    MAGIC_1_OVERHEAD_BYTES,
    MIN_LENGTH,
    MessageHeader,
    read_header,
)
from kafka2011.message.topic import partition_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafka2011.message.header import AnyBytes

MAX_NESTING = 8
RUN_MESSAGES = 100
"""Uncompressed messages decoded at a time: enough to make each one cheap, few enough to cost little memory."""
OPENED_RUN_MESSAGES = 10_000
"""The same inside a compressed message: up to this many are decoded at once, as they were compressed at once."""


class Message(NamedTuple):
    """Holds one message as a consumer gets it.

    `offset` is where the message, or the compressed wrapper it came in, starts in the partition's log;
    `next_offset` is where to go on once this message is consumed. Inside a wrapper all messages but the last have
    the wrapper's own start as `next_offset`, as in 0.7, so a compressed set is replayed whole.
    `index_in_set` counts the messages inside a wrapper from 0; for a message outside a wrapper it is 0.
    """

    topic: str
    broker_id: int | None
    partition: int
    offset: int
    next_offset: int
    index_in_set: int
    payload: bytes


def encode(payload: bytes, codec: Codec = Codec.NONE, magic: int = 1) -> bytes:
    """Return one message. `codec` says how the payload is already compressed; magic 0 cannot say it."""
    if magic == 1:
        length = len(payload) + MAGIC_1_OVERHEAD_BYTES - LENGTH_BYTES
        return HEADER_1.pack(length, 1, codec, runs.chosen.crc32(payload)) + payload
    if magic == 0 and codec is Codec.NONE:
        return HEADER_0.pack(len(payload) + MIN_LENGTH, 0, runs.chosen.crc32(payload)) + payload
    raise InvalidMessageError(f"magic {magic} with codec {codec!r} is not a message format")


class MessageSet:
    """Holds messages that are published together, as the bytes that are sent and stored.

    Build one from payloads, compressed into one wrapper message when a codec is given, or from bytes that are a
    set already. Iterating gives payloads, those inside wrappers too.

    With `magic` 0, messages have the older header without attributes.
    """

    __slots__ = ("_count", "_data", "_largest_payload_bytes")

    def __init__(self, payloads: Iterable[bytes] = (), codec: Codec = Codec.NONE, magic: int = 1) -> None:
        if isinstance(payloads, (str, bytes, bytearray)):
            raise TypeError(
                f"payloads are a list of bytes, not {type(payloads).__name__}: give one payload as [payload]"
            )
        items = payloads if isinstance(payloads, list) else list(payloads)
        data, largest_payload_bytes = _encode_all(items, magic)
        count = len(items)
        if codec is not Codec.NONE and data:
            compressed = compress(codec, data)
            data, largest_payload_bytes, count = encode(compressed, codec), len(compressed), 1
        self._data = data
        self._count = count
        self._largest_payload_bytes = largest_payload_bytes

    @classmethod
    def from_bytes(cls, data: AnyBytes) -> MessageSet:
        """Return the set whose bytes are `data`. Raises InvalidMessageError if they are no complete set."""
        checked = scan(data)
        if checked.fault is not None or checked.end != len(data):
            raise InvalidMessageError(
                f"not a message set: {checked.fault or 'it ends within a message'} at position {checked.end}"
            )
        message_set = cls()
        message_set._data = bytes(data)  # of its own, should the caller's be a bytearray
        message_set._count = checked.messages
        message_set._largest_payload_bytes = checked.largest_payload_bytes
        return message_set

    @property
    def outer_messages(self) -> int:
        """Return how many messages it has; a compressed set counts as one."""
        return self._count

    @property
    def largest_payload_bytes(self) -> int:
        """Return the size of the largest outer payload, which a broker compares with max.message.size."""
        return self._largest_payload_bytes

    def __bytes__(self) -> bytes:
        return self._data

    def __iter__(self) -> Iterator[bytes]:
        for message in decode(self._data, "", None, 0, 0):
            yield message.payload

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MessageSet) and self._data == other._data

    def __hash__(self) -> int:
        return hash(self._data)

    def __repr__(self) -> str:
        return f"<MessageSet of {len(self._data)} bytes>"


def _encode_all(items: list[bytes], magic: int) -> tuple[bytes, int]:
    """Return the messages for all payloads, and the size of the largest payload."""
    if magic not in {0, 1}:
        raise InvalidMessageError(f"there is no magic {magic}")
    try:
        return runs.chosen.encode(items, magic) or runs_python.encode(items, magic)
    except TypeError:
        for item in items:
            if not isinstance(item, (bytes, bytearray, memoryview)):
                raise TypeError(f"a payload is bytes, not {type(item).__name__}: encode it first") from None
        raise


class Wrapper(NamedTuple):
    """Where a compressed message stands in a set: its start, its payload's start, its end, and the codec."""

    start: int
    payload_start: int
    end: int
    codec: int


class Scan(NamedTuple):  # a tuple, because it is made for every request
    """What a pass over a set found.

    `end` is the position after the last good message. `fault` says what stands there instead of a good message,
    or is None when the bytes simply end, at a boundary or within a message (`partial_bytes` then counts the rest).
    `messages` counts outer messages; `wrappers` lists the compressed ones among them.
    """

    end: int
    messages: int
    largest_payload_bytes: int
    wrappers: list[Wrapper]
    fault: str | None
    partial_bytes: int


def scan(
    data: AnyBytes,
    start: int = 0,
    max_messages: int | None = None,
    checksum: Callable[[AnyBytes], int] = crc32,
    max_bytes: int | None = None,
) -> Scan:
    """Walk over the outer messages of a set and check lengths, magic and CRCs; payloads stay closed.

    Stops at the first fault, at the end of the bytes, or after `max_messages` or the message that makes up `max_bytes`.
    Never raises for what the bytes hold.
    """
    position = start
    size = len(data)
    stop = size if max_bytes is None else min(size, start + max_bytes)
    largest = messages = 0
    remaining = -1 if max_messages is None else max_messages
    wrappers: list[Wrapper] = []
    fault: str | None = None
    walk = runs.chosen.walk
    if checksum is crc32:
        checksum = runs.chosen.crc32
    else:
        walk = partial(runs_python.walk, checksum=checksum)
    while position < stop and messages != remaining:
        position, more, large = walk(data, position, stop, remaining - messages if remaining >= 0 else -1)
        if more:
            messages += more
            largest = max(largest, large)
            continue
        examined = _examine(data, position, checksum)
        if not isinstance(examined, Found):
            fault = examined
            break
        largest = max(largest, examined.end - examined.payload_start)
        if examined.codec:
            wrappers.append(Wrapper(position, examined.payload_start, examined.end, examined.codec))
        messages += 1
        position = examined.end
    partial_bytes = size - position if fault is None and position < stop and messages != remaining else 0
    return Scan(position, messages, largest, wrappers, fault, partial_bytes)


class Found(NamedTuple):
    """One good message: where its payload starts, where it ends, and how the payload is compressed."""

    payload_start: int
    end: int
    codec: int


def _examine(data: AnyBytes, position: int, checksum: Callable[[AnyBytes], int]) -> Found | str | None:
    """Return what is at a position: a good message, or what is wrong, or None if the bytes end within a message."""
    size = len(data)
    header = read_header(data, position)
    if not isinstance(header, MessageHeader):
        return header
    start, end = position + header.overhead_bytes, position + header.message_bytes
    if end > size:
        return None
    if checksum(memoryview(data)[start:end]) != header.crc:
        return f"CRC differs from the stored {header.crc:#010x}"
    return Found(start, end, header.codec)


def decode(
    data: bytes,
    topic: str,
    broker_id: int | None,
    partition: int,
    offset: int,
    max_opened_bytes: int = DEFAULT_MAX_OPENED_BYTES,
) -> Iterator[Message]:
    """Yield the messages of a fetched set that starts at `offset`; a message cut off at the end is left out.

    Compressed messages are opened, to at most `max_opened_bytes` each. Raises InvalidMessageError naming topic,
    partition and offset at the first message whose bytes are wrong, after all good ones before it were given, and
    InvalidMessageSizeError when not even the first message is complete: it names the size needed.
    """
    return chain.from_iterable(_decode(data, topic, broker_id, partition, offset, max_opened_bytes))


def _decode(
    data: bytes,
    topic: str,
    broker_id: int | None,
    partition: int,
    offset: int,
    max_opened_bytes: int | None,
    depth: int = 0,
) -> Iterator[Iterable[Message]]:
    """Yield the messages run by run; compressed ones stay closed if `max_opened_bytes` is None."""
    position = 0
    size = len(data)
    while position < size:
        run, position = runs.chosen.decode(Message, data, position, RUN_MESSAGES, topic, broker_id, partition, offset)
        if run:
            yield run
            continue
        examined = _examine(data, position, runs.chosen.crc32)
        if examined is None:
            if position == 0:
                raise _too_small(data, _place(topic, broker_id, partition, offset))
            return
        if isinstance(examined, str):
            where = _place(topic, broker_id, partition, offset + position)
            raise InvalidMessageError(f"corrupt message in {where}: {examined}")
        payload = data[examined.payload_start : examined.end]
        message = Message(topic, broker_id, partition, offset + position, offset + examined.end, 0, payload)
        if examined.codec and max_opened_bytes is not None:
            yield _open_wrapper(message, examined.codec, max_opened_bytes, depth + 1)
        else:
            yield (message,)
        position = examined.end


def _place(topic: str, broker_id: int | None, partition: int, offset: int) -> str:
    return f"{partition_text(topic, broker_id, partition)} at offset {offset}"


def _too_small(data: bytes, where: str) -> InvalidMessageSizeError:
    if len(data) < LENGTH_BYTES:
        return InvalidMessageSizeError(f"a fetch of {len(data)} bytes is too small for any message in {where}")
    needed_bytes = LENGTH_BYTES + LENGTH.unpack_from(data)[0]
    return InvalidMessageSizeError(
        f"a fetch of {len(data)} bytes is too small for the message in {where}, which needs {needed_bytes};"
        " if that makes no sense, the offset is not where a message starts"
    )


def _open_wrapper(wrapper: Message, codec: int, max_opened_bytes: int, depth: int) -> Iterator[Message]:
    """Give the messages inside a wrapper the positions that 0.7 gives them."""
    topic, broker_id, partition, start, end, _, payload = wrapper
    where = _place(topic, broker_id, partition, start)
    if depth > MAX_NESTING:
        raise InvalidMessageError(f"compressed sets in {where} are nested more than {MAX_NESTING} deep")
    new = tuple.__new__
    held: bytes | None = None  # one message late, because only the last one carries the wrapper's end
    index = 0
    try:
        opened = decompress(codec, payload, max_opened_bytes)
        messages = runs.chosen.decode_opened(
            Message, opened, OPENED_RUN_MESSAGES, topic, broker_id, partition, start, end
        )
        if messages is not None:
            yield from messages
            return
        inside = _decode(opened, topic, broker_id, partition, 0, max_opened_bytes - len(opened), depth)
        for inner in chain.from_iterable(inside):
            if held is not None:
                yield new(Message, (topic, broker_id, partition, start, start, index, held))
                index += 1
            held = inner[6]
    except (InvalidMessageError, InvalidMessageSizeError) as error:
        if held is not None:  # good, and its neighbour's fault is not its own
            yield new(Message, (topic, broker_id, partition, start, start, index, held))
        raise InvalidMessageError(f"the compressed message in {where} does not open: {error}") from error
    if held is not None:
        yield new(Message, (topic, broker_id, partition, start, end, index, held))


def complete_prefix_bytes(data: bytes) -> int:
    """Return how many bytes of a fetched set belong to complete messages, by their lengths alone.

    Stops at an impossible length; decoding the set then finds out what is wrong there.
    """
    return runs.chosen.complete_prefix_bytes(data)


def decode_shallow(data: bytes, topic: str, broker_id: int | None, partition: int, offset: int) -> Iterator[Message]:
    """Yield the messages of a fetched set as `decode` does, but compressed ones whole: their payloads stay closed."""
    return chain.from_iterable(_decode(data, topic, broker_id, partition, offset, None))
