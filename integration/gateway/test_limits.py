"""What one client may do to the gateway's memory: it is limited, counted and named, and nobody else notices."""

from __future__ import annotations

import gzip
import os
import socket
import struct
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import confluent_kafka
import pytest

from integration.scraping import metrics_of
from kafka2011.errors import BrokerConnectionError
from kafka2011.local_cluster import LocalCluster, LocalGateway
from kafka2011.message.compression import Codec
from kafka2011.message.message_set import encode
from kafka2011.wire.connection import BrokerConnection
from kafka2011.wire.protocol import MultiFetchRequest, ProduceRequest, encode_request
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zk.local_zookeeper import LocalZooKeeper

TIMEOUT_S = 30
_names = count()


QUEUED_BYTES = 4 * 1024 * 1024
FRAME_BYTES = 1024 * 1024
BROKER_MESSAGE_BYTES = FRAME_BYTES * 7 // 8
"""Less than the gateway allows: it cannot ask a broker."""
MOST_BYTES = 16 * 1024 * 1024
SLACK_BYTES = 48 * 1024 * 1024
"""How much the gateway may grow in a test beside its limit: copies for a moment, and what the allocator keeps."""
MOST_PARKED = 4
"""How often the gateway's own fetch may be parked while a record comes."""
FETCH, API_VERSIONS = 1, 18
CORRUPT_MESSAGE = 2


