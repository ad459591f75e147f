"""Requests and responses of Kafka 0.7 as values and as bytes; no sockets here.

    request    size int32 | type int16  | body        size counts all that follows
    response   size int32 | error int16 | body        produce has no response at all

    type            request body                                                    response body
    0 produce       topic, partition int32, set size int32, set                     -
    1 fetch         topic, partition int32, offset int64, max bytes int32           set
    2 multifetch    count int16, that many fetch bodies                             each: size int32, error int16, set
    3 multiproduce  count int16, that many produce bodies                           -
    4 offsets       topic, partition int32, time int64, max count int32             count int32, int64 each

A topic is an int16 length and UTF-8. Bytes after a body are ignored, as in 0.7, but for 12 that 0.7 does not know: a
fetch, or a multifetch of at least one part, may be followed by `WAIT`, max wait ms int32, min bytes int32. Then the
answer may wait that long for so many bytes, of all parts together. The same 12, with zeros, behind an offsets request
say only that a client of ours asks, which is answered NotAllowedError's number where it may not consume. Wrong bytes
raise ProtocolError and nothing else.

Requests are tuples, not dataclasses, because one is made for every frame.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kafka2011.errors import ErrorCodes, ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafka2011.message.header import AnyBytes

PRODUCE = 0
FETCH = 1
MULTIFETCH = 2
MULTIPRODUCE = 3
OFFSETS = 4
REFUSAL = 103
"""See `refusal`."""

LATEST = -1
"""In an offsets request, as a time: the flushed end of the log."""
EARLIEST = -2
"""In an offsets request, as a time: the start of the oldest segment."""
ANY_PARTITION = -1
"""In a produce request: the broker picks a partition at random."""

DEFAULT_MAX_FRAME_BYTES = 100 * 1024 * 1024
JOINED_FRAME_BYTES = 64 * 1024
"""A larger frame is handled by itself: joining it with what follows would copy more than it saves."""
LARGE_FRAME_BYTES = 256 * 1024
"""From this size on, a frame is a view of what was received. Copying a smaller one is cheaper than reading a view."""
MAX_INT32 = 2**31 - 1

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_FRAME_HEADER = struct.Struct(">ih")  # size, then type or error
_PARTITION_AND_SIZE = struct.Struct(">ii")
_FETCH_TAIL = struct.Struct(">iqi")
_OFFSETS_TAIL = struct.Struct(">iqi")
_WAIT = struct.Struct(">4sii")
_WAIT_MARK = b"WAIT"

WAIT_BYTES = _WAIT.size
RESPONSE_HEADER_BYTES = _FRAME_HEADER.size
ERROR_BYTES = _INT16.size
"""What the size of a response counts before its body."""
_PRODUCE_TYPE = _INT16.pack(PRODUCE)
_ANY_PARTITION = _INT32.pack(ANY_PARTITION)
_SMALLEST_PRODUCE_BYTES = 2 * _INT16.size + _INT32.size  # type, length of the topic, partition
_PRODUCE_BYTES = _INT16.size + _PARTITION_AND_SIZE.size  # of a produce's frame, beside topic and set


class ProduceRequest(NamedTuple):
    """Append a message set to one partition; nothing is answered."""

    topic: str
    partition: int
    messages: AnyBytes


class FetchWait(NamedTuple):
    """How long an answer may wait for how many bytes; one of 0.7's brokers answers at once all the same."""

    max_ms: int
    min_bytes: int


AT_ONCE = FetchWait(0, 0)
"""The wait of a client of this package, to which a broker tells errors that would end a client of 0.7."""


class FetchRequest(NamedTuple):
    """Send at most `max_bytes` of one partition's log from `offset` on. One that is a part of others has no `wait`."""

    topic: str
    partition: int
    offset: int
    max_bytes: int
    wait: FetchWait | None = None


class MultiFetchRequest(NamedTuple):
    """Several fetches answered in one response, each with an error of its own."""

    fetches: tuple[FetchRequest, ...]
    wait: FetchWait | None = None


