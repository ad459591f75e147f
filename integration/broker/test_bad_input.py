"""Clients that send nonsense, too much, or half of it: refused, logged and counted, while others go on being served."""

from __future__ import annotations

import gzip
import os
import random
import socket
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import cramjam
import pytest

from kafka2011.errors import BrokerConnectionError
from kafka2011.message.compression import Codec
from kafka2011.message.message_set import MessageSet, encode
from kafka2011.wire.protocol import (
    LATEST,
    MultiFetchRequest,
    MultiProduceRequest,
    OffsetsRequest,
    ProduceRequest,
    encode_request,
)
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from kafka2011.local_cluster import LocalBroker
    from kafka2011.message.message_set import Message
    from kafka2011.wire.connection import BrokerConnection

    OpenConnection = Callable[[LocalBroker], BrokerConnection]
    Counts = Callable[[LocalBroker], dict[str, int]]
    ReadAll = Callable[..., list[Message]]

MIB = 1024 * 1024
MAX_FRAME_BYTES = 8 * MIB
QUEUED_BYTES = 24 * MIB
BARRIER = encode_request(MultiFetchRequest(()))
ONE = bytes(MessageSet([b"one"]))


def produce(topic: str, messages: bytes, partition: int = 0) -> bytes:
    return encode_request(ProduceRequest(topic, partition, messages))


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@pytest.fixture
def limited(new_broker: Callable[..., LocalBroker]) -> LocalBroker:
    """Start a broker with small limits on memory."""
    broker = new_broker(
        {
            "log.flush.interval": 1,
            "max.socket.request.bytes": MAX_FRAME_BYTES,
            "queued.max.bytes": QUEUED_BYTES,
            "max.message.size": 4 * MIB,
        }
    )
    broker.start()
    return broker


class SmallRequests:
    """A client that goes on producing one message at a time and awaiting that it was handled."""

    def __init__(self, connection: BrokerConnection) -> None:
        self.served = 0
        self.done = threading.Event()
        self._connection = connection

    def run(self) -> None:
        while not self.done.is_set():
            self._connection.send(produce("bystander", ONE))
            self._connection.request(BARRIER)
            self.served += 1


@pytest.fixture
def bystander(open_connection: OpenConnection) -> Iterator[Callable[[LocalBroker], None]]:
    """Check that a client which was there before is still served, and never has its connection closed."""
    clients: list[SmallRequests] = []
    with ThreadPoolExecutor() as executor:
        runs: list[Future[None]] = []

        def check(broker: LocalBroker) -> None:
            if not clients:
                clients.append(SmallRequests(open_connection(broker)))
                runs.append(executor.submit(clients[0].run))
            before = clients[0].served
            eventually(lambda: runs[0].done() or clients[0].served >= before + 10)
            assert not runs[0].done(), runs[0].exception()

        yield check
        for client in clients:
            client.done.set()
        for run in runs:
            run.result(20)


def corrupt(messages: bytes) -> bytes:
    return messages[:-1] + bytes([messages[-1] ^ 1])


