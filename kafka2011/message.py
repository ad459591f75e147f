"""Messages and message sets: the bytes that go over the wire and, unchanged, into the log (paper, section 3.1).

    length int32 | magic int8 | attributes int8 (only magic 1) | crc uint32 | payload

Sets are messages back to back without a header. All functions work on whole sets at positions inside one `bytes`
object; nothing here knows of files, sockets or topics' whereabouts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka2011.compression import DEFAULT_MAX_OPENED_BYTES, Codec, compress, decompress
from kafka2011.crc import crc32
from kafka2011.errors import InvalidMessageError, InvalidMessageSizeError
from kafka2011.message_header import (
    CODEC_MASK,
    HEADER_0,
    HEADER_1,
    LENGTH,
    LENGTH_BYTES,
    MAGIC_0_OVERHEAD_BYTES,
    MAGIC_1_OVERHEAD_BYTES,
    MIN_LENGTH,
    MessageHeader,
    read_header,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafka2011.message_header import AnyBytes

MAX_NESTING = 8


class Message(NamedTuple):
    """One message as a consumer gets it.

    `offset` is where the message, or the compressed wrapper it came in, starts in the partition's log;
    `next_offset` is where to go on once this message is consumed. Inside a wrapper all messages but the last have
    the wrapper's own start as `next_offset`, as 0.7 does it, so a compressed set is replayed whole.
    `index_in_set` counts the messages inside a wrapper from 0, and is 0 for a message that came alone.
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
        return HEADER_1.pack(length, 1, codec, crc32(payload)) + payload
    if magic == 0 and codec is Codec.NONE:
        return HEADER_0.pack(len(payload) + MIN_LENGTH, 0, crc32(payload)) + payload
    raise InvalidMessageError(f"magic {magic} with codec {codec!r} is not a message format")


class MessageSet:
    """Messages that are published together, as the bytes that are sent and stored.

    Build one from payloads, compressed into one wrapper message when a codec is given, or from bytes that are a
    set already. Iterating gives payloads, those inside wrappers too.
    """

    __slots__ = ("_data", "_largest_payload_bytes")

    def __init__(self, payloads: Iterable[bytes] = (), codec: Codec = Codec.NONE, magic: int = 1) -> None:
        data, largest_payload_bytes = _encode_all(payloads, magic)
        if codec is not Codec.NONE and data:
            compressed = compress(codec, data)
            data, largest_payload_bytes = encode(compressed, codec), len(compressed)
        self._data = data
        self._largest_payload_bytes = largest_payload_bytes

    @classmethod
    def from_bytes(cls, data: AnyBytes) -> MessageSet:
        """Wrap bytes that are a complete set. Raises InvalidMessageError if they are not."""
        checked = scan(data)
        if checked.fault is not None or checked.end != len(data):
            raise InvalidMessageError(
                f"not a message set: {checked.fault or 'it ends within a message'} at position {checked.end}"
            )
        message_set = cls()
        message_set._data = bytes(data)  # of its own, should the caller's be a bytearray
        message_set._largest_payload_bytes = checked.largest_payload_bytes
        return message_set

    @property
    def largest_payload_bytes(self) -> int:
        """Size of the largest outer payload, which brokers hold against max.message.size."""
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


def _encode_all(payloads: Iterable[bytes], magic: int) -> tuple[bytes, int]:
    """Return the messages for all payloads, and the size of the largest payload."""
    parts: list[bytes] = []
    largest = 0
    pack = HEADER_1.pack
    for payload in payloads:
        size = len(payload)
        if size > largest:  # noqa: PLR1730 (a hot loop, and max() costs a call)
            largest = size
        if magic == 1:
            parts += (pack(size + 6, 1, 0, crc32(payload)), payload)
        else:
            parts.append(encode(payload, magic=magic))
    return b"".join(parts), largest


class Wrapper(NamedTuple):
    """Where a compressed message stands in a set: its start, its payload's start, its end, and the codec."""

    start: int
    payload_start: int
    end: int
    codec: int


