"""Requests, responses and frames: golden bytes, round trips, and wrong bytes."""

from __future__ import annotations

import random
import struct
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafka2011.errors import KafkaError, OffsetOutOfRangeError, ProtocolError, UnknownError
from kafka2011.message.message_set import encode
from kafka2011.wire import protocol
from kafka2011.wire.protocol import (
    ANY_PARTITION,
    FetchRequest,
    FetchWait,
    FrameReader,
    MultiFetchRequest,
    MultiProduceRequest,
    OffsetsRequest,
    ProduceRequest,
    Request,
    decode_multifetch_body,
    decode_offsets_body,
    decode_request,
    decode_response,
    encode_offsets_body,
    encode_request,
    encode_response_header,
    without_wait,
)

SET = bytes.fromhex("0000000b 01 00 3610a686 68656c6c6f")

# Written out by hand: size, type, then the body field by field. 'views' is 0005 7669657773.
GOLDEN: list[tuple[str, Request]] = [
    (
        "00000020 0000 0005 7669657773 00000002 0000000f" + SET.hex(),
        ProduceRequest("views", 2, SET),
    ),
    ("00000011 0000 0005 7669657773 ffffffff 00000000", ProduceRequest("views", protocol.ANY_PARTITION, b"")),
    (
        "00000019 0001 0005 7669657773 00000007 0000000100000002 00100000",
        FetchRequest("views", 7, 2**32 + 2, 1024 * 1024),
    ),
    ("00000004 0002 0000", MultiFetchRequest(())),
    (
        (
            "0000002e 0002 0002 0001 61 00000000 0000000000000000 000003e8"
            "0005 7669657773 00000001 ffffffffffffffff 7fffffff"
        ),
        MultiFetchRequest((FetchRequest("a", 0, 0, 1000), FetchRequest("views", 1, -1, 2**31 - 1))),
    ),
    ("00000004 0003 0000", MultiProduceRequest(())),
    (
        "00000029 0003 0002 0001 61 00000000 0000000f" + SET.hex() + "0001 62 ffffffff 00000000",
        MultiProduceRequest((ProduceRequest("a", 0, SET), ProduceRequest("b", -1, b""))),
    ),
    (
        "00000019 0004 0005 7669657773 00000000 ffffffffffffffff 00000001",
        OffsetsRequest("views", 0, protocol.LATEST, 1),
    ),
    (
        "00000019 0004 0005 7669657773 00000000 fffffffffffffffe 0000000a",
        OffsetsRequest("views", 0, protocol.EARLIEST, 10),
    ),
    ("00000017 0001 0003 e282ac 00000000 0000000000000000 00000000", FetchRequest("\u20ac", 0, 0, 0)),
]

WAITING: list[tuple[str, Request]] = [
    (
        "00000025 0001 0005 7669657773 00000002 0000000000000003 00000004 57414954 00000005 00000006",
        FetchRequest("views", 2, 3, 4, FetchWait(5, 6)),
    ),
    (
        "00000027 0002 0001 0005 7669657773 00000002 0000000000000003 00000004 57414954 ffffffff 80000000",
        MultiFetchRequest((FetchRequest("views", 2, 3, 4),), FetchWait(-1, -(2**31))),
    ),
]

_TOPICS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_INT32 = st.integers(-(2**31), 2**31 - 1)
_INT64 = st.integers(-(2**63), 2**63 - 1)
_PRODUCE = st.builds(ProduceRequest, _TOPICS, _INT32, st.binary(max_size=80))
_FETCH = st.builds(FetchRequest, _TOPICS, _INT32, _INT64, _INT32, st.none())
_WAIT = st.none() | st.builds(FetchWait, _INT32, _INT32)
REQUESTS: st.SearchStrategy[Request] = st.one_of(
    _PRODUCE,
    st.builds(FetchRequest._replace, _FETCH, wait=_WAIT),
    st.builds(MultiFetchRequest, st.lists(_FETCH, min_size=1, max_size=5).map(tuple), _WAIT),
    st.just(MultiFetchRequest(())),
    st.builds(MultiProduceRequest, st.lists(_PRODUCE, max_size=5).map(tuple)),
    st.builds(OffsetsRequest, _TOPICS, _INT32, _INT64, _INT32),
)