class MultiProduceRequest(NamedTuple):
    """Several produces in one request, handled in order; nothing is answered."""

    produces: tuple[ProduceRequest, ...]


class OffsetsRequest(NamedTuple):
    """Up to `max_count` segment starts from before a time in ms, or before LATEST or EARLIEST, newest first.

    `is_ours` says that the client is one of this package.
    """

    topic: str
    partition: int
    time_ms: int
    max_count: int
    is_ours: bool = False


class RefusalRequest(NamedTuple):
    """Why a topic may not be consumed."""

    topic: str


FrameT = TypeVar("FrameT", bytes, memoryview)
_Part = TypeVar("_Part", ProduceRequest, FetchRequest)

Request = ProduceRequest | FetchRequest | MultiFetchRequest | MultiProduceRequest | OffsetsRequest | RefusalRequest


def encode_request(request: Request) -> bytes:
    """Return the whole frame of a request. Raises ProtocolError when a value does not fit its field."""
    try:
        if isinstance(request, ProduceRequest):
            return produce_frame(topic_field(request.topic), request.partition, request.messages)
        if isinstance(request, FetchRequest):
            return _frame(FETCH, [_encode_fetch(request), _encode_wait(request.wait)])
        if isinstance(request, MultiFetchRequest):
            count = _INT16.pack(len(request.fetches))
            return _frame(MULTIFETCH, [count, *map(_encode_fetch, request.fetches), _encode_wait(request.wait)])
        if isinstance(request, MultiProduceRequest):
            return multiproduce_frame(
                [(topic_field(produce.topic), produce.partition, produce.messages) for produce in request.produces]
            )
        if isinstance(request, RefusalRequest):
            return _frame(REFUSAL, [topic_field(request.topic)])
        tail = _OFFSETS_TAIL.pack(request.partition, request.time_ms, request.max_count)
        return _frame(OFFSETS, [topic_field(request.topic), tail, _encode_wait(AT_ONCE if request.is_ours else None)])
    except struct.error as error:
        raise ProtocolError(f"a value does not fit its field in {type(request).__name__}: {error}") from error


def without_wait(frame: bytes) -> bytes:
    """Return the frame of a request with a `wait`, but so that it is answered at once."""
    return frame[:-WAIT_BYTES] + _encode_wait(AT_ONCE)


def produce_frame(topic: bytes, partition: int, messages: AnyBytes) -> bytes:
    """Return the whole frame of a produce, with a topic that is a `topic_field` already: one is made for every send."""
    return b"".join((produce_head(topic, partition, len(messages)), messages))


def produce_head(topic: bytes, partition: int, set_bytes: int) -> bytes:
    """Return what stands before the set in such a frame. Raises ProtocolError where that is too large."""
    size = _PRODUCE_BYTES + len(topic) + set_bytes
    try:
        return _FRAME_HEADER.pack(size, PRODUCE) + topic + _PARTITION_AND_SIZE.pack(partition, set_bytes)
    except struct.error as error:
        raise ProtocolError(f"a produce of {size} bytes to partition {partition} does not fit a frame") from error


def multiproduce_frame(produces: Sequence[tuple[bytes, int, AnyBytes]]) -> bytes:
    """Return the whole frame of a multiproduce: `topic_field`, partition and set of each."""
    try:
        parts: list[AnyBytes] = [_INT16.pack(len(produces))]
        for topic, partition, messages in produces:
            parts += (topic, _PARTITION_AND_SIZE.pack(partition, len(messages)), messages)
    except struct.error as error:
        raise ProtocolError(f"a value does not fit its field in a multiproduce: {error}") from error
    return _frame(MULTIPRODUCE, parts)


def _is_a_set(data: bytes, start: int, end: int) -> bool:
    """Say whether a set's size and the set, which begin at `start`, end at `end`."""
    set_bytes = end - start - _INT32.size
    return set_bytes >= 0 and bool(_INT32.unpack_from(data, start)[0] == set_bytes)