class Scan(NamedTuple):  # a tuple, because it is made for every request
    """What a pass over a set found.

    `end` is the position behind the last good message. `fault` says what stands there instead of a good message,
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
    last_header = size - MAGIC_1_OVERHEAD_BYTES
    unpack = HEADER_1.unpack_from
    largest = 0
    messages = 0
    remaining = -1 if max_messages is None else max_messages
    wrappers: list[Wrapper] = []
    fault: str | None = None
    while position < stop and messages != remaining:
        if position <= last_header:
            length, magic, attributes, crc = unpack(data, position)
            end = position + 4 + length
            if magic == 1 and length > MIN_LENGTH and end <= size and checksum(data[position + 10 : end]) == crc:
                if length - 6 > largest:  # noqa: PLR1730 (as above)
                    largest = length - 6
                if attributes & CODEC_MASK:
                    wrappers.append(Wrapper(position, position + 10, end, attributes & CODEC_MASK))
                messages += 1
                position = end
                continue
        found = _examine(data, position, checksum)
        if not isinstance(found, int):
            fault = found
            break
        largest = max(largest, found - position - MAGIC_0_OVERHEAD_BYTES)
        messages += 1
        position = found
    partial = size - position if fault is None and position < stop and messages != remaining else 0
    return Scan(position, messages, largest, wrappers, fault, partial)


def _examine(data: AnyBytes, position: int, checksum: Callable[[AnyBytes], int]) -> int | str | None:
    """Tell what stands where the hot loops found no good message of magic 1.

    Returns where a good one of magic 0 ends, or what is wrong, or None if the bytes end within a message.
    """
    size = len(data)
    if size - position >= MAGIC_0_OVERHEAD_BYTES:
        length, magic, crc = HEADER_0.unpack_from(data, position)
        end = position + LENGTH_BYTES + int(length)
        is_whole = magic == 0 and length >= MIN_LENGTH and end <= size
        if is_whole and checksum(data[position + MAGIC_0_OVERHEAD_BYTES : end]) == crc:
            return end
    header = read_header(data, position)
    if not isinstance(header, MessageHeader):
        return header
    end = position + header.message_bytes
    if end > size:
        return None
    if checksum(data[position + header.overhead_bytes : end]) != header.crc:
        return f"CRC differs from the stored {header.crc:#010x}"
    return end


def decode(
    data: bytes,
    topic: str,
    broker_id: int | None,
    partition: int,
    offset: int,
    max_opened_bytes: int = DEFAULT_MAX_OPENED_BYTES,
    _depth: int = 0,
) -> Iterator[Message]:
    """Yield the messages of a fetched set that starts at `offset`; a message cut off at the end is left out.

    Compressed messages are opened, to at most `max_opened_bytes` each. Raises InvalidMessageError naming topic,
    partition and offset at the first message whose bytes are wrong, after all good ones before it were given, and
    InvalidMessageSizeError when not even the first message is complete: it names the size needed.
    """
    position = 0
    size = len(data)
    last_header = size - MAGIC_1_OVERHEAD_BYTES
    unpack = HEADER_1.unpack_from
    new = tuple.__new__  # about half the cost of calling Message(...)
    while position < size:
        if position <= last_header:
            length, magic, attributes, crc = unpack(data, position)
            end = position + 4 + length
            payload = data[position + 10 : end]
            if magic == 1 and length > MIN_LENGTH and end <= size and crc32(payload) == crc:
                if attributes & CODEC_MASK:
                    wrapper = Message(topic, broker_id, partition, offset + position, offset + end, 0, payload)
                    yield from _open_wrapper(wrapper, attributes & CODEC_MASK, max_opened_bytes, _depth + 1)
                else:
                    yield new(Message, (topic, broker_id, partition, offset + position, offset + end, 0, payload))
                position = end
                continue
        found = _examine(data, position, crc32)
        if found is None:
            if position == 0:
                raise _too_small(data, topic, partition, offset)
            return
        if isinstance(found, str):
            raise InvalidMessageError(f"corrupt message in {topic}-{partition} at offset {offset + position}: {found}")
        payload = data[position + MAGIC_0_OVERHEAD_BYTES : found]
        yield Message(topic, broker_id, partition, offset + position, offset + found, 0, payload)
        position = found


def _too_small(data: bytes, topic: str, partition: int, offset: int) -> InvalidMessageSizeError:
    where = f"{topic}-{partition} at offset {offset}"
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
    where = f"{topic}-{partition} at offset {start}"
    if depth > MAX_NESTING:
        raise InvalidMessageError(f"compressed sets in {where} are nested more than {MAX_NESTING} deep")
    new = tuple.__new__
    held: bytes | None = None  # one behind, because only the last message carries the wrapper's end
    index = 0
    try:
        opened = decompress(codec, payload, max_opened_bytes)
        for inner in decode(opened, topic, broker_id, partition, 0, max_opened_bytes - len(opened), depth):
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

    Stops at a length that no message has; whoever decodes the set finds out what is wrong there.
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


def decode_shallow(data: bytes, topic: str, broker_id: int | None, partition: int, offset: int) -> Iterator[Message]:
    """Yield the messages of a fetched set as `decode` does, but compressed ones whole: their payloads stay closed."""
    position = 0
    while position < len(data):
        checked = scan(data, position, max_messages=1)
        if not checked.messages:
            if checked.fault is not None or position == 0:  # `decode` knows how to say what is wrong
                yield from decode(data[position:], topic, broker_id, partition, offset + position)
            return
        header = read_header(data, position)
        assert isinstance(header, MessageHeader), "scan found a good message"
        payload = data[position + header.overhead_bytes : checked.end]
        yield Message(topic, broker_id, partition, offset + position, offset + checked.end, 0, payload)
        position = checked.end