def topics_of(request_: Request) -> list[str]:
    if isinstance(request_, MultiFetchRequest):
        return [fetch.topic for fetch in request_.fetches]
    if isinstance(request_, MultiProduceRequest):
        return [produce.topic for produce in request_.produces]
    return [request_.topic]


def frames(reader: FrameReader) -> list[bytes]:
    return [bytes(frame) for frame in iter(reader.next_frame, None)]


def read_in_pieces(data: bytes, cuts: list[int], reader: FrameReader) -> list[bytes]:
    """Return all frames of a stream that arrives cut at these places."""
    found: list[bytes] = []
    received_bytes = given_bytes = 0
    for start, end in pairwise([0, *sorted(cuts), len(data)]):
        reader.receive_data(data[start:end])
        received_bytes += end - start
        assert reader.buffered_bytes == received_bytes - given_bytes
        new = frames(reader)
        given_bytes += sum(4 + len(frame) for frame in new)
        assert reader.buffered_bytes == received_bytes - given_bytes
        found += new
    return found


@pytest.mark.parametrize(("golden", "request_"), GOLDEN)
def test_requests_have_the_golden_bytes(golden: str, request_: Request) -> None:
    """Each of the five requests is written as the table says, and read back as itself."""
    frame = bytes.fromhex(golden)
    assert encode_request(request_) == frame
    decoded = decode_request(frame[4:])
    assert (type(decoded), decoded) == (type(request_), request_)


@pytest.mark.parametrize(("golden", "request_"), GOLDEN)
@pytest.mark.parametrize("tail", [b"\0", b"\xff" * 3, b"trailing bytes"])
def test_bytes_behind_a_body_are_ignored(golden: str, request_: Request, tail: bytes) -> None:
    """0.7 reads what it knows and leaves the rest of the frame alone."""
    assert decode_request(bytes.fromhex(golden)[4:] + tail) == request_


@pytest.mark.parametrize(("golden", "request_"), WAITING)
def test_a_wait_stands_behind_the_body(golden: str, request_: FetchRequest | MultiFetchRequest) -> None:
    """The rest of the frame is what 0.7 reads. Anything but exactly a wait means none."""
    frame = bytes.fromhex(golden)
    assert encode_request(request_) == frame
    assert decode_request(frame[4:]) == request_
    without = request_._replace(wait=None)
    assert frame[4:-12] == encode_request(without)[4:]
    for other in (frame[4:-1], frame[4:] + b"\0", frame[4:-12] + b"wait" + frame[-8:]):
        assert decode_request(other) == without
    assert decode_request(without_wait(frame)[4:]) == request_._replace(wait=FetchWait(0, 0))
    nothing = encode_request(MultiFetchRequest(()))
    assert decode_request(nothing[4:] + frame[-12:]) == MultiFetchRequest(())


@pytest.mark.parametrize(("golden", "request_"), GOLDEN)
def test_a_request_cut_anywhere_is_refused(golden: str, request_: Request) -> None:
    """No prefix of a body passes for a request."""
    body = bytes.fromhex(golden)[4:]
    for cut in range(len(body)):
        with pytest.raises(ProtocolError):
            decode_request(body[:cut])


@given(REQUESTS)
def test_requests_round_trip(request_: Request) -> None:
    """Whatever fits the fields comes back, with its type and the size of its frame right."""
    frame = encode_request(request_)
    decoded = decode_request(frame[4:])
    assert (type(decoded), decoded) == (type(request_), request_)
    assert struct.unpack_from(">i", frame) == (len(frame) - 4,)


