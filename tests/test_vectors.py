"""The bytes of a running Kafka 0.7.2, fed to our broker's handlers and read by our clients' code."""

from __future__ import annotations

import gzip
import os
from typing import TYPE_CHECKING, NamedTuple

import pytest

from kafka2011.broker.handlers import RefusedError, RequestHandlers
from kafka2011.broker.log_manager import LogManager
from kafka2011.broker.log_settings import LogSettings
from kafka2011.broker.message_check import MessageChecker
from kafka2011.compression import Codec
from kafka2011.errors import ProtocolError
from kafka2011.message import MessageSet, decode, encode, scan
from kafka2011.protocol import (
    EARLIEST,
    LATEST,
    FetchRequest,
    FrameReader,
    MultiFetchRequest,
    OffsetsRequest,
    ProduceRequest,
    Request,
    decode_multifetch_body,
    decode_offsets_body,
    decode_request,
    decode_response,
    encode_request,
)
from zk.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAYLOADS = [b"hello", b"kafka 0.7"]
MAX_MESSAGE_BYTES = 1_000_000
MAX_FRAME_BYTES = 100 * 1024 * 1024


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
        self.logs = LogManager(log_dir, settings_for=lambda _: LogSettings(flush_interval=10**9), clock=self.clock)
        self._handlers = RequestHandlers(self.logs)
        self._checker = MessageChecker(MAX_MESSAGE_BYTES, MAX_FRAME_BYTES)

    def answer(self, sent: bytes) -> bytes | None:
        """Return all that is sent on one connection in answer to what a client sent, or None if it is closed first."""
        reader = FrameReader(MAX_FRAME_BYTES)
        reader.receive_data(sent)
        answer = b""
        try:
            while (frame := reader.next_frame()) is not None:
                reply = self._handlers.handle(decode_request(frame), self._checker)
                for part in reply.parts if reply is not None else ():
                    answer += part if isinstance(part, bytes) else os.pread(part.fd, part.size, part.position)
                if reply is not None:
                    reply.release()
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
    found = list(iter(reader.next_frame, None))
    assert reader.buffered_bytes == 0
    return found


def sent_names(vectors: Path) -> list[str]:
    return sorted(path.name.removesuffix(".request.bin") for path in vectors.glob("*.request.bin"))


# What was captured of single connections

PRODUCED = (
    "produce_nocompression_2msgs",
    "produce_gzip_2msgs",
    "produce_snappy_2msgs",
    "produce_nocompression_2msgs_random_partition",
    "multiproduce_nocompression_2topics",
    "multiproduce_gzip_2topics",
    "highlevel_producer_sync_send_2msgs",
    "highlevel_producer_async_2msgs_batch2",
)
ANSWERED = (
    "fetch_at_log_end",
    "fetch_gzip_2msgs",
    "fetch_maxsize_too_small_10",
    "fetch_nocompression_2msgs",
    "fetch_offset_out_of_range",
    "fetch_snappy_2msgs",
    "fetch_truncated_maxsize_24",
    "fetch_unknown_topic",
    "fetch_wrong_partition",
    "highlevel_consumer_zk",
    "highlevel_consumer_zk.conn1",
    "multifetch_2topics_nocompression_and_gzip",
    "multifetch_ok_and_out_of_range_and_unknown_topic",
    "offsets_earliest_max1",
    "offsets_latest_max1",
    "offsets_latest_max10",
    "offsets_time_1_before_everything",
    "offsets_time_now_max10",
    "offsets_unknown_topic_latest",
)
CLOSED = ("offsets_wrong_partition", "offsets_wrong_partition.conn1")


