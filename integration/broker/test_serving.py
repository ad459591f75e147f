"""Many connections at once: fast ones, slow ones, greedy ones and silent ones, each served in order."""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import gevent
import gevent.socket

from kafka2011.broker.connections.turn import let_others_run
from kafka2011.message.message_set import MessageSet
from kafka2011.producer.sync_producer import SyncProducer
from kafka2011.wire.protocol import (
    EARLIEST,
    LATEST,
    FetchRequest,
    MultiFetchRequest,
    MultiProduceRequest,
    OffsetsRequest,
    ProduceRequest,
    decode_multifetch_body,
    decode_offsets_body,
    decode_response,
    encode_request,
)
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.consumer.simple_consumer import SimpleConsumer
    from kafka2011.local_cluster import LocalBroker
    from kafka2011.message.message_set import Message
    from kafka2011.wire.connection import BrokerConnection

    NewBroker = Callable[..., LocalBroker]
    OpenConnection = Callable[[LocalBroker], BrokerConnection]
    OpenConsumer = Callable[[LocalBroker], SimpleConsumer]
    AwaitEnd = Callable[..., None]
    ReadAll = Callable[..., list[Message]]

HEADER_BYTES = 6


def produce(topic: str, *payloads: bytes, partition: int = 0) -> bytes:
    return encode_request(ProduceRequest(topic, partition, bytes(MessageSet(payloads))))


def test_fetched_bytes_go_out_by_sendfile(
    new_broker: NewBroker, open_connection: OpenConnection, await_end: AwaitEnd
) -> None:
    """Every byte of a log that a client receives was sent by sendfile(2), over several segments."""
    broker = new_broker({"log.flush.interval": 1, "log.file.size": 300_000}, program="count_sendfile.py")
    broker.start()
    payloads = [os.urandom(100_000) for _ in range(50)]
    connection = open_connection(broker)
    for payload in payloads:
        connection.send(produce("views", payload))
    end = len(bytes(MessageSet(payloads)))
    await_end(broker, "views", end)
    received = b""
    while len(received) < end:
        frame = connection.request(encode_request(FetchRequest("views", 0, len(received), 350_000)))
        received += decode_response(frame, "a fetch")
    assert received == bytes(MessageSet(payloads))
    parts = tuple(FetchRequest("views", 0, offset, 150_000) for offset in (0, 7, 99_999))
    body = decode_response(connection.request(encode_request(MultiFetchRequest(parts))), "a multifetch")
    answers = decode_multifetch_body(body, 3)
    assert answers == [(0, received[part.offset : part.offset + 150_000]) for part in parts]
    broker.stop()
    sent = re.search(rb"^sendfile sent (\d+) bytes$", broker.output(), re.MULTILINE)
    assert sent is not None
    assert int(sent[1]) == len(received) + sum(len(data) for _, data in answers)


def test_pipelined_requests(broker: LocalBroker, open_connection: OpenConnection, await_end: AwaitEnd) -> None:
    """Requests of all kinds in one write are answered in order, each reply whole; produces are handled in between."""
    connection = open_connection(broker)
    one, two = bytes(MessageSet([b"one"])), bytes(MessageSet([b"two", b"three"]))
    connection.send(produce("a", b"one"))
    await_end(broker, "a", len(one))
    sets = (ProduceRequest("b", 0, two), ProduceRequest("a", 0, one))
    connection.send(
        b"".join(
            (
                encode_request(FetchRequest("a", 0, 0, 1000)),
                encode_request(MultiProduceRequest(sets)),
                encode_request(OffsetsRequest("unknown", 0, EARLIEST, 1)),
                encode_request(FetchRequest("unknown", 0, 0, 1000)),
                encode_request(MultiFetchRequest(())),
                encode_request(MultiFetchRequest((FetchRequest("a", 0, 0, 1000), FetchRequest("a", 9, 0, 1000)))),
            )
        )
    )
    assert decode_response(connection.receive(), "a fetch") == one
    assert decode_offsets_body(decode_response(connection.receive(), "offsets")) == [0]
    assert decode_response(connection.receive(), "a fetch") == b""
    assert decode_response(connection.receive(), "a multifetch") == b""
    answered = decode_multifetch_body(decode_response(connection.receive(), "a multifetch"), 2)
    assert answered[1] == (3, b"")
    assert answered[0][1].startswith(one)
    await_end(broker, "b", len(two))
    await_end(broker, "a", 2 * len(one))


def test_frames_that_come_byte_by_byte(broker: LocalBroker, open_consumer: OpenConsumer, await_end: AwaitEnd) -> None:
    """A request is whole when its last byte is there, however it was cut on the way."""
    with socket.create_connection((broker.host, broker.port)) as slow:
        slow.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        frame = produce("views", b"one")
        for position in range(len(frame)):
            slow.sendall(frame[position : position + 1])
            assert open_consumer(broker).get_offsets_before("unknown", 0, LATEST) == [0]  # the others go on
        await_end(broker, "views", len(bytes(MessageSet([b"one"]))))