@given(
    st.one_of(
        st.binary(max_size=100),
        st.builds(lambda kind, body: struct.pack(">h", kind) + body, st.integers(-1, 5), st.binary(max_size=100)),
        st.builds(
            lambda request_, at, byte: _damaged(encode_request(request_)[4:], at, byte),
            REQUESTS,
            st.integers(0, 1000),
            st.integers(0, 255),
        ),
    )
)
@example(bytes.fromhex("0001 ffff"))
@example(bytes.fromhex("0001 8000 61"))
@example(bytes.fromhex("0002 ffff"))
@example(bytes.fromhex("0002 7fff"))
@example(bytes.fromhex("0003 8000"))
@example(bytes.fromhex("0000 0001 61 00000000 ffffffff"))
@example(bytes.fromhex("0000 0001 61 00000000 80000000") + bytes(40))
@example(bytes.fromhex("0000 0001 61 00000000 7fffffff"))
@example(bytes.fromhex("0000 0001 ff 00000000 00000000"))
def test_garbage_raises_only_protocol_errors(frame: bytes) -> None:
    """Random bytes, and requests with one byte changed, are a request or a ProtocolError."""
    try:
        request_ = decode_request(frame)
    except ProtocolError:
        return
    if not any(r"\x" in topic for topic in topics_of(request_)):  # what stands for bytes that are not UTF-8
        body = encode_request(request_)[4:]
        assert frame[: len(body)] == body


def _damaged(body: bytes, at: int, byte: int) -> bytes:
    at %= len(body)
    return body[:at] + bytes([byte]) + body[at + 1 :]


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        ("0005", "request type 5"),
        ("ffff", "request type -1"),
        ("00", "in the middle of a field"),
        ("0001 ffff", "topic claims -1"),
        ("0002 ffff", "claims -1 parts"),
        ("0000 0001 61 00000000 00000003 0102", "claims 3 bytes in a request of 15"),
        ("0000 0001 61 00000000 ffffffff", "claims -1 bytes"),
    ],
)
def test_refusals_say_what_is_wrong(frame: str, text: str) -> None:
    """The text goes into the broker's log, for whoever wrote the client."""
    with pytest.raises(ProtocolError, match=text):
        decode_request(bytes.fromhex(frame))


@pytest.mark.parametrize(
    "request_",
    [
        FetchRequest("t", 2**31, 0, 0),
        FetchRequest("t", 0, 2**63, 0),
        FetchRequest("t", 0, 0, -(2**31) - 1),
        OffsetsRequest("t", 0, 2**63, 1),
        ProduceRequest("t" * 32768, 0, b""),
        ProduceRequest("t", 2**31, b""),
        MultiFetchRequest((FetchRequest("t", 0, 0, 0),) * 32768),
        MultiProduceRequest((ProduceRequest("t", 0, b""),) * 32768),
        FetchRequest("\ud800", 0, 0, 0),
        FetchRequest("t", "0", 0, 0),  # type: ignore[arg-type] # what callers do all the same
    ],
    ids=["partition", "offset", "max bytes", "time", "topic length", "produce", "fetches", "produces", "topic", "type"],
)
def test_values_that_do_not_fit_are_refused(request_: Request) -> None:
    """A number too large for its field is never cut, and a name that is no text is not sent."""
    with pytest.raises(ProtocolError):
        encode_request(request_)