def topic_field(topic: str) -> bytes:
    """Return a topic as a request contains it: its length and its UTF-8. Raises ProtocolError, or TypeError."""
    try:
        data = topic.encode()
    except UnicodeEncodeError as error:
        raise ProtocolError(f"topic {topic[:300]!r} is not Unicode text: {error.reason}") from error
    except AttributeError:
        raise TypeError(f"a topic is text, not {type(topic).__name__}") from None
    return _INT16.pack(len(data)) + data


def decode_request(frame: AnyBytes) -> Request:
    """Return the request in a frame without its size field. Raises ProtocolError for anything else."""
    try:
        (request_type,) = _INT16.unpack_from(frame)
        if request_type == PRODUCE:
            return _decode_produce(frame, _INT16.size)[0]
        if request_type == FETCH:
            fetch, end = _decode_fetch(frame, _INT16.size)
            return fetch if end == len(frame) else fetch._replace(wait=_decode_wait(frame, end))
        if request_type == MULTIFETCH:
            fetches, end = _decode_parts(frame, _decode_fetch)
            return MultiFetchRequest(fetches, _decode_wait(frame, end) if fetches else None)
        if request_type == MULTIPRODUCE:
            return MultiProduceRequest(_decode_parts(frame, _decode_produce)[0])
        if request_type == OFFSETS:
            topic, position = _decode_topic(frame, _INT16.size)
            where, time_ms, most = _OFFSETS_TAIL.unpack_from(frame, position)
            is_ours = _decode_wait(frame, position + _OFFSETS_TAIL.size) == AT_ONCE
            return OffsetsRequest(topic, where, time_ms, most, is_ours)
        if request_type == REFUSAL:
            return RefusalRequest(_decode_topic(frame, _INT16.size)[0])
    except struct.error as error:
        raise ProtocolError(f"a request of {len(frame)} bytes ends in the middle of a field") from error
    raise ProtocolError(f"request type {request_type} is unknown")


def encode_response_header(error_code: int, body_bytes: int) -> bytes:
    """Return size and error of a response, or of one part of a multifetch response, whose body follows."""
    return _FRAME_HEADER.pack(body_bytes + 2, error_code)


def encode_offsets_body(offsets: Sequence[int]) -> bytes:
    """Return the body of an offsets response."""
    return struct.pack(f">i{len(offsets)}q", len(offsets), *offsets)


def decode_response(frame: FrameT, what: str) -> FrameT:
    """Return the body of a response frame without its size field.

    Raises the BrokerError for the number in it, with `what` (topic, partition, offset asked for) in its text, or
    ProtocolError when the frame is too short.
    """
    if error_code := _error_code(frame, what):
        raise ErrorCodes.error_for(error_code, f"the broker refused {what}")
    return frame[ERROR_BYTES:]


def decode_fetch_response(frame: AnyBytes, what: str) -> tuple[int, bytes]:
    """Return error code and set of a fetch's response without its size field. Raises ProtocolError if too short."""
    return _error_code(frame, what), bytes(frame[ERROR_BYTES:])


def _error_code(frame: AnyBytes, what: str) -> int:
    if len(frame) < ERROR_BYTES:
        raise ProtocolError(f"a response of {len(frame)} bytes to {what} is too short for an error number")
    return int(_INT16.unpack_from(frame)[0])


def decode_multifetch_body(body: AnyBytes, count: int) -> list[tuple[int, bytes]]:
    """Return (error code, set) for each of the `count` parts that were asked for."""
    parts: list[tuple[int, bytes]] = []
    position = 0
    for _ in range(count):
        if position + _FRAME_HEADER.size > len(body):
            raise ProtocolError(f"a multifetch response has {len(parts)} parts instead of {count}")
        size, error_code = _FRAME_HEADER.unpack_from(body, position)
        end = position + _INT32.size + size
        if size < _INT16.size or end > len(body):
            raise ProtocolError(f"part {len(parts)} of a multifetch response claims {size} bytes")
        parts.append((error_code, bytes(body[position + _FRAME_HEADER.size : end])))
        position = end
    return parts


