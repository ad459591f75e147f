"""A replica fetch as bytes: the one request that 0.7 does not know, sent to replicas of the same broker id alone.

    request    size int32 | type int16 = 100 | epoch int64 | max wait ms int32 | name | disk | count int32 | asks
      ask      topic, partition int32, offset int64, flushed int64 (-1: not known yet), ranges int16, ranges
      range    start int64, end int64, digest
    response   size int32 | error int16 = 0 | epoch int64 | count int32 | given
      given    topic, partition int32, start int64, end int64, readable int64, equal int16, segment int64,
               modified ms int64, set size int32, set

Texts and digests are an int16 length and that many bytes. Where the set is empty, `segment` is the exact number of
partitions of the topic, 0 for a topic without one. Who does not lead in that epoch closes the connection. Wrong bytes
raise ProtocolError and nothing else.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.errors import ProtocolError
from kafka2011.replica.exchange import Ask, Given, Range, ReplicaData, ReplicaFetch
from kafka2011.replica.state import Replica
from kafka2011.wire.protocol import MAX_INT32, encode_response_header
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from kafka2011.message.header import AnyBytes
    from kafka2011.replica.exchange import Piece

REPLICA_FETCH = 100
EXACT_PARTITIONS = 103
"""A number that replicas which keep exact numbers of partitions list in their member node. It is no request's type."""
MOST_RANGES = 1024

_TYPE = struct.Struct(">h")
_SIZE = struct.Struct(">i")
_LENGTH = struct.Struct(">h")
_HEAD = struct.Struct(">hqi")
_ASK = struct.Struct(">iqqh")
_RANGE = struct.Struct(">qq")
_COUNT = struct.Struct(">i")
_DATA_HEAD = struct.Struct(">qi")
_GIVEN = struct.Struct(">iqqqhqqi")
_UNKNOWN = -1


class WaitingFetch(NamedTuple):
    """A follower's request, and how long its answer may wait for something new."""

    fetch: ReplicaFetch
    max_wait_ms: int


def encode_fetch(request: WaitingFetch) -> bytes:
    """Return the whole frame. Raises ProtocolError when a value does not fit its field."""
    fetch, max_wait_ms = request
    try:
        parts = [
            _HEAD.pack(REPLICA_FETCH, fetch.epoch, max_wait_ms),
            encode_text(fetch.follower.name),
            encode_text(fetch.follower.disk),
            _COUNT.pack(len(fetch.asks)),
        ]
        for where, ask in fetch.asks.items():
            flushed = _UNKNOWN if ask.flushed is None else ask.flushed
            parts += (encode_text(where.topic), _ASK.pack(where.partition, ask.offset, flushed, len(ask.compare)))
            for each in ask.compare:
                parts += (_RANGE.pack(each.start, each.end), _LENGTH.pack(len(each.digest)), each.digest)
        body = b"".join(parts)
        return _SIZE.pack(len(body)) + body
    except struct.error as error:
        raise ProtocolError(f"a value does not fit its field in a replica fetch: {error}") from error


def decode_fetch(frame: AnyBytes, broker_id: int) -> WaitingFetch:
    """Return the request in a frame without its size field; the partitions are of this broker id."""
    reader = FieldReader(frame)
    request_type, epoch, max_wait_ms = reader.take(_HEAD)
    if request_type != REPLICA_FETCH:
        raise ProtocolError(f"request type {request_type} is no replica fetch")
    try:
        follower = Replica.of(f"{reader.text()}:{reader.text()}")
    except ValueError as error:
        raise ProtocolError(f"a replica fetch of nobody: {error}") from error
    asks: dict[TopicPartition, Ask] = {}
    for _ in range(reader.count()):
        topic = reader.text()
        partition, offset, flushed, ranges = reader.take(_ASK)
        if min(partition, offset) < 0 or flushed < _UNKNOWN or not 0 <= ranges <= MOST_RANGES:
            raise ProtocolError(f"a replica fetch asks for offset {offset} of {topic[:300]!r}-{partition}")
        where = TopicPartition(topic, broker_id, partition)
        asks[where] = Ask(offset, None if flushed == _UNKNOWN else flushed, reader.ranges(ranges))
    reader.end()
    return WaitingFetch(ReplicaFetch(epoch, follower, asks), max_wait_ms)