def test_a_request_that_no_frame_can_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The size of a frame has four bytes: what fits them exactly goes, one byte more does not."""
    request_ = MultiProduceRequest((ProduceRequest("t", 0, bytes(80)),))
    frame = encode_request(request_)
    monkeypatch.setattr(protocol, "MAX_INT32", len(frame) - 4)
    assert encode_request(request_) == frame
    monkeypatch.setattr(protocol, "MAX_INT32", len(frame) - 5)
    with pytest.raises(ProtocolError, match=f"a request of {len(frame) - 4} bytes"):
        encode_request(request_)


def test_a_topic_that_is_no_text_is_refused() -> None:
    """As a mistake of the caller, not of the bytes."""
    with pytest.raises(TypeError, match="a topic is text, not bytes"):
        encode_request(FetchRequest(b"t", 0, 0, 0))  # type: ignore[arg-type] # what callers do all the same


# Frames


@pytest.mark.parametrize(("golden", "request_"), GOLDEN)
def test_frames_byte_by_byte(golden: str, request_: Request) -> None:
    """A frame comes out with its last byte, not before, however small the pieces were."""
    data = bytes.fromhex(golden)
    reader = FrameReader()
    for position, byte in enumerate(data):
        assert reader.next_frame() is None
        assert reader.buffered_bytes == position
        reader.receive_data(bytes([byte]))
    frame = reader.next_frame()
    assert frame is not None
    assert decode_request(frame) == request_
    assert (reader.next_frame(), reader.buffered_bytes) == (None, 0)


def test_several_frames_in_one_piece() -> None:
    """All whole frames of a piece come out in order, and the beginning of the next waits."""
    data = b"".join(bytes.fromhex(golden) for golden, _ in GOLDEN)
    reader = FrameReader()
    assert reader.buffered_bytes == 0
    reader.receive_data(data + data[:9])
    assert [decode_request(frame) for frame in frames(reader)] == [request_ for _, request_ in GOLDEN]
    assert reader.buffered_bytes == 9
    reader.receive_data(data[9:])
    assert len(frames(reader)) == len(GOLDEN)


@given(st.lists(st.binary(min_size=1, max_size=30), max_size=12), st.lists(st.integers(0, 400), max_size=20))
def test_a_stream_may_be_cut_anywhere(bodies: list[bytes], cuts: list[int]) -> None:
    """The same frames come out wherever a stream is cut; buffered is what was received and not given out."""
    data = b"".join(struct.pack(">i", len(body)) + body for body in bodies)
    assert read_in_pieces(data, [min(cut, len(data)) for cut in cuts], FrameReader()) == bodies


@given(st.lists(st.binary(min_size=1, max_size=10), min_size=1, max_size=6), st.lists(st.booleans(), max_size=30))
def test_frames_may_be_left_for_later(bodies: list[bytes], turns: list[bool]) -> None:
    """Nothing is lost if more bytes come before the frames of earlier ones were taken."""
    data = b"".join(struct.pack(">i", len(body)) + body for body in bodies)
    reader = FrameReader()
    found = []
    pieces = [data[start : start + 7] for start in range(0, len(data), 7)]
    for piece, take in zip(pieces, turns + [False] * len(pieces), strict=False):
        reader.receive_data(piece)
        if take and (frame := reader.next_frame()) is not None:
            found.append(frame)
    assert found + frames(reader) == bodies


@pytest.mark.parametrize("size", [0, -1, -(2**31), 1001, 2**31 - 1])
@pytest.mark.parametrize("piece_bytes", [1, 2, 100])
def test_wrong_sizes_are_refused_at_once(size: int, piece_bytes: int) -> None:
    """A size is judged by its four bytes alone, however they come, behind good frames; the error does not go away."""
    reader = FrameReader(max_frame_bytes=1000)
    data = struct.pack(">i", 1) + b"x" + struct.pack(">i", size)
    found = []
    with pytest.raises(ProtocolError, match=f"announces {size} bytes"):  # noqa: PT012 (the frames before it count)
        for start in range(0, len(data), piece_bytes):
            reader.receive_data(data[start : start + piece_bytes])
            while (frame := reader.next_frame()) is not None:
                found.append(frame)
    assert found == [b"x"]
    with pytest.raises(ProtocolError):
        reader.next_frame()


def test_a_frame_of_the_largest_size_passes() -> None:
    """The limit itself is allowed."""
    reader = FrameReader(max_frame_bytes=1000)
    reader.receive_data(struct.pack(">i", 1000) + bytes(1000))
    assert reader.next_frame() == bytes(1000)


def test_missing_bytes_tells_how_much_to_ask_for() -> None:
    """First for the size, then for the rest of the frame."""
    reader = FrameReader()
    reader.receive_data(b"\0\0")
    assert reader.next_frame() is None
    assert reader.missing_bytes() == 2
    reader.receive_data(b"\0\x64" + bytes(30))
    assert reader.next_frame() is None
    assert reader.missing_bytes() == 70


def test_an_announced_frame_costs_nothing() -> None:
    """100 MiB that were only announced take no memory; what has come byte by byte takes little more than itself."""
    data = struct.pack(">i", 100 * 1024 * 1024) + random.Random(1).randbytes(200_000)
    pieces = [bytes([byte]) for byte in data]
    reader = FrameReader()
    tracemalloc.start()
    try:
        for number, piece in enumerate(pieces):
            reader.receive_data(piece)
            assert reader.next_frame() is None
            if number == 1000:
                assert tracemalloc.get_traced_memory()[1] < 50_000
        assert reader.buffered_bytes == len(data)
        held_bytes, peak_bytes = tracemalloc.get_traced_memory()
        assert held_bytes < 1.3 * len(data)
        assert peak_bytes < 2.5 * len(data)  # a growing buffer may have to move
    finally:
        tracemalloc.stop()


def test_a_large_frame_lies_in_memory_once_while_it_is_handled() -> None:
    """Of a frame that came in pieces, only the frame itself is left when it is given out."""
    size = 4 * 1024 * 1024
    piece = bytes(64 * 1024)
    reader = FrameReader()
    tracemalloc.start()
    try:
        reader.receive_data(struct.pack(">i", size))
        frame = None
        while frame is None:
            reader.receive_data(piece)
            frame = reader.next_frame()
        assert len(frame) == size
        assert tracemalloc.get_traced_memory()[0] < size + 200_000
        del frame
        assert tracemalloc.get_traced_memory()[0] < 200_000
    finally:
        tracemalloc.stop()


# Responses


def test_response_headers_have_the_golden_bytes() -> None:
    """The size counts all after itself, the error included."""
    assert encode_response_header(0, 0) == bytes.fromhex("00000002 0000")
    assert encode_response_header(-1, 0) == bytes.fromhex("00000002 ffff")
    assert encode_response_header(0, 34) == bytes.fromhex("00000024 0000")


@pytest.mark.parametrize(
    ("offsets", "golden"),
    [
        ([], "00000000"),
        ([0], "00000001 0000000000000000"),
        ([34, 0], "00000002 0000000000000022 0000000000000000"),
        ([2**63 - 1], "00000001 7fffffffffffffff"),
    ],
)
def test_offsets_have_the_golden_bytes(offsets: list[int], golden: str) -> None:
    """A count, then that many; bytes behind them are ignored."""
    assert encode_offsets_body(offsets) == bytes.fromhex(golden)
    assert decode_offsets_body(bytes.fromhex(golden)) == offsets
    assert decode_offsets_body(bytes.fromhex(golden) + b"more") == offsets


@pytest.mark.parametrize("body", ["", "000000", "00000001", "00000001 00000000000000", "ffffffff", "7fffffff"])
def test_wrong_offsets_are_refused(body: str) -> None:
    """A count that the bytes do not bear out."""
    with pytest.raises(ProtocolError):
        decode_offsets_body(bytes.fromhex(body))


def test_multifetch_parts_are_taken_apart() -> None:
    """Each part has a size, an error and a set of its own."""
    body = bytes.fromhex("00000011 0000" + SET.hex() + "00000002 0001 00000002 0000")
    assert decode_multifetch_body(body, 3) == [(0, SET), (1, b""), (0, b"")]
    assert decode_multifetch_body(b"", 0) == []


@pytest.mark.parametrize(
    "body", ["", "00000002 00", "00000001 0000", "00000000 0000", "ffffffff 0000", "00000003 0000", "7fffffff 0000"]
)
def test_wrong_multifetch_parts_are_refused(body: str) -> None:
    """A part that is missing, too small for its error number, or larger than the response."""
    with pytest.raises(ProtocolError):
        decode_multifetch_body(bytes.fromhex(body), 1)


def test_responses_become_bodies_or_errors() -> None:
    """Error 0 gives the body; any other number its exception, with what was asked for in its text."""
    assert decode_response(bytes.fromhex("0000 0102"), "it") == b"\1\2"
    with pytest.raises(OffsetOutOfRangeError, match="a fetch of t-0 at offset 9"):
        decode_response(bytes.fromhex("0001"), "a fetch of t-0 at offset 9")
    with pytest.raises(UnknownError, match="error code 77") as caught:
        decode_response(bytes.fromhex("004d"), "it")
    assert caught.value.code == 77
    for short in (b"", b"\0"):
        with pytest.raises(ProtocolError):
            decode_response(short, "it")


@given(st.binary(max_size=60), st.integers(0, 4))
def test_garbage_responses_raise_only_our_errors(data: bytes, count: int) -> None:
    """Random bytes from a broker are an answer, a broker's error or a ProtocolError."""
    for read in (
        lambda: decode_response(data, "it"),
        lambda: decode_offsets_body(data),
        lambda: decode_multifetch_body(data, count),
    ):
        try:
            read()
        except KafkaError:
            continue


