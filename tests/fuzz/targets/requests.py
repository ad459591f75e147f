"""Requests as a broker receives them: cut into frames, decoded, and handled for several connections at once."""

from __future__ import annotations

import logging
import shutil
import struct
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kafka2011.broker.requests.handlers import Client, RequestHandlers
from kafka2011.broker.requests.message_check import MessageChecker
from kafka2011.errors import KafkaError, ProtocolError
from kafka2011.log.log_manager import LogManager, TopicSettings
from kafka2011.log.log_settings import LogSettings
from kafka2011.replica.codec import decode_data, decode_fetch, encode_data, encode_fetch
from kafka2011.replica.segments import (
    decode_comparison,
    decode_damage,
    decode_segment,
    decode_segment_ask,
    encode_comparison,
    encode_damage,
    encode_segment,
    encode_segment_ask,
)
from kafka2011.replica.standing import decode_answer, encode_answer
from kafka2011.wire.protocol import (
    FrameReader,
    ProduceRequest,
    decode_request,
    decode_response,
    encode_request,
)
from tests.fuzz.driver import Target, in_memory
from tests.fuzz.messages import with_right_checksums

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from tests.fuzz.driver import Run

_SIZE = struct.Struct(">i")
MAX_FRAME_BYTES = 1500
CLIENTS = 4
_MOST_LOGS = 400
_FLUSH_EVERY = 64
TOKENS = (b"t", b"topic", b"..", b"WAIT", b"\0\x01t", b"\0\0\0\0", b"\xff\xff\xff\xff\xff\xff\xff\xfe")


def _frames(pieces: list[bytes]) -> tuple[list[bytes], str]:
    """Return the frames in a stream that comes in pieces, and why it ends early, if it does."""
    reader = FrameReader(MAX_FRAME_BYTES)
    frames: list[bytes] = []
    try:
        for piece in pieces:
            reader.receive_data(piece)
            while (frame := reader.next_frame()) is not None:
                frames.append(bytes(frame))
    except ProtocolError as error:
        return frames, str(error)
    return frames, ""


def _following(data: bytes) -> list[bytes]:
    """Return all frames, where those that may be handled together are taken together."""
    reader = FrameReader(MAX_FRAME_BYTES)
    reader.receive_data(data)
    taken: list[bytes] = []
    while (frame := reader.next_frame()) is not None:
        taken.append(bytes(frame))
        head = b""  # as it came: a topic that is no UTF-8 is not encoded as it was
        for messages in reader.following_produces(frame):
            if not head:
                decoded = decode_request(frame)
                assert isinstance(decoded, ProduceRequest)
                head = bytes(frame[: -_SIZE.size - len(decoded.messages)])
            taken.append(head + _SIZE.pack(len(messages)) + messages)
    return taken


@contextmanager
def open_frames() -> Iterator[Run]:
    """Check that frames are the same in whatever pieces they come, and requests what they were encoded as."""

    def run(data: bytes) -> Hashable:
        frames, end = _frames([data])
        middle = len(data) // 3
        assert _frames([data[:middle], data[middle:]]) == (frames, end)
        if not end:
            assert _following(data) == frames
        requests = [decode_request(frame) for frame in frames]
        for request in requests:
            assert decode_request(encode_request(request)[4:]) == request
        return tuple(type(request).__name__ for request in requests[:3]), end[:20]

    yield run