class Limited:
    """A broker, and a gateway whose memory for requests is small."""

    def __init__(self, cluster: LocalCluster, gateway: LocalGateway) -> None:
        self.broker = cluster.brokers[0]
        self.gateway = gateway

    def connection(self) -> BrokerConnection:
        """Return a connection of a client of today, opened; it sends bytes as they are and reads frames."""
        opened = BrokerConnection(self.gateway.host, self.gateway.port)
        opened.open()
        return opened

    def append(self, topic: str, messages: bytes) -> None:
        """Append a set as 0.7 does, and wait until the gateway has taken it."""
        with BrokerConnection(self.broker.host, self.broker.port) as connection:
            connection.open()
            connection.send(encode_request(ProduceRequest(topic, 0, messages)))
            connection.send(encode_request(MultiFetchRequest(())))
            connection.receive()

    def metrics(self) -> dict[tuple[str, ...], float]:
        """Return the gateway's metrics."""
        return metrics_of(self.gateway.output().decode())

    def broker_metrics(self) -> dict[tuple[str, ...], float]:
        """Return the broker's metrics."""
        return metrics_of(self.broker.output().decode())

    def resident_bytes(self) -> int:
        """Return how much memory the gateway has now."""
        pages = int(Path(f"/proc/{self.gateway.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


class Fetched(NamedTuple):
    """What a fetch has given of one partition."""

    error: int
    end: int
    records: bytes

    @property
    def base(self) -> int:
        """The number of the first message."""
        return int(struct.unpack_from(">q", self.records)[0])


def fetch_request(topic: str, number: int, *, max_bytes: int = MOST_BYTES, wait_ms: int = 0) -> bytes:
    """Return a Fetch of version 4 of partition 0, and its size before it."""
    name = topic.encode()
    body = struct.pack(">hhihiiiib", FETCH, 4, 7, -1, -1, wait_ms, 1, max_bytes, 0)
    body += struct.pack(f">ih{len(name)}siiqi", 1, len(name), name, 1, 0, number, max_bytes)
    return struct.pack(">i", len(body)) + body


def fetched(answer: bytes) -> Fetched:
    """Read the answer to it."""
    (name_length,) = struct.unpack_from(">h", answer, 12)
    at = 14 + name_length + 4
    _, error, end, _, aborted, size = struct.unpack_from(">ihqqii", answer, at)
    assert aborted <= 0
    return Fetched(error, end, answer[len(answer) - size :] if size > 0 else b"")


def fetch(connection: BrokerConnection, topic: str, number: int) -> Fetched:
    """Fetch once the gateway has something, or an error."""
    connection.send(fetch_request(topic, number, wait_ms=TIMEOUT_S * 1000))
    return fetched(bytes(connection.receive()))


def is_served(connection: BrokerConnection) -> bool:
    """Say whether a small request is answered."""
    try:
        connection.send(struct.pack(">ihhih", 10, API_VERSIONS, 0, 1, -1))
        return len(connection.receive()) > 0
    except BrokerConnectionError:
        return False


def is_closed(connection: BrokerConnection) -> bool:
    """Say whether the gateway has ended it, after waiting for what comes from there."""
    try:
        connection.receive()
    except BrokerConnectionError:
        return True
    return False


@pytest.fixture(scope="module")
def limited(zookeeper: LocalZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Limited]:
    directory: Path = tmp_path_factory.mktemp("limits")
    zk_connect = f"{zookeeper.connect_string}/limits-{next(_names)}"
    settings = {
        "zk.connect": zk_connect,
        "queued.max.bytes": str(QUEUED_BYTES),
        "max.socket.request.bytes": str(FRAME_BYTES),
        "max.message.size": str(FRAME_BYTES),
        "metrics.port": "0",
    }
    broker_settings = {
        "num.partitions": 1,
        "log.flush.interval": 1,
        "metrics.port": 0,
        "max.message.size": BROKER_MESSAGE_BYTES,
    }
    with (
        LocalCluster(1, zk_connect=zk_connect, directory=directory, properties=broker_settings) as cluster,
        LocalGateway(directory / "gateway", settings) as gateway,
    ):
        yield Limited(cluster, gateway)


@pytest.fixture
def topic(limited: Limited) -> str:
    """Make a topic that no other test uses."""
    name = f"limits-{next(_names)}"
    limited.append(name, encode(b"first"))
    with limited.connection() as connection:

        def is_there() -> bool:
            connection.send(fetch_request(name, 0, wait_ms=1000))
            return bool(fetched(bytes(connection.receive())).records)

        eventually(is_there)
    return name


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        (struct.pack(">i", 2**31 - 1) + b"rest", b"2147483647"),
        (bytes(100), b"0"),
        (struct.pack(">i", 64) + b"\xa5" * 64, b"request"),
        (struct.pack(">ihhi", 100, FETCH, 4, 1) + b"\x7f" * 92, b"request"),
    ],
    ids=["2 GB", "zeros", "garbage", "wrong fields"],
)
def test_a_malformed_frame_ends_its_connection_alone(limited: Limited, sent: bytes, text: bytes) -> None:
    refused = limited.metrics()["kafka2011_gateway_connections_closed_total", "refused"]
    with limited.connection() as good, limited.connection() as bad:
        assert is_served(good)
        bad.send(sent)
        assert is_closed(bad)
        assert is_served(good)
    metrics = limited.metrics()
    assert metrics["kafka2011_gateway_connections_closed_total", "refused"] == refused + 1
    assert metrics["kafka2011_gateway_connections_closed_total", "unexpected_error"] == 0
    closed = [line for line in limited.gateway.output().splitlines() if b"closed the connection from" in line]
    assert text in closed[-1]


def test_halves_of_requests_hold_no_more_than_the_limit(limited: Limited, topic: str) -> None:
    """And small requests of others are answered, although the memory is used up."""
    before_bytes = limited.resident_bytes()
    with ExitStack() as stack:
        for _ in range(200):
            bad = stack.enter_context(socket.create_connection((limited.gateway.host, limited.gateway.port), TIMEOUT_S))
            bad.sendall(struct.pack(">i", FRAME_BYTES) + bytes(60_000))
        eventually(lambda: b"closed so far)" in limited.gateway.output(), TIMEOUT_S)
        for _ in range(3):
            good = stack.enter_context(limited.connection())
            assert is_served(good)
            assert fetch(good, topic, 0).base == 0
        assert limited.metrics()["kafka2011_gateway_request_memory_held_bytes",] <= QUEUED_BYTES
        assert limited.resident_bytes() - before_bytes < SLACK_BYTES


