"""What clients of Kafka 0.7.2 send, fed to our handlers, and what its broker answers, read by our clients' code."""

from __future__ import annotations

import gzip
import os
from typing import TYPE_CHECKING

import pytest

from kafka2011.broker.requests.handlers import Client, RefusedError, RequestHandlers
from kafka2011.broker.requests.message_check import MessageChecker
from kafka2011.errors import ProtocolError
from kafka2011.log.log_manager import LogManager, TopicSettings
from kafka2011.log.log_settings import LogSettings
from kafka2011.message.compression import Codec
from kafka2011.message.message_set import MessageSet, decode, scan
from kafka2011.wire.protocol import (
    FrameReader,
    MultiFetchRequest,
    OffsetsRequest,
    ProduceRequest,
    decode_multifetch_body,
    decode_offsets_body,
    decode_request,
    decode_response,
    encode_request,
)
from tests.support.bytes_of_07 import ANSWERED, CLOSED, PAIR, PAIR_GZIP, PAYLOADS, PRODUCED, SEGMENTS, answer
from tests.support.edge_cases_of_07 import EDGE_CASES, MAX_FRAME_BYTES, MAX_MESSAGE_BYTES, EdgeCase
from tests.support.replies import bytes_of
from zk.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("each_code")

ALL_SENT = {**PRODUCED, **CLOSED, **{name: sent for name, (sent, _) in ANSWERED.items()}}


class Clock(SystemClock):
    """A wall clock that stands still when told to."""

    stopped_at_ms: float | None = None

    def wall_s(self) -> float:
        """Return the time to believe in."""
        return super().wall_s() if self.stopped_at_ms is None else self.stopped_at_ms / 1000


class Broker:
    """Our handlers over real logs, and a connection to them without a socket."""

    def __init__(self, log_dir: Path) -> None:
        self.clock = Clock()
        self.logs = LogManager(log_dir, TopicSettings(of=lambda _: LogSettings(flush_interval=10**9)), clock=self.clock)
        self._handlers = RequestHandlers(self.logs)
        self._client = Client(MessageChecker(MAX_MESSAGE_BYTES, MAX_FRAME_BYTES))

    def answer(self, sent: bytes) -> bytes | None:
        """Return all that is sent on one connection in answer to what a client sent, or None if it is closed first."""
        reader = FrameReader(MAX_FRAME_BYTES)
        reader.receive_data(sent)
        answer = b""
        try:
            while (frame := reader.next_frame()) is not None:
                reply = self._handlers.handle(decode_request(frame), self._client)
                answer += bytes_of(reply)
        except (ProtocolError, RefusedError):
            return None
        assert reader.buffered_bytes == 0
        return answer

    def flush(self) -> None:
        for log in self.logs.logs():
            log.flush()