class _Broker:
    """Logs on a disk in memory, and handlers for some clients."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="fuzz-", dir=in_memory()))
        self._cases = 0
        self._open()

    def _open(self) -> None:
        settings = LogSettings(max_segment_bytes=20_000, retention_bytes=100_000, flush_interval=3)
        self.logs = LogManager(self.directory / "logs", TopicSettings(num_partitions=2, of=lambda _topic: settings))
        self.logs.open()
        self.handlers = RequestHandlers(self.logs)
        self.clients = [self._client() for _ in range(CLIENTS)]

    @staticmethod
    def _client() -> Client:
        return Client(MessageChecker(1000, 1 << 20))

    def run(self, data: bytes) -> Hashable:
        """Handle a request of one client: the first byte says of which, and whether its messages are repaired."""
        self._cases += 1
        if self._cases % _FLUSH_EVERY == 0:
            self._tend()
        first, frame = data[:1] or b"\0", data[1:]
        number = first[0] % CLIENTS
        client = self.clients[number]
        request = decode_request(frame)
        if isinstance(request, ProduceRequest) and first[0] & 0x80:
            request = request._replace(messages=with_right_checksums(bytes(request.messages)))
        try:
            if isinstance(request, ProduceRequest) and first[0] & 0x40:
                self.handlers.produce_together(request, [bytes(request.messages)] * 2, client)
                return "together"
            reply = self.handlers.handle(request, client)
        except KafkaError:
            self.clients[number] = self._client()
            raise
        if reply is None:
            return type(request).__name__
        size = sum(len(part) if isinstance(part, bytes) else part.size for part in reply.parts)
        reply.release()
        assert size >= 6
        return type(request).__name__, min(size, 8), _error_of(reply.parts[0])

    def _tend(self) -> None:
        self.logs.flush_due()
        self.logs.clean_up()
        if len(self.logs.logs()) > _MOST_LOGS:
            self.close()
            self.directory.mkdir()
            self._open()

    def close(self) -> None:
        self.logs.close()
        shutil.rmtree(self.directory)


def _error_of(head: object) -> bytes:
    return head[4:6] if isinstance(head, bytes) else b""


@contextmanager
def open_handlers() -> Iterator[Run]:
    """Check that each request is done or refused, whatever other clients did before."""
    logging.disable(logging.CRITICAL)
    broker = _Broker()
    try:
        yield broker.run
        for log in broker.logs.logs():
            assert "/" not in log.topic
            assert log.topic not in {"", ".", ".."}
    finally:
        broker.close()
        logging.disable(logging.NOTSET)


@contextmanager
def open_replicas() -> Iterator[Run]:
    """Check what follower and leader say to each other: what is taken is written as it came."""

    def run(data: bytes) -> Hashable:
        first, body = data[:1], data[1:]
        if first == b"Q":
            request = decode_fetch(body, 0)
            assert decode_fetch(encode_fetch(request)[4:], 0) == request
            return "question", min(len(request.fetch.asks), 3)
        if first == b"S":
            standings = decode_answer(body, "a leader")
            assert decode_answer(decode_response(encode_answer(standings)[4:], "it"), "a leader") == [
                each._replace(seconds_behind=round(each.seconds_behind, 3)) for each in standings
            ]
            return "standing", min(len(standings), 3)
        if first in {b"C", b"D", b"G", b"W"}:
            return _of_segments(first, body)
        answer = decode_data(body, 0)
        parts = [part for part in encode_data(answer)[1:] if isinstance(part, bytes)]
        assert decode_data(b"".join(parts), 0) == answer
        return "answer", min(len(answer.given), 3)

    yield run


def _of_segments(first: bytes, body: bytes) -> Hashable:
    """Check what replicas ask each other about damage."""
    if first == b"D":
        ask = decode_segment_ask(body, 0)
        assert decode_segment_ask(encode_segment_ask(ask)[4:], 0) == ask
        return "question about a segment", type(ask)
    if first == b"C":
        compared = decode_comparison(body)
        assert decode_comparison(decode_response(encode_comparison(compared)[4:], "it")) == compared
        return "comparison", compared.is_same
    if first == b"G":
        given = decode_segment(body)
        parts = [part for part in encode_segment(given) if isinstance(part, bytes)]
        assert decode_segment(decode_response(b"".join(parts)[4:], "it")) == given
        return "bytes of a segment", bool(given.refusal)
    damage = decode_damage(body)
    assert decode_damage(decode_response(encode_damage(damage)[4:], "it")) == damage
    return "damage", damage.state, damage.is_whole


TARGETS = (
    Target("frames", 140_000, open_frames, (ProtocolError,), TOKENS),
    Target("replicas", 40_000, open_replicas, (ProtocolError,), TOKENS),
    Target("handlers", 60_000, open_handlers, (KafkaError,), TOKENS),
)