def test_a_large_frame_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """It lies in memory once while it is handled; what follows it is kept apart."""
    monkeypatch.setattr(protocol, "LARGE_FRAME_BYTES", 1000)
    request_ = ProduceRequest("views", 3, bytes(2000))
    frame = encode_request(request_)
    reader = FrameReader()
    reader.receive_data(frame[:1500])
    assert reader.next_frame() is None
    reader.receive_data(frame[1500:] + frame[:7])
    large = reader.next_frame()
    assert isinstance(large, memoryview)
    decoded = decode_request(large)
    assert decoded == request_
    assert isinstance(decoded, ProduceRequest)
    assert isinstance(decoded.messages, memoryview)
    assert reader.next_frame() is None
    assert reader.buffered_bytes == 7
    reader.receive_data(frame[7:])
    assert reader.next_frame() == frame[4:]


def test_a_frame_is_large_from_a_size_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Smaller ones that came in pieces are copied, since that is cheaper than to read a view."""
    monkeypatch.setattr(protocol, "LARGE_FRAME_BYTES", 100)
    for size, kind in ((99, bytes), (100, memoryview)):
        reader = FrameReader()
        for piece in (struct.pack(">i", size), bytes(size)):
            assert reader.next_frame() is None
            reader.receive_data(piece)
        assert isinstance(reader.next_frame(), kind)


def test_a_topic_that_is_not_utf_8_spoils_nothing_but_its_own_part() -> None:
    """It becomes a text that no topic's name can be, and shows what came."""
    frame = encode_request(MultiFetchRequest((FetchRequest("ab", 0, 0, 1), FetchRequest("cd", 0, 0, 1))))
    decoded = decode_request(frame[4:].replace(b"ab", b"\xc3\x28"))
    assert decoded == MultiFetchRequest((FetchRequest("\\xc3(", 0, 0, 1), FetchRequest("cd", 0, 0, 1)))