REFUSED = {
    "size 0": (framed(b""), "announces 0 bytes"),
    "negative size": (struct.pack(">i", -5), "announces -5 bytes"),
    "huge size": (struct.pack(">i", 2**31 - 1), "announces 2147483647 bytes"),
    "size just above the limit": (struct.pack(">i", MAX_FRAME_BYTES + 1), f"announces {MAX_FRAME_BYTES + 1} bytes"),
    "half a type": (framed(b"\0"), "in the middle of a field"),
    "unknown type": (framed(struct.pack(">h", 9)), "request type 9 is unknown"),
    "negative topic length": (framed(struct.pack(">hh", 1, -1)), ""),
    "topic longer than its frame": (framed(struct.pack(">hh", 1, 500) + b"t"), "a request of 5 bytes"),
    "topic that is not UTF-8": (produce("ab", ONE).replace(b"ab", b"\xff\xfe"), "is not a name"),
    "set longer than its frame": (framed(struct.pack(">hh1sii", 0, 1, b"t", 0, 999)), "a message set claims 999 bytes"),
    "negative count": (framed(struct.pack(">hh", 2, -1)), "claims -1 parts"),
    "count without parts": (framed(struct.pack(">hh", 3, 7)), "in the middle of a field"),
    "topic ..": (produce("..", ONE), "'..'"),
    "topic ../x": (produce("../../tmp/x", ONE), "'../../tmp/x'"),
    "topic /x": (produce("/etc/x", ONE), "'/etc/x'"),
    "topic with NUL": (produce("a\0b", ONE), r"'a\x00b'"),
    "empty topic": (produce("", ONE), "''"),
    "topic too long": (produce("t" * 300, ONE), "ttt"),
    "offsets of ..": (encode_request(OffsetsRequest("..", 0, LATEST, 1)), "'..'"),
    "wrong partition": (produce("t", ONE, 5), "partition 5 of t"),
    "wrong partition in offsets": (encode_request(OffsetsRequest("t", -1, LATEST, 1)), "partition -1 of t"),
    "bad CRC": (produce("t", corrupt(ONE)), "CRC differs"),
    "unknown magic": (produce("t", ONE[:4] + b"\x02" + ONE[5:]), "magic 2"),
    "unknown codec": (produce("t", ONE[:5] + b"\x03" + ONE[6:]), "codec 3"),
    "negative length": (produce("t", struct.pack(">i", -1) + ONE), "length -1"),
    "no whole message": (produce("t", ONE[:-1]), "no complete message"),
    "gzip that is none": (produce("t", encode(b"garbage", Codec.GZIP)), "t-0"),
    "snappy that is none": (produce("t", encode(b"\x82SNAPPY\0garbage", Codec.SNAPPY)), "t-0"),
    "bad CRC inside": (produce("t", encode(gzip.compress(corrupt(ONE)), Codec.GZIP)), "CRC differs"),
}


def test_each_refusal(
    limited: LocalBroker, open_connection: OpenConnection, counts_of: Counts, bystander: Callable[[LocalBroker], None]
) -> None:
    """Every kind closes its connection, is logged with its reason and counted, and stores nothing."""
    bystander(limited)
    for number, (name, (data, reason)) in enumerate(REFUSED.items(), 1):
        connection = open_connection(limited)
        connection.send(data)
        with pytest.raises(BrokerConnectionError):
            connection.receive()
        lines = [line for line in limited.output().decode().splitlines() if f"({number} refused so far)" in line]
        assert len(lines) == 1, name
        assert reason in lines[0], name
        assert " WARNING " in lines[0], name
        bystander(limited)
    assert counts_of(limited)["refused"] == len(REFUSED)
    assert sorted(path.name for path in limited.log_dir.iterdir() if path.is_dir()) == ["bystander-0", "t-0"]
    assert [path.stat().st_size for path in (limited.log_dir / "t-0").iterdir()] == [0]
    assert not any(path.name == "x" for path in limited.log_dir.parent.parent.iterdir())


def test_parts_before_a_bad_one_stay(limited: LocalBroker, open_connection: OpenConnection, read_all: ReadAll) -> None:
    """Of a multiproduce with a bad part, the earlier parts are kept and the later ones are not handled."""
    parts = (
        ProduceRequest("first", 0, ONE),
        ProduceRequest("bad", 0, ONE + corrupt(ONE)),
        ProduceRequest("last", 0, ONE),
    )
    connection = open_connection(limited)
    connection.send(encode_request(MultiProduceRequest(parts)))
    with pytest.raises(BrokerConnectionError):
        connection.receive()
    eventually(lambda: [message.payload for message in read_all(limited, "first")] == [b"one"])
    assert sorted(path.name for path in limited.log_dir.iterdir() if path.is_dir()) == ["bad-0", "first-0"]


def test_too_large_message(
    limited: LocalBroker, open_connection: OpenConnection, counts_of: Counts, read_all: ReadAll
) -> None:
    """A set with a payload over max.message.size is dropped, logged and counted; the connection goes on.

    But whoever asks whether all was handled gets no answer.
    """
    connection = open_connection(limited)
    large = bytes(MessageSet([b"small", bytes(4 * MIB + 1)]))
    connection.send(produce("t", large) + produce("t", ONE))
    connection.request(encode_request(OffsetsRequest("t", 0, LATEST, 1)))
    eventually(lambda: [message.payload for message in read_all(limited, "t")] == [b"one"])
    assert counts_of(limited)["dropped_sets"] == 1
    assert b"dropped a set for t-0: a payload of 4194305 bytes exceeds max.message.size 4194304" in limited.output()
    connection.send(BARRIER)
    with pytest.raises(BrokerConnectionError):
        connection.receive()
    assert b"asked for confirmation after a set was dropped for t-0" in limited.output()