def encode_data(data: ReplicaData) -> tuple[bytes | Piece, ...]:
    """Return the whole response, in which pieces of files stand as they are. Raises ProtocolError."""
    parts: list[bytes | Piece] = []
    size = _DATA_HEAD.size
    head = bytearray(_DATA_HEAD.pack(data.epoch, len(data.given)))
    try:
        for where, given in data.given.items():
            head += encode_text(where.topic)
            head += _GIVEN.pack(
                *(where.partition, given.start, given.end, given.readable, given.equal),
                *(given.segment, given.modified_ms, given.data_bytes),
            )
            if isinstance(given.data, bytes):
                head += given.data
            elif given.data_bytes:
                parts += (bytes(head), given.data)
                size += given.data_bytes
                head.clear()
    except struct.error as error:
        raise ProtocolError(f"a value does not fit its field in an answer to a replica: {error}") from error
    parts.append(bytes(head))
    size += sum(len(part) for part in parts if isinstance(part, bytes)) - _DATA_HEAD.size
    if size > MAX_INT32 - _TYPE.size:
        raise ProtocolError(f"an answer of {size} bytes to a replica does not fit a frame")
    return encode_response_header(0, size), *parts


def decode_data(body: AnyBytes, broker_id: int) -> ReplicaData:
    """Return what the body of a response says, of partitions of this broker id."""
    reader = FieldReader(body)
    (epoch,) = reader.take(struct.Struct(">q"))
    given: dict[TopicPartition, Given] = {}
    for _ in range(reader.count()):
        topic = reader.text()
        partition, start, end, readable, equal, segment, modified_ms, size = reader.take(_GIVEN)
        if min(partition, start, end, readable, equal, segment, modified_ms) < 0:
            raise ProtocolError(f"a leader gives less than nothing of {topic[:300]!r}-{partition}")
        data = reader.bytes_of(size)
        where = TopicPartition(topic, broker_id, partition)
        given[where] = Given(start, end, readable, equal, segment, modified_ms, data)
    reader.end()
    return ReplicaData(epoch, given)


class FieldReader:
    """Takes fields out of bytes, one after the other. Each method raises ProtocolError."""

    def __init__(self, data: AnyBytes) -> None:
        self._data = data
        self._position = 0

    def take(self, fields: struct.Struct) -> tuple[int, ...]:
        """Return the next fields."""
        start, self._position = self._position, self._position + fields.size
        try:
            return fields.unpack_from(self._data, start)
        except struct.error as error:
            raise ProtocolError(f"{len(self._data)} bytes between replicas end in the middle of a field") from error

    def bytes_of(self, size: int) -> bytes:
        """Return the next `size` bytes."""
        start, end = self._position, self._position + size
        if size < 0 or end > len(self._data):
            raise ProtocolError(f"a field of {size} bytes in {len(self._data)} bytes between replicas")
        self._position = end
        return bytes(self._data[start:end])

    def text(self) -> str:
        """Return a text; bytes that are no UTF-8 become characters that no name has."""
        return str(self.short_bytes(), "utf-8", "backslashreplace")

    def short_bytes(self) -> bytes:
        """Return bytes behind their length."""
        return self.bytes_of(*self.take(_LENGTH))

    def count(self) -> int:
        """Return how many partitions follow."""
        (count,) = self.take(_COUNT)
        if count < 0:
            raise ProtocolError(f"{count} partitions between replicas")
        return count

    def ranges(self, count: int) -> tuple[Range, ...]:
        """Return the next `count` ranges."""
        found = []
        for _ in range(count):
            start, end = self.take(_RANGE)
            found.append(Range(start, end, self.bytes_of(*self.take(_LENGTH))))
        return tuple(found)

    def end(self) -> None:
        """Check that nothing is left."""
        if self._position != len(self._data):
            raise ProtocolError(f"{len(self._data) - self._position} bytes too many between replicas")


def encode_text(text: str) -> bytes:
    """Return a text behind its length. Raises struct.error if it is too long."""
    data = text.encode()
    return _LENGTH.pack(len(data)) + data