SMALL = ProduceRequest("views", 0, encode(b"hello"))


def frames_of(requests: list[Request]) -> bytes:
    return b"".join(map(encode_request, requests))


def test_produces_of_one_message_to_one_partition_are_taken_together() -> None:
    """Up to the first that is anything else, which comes as a frame; and none behind a frame that is not whole."""
    others: list[Request] = [
        ProduceRequest("views", 1, encode(b"hello")),  # another partition
        ProduceRequest("view", 0, encode(b"hello")),  # another topic
        MultiProduceRequest((SMALL,)),
        FetchRequest("views", 0, 0, 100),
    ]
    same = [
        *(ProduceRequest("views", 0, encode(b"%d" % number)) for number in range(5)),
        ProduceRequest("views", 0, encode(b"a") + encode(b"b")),
        ProduceRequest("views", 0, encode(b"a")[:-1]),
        ProduceRequest("views", 0, b""),
    ]
    for other in others:
        reader = FrameReader()
        reader.receive_data(frames_of([SMALL, *same, other, SMALL]) + encode_request(SMALL)[:-1])
        frame = reader.next_frame()
        assert frame is not None
        assert decode_request(frame) == SMALL
        assert reader.following_produces(frame) == [each.messages for each in same]
        frame = reader.next_frame()
        assert frame is not None
        assert decode_request(frame) == other
        assert reader.following_produces(frame) == []
        frame = reader.next_frame()
        assert frame is not None
        assert decode_request(frame) == SMALL
        assert reader.following_produces(frame) == []
        assert reader.next_frame() is None
        reader.receive_data(encode_request(SMALL)[-1:])
        frame = reader.next_frame()
        assert frame is not None
        assert decode_request(frame) == SMALL