def test_many_of_the_largest_requests_at_once(
    limited: LocalBroker, open_connection: OpenConnection, counts_of: Counts
) -> None:
    """They take turns, so that none has to be closed because all of them wait for the rest of the memory."""
    large = produce("t", bytes(MessageSet([bytes(MIB)] * 7)))

    def send_one(connection: BrokerConnection) -> None:
        connection.send(large)
        connection.request(BARRIER)

    connections = [open_connection(limited) for _ in range(8)]
    with ThreadPoolExecutor(len(connections)) as pool:
        list(pool.map(send_one, connections))
    counts = counts_of(limited)
    assert counts.get("refused", 0) == counts["memory_refused"] == 0
    assert counts["messages_in"] == 7 * len(connections)


def test_random_bytes(limited: LocalBroker, bystander: Callable[[LocalBroker], None], counts_of: Counts) -> None:
    """Noise, and good requests with noise in them, never do more than end their own connection."""
    generator = random.Random(2011)
    good = produce("t", ONE) + encode_request(OffsetsRequest("t", 0, LATEST, 1)) + BARRIER
    bystander(limited)
    for number in range(300):
        data = bytearray(good if number % 2 else generator.randbytes(generator.randrange(1, 500)))
        if number % 2:
            for _ in range(generator.randrange(1, 6)):
                data[generator.randrange(len(data))] = generator.randrange(256)
        with socket.create_connection((limited.host, limited.port), timeout=20) as noisy:
            noisy.sendall(data)
            noisy.shutdown(socket.SHUT_WR)
            try:
                while noisy.recv(65536):
                    pass
            except ConnectionResetError:
                pass
    bystander(limited)
    counts = counts_of(limited)
    assert counts["refused"] + counts["broken_connections"] > 100
    assert b"Traceback" not in limited.output()
    assert b"CRITICAL" not in limited.output()


def gzip_bomb(opened_bytes: int) -> bytes:
    """Return a small wrapper of one huge message."""
    return encode(gzip.compress(encode(bytes(opened_bytes))), Codec.GZIP)


def snappy_bomb(opened_bytes: int) -> bytes:
    block = bytes(cramjam.snappy.compress_raw(encode(bytes(opened_bytes))))
    stream = b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, len(block)) + block
    return encode(stream, Codec.SNAPPY)


def nested_bomb(opened_bytes: int) -> bytes:
    """Return a wrapper of many wrappers, each small enough by itself."""
    inner = gzip_bomb(opened_bytes // 40)
    return encode(gzip.compress(inner * 40), Codec.GZIP)


def deep_bomb(levels: int) -> bytes:
    message = ONE
    for _ in range(levels):
        message = encode(gzip.compress(message), Codec.GZIP)
    return message


def lying_snappy(_opened_bytes: int) -> bytes:
    """Return a block that announces to open to 4 GiB, and one that announces 2 GiB of compressed bytes."""
    return encode(b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, 2**31 - 1) + b"\xff\xff\xff\xff\x0f", Codec.SNAPPY)


@pytest.mark.parametrize("bomb", [gzip_bomb, snappy_bomb, nested_bomb, lying_snappy], ids=lambda bomb: bomb.__name__)
def test_zip_bombs(
    bomb: Callable[[int], bytes],
    limited: LocalBroker,
    open_connection: OpenConnection,
    bystander: Callable[[LocalBroker], None],
    peak_bytes_of: Callable[[LocalBroker], int],
    counts_of: Counts,
) -> None:
    """Sets that open to more than max.socket.request.bytes are refused while they are opened, several at a time too."""
    data = produce("t", bomb(60 * MIB))
    assert len(data) < 4 * MIB
    bystander(limited)
    before = peak_bytes_of(limited)
    connections = [open_connection(limited) for _ in range(5)]
    for connection in connections:
        connection.send(data)
    bystander(limited)
    for connection in connections:
        with pytest.raises(BrokerConnectionError):
            connection.receive()
    assert counts_of(limited)["refused"] == len(connections)
    # All that is queued, four times: as it came, whole, its set, and what is being opened.
    assert peak_bytes_of(limited) - before < 4 * QUEUED_BYTES
    assert [path.stat().st_size for path in (limited.log_dir / "t-0").iterdir()] == [0]