def test_who_reads_no_answers_holds_no_more_than_the_limit(limited: Limited, topic: str) -> None:
    """Others read on meanwhile, and what one of them needs is taken from those."""
    messages = 6000
    for _ in range(8):
        limited.append(topic, encode(bytes(1000)) * (messages // 8))
    with ExitStack() as stack:
        good = stack.enter_context(limited.connection())
        eventually(lambda: fetch(good, topic, 0).end == messages + 1)
        before_bytes = limited.resident_bytes()
        for _ in range(60):
            slow = socket.socket()
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.connect((limited.gateway.host, limited.gateway.port))
            stack.enter_context(slow).sendall(fetch_request(topic, 0) * 20)
        reached = 0
        while reached < messages:
            answer = fetch(good, topic, reached)
            assert answer.records
            reached = last_number(answer.records) + 1
        assert limited.metrics()["kafka2011_gateway_request_memory_held_bytes",] <= QUEUED_BYTES
        assert limited.resident_bytes() - before_bytes < SLACK_BYTES


def last_number(records: bytes) -> int:
    """Return the number of the last message of record batches."""
    at = last = 0
    while at < len(records):
        base, size = struct.unpack_from(">qi", records, at)
        last = base + struct.unpack_from(">i", records, at + 23)[0]
        at += 12 + size
    return last


def test_a_set_that_opens_to_millions_of_messages_is_corrupt(limited: Limited, topic: str) -> None:
    """It takes its numbers, and what is behind it can be read."""
    inner = encode(gzip.compress(encode(b"", magic=0) * 50_000, mtime=0), Codec.GZIP)
    bomb = encode(gzip.compress(inner * 100, mtime=0), Codec.GZIP)
    assert len(bomb) < 400
    limited.append(topic, bomb)
    limited.append(topic, encode(b"behind"))
    behind = 1 + 128 * len(bomb)
    with limited.connection() as connection:
        eventually(lambda: fetch(connection, topic, 0).end == behind + 1)
        for number in (1, behind - 1):
            assert fetch(connection, topic, number).error == CORRUPT_MESSAGE
        answer = fetch(connection, topic, behind)
        assert (answer.error, answer.base, b"behind" in answer.records) == (0, behind, True)


def test_all_who_wait_at_an_end_share_one_fetch(limited: Limited, topic: str) -> None:
    clients = 200
    parked = limited.broker_metrics()["kafka2011_broker_parked_total",]
    connections = limited.broker_metrics()["kafka2011_broker_connections",]
    with ExitStack() as stack:
        before = limited.metrics()["kafka2011_gateway_requests_total", "fetch"]
        waiting = [stack.enter_context(limited.connection()) for _ in range(clients)]
        for connection in waiting:
            connection.send(fetch_request(topic, 1, wait_ms=TIMEOUT_S * 1000))
        eventually(lambda: limited.metrics()["kafka2011_gateway_requests_total", "fetch"] == before + clients)
        eventually(lambda: limited.broker_metrics()["kafka2011_broker_parked_requests",] == 1)
        limited.append(topic, encode(b"next"))
        for connection in waiting:
            answer = fetched(bytes(connection.receive()))
            assert (answer.base, b"next" in answer.records) == (1, True)
    metrics = limited.broker_metrics()
    assert metrics["kafka2011_broker_connections",] == connections
    assert metrics["kafka2011_broker_parked_total",] - parked <= MOST_PARKED


def test_a_record_that_only_the_broker_refuses_is_answered_as_too_large(limited: Limited, topic: str) -> None:
    """0.7 does not say so: it takes nothing more from the connection."""
    invalid = limited.metrics()["kafka2011_gateway_invalid_batches_total",]
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": f"{limited.gateway.host}:{limited.gateway.port}", "message.max.bytes": FRAME_BYTES}
    )
    told: dict[int, int | None] = {}

    def note(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        told[len(message.value() or b"")] = None if error is None else error.code()

    for size in (10, BROKER_MESSAGE_BYTES + 1000, 20):
        producer.produce(topic, bytes(size), on_delivery=note)
        producer.flush(TIMEOUT_S)
    refused = confluent_kafka.KafkaError.MSG_SIZE_TOO_LARGE
    assert told == {10: None, BROKER_MESSAGE_BYTES + 1000: refused, 20: None}
    assert limited.metrics()["kafka2011_gateway_invalid_batches_total",] == invalid + 1
    assert b"its max.message.size is below the gateway's" in limited.gateway.output()