def test_all_that_follows_is_taken_where_nothing_else_does() -> None:
    """The last one too, though no byte comes after it."""
    reader = FrameReader()
    reader.receive_data(frames_of([SMALL] * 3))
    frame = reader.next_frame()
    assert frame is not None
    assert reader.following_produces(frame) == [SMALL.messages] * 2
    assert (reader.next_frame(), reader.buffered_bytes) == (None, 0)


@pytest.mark.parametrize("request_type", [1, 3, 256])
def test_nothing_follows_a_request_of_another_type(request_type: int) -> None:
    """Though its bytes, and those of what follows, are otherwise like those of a produce."""
    frame = encode_request(SMALL)
    strange = frame[:4] + struct.pack(">h", request_type) + frame[6:]
    reader = FrameReader()
    reader.receive_data(strange * 2)
    first = reader.next_frame()
    assert first == strange[4:]
    assert reader.following_produces(first) == []


def test_nothing_follows_a_produce_that_is_large_enough() -> None:
    """To copy it to those that follow would cost more than it saves."""
    for extra, wanted in ((0, 1), (1, 0)):
        size = protocol.JOINED_FRAME_BYTES - len(encode_request(ProduceRequest("views", 0, b""))) + 4 + extra
        reader = FrameReader()
        reader.receive_data(encode_request(ProduceRequest("views", 0, b"x" * size)) + encode_request(SMALL))
        frame = reader.next_frame()
        assert frame is not None
        assert len(reader.following_produces(frame)) == wanted


def test_a_frame_that_is_larger_than_allowed_is_left_to_be_refused() -> None:
    """However it follows."""
    reader = FrameReader(100)
    reader.receive_data(encode_request(SMALL) + encode_request(ProduceRequest("views", 0, b"x" * 100)))
    frame = reader.next_frame()
    assert frame is not None
    assert reader.following_produces(frame) == []
    with pytest.raises(ProtocolError):
        reader.next_frame()


def test_nothing_follows_a_large_produce(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a view, and work enough by itself."""
    monkeypatch.setattr(protocol, "LARGE_FRAME_BYTES", 1)
    reader = FrameReader()
    data = encode_request(SMALL)
    reader.receive_data(data[:9])
    assert reader.next_frame() is None
    reader.receive_data(data[9:] + data)
    large = reader.next_frame()
    assert isinstance(large, memoryview)
    assert reader.following_produces(large) == []


def test_the_brokers_choice_of_a_partition_is_made_for_each_set() -> None:
    """Sets that may go anywhere are not taken together."""
    anywhere = ProduceRequest("views", ANY_PARTITION, encode(b"hello"))
    reader = FrameReader()
    reader.receive_data(frames_of([anywhere, anywhere]))
    frame = reader.next_frame()
    assert frame is not None
    assert reader.following_produces(frame) == []


@given(st.binary(max_size=60))
def test_garbage_behind_a_produce_is_left_alone(garbage: bytes) -> None:
    """Whatever it looks like: it comes as frames, or is refused, as ever."""
    reader = FrameReader()
    reader.receive_data(encode_request(SMALL) + garbage)
    frame = reader.next_frame()
    assert frame is not None
    taken = reader.following_produces(frame)
    assert reader.buffered_bytes + sum(len(encode_request(SMALL)) + len(each) - 15 for each in taken) == len(garbage)