def test_deep_nesting(limited: LocalBroker, open_connection: OpenConnection, counts_of: Counts) -> None:
    """Wrappers in wrappers are opened to a fixed depth and no deeper."""
    connection = open_connection(limited)
    connection.send(produce("t", deep_bomb(3)))
    connection.request(BARRIER)
    connection.send(produce("t", deep_bomb(500)))
    with pytest.raises(BrokerConnectionError):
        connection.receive()
    assert counts_of(limited)["refused"] == 1
    assert b"nested more than" in limited.output()


def test_large_requests_that_never_end(
    limited: LocalBroker,
    bystander: Callable[[LocalBroker], None],
    peak_bytes_of: Callable[[LocalBroker], int],
    counts_of: Counts,
) -> None:
    """Half-sent frames beyond queued.max.bytes together: some are closed, small requests never wait for them."""
    bystander(limited)
    before = peak_bytes_of(limited)
    with ExitStack() as stack:
        for _ in range(12):
            half = stack.enter_context(socket.create_connection((limited.host, limited.port), timeout=0.2))
            with suppress(OSError):  # it waits for room, or was closed for others' sake
                half.sendall(struct.pack(">i", MAX_FRAME_BYTES) + os.urandom(MAX_FRAME_BYTES - 100))
        bystander(limited)
        eventually(lambda: counts_of(limited)["memory_refused"] > 0)
        bystander(limited)
        counts = counts_of(limited)
        assert counts["memory_peak_bytes"] <= QUEUED_BYTES
    assert peak_bytes_of(limited) - before < 4 * QUEUED_BYTES
    assert b"queued.max.bytes 25165824 is exhausted: closing" in limited.output()
    assert counts_of(limited)["refused"] >= counts["memory_refused"]


def test_small_requests_that_never_end(
    limited: LocalBroker, bystander: Callable[[LocalBroker], None], counts_of: Counts
) -> None:
    """Beginnings of requests, all below 64 KiB, have a bound together: the oldest goes, even one that drips."""
    beginning = struct.pack(">i", MIB) + bytes(60_000)
    with ExitStack() as stack:

        def open_half() -> socket.socket:
            half = stack.enter_context(socket.create_connection((limited.host, limited.port), timeout=20))
            half.sendall(beginning)
            return half

        halves = [open_half() for _ in range(QUEUED_BYTES // 4 // len(beginning) + 1)]

        def is_one_refused() -> bool:
            with suppress(OSError):  # the first was the one
                halves[0].sendall(b"0")
            halves.append(open_half())
            return counts_of(limited)["memory_refused"] > 0

        eventually(is_one_refused)
        with suppress(ConnectionResetError):
            assert halves[0].recv(1) == b""
        bystander(limited)
    assert b"6291456 bytes beside queued.max.bytes are used up: closing 127.0.0.1:" in limited.output()


def test_announced_sizes_cost_nothing(
    limited: LocalBroker, bystander: Callable[[LocalBroker], None], peak_bytes_of: Callable[[LocalBroker], int]
) -> None:
    """Hundreds of frames of the largest size that are announced and never sent take no memory."""
    bystander(limited)
    before = peak_bytes_of(limited)
    with ExitStack() as stack:
        for _ in range(300):
            half = stack.enter_context(socket.create_connection((limited.host, limited.port)))
            half.sendall(struct.pack(">i", MAX_FRAME_BYTES) + b"\0\0")
        bystander(limited)
        assert peak_bytes_of(limited) - before < 300 * 64 * 1024
    bystander(limited)


def test_a_bug_in_a_handler(
    new_broker: Callable[..., LocalBroker], open_connection: OpenConnection, counts_of: Counts
) -> None:
    """What nobody expected ends the one connection that brought it up, logged with its traceback and counted."""
    broker = new_broker(program="broken_handler.py")
    broker.start()
    other = open_connection(broker)
    unlucky = open_connection(broker)
    unlucky.send(produce("bug", ONE) + BARRIER)
    with pytest.raises(BrokerConnectionError):
        unlucky.receive()
    assert b"ZeroDivisionError: a bug" in broker.output()
    assert counts_of(broker)["handler_errors"] == 1
    other.send(produce("views", ONE))
    other.request(BARRIER)
