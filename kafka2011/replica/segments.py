"""What replicas of one broker id ask each other about damage, and its bytes: request 102, sent to those who say so.

    request    size int32 | type int16 = 102 | what int8 | epoch int64 | name | disk | topic | partition int32 | ...
      1, bytes of a closed segment     ... segment int64, size int64, position int64, count int32
      2, what is wrong at an offset    ... offset int64
      3, are these the same bytes      ... segment int64, size int64, position int64, count int32, digest
    response   size int32 | error int16 = 0 | ...
      to 1     refusal, size int32, bytes
      to 2     state int8, segment int64, end int64, modified ms int64, digest, size int32, bytes
      to 3     refusal, is the same int8

Digests are SHA-256. Texts and digests are an int16 length and that many bytes. Wrong bytes raise ProtocolError and
nothing else. Who does not know it, or does not answer now, closes the connection.
"""

from __future__ import annotations

import hashlib
import struct
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.errors import ProtocolError
from kafka2011.replica.codec import EXACT_PARTITIONS, REPLICA_FETCH, FieldReader, encode_text
from kafka2011.replica.state import Replica
from kafka2011.wire.protocol import encode_response_header
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from kafka2011.message.header import AnyBytes
    from kafka2011.replica.exchange import Piece

REPLICA_SEGMENT = 102
SPOKEN = (REPLICA_FETCH, REPLICA_SEGMENT, EXACT_PARTITIONS)
"""What a replica of this release says in its member node that it answers."""
MOST_BYTES = 8 * 1024 * 1024
"""Of a segment, in one answer."""

_SEGMENT, _DAMAGE, _DIGEST = 1, 2, 3
_HEAD = struct.Struct(">hbq")
_PARTITION = struct.Struct(">i")
_BYTES_ASKED = struct.Struct(">qqqi")
_OFFSET = struct.Struct(">q")
_SIZE = struct.Struct(">i")
_DAMAGE_HEAD = struct.Struct(">bqqq")


class Asker(NamedTuple):
    """Who asks, in which epoch, about which partition."""

    epoch: int
    replica: Replica
    where: TopicPartition


class SegmentAsk(NamedTuple):
    """Asks for `wanted_bytes` at a position of the closed segment that starts at `segment` and has `size_bytes`."""

    asker: Asker
    segment: int
    size_bytes: int
    position: int
    wanted_bytes: int


class DigestAsk(NamedTuple):
    """Asks whether such bytes of a closed segment, as a SegmentAsk names them, have this digest."""

    bytes_asked: SegmentAsk
    digest: bytes


class DamageAsk(NamedTuple):
    """Asks a leader what is wrong with what it has at an offset."""

    asker: Asker
    offset: int


class SegmentGiven(NamedTuple):
    """Bytes of a segment; `refusal` says why there are none, if there are none for good."""

    data: bytes | Piece = b""
    refusal: str = ""


class DigestGiven(NamedTuple):
    """Says whether bytes are the same; `refusal` says why nobody can tell, and is empty if somebody can."""

    is_same: bool
    refusal: str = ""


class DamageState(IntEnum):
    """What a leader says of an offset.

    GOOD: a good message starts there, or nothing does. REPAIRING: it is damaged, and other copies are being tried.
    LISTED: it is damaged, and nobody in sync has good bytes for now; whoever lacks it copies it as it is.
    """

    GOOD = 0
    REPAIRING = 1
    LISTED = 2


class DamageGiven(NamedTuple):
    """What a leader says of an offset. If it is listed, its bytes, in the segment that starts at `segment`.

    They are damaged up to `end`, of which this may be a part; `digest` is the SHA-256 of what is here.
    """

    state: DamageState
    segment: int = 0
    end: int = 0
    modified_ms: int = 0
    digest: bytes = b""
    data: bytes = b""

    @classmethod
    def listed(cls, segment: int, end: int, modified_ms: int, data: bytes) -> DamageGiven:
        """Return the answer for damaged bytes that nobody has in a better state."""
        return cls(DamageState.LISTED, segment, end, modified_ms, hashlib.sha256(data).digest(), data)

    @property
    def is_whole(self) -> bool:
        """Whether the bytes are those that the leader has."""
        return bool(self.data) and hashlib.sha256(self.data).digest() == self.digest