def test_fifty_connections_at_once(broker: LocalBroker, read_all: ReadAll, open_consumer: OpenConsumer) -> None:
    """Each produces to its own topic and to a shared one, and fetches: nothing is lost, each sender's order holds."""
    connections, each = 50, 40

    def work(client: int) -> list[bytes]:
        own = f"own-{client}"
        with SyncProducer(broker.host, broker.port) as producer:
            for number in range(each):
                producer.multi_send([(own, 0, b"%d" % number), ("shared", 0, b"%d %d" % (client, number))])
        consumer = open_consumer(broker)
        found: list[bytes] = []
        offset = 0
        deadline = time.monotonic() + 60
        while len(found) < each:
            assert time.monotonic() < deadline
            with suppress(IndexError):
                messages = list(consumer.fetch(own, 0, offset))
                offset = messages[-1].next_offset
                found += (message.payload for message in messages)
        return found

    with ThreadPoolExecutor(connections) as executor:
        for found in executor.map(work, range(connections)):
            assert found == [b"%d" % number for number in range(each)]
    eventually(lambda: len(read_all(broker, "shared")) == connections * each)  # each log is flushed by itself
    by_client: dict[int, list[int]] = {}
    for message in read_all(broker, "shared"):
        client, number = map(int, message.payload.split())
        by_client.setdefault(client, []).append(number)
    assert by_client == {client: list(range(each)) for client in range(connections)}


def test_slow_reader(
    broker: LocalBroker, open_connection: OpenConnection, open_consumer: OpenConsumer, await_end: AwaitEnd
) -> None:
    """Clients that do not read their replies hold up nobody; when they do read, they get every byte."""
    payloads = [os.urandom(900_000) for _ in range(20)]
    expected = bytes(MessageSet(payloads))
    with SyncProducer(broker.host, broker.port) as producer:
        for payload in payloads:
            producer.send("views", payload)
    await_end(broker, "views", len(expected))
    slow = [open_connection(broker) for _ in range(10)]
    request = encode_request(FetchRequest("views", 0, 0, 100_000_000))
    for connection in slow:
        connection.send(request * 2)
    consumer = open_consumer(broker)
    for number in range(100):
        with SyncProducer(broker.host, broker.port) as producer:
            producer.send("clicks", b"%d" % number)
    await_end(broker, "clicks", len(bytes(MessageSet(b"%d" % number for number in range(100)))))
    assert len(list(consumer.fetch("clicks", 0, 0))) == 100
    for connection in slow[:3]:
        for _ in range(2):
            assert decode_response(connection.receive(), "a fetch") == expected


def test_a_busy_connection_does_not_starve_another(new_broker: NewBroker, open_connection: OpenConnection) -> None:
    """While producers send as fast as they can, a client that waits for each answer gets hundreds of them."""
    broker = new_broker({"log.flush.interval": 1_000_000})
    broker.start()
    done = threading.Event()
    burst = b"".join(produce("busy", bytes(200)) for _ in range(300))
    sent = [0, 0]

    def hose(number: int, connection: BrokerConnection) -> None:
        while not done.is_set():
            connection.send(burst)
            sent[number] += 1

    with ThreadPoolExecutor(2) as executor, ExitStack() as stack:
        stack.callback(done.set)
        hoses = [executor.submit(hose, number, open_connection(broker)) for number in range(2)]
        connection = open_connection(broker)
        request = encode_request(OffsetsRequest("busy", 0, LATEST, 1))
        eventually(lambda: min(sent) > 20)  # more than fits in the sockets: the broker is busy from now on
        deadline = time.monotonic() + 20
        for answered in range(300):
            assert time.monotonic() < deadline, f"{answered} answers only"
            connection.request(request)
        before = min(sent)
        eventually(lambda: min(sent) > before)
        assert not any(hosing.done() for hosing in hoses)


def test_silent_connections(broker: LocalBroker, open_consumer: OpenConsumer) -> None:
    """Clients that connect and say nothing, or end without a word, cost nothing but their socket."""
    with ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(socket.create_connection((broker.host, broker.port)))
        for _ in range(300):
            socket.create_connection((broker.host, broker.port)).close()
        assert open_consumer(broker).get_offsets_before("unknown", 0, LATEST) == [0]
    assert b"refused so far" not in broker.output()


def test_a_turn_ends_with_a_look_at_the_sockets() -> None:
    """Who gives way lets those run whose sockets became ready meanwhile, not only those that were ready before."""
    ours, theirs = gevent.socket.socketpair()
    with ours, theirs:
        waiting = gevent.spawn(theirs.recv, 1)
        let_others_run()
        ours.send(b"x")
        turns = 0
        while not waiting.ready():
            let_others_run()
            turns += 1
        assert turns <= 3