def frames(sent: bytes) -> list[bytes]:
    reader = FrameReader()
    reader.receive_data(sent)
    found = [bytes(frame) for frame in iter(reader.next_frame, None)]
    assert reader.buffered_bytes == 0
    return found


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Give a broker that got everything the producers sent, and has flushed it."""
    broker = Broker(tmp_path_factory.mktemp("filled"))
    with broker.logs:
        for name, sent in PRODUCED.items():
            assert broker.answer(sent) == b"", name
        broker.flush()
        yield broker


@pytest.mark.parametrize("name", ALL_SENT)
def test_requests_are_understood_and_written_alike(name: str) -> None:
    """Each request of a real client is decoded, and encodes to the very bytes that it was."""
    sent = ALL_SENT[name]
    assert b"".join(encode_request(decode_request(frame)) for frame in frames(sent)) == sent


@pytest.mark.parametrize("name", ANSWERED)
def test_requests_get_the_answers_of_a_real_broker(filled: Broker, name: str) -> None:
    """Our broker answers a real client with the bytes of the real broker, pipelined requests too."""
    sent, answered = ANSWERED[name]
    request = decode_request(frames(sent)[0])
    if isinstance(request, OffsetsRequest) and request.time_ms > 1:
        # Asked for "now", which had passed when the answer was made; the segment was written shortly before.
        filled.clock.stopped_at_ms = request.time_ms + 5
        [segment] = (filled.logs.log_dir / "cap-0").iterdir()
        os.utime(segment, (request.time_ms / 1000 - 1,) * 2)
    assert filled.answer(sent) == answered
    filled.clock.stopped_at_ms = None


@pytest.mark.parametrize("name", CLOSED)
def test_where_the_real_broker_closed_ours_does(filled: Broker, name: str) -> None:
    """Without a word, as 0.7.2 treats offsets of a partition that is not there."""
    assert filled.answer(CLOSED[name]) is None


@pytest.mark.parametrize("directory", SEGMENTS)
def test_segments_are_those_of_a_real_broker(filled: Broker, directory: str) -> None:
    """The same sets make the same file, byte for byte, and all codecs read back."""
    golden = SEGMENTS[directory]
    assert (filled.logs.log_dir / directory / f"{0:020}.kafka").read_bytes() == golden
    assert [message.payload for message in decode(golden, "t", 0, 0, 0)] == PAYLOADS


@pytest.mark.parametrize("name", ANSWERED)
def test_answers_are_understood_by_our_clients(name: str) -> None:
    """Every answer of the real broker decodes: sets to whole and cut-off messages, offsets to numbers."""
    sent, answered = ANSWERED[name]
    requests, answers = [decode_request(frame) for frame in frames(sent)], frames(answered)
    for request, body in zip(requests, answers, strict=True):
        if isinstance(request, OffsetsRequest):
            assert set(decode_offsets_body(decode_response(body, name))) <= {0, 34}
        elif isinstance(request, MultiFetchRequest):
            for part, (code, data) in zip(
                request.fetches,
                decode_multifetch_body(decode_response(body, name), len(request.fetches)),
                strict=True,
            ):
                assert code == (1 if part.offset == 99999 else 0)
                assert [message.payload for message in decode(data, part.topic, 0, 0, part.offset)] in (PAYLOADS, [])
        elif body[:2] == b"\0\0":
            found = scan(decode_response(body, name))
            assert found.fault is None
            assert found.end + found.partial_bytes == len(body) - 2


def test_our_producer_writes_what_the_real_one_wrote() -> None:
    """Uncompressed and Snappy sets byte for byte; GZIP opens to the same, since its bytes differ between libraries."""
    for topic, codec, name in (
        ("cap", Codec.NONE, "produce_nocompression_2msgs"),
        ("capsn", Codec.SNAPPY, "produce_snappy_2msgs"),
    ):
        assert encode_request(ProduceRequest(topic, 0, bytes(MessageSet(PAYLOADS, codec)))) == PRODUCED[name]
    made = bytes(MessageSet(PAYLOADS, Codec.GZIP))
    [theirs], [ours] = scan(PAIR_GZIP).wrappers, scan(made).wrappers
    assert theirs.codec == ours.codec == Codec.GZIP
    assert gzip.decompress(PAIR_GZIP[theirs.payload_start : theirs.end]) == PAIR
    assert gzip.decompress(made[ours.payload_start : ours.end]) == PAIR


DIFFERS_ON_PURPOSE = {"fetch max -1": answer(error=4)}
"""A malformed frame there, an error here."""


@pytest.fixture(scope="module")
def answers_to_edge_cases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, bytes | None]]:
    """Give all that is answered to each edge case, all sent to one broker in order."""
    broker = Broker(tmp_path_factory.mktemp("edge-cases"))
    answers: dict[str, bytes | None] = {}
    with broker.logs:
        for case in EDGE_CASES:
            answers[case.label] = broker.answer(case.sent)
            if case.is_flushed_after:
                broker.flush()
        yield answers


@pytest.mark.parametrize("case", EDGE_CASES, ids=lambda case: case.label)
def test_edge_cases_end_as_with_a_real_broker(answers_to_edge_cases: dict[str, bytes | None], case: EdgeCase) -> None:
    """The first answer is the same byte for byte, or the connection is closed, but for what differs on purpose."""
    answered, expected = answers_to_edge_cases[case.label], DIFFERS_ON_PURPOSE.get(case.label, case.reply)
    if expected is None:
        assert answered is None
    else:
        assert answered is not None
        assert answered[: len(expected)] == expected
        frames(answered)  # whole ones