def encode_segment_ask(ask: SegmentAsk | DamageAsk | DigestAsk) -> bytes:
    """Return the whole frame. Raises ProtocolError when a value does not fit its field."""
    epoch, replica, where = ask.bytes_asked.asker if isinstance(ask, DigestAsk) else ask.asker
    try:
        if isinstance(ask, DigestAsk):
            kind, rest = _DIGEST, _BYTES_ASKED.pack(*ask.bytes_asked[1:]) + _bytes_field(ask.digest)
        elif isinstance(ask, SegmentAsk):
            kind, rest = _SEGMENT, _BYTES_ASKED.pack(*ask[1:])
        else:
            kind, rest = _DAMAGE, _OFFSET.pack(ask.offset)
        head = _HEAD.pack(REPLICA_SEGMENT, kind, epoch)
        who = (encode_text(replica.name), encode_text(replica.disk), encode_text(where.topic))
        body = b"".join((head, *who, _PARTITION.pack(where.partition), rest))
        return _SIZE.pack(len(body)) + body
    except struct.error as error:
        raise ProtocolError(f"a value does not fit its field in a question about a segment: {error}") from error


def decode_segment_ask(frame: AnyBytes, broker_id: int) -> SegmentAsk | DamageAsk | DigestAsk:
    """Return the question in a frame without its size field; the partition is of this broker id."""
    reader = FieldReader(frame)
    request_type, kind, epoch = reader.take(_HEAD)
    if request_type != REPLICA_SEGMENT or kind not in {_SEGMENT, _DAMAGE, _DIGEST}:
        raise ProtocolError(f"request type {request_type}, {kind} is no question about a segment")
    try:
        replica = Replica.of(f"{reader.text()}:{reader.text()}")
    except ValueError as error:
        raise ProtocolError(f"a question about a segment of nobody: {error}") from error
    topic, (partition,) = reader.text(), reader.take(_PARTITION)
    asker = Asker(epoch, replica, TopicPartition(topic, broker_id, partition))
    numbers = reader.take(_OFFSET if kind == _DAMAGE else _BYTES_ASKED)
    digest = reader.short_bytes() if kind == _DIGEST else b""
    reader.end()
    if min(partition, *numbers) < 0:
        raise ProtocolError(f"a question about less than nothing of {topic[:300]!r}-{partition}")
    if kind == _DAMAGE:
        return DamageAsk(asker, *numbers)
    ask = SegmentAsk(asker, *numbers)
    if not 0 < ask.wanted_bytes <= MOST_BYTES or ask.position + ask.wanted_bytes > ask.size_bytes:
        raise ProtocolError(f"{ask.wanted_bytes} bytes at {ask.position} of a segment of {ask.size_bytes}")
    return ask if kind == _SEGMENT else DigestAsk(ask, digest)


def encode_segment(given: SegmentGiven) -> tuple[bytes | Piece, ...]:
    """Return the whole response, in which a piece of a file stands as it is."""
    size = len(given.data) if isinstance(given.data, bytes) else given.data.size
    head = encode_text(given.refusal) + _SIZE.pack(size)
    return encode_response_header(0, len(head) + size) + head, given.data


def decode_segment(body: AnyBytes) -> SegmentGiven:
    """Return what the body of a response says."""
    reader = FieldReader(body)
    refusal, (size,) = reader.text(), reader.take(_SIZE)
    data = reader.bytes_of(size)
    reader.end()
    return SegmentGiven(data, refusal)


def encode_comparison(given: DigestGiven) -> bytes:
    """Return the whole response."""
    body = encode_text(given.refusal) + (b"\1" if given.is_same else b"\0")
    return encode_response_header(0, len(body)) + body


def decode_comparison(body: AnyBytes) -> DigestGiven:
    """Return what the body of a response says."""
    reader = FieldReader(body)
    refusal, flag = reader.text(), reader.bytes_of(1)
    reader.end()
    if flag not in {b"\0", b"\1"}:
        raise ProtocolError(f"bytes are the same, or not, and not {flag!r}")
    return DigestGiven(flag == b"\1", refusal)


def encode_damage(given: DamageGiven) -> bytes:
    """Return the whole response."""
    head = _DAMAGE_HEAD.pack(given.state, given.segment, given.end, given.modified_ms)
    body = b"".join((head, _bytes_field(given.digest), _SIZE.pack(len(given.data)), given.data))
    return encode_response_header(0, len(body)) + body


def decode_damage(body: AnyBytes) -> DamageGiven:
    """Return what the body of a response says."""
    reader = FieldReader(body)
    state, segment, end, modified_ms = reader.take(_DAMAGE_HEAD)
    digest = reader.short_bytes()
    data = reader.bytes_of(*reader.take(_SIZE))
    reader.end()
    if min(segment, end, modified_ms) < 0 or state not in set(DamageState):
        raise ProtocolError(f"a leader says {state} of a damaged segment at {segment}, up to {end}")
    return DamageGiven(DamageState(state), segment, end, modified_ms, digest, data)


def _bytes_field(data: bytes) -> bytes:
    return struct.pack(">h", len(data)) + data