@pytest.fixture(scope="module")
def filled(vectors: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Give a broker that got everything the captured producers sent, and has flushed it."""
    broker = Broker(tmp_path_factory.mktemp("filled"))
    with broker.logs:
        for name in PRODUCED:
            assert broker.answer((vectors / f"{name}.request.bin").read_bytes()) == b"", name
            assert (vectors / f"{name}.response.bin").read_bytes() == b""
        broker.flush()
        yield broker


def test_no_vector_is_forgotten(vectors: Path) -> None:
    """Every connection that was captured stands in one of the three lists."""
    assert sent_names(vectors) == sorted((*PRODUCED, *ANSWERED, *CLOSED))


@pytest.mark.parametrize("name", [*PRODUCED, *ANSWERED, *CLOSED])
def test_captured_requests_are_understood_and_written_alike(vectors: Path, name: str) -> None:
    """Each request of a real client is decoded, and encodes to the very bytes that it was."""
    sent = (vectors / f"{name}.request.bin").read_bytes()
    assert b"".join(encode_request(decode_request(frame)) for frame in frames(sent)) == sent


@pytest.mark.parametrize("name", ANSWERED)
def test_captured_requests_get_the_captured_answers(filled: Broker, vectors: Path, name: str) -> None:
    """Our broker answers a real client with the bytes of the real broker, pipelined requests too."""
    sent = (vectors / f"{name}.request.bin").read_bytes()
    request = decode_request(frames(sent)[0])
    if isinstance(request, OffsetsRequest) and request.time_ms > 1:
        # Asked for "now", which had passed when the answer was made; the segment was written shortly before.
        filled.clock.stopped_at_ms = request.time_ms + 5
        [segment] = (filled.logs.log_dir / "cap-0").iterdir()
        os.utime(segment, (request.time_ms / 1000 - 1,) * 2)
    assert filled.answer(sent) == (vectors / f"{name}.response.bin").read_bytes()
    filled.clock.stopped_at_ms = None


@pytest.mark.parametrize("name", CLOSED)
def test_where_the_real_broker_closed_ours_does(filled: Broker, vectors: Path, name: str) -> None:
    """Without a word, as 0.7.2 treats offsets of a partition that is not there."""
    assert (vectors / f"{name}.response.bin").read_bytes() == b""
    assert filled.answer((vectors / f"{name}.request.bin").read_bytes()) is None


@pytest.mark.parametrize("name", ["cap-0_nocompression", "capgz-0_gzip", "capsn-0_snappy"])
def test_segments_are_the_captured_ones(filled: Broker, vectors: Path, name: str) -> None:
    """The same sets make the same file, byte for byte, and all codecs read back."""
    golden = (vectors / f"segment_{name}.kafka").read_bytes()
    directory = name.partition("_")[0]
    assert (filled.logs.log_dir / directory / f"{0:020}.kafka").read_bytes() == golden
    assert [message.payload for message in decode(golden, "t", 0, 0, 0)] == PAYLOADS


@pytest.mark.parametrize("name", ANSWERED)
def test_captured_answers_are_understood_by_our_clients(vectors: Path, name: str) -> None:
    """Every answer of the real broker decodes: sets to whole and cut-off messages, offsets to numbers."""
    requests = [decode_request(frame) for frame in frames((vectors / f"{name}.request.bin").read_bytes())]
    answers = frames((vectors / f"{name}.response.bin").read_bytes())
    assert len(answers) == len(requests)
    for request, answer in zip(requests, answers, strict=True):
        if isinstance(request, OffsetsRequest):
            assert set(decode_offsets_body(decode_response(answer, name))) <= {0, 34}
        elif isinstance(request, MultiFetchRequest):
            for part, (code, data) in zip(
                request.fetches,
                decode_multifetch_body(decode_response(answer, name), len(request.fetches)),
                strict=True,
            ):
                assert code == (1 if part.offset == 99999 else 0)
                assert [message.payload for message in decode(data, part.topic, 0, 0, part.offset)] in (PAYLOADS, [])
        elif answer[:2] == b"\0\0":
            found = scan(decode_response(answer, name))
            assert found.fault is None
            assert found.end + found.partial_bytes == len(answer) - 2


def test_our_producer_writes_what_the_real_one_wrote(vectors: Path) -> None:
    """Uncompressed and Snappy sets byte for byte; GZIP opens to the same, since its bytes differ between libraries."""
    for topic, codec, name in (
        ("cap", Codec.NONE, "produce_nocompression_2msgs"),
        ("capsn", Codec.SNAPPY, "produce_snappy_2msgs"),
    ):
        made = encode_request(ProduceRequest(topic, 0, bytes(MessageSet(PAYLOADS, codec))))
        assert made == (vectors / f"{name}.request.bin").read_bytes()
    [frame] = frames((vectors / "produce_gzip_2msgs.request.bin").read_bytes())
    request = decode_request(frame)
    assert isinstance(request, ProduceRequest)
    [theirs], [ours] = scan(request.messages).wrappers, scan(bytes(MessageSet(PAYLOADS, Codec.GZIP))).wrappers
    assert theirs.codec == ours.codec == Codec.GZIP
    opened = gzip.decompress(request.messages[theirs.payload_start : theirs.end])
    assert opened == bytes(MessageSet(PAYLOADS))
    assert gzip.decompress(bytes(MessageSet(PAYLOADS, Codec.GZIP))[ours.payload_start : ours.end]) == opened


# Edge cases, in the order in which a real broker was asked


class Probe(NamedTuple):
    """What is sent on one connection, and the answer without its size; None: the connection is closed."""

    label: str
    sent: bytes
    reply: str | None
    reply_of_07: str | None = ""
    """Where ours differs on purpose."""
    flush_after: bool = False


def offsets(value: int) -> str:
    return f"0000 00000001 {value:016x}"


def produce(data: bytes, topic: str = "probe", partition: int = 0) -> bytes:
    """Return a produce with a request behind it that is answered, so that a closed connection shows."""
    return encode_request(ProduceRequest(topic, partition, data)) + ask_latest(topic)


def ask_latest(topic: str = "probe") -> bytes:
    return encode_request(OffsetsRequest(topic, 0, LATEST, 1))


def fetch(offset: int, max_bytes: int) -> bytes:
    return encode_request(FetchRequest("probe", 0, offset, max_bytes))


OLD = bytes.fromhex("00000008 00 3f5dd4e5 6f6c64")  # magic 0, b"old"
EMPTY = bytes.fromhex("00000006 01 00 00000000")
OK = bytes.fromhex("00000008 01 00 79dcdd47 6f6b")
ALL = (OLD + EMPTY + OK).hex()

PROBES = [
    Probe("produce magic0 then offsets", produce(OLD), offsets(0), flush_after=True),
    Probe("fetch magic0 back", fetch(0, 1000), f"0000 {OLD.hex()}"),
    Probe("produce bad crc then offsets", produce(OK[:-1] + b"?"), None),
    Probe("produce partition 5 of 1 then offsets", produce(OK, partition=5), None),
    Probe("produce magic 2 then offsets", produce(OK[:4] + b"\2" + OK[5:]), None),
    Probe("produce empty message set then offsets", produce(b""), offsets(12)),
    Probe("produce empty payload then offsets", produce(EMPTY), offsets(12)),
    Probe("produce trailing partial message then offsets", produce(OK + OK[:9]), offsets(12), flush_after=True),
    Probe("offsets after", ask_latest(), offsets(34)),
    Probe("fetch", fetch(0, 1000), f"0000 {ALL}"),
    Probe("produce > max.message.size (1000001 B) then offsets", produce(encode(bytes(1_000_001))), offsets(34)),
    Probe("produce = 1000000 B then offsets", produce(encode(bytes(1_000_000))), offsets(34)),
    Probe("produce attr=3 (unknown codec) then offsets", produce(OK[:5] + b"\3" + OK[6:]), None),
    Probe("produce attr=1 (gzip) garbage payload then offsets", produce(encode(b"garbage", Codec.GZIP)), None),
    Probe("unknown request id 9", bytes.fromhex("00000002 0009"), None),
    Probe("size 0 frame", bytes(4), None),
    Probe("size > 100MB frame", (MAX_FRAME_BYTES + 1).to_bytes(4, "big"), None),
    Probe('bad topic name ".." then offsets', produce(OK, ".."), None),
    Probe("empty topic name produce then offsets", produce(OK, ""), None),
    Probe("fetch mid-message offset 3", fetch(3, 1000), f"0000 {ALL[6:]}"),
    Probe("fetch negative offset", fetch(-1, 1000), "0001"),
    Probe("fetch max 0", fetch(0, 0), "0000"),
    Probe("fetch max -1", fetch(0, -1), "0004", reply_of_07="00"),  # a malformed frame there, an error here
    Probe("pipelined 2 offsets (first reply)", ask_latest() * 2, offsets(34)),
]


@pytest.fixture(scope="module")
def probed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, bytes | None]]:
    """Give the first answer to each probe, all sent to one broker in order."""
    broker = Broker(tmp_path_factory.mktemp("probed"))
    answers: dict[str, bytes | None] = {}
    with broker.logs:
        for probe in PROBES:
            answer = broker.answer(probe.sent)
            answers[probe.label] = None if answer is None else frames(answer)[0]
            if probe.flush_after:
                broker.flush()
        yield answers


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.label)
def test_edge_cases_are_answered_as_said(probed: dict[str, bytes | None], probe: Probe) -> None:
    """Each edge case gets the answer of the table, byte for byte, or its connection closed."""
    assert probed[probe.label] == (None if probe.reply is None else bytes.fromhex(probe.reply))


def test_edge_cases_are_those_of_a_real_broker(vectors: Path) -> None:
    """The table says what a real 0.7.2 did, in the same order, but for the one case that differs on purpose."""
    lines = (vectors / "probe_edge_cases.txt").read_text().splitlines()
    real = [(label.strip(), reply.strip()) for label, _, reply in (line.rpartition("->") for line in lines)]
    ours = [(probe.label, (probe.reply_of_07 or probe.reply or "CLOSED").replace(" ", "")) for probe in PROBES]
    assert ours == real
    assert [probe.label for probe in PROBES if probe.reply_of_07] == ["fetch max -1"]


# The same without any file: golden bytes of our own


GOLDEN: list[tuple[str, Request, str | None]] = [
    ("00000019 0000 0001 67 00000000 0000000c" + OLD.hex(), ProduceRequest("g", 0, OLD), ""),
    ("00000023 0000 0001 67 ffffffff 00000016" + (EMPTY + OK).hex(), ProduceRequest("g", -1, EMPTY + OK), ""),
    (
        "00000015 0001 0001 67 00000000 0000000000000000 00001000",
        FetchRequest("g", 0, 0, 4096),
        "00000024 0000" + ALL,
    ),
    ("00000015 0001 0001 67 00000000 0000000000000022 00001000", FetchRequest("g", 0, 34, 4096), "00000002 0000"),
    ("00000015 0001 0001 67 00000000 0000000000000023 00001000", FetchRequest("g", 0, 35, 4096), "00000002 0001"),
    ("00000015 0001 0001 67 00000001 0000000000000000 00001000", FetchRequest("g", 1, 0, 4096), "00000002 0003"),
    (
        "0000002a 0002 0002 0001 67 00000000 0000000000000000 0000000c 0001 68 00000000 0000000000000000 00001000",
        MultiFetchRequest((FetchRequest("g", 0, 0, 12), FetchRequest("h", 0, 0, 4096))),
        "0000001a 0000 0000000e 0000" + OLD.hex() + "00000002 0000",
    ),
    (
        "00000015 0004 0001 67 00000000 ffffffffffffffff 0000000a",
        OffsetsRequest("g", 0, LATEST, 10),
        "00000016 0000 00000002 0000000000000022 0000000000000000",
    ),
    (
        "00000015 0004 0001 67 00000000 fffffffffffffffe 00000001",
        OffsetsRequest("g", 0, EARLIEST, 1),
        "0000000e 0000 00000001 0000000000000000",
    ),
    (
        "00000015 0004 0001 67 00000000 0000000000000001 0000000a",
        OffsetsRequest("g", 0, 1, 10),
        "00000006 0000 00000000",
    ),
    ("00000015 0004 0001 67 00000007 ffffffffffffffff 0000000a", OffsetsRequest("g", 7, LATEST, 10), None),
]


def test_a_conversation_in_golden_bytes(tmp_path: Path) -> None:
    """Requests and answers written out by hand, from producing to an error, over a real log."""
    broker = Broker(tmp_path)
    with broker.logs:
        for golden, request, reply in GOLDEN:
            sent = bytes.fromhex(golden)
            assert encode_request(request) == sent
            assert broker.answer(sent) == (None if reply is None else bytes.fromhex(reply)), request
            broker.flush()
    assert (tmp_path / "g-0" / f"{0:020}.kafka").read_bytes() == bytes.fromhex(ALL)