def decode_offsets_body(body: AnyBytes) -> list[int]:
    """Return the offsets in an offsets response, newest first."""
    if len(body) < _INT32.size:
        raise ProtocolError(f"an offsets response of {len(body)} bytes is too short")
    (count,) = _INT32.unpack_from(body)
    if count < 0 or _INT32.size + 8 * count > len(body):
        raise ProtocolError(f"an offsets response of {len(body)} bytes claims {count} offsets")
    return list(struct.unpack_from(f">{count}q", body, _INT32.size))


class FrameReader:
    """Cuts a stream of bytes into frames.

    Give it what was received with `receive_data`, take frames with `next_frame` until that returns None, which means
    that more bytes are needed. It holds what was received and nothing for what was merely announced.
    """

    __slots__ = ("_data", "_max_frame_bytes", "_partial", "_position")

    def __init__(self, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._partial = bytearray()  # the beginning of a frame whose rest has not come
        self._data = b""  # what came after it; from _position on, it has not been given out
        self._position = 0

    @property
    def buffered_bytes(self) -> int:
        """How many bytes were received and not yet given out in a frame."""
        return len(self._partial) + len(self._data) - self._position

    def receive_data(self, data: bytes) -> None:
        """Take bytes received from the other side."""
        if self._partial:
            self._partial += data
        elif self._position == len(self._data):
            self._data = data
            self._position = 0
        else:  # frames were left in it
            self._data = self._data[self._position :] + data
            self._position = 0

    def unfinished(self) -> tuple[bytearray, int]:
        """Return the beginning of a frame, after `next_frame` gave none, and its size with that field, as far as known.

        What then comes may be given to `receive_data`, or behind that beginning to `restart`. As far as it belongs to
        the same frame, it may also be appended to that beginning.
        """
        return self._partial, len(self._partial) + self.missing_bytes()

    def continue_unfinished(self, data: AnyBytes) -> None:
        """Take a copy of bytes that came behind the beginning of a frame that `unfinished` has returned."""
        self._partial += data

    def restart(self, data: AnyBytes) -> None:
        """Hold a copy of these bytes, and nothing else any more."""
        if data or self._partial:
            self._partial = bytearray(data)  # most often the beginning of a frame
        self._data = b""
        self._position = 0

    def next_frame(self) -> AnyBytes | None:
        """Return the next frame without its size field, or None if it is not complete.

        A large one that came in pieces is a view of them, so that it lies in memory once. Raises ProtocolError when its
        size is not positive or larger than allowed.
        """
        if self._partial:
            return self._complete_partial()
        data, start = self._data, self._position + _INT32.size
        if start <= len(data):
            end = start + self._checked(_INT32.unpack_from(data, start - _INT32.size)[0])
            if end <= len(data):
                self._position = end
                return data[start:end]
        self._partial += memoryview(data)[self._position :]
        self._data = b""
        self._position = 0
        return None

    def following_produces(self, frame: AnyBytes) -> list[bytes]:
        """Take the frames that follow, as far as each is a produce to the partition of `frame`, and whole.

        Return their sets. For a broker that wants to handle small ones together: none where `frame` is no such produce
        itself or large, where the broker is to choose the partition, or where no whole one follows.
        """
        if self._partial or not isinstance(frame, bytes) or not frame.startswith(_PRODUCE_TYPE):
            return []
        if not _SMALLEST_PRODUCE_BYTES <= len(frame) <= JOINED_FRAME_BYTES:
            return []
        head = frame[: _SMALLEST_PRODUCE_BYTES + _INT16.unpack_from(frame, _INT16.size)[0]]
        if len(head) > len(frame) or head[-4:] == _ANY_PARTITION or not _is_a_set(frame, len(head), len(frame)):
            return []
        sets: list[bytes] = []
        data, start = self._data, self._position + _INT32.size
        while start <= len(data):
            end = start + _INT32.unpack_from(data, start - _INT32.size)[0]
            if end > len(data) or end - start > self._max_frame_bytes or not data.startswith(head, start):
                break
            if not _is_a_set(data, start + len(head), end):
                break
            sets.append(data[start + len(head) + _INT32.size : end])
            self._position = end
            start = end + _INT32.size
        return sets

    def missing_bytes(self) -> int:
        """Return how many bytes the frame that `next_frame` found incomplete still needs, as far as is known."""
        partial = self._partial
        if len(partial) < _INT32.size:
            return _INT32.size - len(partial)
        return _INT32.size + self._checked(_INT32.unpack_from(partial)[0]) - len(partial)

    def _complete_partial(self) -> AnyBytes | None:
        """Give out the frame that came in pieces."""
        missing_bytes = self.missing_bytes()
        if missing_bytes > 0:
            return None
        received = memoryview(self._partial)
        end = len(received) + missing_bytes
        frame: AnyBytes = received[_INT32.size : end].toreadonly()
        if len(frame) < LARGE_FRAME_BYTES:
            frame = bytes(frame)
        self._data = bytes(received[end:])
        self._partial = bytearray()
        return frame

    def _checked(self, size: int) -> int:
        if not 0 < size <= self._max_frame_bytes:
            raise ProtocolError(f"a frame announces {size} bytes: allowed are 1 to {self._max_frame_bytes}")
        return size


def _frame(request_type: int, parts: Sequence[AnyBytes]) -> bytes:
    size = _INT16.size + sum(map(len, parts))
    if size > MAX_INT32:
        raise ProtocolError(f"a request of {size} bytes does not fit a frame")
    return b"".join((_FRAME_HEADER.pack(size, request_type), *parts))


def _encode_fetch(request: FetchRequest) -> bytes:
    return topic_field(request.topic) + _FETCH_TAIL.pack(request.partition, request.offset, request.max_bytes)


def _encode_wait(wait: FetchWait | None) -> bytes:
    return b"" if wait is None else _WAIT.pack(_WAIT_MARK, *wait)


# Each takes a position in a frame and returns a value and the position after it. A struct.error means that the frame
# has ended, so positions must never be negative.


def _decode_topic(frame: AnyBytes, position: int) -> tuple[str, int]:
    (size,) = _INT16.unpack_from(frame, position)
    if size < 0:
        raise ProtocolError(f"a topic claims {size} bytes")
    start = position + _INT16.size
    end = start + size
    # Bytes that are not UTF-8 become characters that no topic name has, so they spoil only their part of a request.
    return str(frame[start:end], "utf-8", "backslashreplace"), end


def _decode_produce(frame: AnyBytes, position: int) -> tuple[ProduceRequest, int]:
    topic, position = _decode_topic(frame, position)
    partition, size = _PARTITION_AND_SIZE.unpack_from(frame, position)
    start = position + _PARTITION_AND_SIZE.size
    end = start + size
    if size < 0 or end > len(frame):
        raise ProtocolError(f"a message set claims {size} bytes in a request of {len(frame)}")
    return ProduceRequest(topic, partition, frame[start:end]), end


def _decode_fetch(frame: AnyBytes, position: int) -> tuple[FetchRequest, int]:
    topic, position = _decode_topic(frame, position)
    return FetchRequest(topic, *_FETCH_TAIL.unpack_from(frame, position)), position + _FETCH_TAIL.size


def _decode_wait(frame: AnyBytes, position: int) -> FetchWait | None:
    """Return what is asked for behind a body, if it is that and nothing else."""
    if len(frame) - position != WAIT_BYTES:
        return None
    mark, max_ms, min_bytes = _WAIT.unpack_from(frame, position)
    return FetchWait(max_ms, min_bytes) if mark == _WAIT_MARK else None


def _decode_parts(
    frame: AnyBytes, decode: Callable[[AnyBytes, int], tuple[_Part, int]]
) -> tuple[tuple[_Part, ...], int]:
    (count,) = _INT16.unpack_from(frame, _INT16.size)
    if count < 0:
        raise ProtocolError(f"a request claims {count} parts")
    position = 2 * _INT16.size
    parts: list[_Part] = []
    for _ in range(count):
        part, position = decode(frame, position)
        parts.append(part)
    return tuple(parts), position
