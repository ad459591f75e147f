"""What a broker does with the bytes of a connection, whether C finds plain produces in them or Python handles all."""

from __future__ import annotations

import logging
import socket as stdlib_socket
import struct
import sys
from contextlib import ExitStack
from itertools import count, pairwise
from typing import TYPE_CHECKING

import gevent
import pytest
from gevent import socket
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kafka2011.broker.connections import client_connection
from kafka2011.broker.connections.turn import let_others_run
from kafka2011.broker.requests import receive_buffer
from kafka2011.broker.requests.receive_buffer import ReceiveBuffer, ReceiveBuffers
from kafka2011.broker.server import KafkaServer
from kafka2011.config.broker import BrokerConfig
from kafka2011.message.compression import Codec
from kafka2011.message.message_set import MessageSet, encode
from kafka2011.wire import protocol
from kafka2011.wire.protocol import (
    ANY_PARTITION,
    EARLIEST,
    LATEST,
    FetchRequest,
    MultiFetchRequest,
    MultiProduceRequest,
    OffsetsRequest,
    ProduceRequest,
    encode_request,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafka2011.broker.requests.receive_buffer import ReceiveCode

DEADLINE_S = 20
HELLO = encode(b"hello")  # 15 bytes
TWO = encode(b"one") + encode(b"two", magic=0)
MAX_MESSAGE_BYTES = 60
BUFFER_BYTES = 300
RECEIVE_BYTES = 100
LARGE_FRAME_BYTES = 400
BARRIER = encode_request(MultiFetchRequest(()))
ANSWER = bytes.fromhex("00000002 0000")


def produce(topic: str, messages: bytes, partition: int = 0) -> bytes:
    return encode_request(ProduceRequest(topic, partition, messages))


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@pytest.fixture(scope="module")
def code() -> ReceiveCode:
    if receive_buffer.compiled is None:
        pytest.skip("no C code: scripts/setup.sh builds it where there is a compiler, KAFKA2011_PURE leaves it out")
    return receive_buffer.compiled


@pytest.fixture(scope="module")
def servers(code: ReceiveCode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[KafkaServer]]:
    """Start a broker that receives in Python, and one that does so in C with a small buffer."""
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        made = []
        for in_c in (False, True):

            def new_buffers(max_frame_bytes: int, max_message_bytes: int, in_c: bool = in_c) -> ReceiveBuffers | None:
                if not in_c:
                    return None
                limits = max_frame_bytes, max_message_bytes
                return ReceiveBuffers(lambda size_bytes: ReceiveBuffer(code, *limits, size_bytes), 1, BUFFER_BYTES)

            patch.setattr(receive_buffer, "new_buffers", new_buffers)
            patch.setattr(client_connection, "RECEIVE_BYTES", RECEIVE_BYTES)
            patch.setattr(protocol, "LARGE_FRAME_BYTES", LARGE_FRAME_BYTES)
            config = BrokerConfig(
                brokerid=0,
                log_dir=tmp_path_factory.mktemp("logs"),
                enable_zookeeper=False,
                port=0,
                num_partitions=2,
                log_file_size=150,
                max_message_size=MAX_MESSAGE_BYTES,
                max_socket_request_bytes=1000,
                log_flush_interval=2**31 - 1,
                log_default_flush_interval_ms=2**31 - 1,
            )
            made.append(stack.enter_context(KafkaServer(config)))
        yield made


@pytest.fixture
def in_c(servers: list[KafkaServer]) -> KafkaServer:
    return servers[1]


def connect(server: KafkaServer) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", server.port), DEADLINE_S)
    client.setsockopt(stdlib_socket.IPPROTO_TCP, stdlib_socket.TCP_NODELAY, 1)
    return client


def ask(server: KafkaServer, pieces: list[bytes]) -> bytes:
    """Send pieces with time between them, end, and return all that is answered."""
    answered = b""
    with connect(server) as client:
        try:
            for piece in pieces:
                client.sendall(piece)
                let_others_run()
            client.shutdown(stdlib_socket.SHUT_WR)
            while data := client.recv(1 << 16):
                answered += data
        except TimeoutError:
            raise
        except OSError:  # refused, with bytes on their way
            pass
    return answered


def stored(server: KafkaServer, prefix: str) -> dict[str, bytes]:
    files = server.parts.logs.log_dir.glob(f"{prefix}*/*.kafka")
    return {f"{path.parent.name}/{path.name}": path.read_bytes() for path in sorted(files)}


def frames_for(topic: str) -> list[bytes]:
    """Return requests of all kinds for one topic, usual ones first."""
    good = produce(topic, HELLO)
    bad = HELLO[:-1] + b"?"
    small = bytes(MessageSet([b"a", b"b"], Codec.GZIP))
    return [
        *(good, produce(topic, TWO), produce(topic, HELLO * 5), produce(topic, HELLO, 1), produce(f"{topic}x", HELLO)),
        *(produce(topic, b""), produce(topic, small), produce(topic, HELLO + small + HELLO)),
        *(produce(topic, HELLO + HELLO[:9]), produce(topic, HELLO[:9]), produce(topic, HELLO[:3])),
        *(produce(topic, encode(bytes(MAX_MESSAGE_BYTES))), produce(topic, encode(bytes(MAX_MESSAGE_BYTES + 1)))),
        *(produce(topic, HELLO * 25), produce(topic, encode(bytes(50)) * 14)),  # too large for the buffer
        *(produce(topic, bad), produce(topic, HELLO + bad), produce(topic, HELLO, 2), produce(topic, HELLO, -2)),
        *(produce("a/b", HELLO), produce("", HELLO), produce("t" * 300, HELLO), produce(f"{topic}é", HELLO)),
        *(framed(good[4:] + b"more"), framed(good[4:-1]), framed(good[4:].replace(b"\0\0\0\x0f\0", b"\xff\0\0\x0f\0"))),
        *(produce(f"{topic}?", HELLO).replace(b"?", b"\xff"), framed(b"\0\1" + good[6:]), framed(b"\1\0" + good[6:])),
        *(framed(good[4:6] + b"\xff\xff" + good[8:]), framed(good[4:6] + b"\x7f\xff" + good[8:]), framed(good[4:8])),
        *(framed(b"\0"), framed(b"\0\0"), framed(b"\0\7\0\1"), struct.pack(">i", 0), struct.pack(">i", -5)),
        *(struct.pack(">i", 1001) + good, struct.pack(">i", 1000) + good, good[:3], good[:9], good[:-1]),
        encode_request(MultiProduceRequest((ProduceRequest(topic, 0, HELLO), ProduceRequest(topic, 1, TWO)))),
        *(BARRIER, encode_request(OffsetsRequest(topic, 0, LATEST, 9)), encode_request(FetchRequest(topic, 0, 0, 999))),
        encode_request(OffsetsRequest(topic, 0, EARLIEST, -1)),
    ]


KINDS = len(frames_for("t"))
numbers = count()


def outcome(
    server: KafkaServer, kinds: list[int], cuts: list[int], caplog: pytest.LogCaptureFixture, *, is_known: bool
) -> tuple[object, ...]:
    """Return everything that a connection leaves: answers, files, counts, lines of the log.

    The topic may be known before, or be made by what is sent.
    """
    topic = f"t{next(numbers)}"
    frames = frames_for(topic)
    data = b"".join(frames[kind] for kind in kinds)
    edges = sorted({0, *(cut % (len(data) + 1) for cut in cuts), len(data)})
    if is_known:
        ask(server, [produce(topic, HELLO) + produce(topic, HELLO, 1)])
    caplog.clear()
    before = server.counts()
    with caplog.at_level(logging.INFO, "kafka2011"), pytest.MonkeyPatch.context() as patch:
        if server.parts.sockets.buffers is None:
            patch.setattr(receive_buffer, "compiled", None)
        answered = ask(server, [data[start:end] for start, end in pairwise(edges)])
        with gevent.Timeout(DEADLINE_S):
            while server.parts.sockets.open_connections:
                let_others_run()
    counts = {name: value - before.get(name, 0) for name, value in server.counts().items()}
    if counts.get("refused"):
        answered, counts["bytes_in"] = b"", 0  # what comes after a refusal is read or not, and resets the connection
    counts.pop("memory_peak_bytes")
    for name in ("dropped_sets", "refused"):
        counts.pop(name, None) if not counts.get(name) else None
    said = []
    for record in caplog.records:
        line = record.getMessage().split("127.0.0.1:")
        said.append("".join([line[0], *(part.lstrip("0123456789") for part in line[1:])]).split(" (")[0])
    assert server.parts.memory.budget.held_bytes == server.parts.memory.small_share.held_bytes == 0
    assert not server.parts.memory.small_share.unfinished
    files = {name.removeprefix(topic): data for name, data in stored(server, topic).items()}
    return (
        *(answered, files, {name: value for name, value in counts.items() if value}),
        [line.replace(topic, "TOPIC") for line in said],
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)
@given(
    st.lists(st.integers(0, KINDS - 1) | st.integers(0, 4), min_size=1, max_size=12),
    st.lists(st.integers(0, 3000), max_size=6),
    st.booleans(),
)
@example([0] * 12, [], True)
@example([0, 3] * 6, [], True)
@example([0] * 9 + [15], [70], True)
@example([13, 0, 14, 0], [100, 101, 102, 290, 300, 301], False)
def test_c_does_what_python_does(
    servers: list[KafkaServer], caplog: pytest.LogCaptureFixture, kinds: list[int], cuts: list[int], is_known: bool
) -> None:
    """Whatever is sent, in whatever pieces: the same answers, segments, counts, refusals and lines of the log."""
    in_python, in_c = (outcome(server, kinds, cuts, caplog, is_known=is_known) for server in servers)
    assert in_c == in_python


def test_each_kind_of_request_alone_and_between_plain_ones(
    servers: list[KafkaServer], caplog: pytest.LogCaptureFixture
) -> None:
    """None is forgotten by chance."""
    for kind in range(KINDS):
        for kinds, is_known in (([kind], False), ([kind], True), ([0, 0, kind, 0, 0], True)):
            in_python, in_c = (outcome(server, kinds, [], caplog, is_known=is_known) for server in servers)
            assert in_c == in_python, kinds


def test_byte_by_byte(servers: list[KafkaServer], caplog: pytest.LogCaptureFixture) -> None:
    """A frame may come as slowly as it likes."""
    cuts = list(range(200))
    in_python, in_c = (outcome(server, [0, 1, 0, 3], cuts, caplog, is_known=True) for server in servers)
    assert in_c == in_python


def appends_of_a_new_topic(server: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> tuple[str, list[tuple[bytes, int]]]:
    """Return a topic, and what is appended to it from now on: bytes, and how many messages."""
    topic = f"t{next(numbers)}"
    ask(server, [produce(topic, HELLO)])
    log = server.parts.logs.existing(topic, 0)
    assert log is not None
    appended: list[tuple[bytes, int]] = []
    monkeypatch.setattr(log, "append", lambda data, messages: appended.append((bytes(data), messages)))
    return topic, appended


def test_plain_produces_to_one_partition_are_one_write(in_c: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as the segment has room for all."""
    topic, appended = appends_of_a_new_topic(in_c, monkeypatch)
    ask(in_c, [produce(topic, HELLO) * 3 + produce(topic, TWO)])
    assert appended == [(HELLO * 3 + TWO, 5)]


def test_questions_between_produces_are_answered_in_order(in_c: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is behind one is still received in C, and is not appended before it is answered."""
    topic, appended = appends_of_a_new_topic(in_c, monkeypatch)
    sent = produce(topic, HELLO) * 2 + BARRIER + produce(topic, TWO) * 2 + BARRIER * 2 + produce(topic, HELLO) * 2
    assert ask(in_c, [sent + BARRIER]) == ANSWER * 4
    assert appended == [(HELLO * 2, 2), (TWO * 2, 4), (HELLO * 2, 2)]


def test_one_whose_append_waits_does_not_hold_up_the_others(in_c: KafkaServer) -> None:
    """The buffer is its own until then, and others receive as without C code; its bytes stay what they are."""
    topic = f"t{next(numbers)}"
    ask(in_c, [produce(topic, HELLO) + produce(topic, HELLO, 1)])
    log = in_c.parts.logs.existing(topic, 0)
    assert log is not None
    with connect(in_c) as slow:
        with log.append_lock:
            slow.sendall(produce(topic, TWO) * 2)
            with gevent.Timeout(DEADLINE_S):
                while in_c.parts.sockets.buffers.free:  # type: ignore[union-attr]
                    let_others_run()
            assert ask(in_c, [produce(topic, encode(b"other"), 1) * 3 + BARRIER]) == ANSWER
            slow.sendall(BARRIER)
        assert slow.recv(100) == ANSWER
    assert stored(in_c, topic) == {
        f"{topic}-0/{0:020}.kafka": HELLO + TWO * 2,
        f"{topic}-1/{0:020}.kafka": HELLO + encode(b"other") * 3,
    }


def test_only_the_beginning_of_a_request_is_kept_and_it_is_claimed(in_c: KafkaServer) -> None:
    """Not the produces before it, nor a buffer for what was announced."""
    topic = f"t{next(numbers)}"
    with connect(in_c) as client:
        client.sendall(produce(topic, HELLO) * 4 + produce(topic, HELLO)[:11])
        with gevent.Timeout(DEADLINE_S):
            while in_c.parts.memory.small_share.held_bytes != 11:
                let_others_run()
        [since_s] = in_c.parts.memory.small_share.unfinished.values()
        client.sendall(produce(topic, HELLO)[11:] + produce(topic, HELLO)[:12])
        with gevent.Timeout(DEADLINE_S):
            while in_c.parts.memory.small_share.held_bytes != 12:
                let_others_run()
        [later_s] = in_c.parts.memory.small_share.unfinished.values()
        assert later_s > since_s
        client.sendall(produce(topic, HELLO)[12:] + BARRIER)
        assert client.recv(100) == ANSWER
        assert in_c.parts.memory.small_share.held_bytes == 0
        assert not in_c.parts.memory.small_share.unfinished


def test_a_large_request_is_claimed_while_it_comes(in_c: KafkaServer) -> None:
    """Each part of it, in C too, until it is handled; what follows is received as usual."""
    topic = f"t{next(numbers)}"
    large = produce(topic, encode(bytes(50)) * 14)
    with connect(in_c) as client:
        for start, end in pairwise([0, 3, 50, 350, 351, 700]):
            client.sendall(large[start:end])
            with gevent.Timeout(DEADLINE_S):
                while in_c.parts.memory.small_share.held_bytes != end:
                    let_others_run()
        client.sendall(large[700:] + produce(topic, HELLO) + BARRIER)
        assert client.recv(100) == ANSWER
        assert in_c.parts.memory.small_share.held_bytes == 0
    assert b"".join(stored(in_c, topic).values()) == encode(bytes(50)) * 14 + HELLO


def test_a_connection_that_is_stopped_within_a_large_request_ends(
    code: ReceiveCode, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for no more of it."""
    monkeypatch.setattr(client_connection, "RECEIVE_BYTES", RECEIVE_BYTES)
    config = BrokerConfig(brokerid=0, log_dir=tmp_path, enable_zookeeper=False, port=0)
    with KafkaServer(config) as server, connect(server) as client, caplog.at_level(logging.INFO, "kafka2011"):
        large = produce("t", HELLO * 50_000)
        client.sendall(large[:300_000])
        with gevent.Timeout(DEADLINE_S):
            while server.counts().get("bytes_in", 0) < 300_000:
                let_others_run()
            server.stop()
    assert "ended within a request, after 300000 bytes of it" in caplog.text


def test_a_stopped_broker_handles_what_has_arrived(code: ReceiveCode, tmp_path: Path) -> None:
    """And nothing that comes later."""
    config = BrokerConfig(brokerid=0, log_dir=tmp_path, enable_zookeeper=False, port=0)
    with KafkaServer(config) as server, connect(server) as client:
        client.sendall(produce("t", HELLO) + BARRIER)
        assert client.recv(100) == ANSWER
        client.sendall(produce("t", TWO) * 100)
        server.stop()
        client.close()
    assert (tmp_path / "t-0" / f"{0:020}.kafka").read_bytes() == HELLO + TWO * 100


# The C code by itself


@pytest.fixture
def pair() -> Iterator[tuple[stdlib_socket.socket, stdlib_socket.socket]]:
    near, far = stdlib_socket.socketpair()
    with near, far:
        yield near, far


def test_runs_end_where_something_else_begins(
    code: ReceiveCode, pair: tuple[stdlib_socket.socket, stdlib_socket.socket]
) -> None:
    """Each has topic, partition, start, end, where its first set starts, bytes of the sets, sets and messages."""
    near, far = pair
    frames = [produce("t", TWO), produce("t", HELLO), produce("t", HELLO, 7), produce("topic", HELLO), BARRIER]
    far.sendall(b"".join(frames) + produce("t", HELLO))
    buffer = bytearray(1000)
    a, b, c, d, _ = map(len, frames)
    assert code.receive(near.fileno(), buffer, bytearray(), 1000, 1000, 5) == (
        sum(map(len, frames)) + b,
        a + b + c + d,
        sum(map(len, frames)) + b,
        [
            ("t", 0, 0, a + b, 17, len(TWO) + len(HELLO), 2, 3),
            ("t", 7, a + b, a + b + c, a + b + 17, len(HELLO), 1, 1),
            ("topic", 0, a + b + c, a + b + c + d, a + b + c + 21, len(HELLO), 1, 1),
        ],
    )
    assert code.join(buffer, 0, a + b) == 17 + len(TWO) + len(HELLO)
    assert bytes(buffer[17 : 17 + len(TWO) + len(HELLO)]) == TWO + HELLO


@pytest.mark.parametrize("partition", [0, ANY_PARTITION, -2])
@pytest.mark.parametrize("max_frame_bytes", [30, 29, 28, 0])
@pytest.mark.parametrize("max_payload_bytes", [5, 4])
def test_limits(
    code: ReceiveCode,
    pair: tuple[stdlib_socket.socket, stdlib_socket.socket],
    partition: int,
    max_frame_bytes: int,
    max_payload_bytes: int,
) -> None:
    """What goes past them, and what leaves the choice of the partition to the broker, is no run."""
    near, far = pair
    far.sendall(produce("t", HELLO, partition))
    found = code.receive(near.fileno(), bytearray(99), bytearray(), 99, max_frame_bytes, max_payload_bytes)
    is_run = partition >= 0 and max_frame_bytes >= 28 and max_payload_bytes >= 5
    assert found == (32, 32 if is_run else 0, 32, [("t", 0, 0, 32, 17, 15, 1, 1)] if is_run else [])


def test_runs_are_so_many_at_once(code: ReceiveCode, pair: tuple[stdlib_socket.socket, stdlib_socket.socket]) -> None:
    """One call has an end soon, however small the requests."""
    near, far = pair
    far.sendall((produce("t", HELLO) + produce("t", HELLO, 1)) * 1000)
    found = code.receive(near.fileno(), bytearray(10**5), bytearray(), 10**5, 1000, 1000)
    assert found is not None
    assert found[3] is not None
    assert len(found[3]) == 1024
    assert found[1] == 1024 * 32


def test_nothing_to_receive_and_no_more_to_come(
    code: ReceiveCode, pair: tuple[stdlib_socket.socket, stdlib_socket.socket]
) -> None:
    """None, and no bytes; what was kept is still there. Errors of the socket are raised."""
    near, far = pair
    buffer = bytearray(100)
    kept = bytearray(produce("t", HELLO)[:9])
    assert code.receive(near.fileno(), buffer, kept, 50, 1000, 1000) is None
    far.sendall(b"\0")
    assert code.receive(near.fileno(), buffer, kept, 50, 1000, 1000) == (1, 9, 10, None)
    far.shutdown(stdlib_socket.SHUT_WR)
    assert code.receive(near.fileno(), buffer, bytearray(), 50, 1000, 1000) == (0, 0, 0, [])
    with pytest.raises(OSError, match="Bad file descriptor"):
        code.receive(-1, buffer, bytearray(), 50, 1000, 1000)


@given(st.binary(min_size=1, max_size=2000), st.integers(0, 2000), st.lists(st.integers(1, 900), min_size=1))
def test_the_rest_of_a_frame_is_received_behind_its_beginning(
    code: ReceiveCode, frame: bytes, split: int, most_bytes: list[int]
) -> None:
    """Not a byte more than it has, nor more at once than wanted; and little memory that nothing has come for."""
    near, far = stdlib_socket.socketpair()
    with near, far:
        kept = bytearray(frame[: min(split, len(frame) - 1)])
        far.sendall(frame[len(kept) :] + b"next")
        while len(kept) < len(frame):
            before = bytes(kept)
            most = most_bytes.pop() if len(most_bytes) > 1 else most_bytes[0]
            assert code.append(near.fileno(), kept, most, len(frame)) == min(most, len(frame) - len(before))
            assert kept[: len(before)] == before
            # A bytearray may take an eighth more than it is told to.
            assert (
                sys.getsizeof(kept) <= sys.getsizeof(b"") + 1.125 * max(len(kept), min(2 * len(kept), len(frame))) + 32
            )
        assert kept == frame
        assert near.recv(100) == b"next"


def test_the_rest_of_a_frame_that_has_not_come(
    code: ReceiveCode, pair: tuple[stdlib_socket.socket, stdlib_socket.socket]
) -> None:
    """None, and 0 at the end. What was claimed takes no memory; errors are raised, and what has come stays."""
    near, far = pair
    kept = bytearray(b"\x06\0\0\0")
    whole = 100 * 1024 * 1024
    assert code.append(near.fileno(), kept, 1000, whole) is None
    far.sendall(b"123456")
    assert code.append(near.fileno(), kept, 1000, whole) == 6
    assert code.append(near.fileno(), kept, 1000, whole) is None
    assert sys.getsizeof(kept) < 100
    far.shutdown(stdlib_socket.SHUT_WR)
    assert code.append(near.fileno(), kept, 1000, whole) == 0
    with pytest.raises(OSError, match="Bad file descriptor"):
        code.append(-1, kept, 1000, whole)
    for most, all_bytes in ((0, whole), (-1, whole), (1000, len(kept)), (1000, 3)):
        with pytest.raises(ValueError, match="no bytes are wanted"):
            code.append(near.fileno(), kept, most, all_bytes)
    with pytest.raises(TypeError):
        code.append(near.fileno(), bytes(kept), 1000, whole)  # type: ignore[arg-type]
    far.close()
    with memoryview(kept), pytest.raises(BufferError):
        code.append(near.fileno(), kept, 1000, whole)
    assert kept == b"\x06\0\0\000123456"


def test_what_makes_no_sense_is_refused(code: ReceiveCode) -> None:
    """No room, and what is no run: the buffer's neighbours are not touched."""
    with pytest.raises(ValueError, match="no room"):
        code.receive(0, bytearray(10), bytearray(10), 50, 1000, 1000)
    with pytest.raises(ValueError, match="no room"):
        code.receive(0, bytearray(10), bytearray(), 0, 1000, 1000)
    frame = produce("t", HELLO)
    for data, start, end in (
        *((frame, -1, 10), (frame, 0, 999), (frame, 0, 0), (frame, 0, len(frame) - 1), (frame, 5, len(frame))),
        (framed(b""), 0, 4),
        (b"\0\0\0\x08" + b"\0\0\x7f\xff" + bytes(4), 0, 12),
        (b"\xff" * 40, 0, 40),
        (b"\xff" * 40, 30, 20),
    ):
        with pytest.raises(ValueError, match="no run"):
            code.join(bytearray(data), start, end)


@given(st.binary(max_size=200), st.integers(-5, 205), st.integers(-5, 205))
def test_joining_garbage_harms_nothing(code: ReceiveCode, data: bytes, start: int, end: int) -> None:
    """It is refused, or moved within itself."""
    buffer = bytearray(data)
    try:
        joined = code.join(buffer, start, end)
    except ValueError:
        return
    assert start < joined <= end
    assert buffer[joined:start] == data[joined:start]


@given(st.binary(max_size=300), st.integers(0, 300))
def test_receiving_garbage_gives_no_more_than_came(code: ReceiveCode, data: bytes, split: int) -> None:
    """Whatever it looks like."""
    near, far = stdlib_socket.socketpair()
    with near, far:
        kept = bytearray(data[:split])
        if rest := data[split:]:
            far.sendall(rest)
            found = code.receive(near.fileno(), bytearray(400), kept, 100, 200, 100)
            assert found is not None
            assert found[0] == min(len(rest), 100)
            assert 0 <= found[1] <= found[2] == len(kept) + found[0]
