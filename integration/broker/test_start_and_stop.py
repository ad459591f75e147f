"""How a broker starts, stops in order, and stops when it must."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING

import psutil
import pytest

from kafka2011.errors import BrokerConnectionError
from kafka2011.message.compression import Codec
from kafka2011.message.header import MAGIC_1_OVERHEAD_BYTES
from kafka2011.message.message_set import MessageSet
from kafka2011.producer.sync_producer import SyncProducer
from kafka2011.wire.protocol import (
    LATEST,
    FetchRequest,
    MultiFetchRequest,
    OffsetsRequest,
    ProduceRequest,
    decode_offsets_body,
    decode_response,
    encode_request,
)
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kafka2011.consumer.simple_consumer import SimpleConsumer
    from kafka2011.local_cluster import LocalBroker
    from kafka2011.message.message_set import Message
    from kafka2011.wire.connection import BrokerConnection

    NewBroker = Callable[..., LocalBroker]
    OpenConsumer = Callable[[LocalBroker], SimpleConsumer]
    OpenConnection = Callable[[LocalBroker], BrokerConnection]
    ReadAll = Callable[..., list[Message]]

MARK = ".kafka_cleanshutdown"
BARRIER = encode_request(MultiFetchRequest(()))
"""Answered once everything before it was handled."""


def produce(topic: str, *payloads: bytes) -> bytes:
    return encode_request(ProduceRequest(topic, 0, bytes(MessageSet(payloads))))


def why_it_ended(broker: LocalBroker) -> str:
    """Return the one line that says why a broker ended; there must be no traceback."""
    output = broker.output().decode()
    assert "Traceback" not in output, output
    [line] = [line for line in output.splitlines() if "CRITICAL" in line or line.startswith("kafka2011")]
    return line


def test_two_brokers_on_one_directory(new_broker: NewBroker, tmp_path: Path) -> None:
    """The second one does not start, and says why: the logs are locked until the first one stops, and stay its own."""
    first = new_broker(directory=tmp_path / "shared")
    first.start()
    second = new_broker(broker_id=1, directory=tmp_path / "shared")
    second.output_path = tmp_path / "second.log"
    second.launch()
    assert second.process.wait(30) == 1
    assert f"log.dir {first.log_dir} is in use by another broker" in why_it_ended(second)
    first.stop()
    second.output_path = tmp_path / "second-again.log"
    second.launch()
    assert second.process.wait(30) == 1
    assert f"log.dir {first.log_dir} is that of broker 0, and this is broker 1" in why_it_ended(second)
    first.start()


def test_port_in_use(new_broker: NewBroker) -> None:
    """The broker does not start, and names the address."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        broker = new_broker({"port": port})
        broker.launch()
        assert broker.process.wait(30) == 1
    why = why_it_ended(broker)
    assert f"cannot listen on 127.0.0.1:{port}" in why
    assert f"ss -ltnp 'sport = :{port}'" in why
    broker.start()  # and on that port, now that it is free
    assert broker.port == port


def test_port_is_free_at_once_after_a_crash(broker: LocalBroker, open_connection: OpenConnection) -> None:
    """Connections that a killed broker had do not keep its port."""
    open_connection(broker).request(BARRIER)
    port = broker.port
    broker.kill()
    broker.start()
    assert broker.port == port


def test_clean_stop(broker: LocalBroker, open_connection: OpenConnection, read_all: ReadAll) -> None:
    """SIGTERM: what came is flushed, the mark is left, exit 0; the next start takes the mark and recovers nothing."""
    connection = open_connection(broker)
    connection.send(b"".join(produce("views", b"%d" % number) for number in range(1000)))
    connection.request(BARRIER)
    broker.process.terminate()
    assert broker.process.wait(20) == 0
    assert (broker.log_dir / MARK).exists()
    assert b"Traceback" not in broker.output()

    broker.start()
    assert not (broker.log_dir / MARK).exists()
    assert b"recover" not in broker.output()
    assert [message.payload for message in read_all(broker, "views")] == [b"%d" % number for number in range(1000)]


def test_the_page_cache_is_warm_after_a_restart(
    new_broker: NewBroker, open_connection: OpenConnection, read_all: ReadAll
) -> None:
    """A broker that was just started sends all that was written before, and reads not one message from the disk."""
    broker = new_broker({"log.flush.interval": 1, "log.file.size": 1_000_000})
    broker.start()
    payloads = [os.urandom(100_000) for _ in range(50)]
    connection = open_connection(broker)
    for payload in payloads:
        connection.send(produce("views", payload))
    connection.request(BARRIER)
    broker.stop()
    broker.start()
    process = psutil.Process(broker.process.pid)
    before = process.io_counters().read_bytes
    assert [message.payload for message in read_all(broker, "views")] == payloads
    assert process.io_counters().read_bytes - before < 100_000


def test_interrupt_stops_as_sigterm_does(broker: LocalBroker) -> None:
    """Ctrl-C in its terminal ends a broker in order, with the status that Ctrl-C has everywhere."""
    broker.process.send_signal(signal.SIGINT)
    assert broker.process.wait(20) == 130
    assert (broker.log_dir / MARK).exists()


def test_requests_already_received_are_finished(broker: LocalBroker, open_connection: OpenConnection) -> None:
    """What has reached the broker when SIGTERM comes is handled and answered, then the connection ends."""
    connection, idle = open_connection(broker), open_connection(broker)
    connection.request(BARRIER)
    idle.request(BARRIER)
    broker.pause()
    for number in range(100):
        connection.send(produce("views", b"%d" % number))
    connection.send(encode_request(OffsetsRequest("unknown", 0, LATEST, 1)))
    connection.send(BARRIER)
    broker.process.terminate()
    broker.resume()
    assert decode_offsets_body(decode_response(connection.receive(), "offsets")) == [0]
    assert decode_response(connection.receive(), "a barrier") == b""
    with pytest.raises(BrokerConnectionError):
        connection.receive()
    with pytest.raises(BrokerConnectionError):
        idle.receive()
    assert broker.process.wait(20) == 0
    assert (broker.log_dir / "views-0" / f"{0:020}.kafka").read_bytes() == bytes(
        MessageSet(b"%d" % number for number in range(100))
    )


def test_stop_under_a_stream(broker: LocalBroker, open_connection: OpenConnection, read_all: ReadAll) -> None:
    """A producer streams while SIGTERM comes: all that the broker counted is there, in order, without a gap."""
    connection = open_connection(broker)

    def stream() -> int:
        confirmed = 0
        with suppress(BrokerConnectionError):
            for first in count(step=100):
                connection.send(b"".join(produce("views", b"%d" % number) for number in range(first, first + 100)))
                connection.request(BARRIER)
                confirmed = first + 100
        return confirmed

    with ThreadPoolExecutor(1) as executor:
        streaming = executor.submit(stream)
        eventually(lambda: read_all(broker, "views"))
        broker.process.terminate()
        assert broker.process.wait(20) == 0
        confirmed = streaming.result(20)
    stopped = re.search(rb"stopped; (\{.*\})$", broker.output(), re.MULTILINE)
    assert stopped is not None
    handled = json.loads(stopped[1])["messages_in"]
    assert handled >= confirmed > 0
    broker.start()
    assert b"recover" not in broker.output()
    assert [int(message.payload) for message in read_all(broker, "views")] == list(range(handled))


def test_stop_while_more_comes_in_than_is_handled(
    broker: LocalBroker,
    open_connection: OpenConnection,
    open_consumer: OpenConsumer,
    read_all: ReadAll,
) -> None:
    """Producers that never stop sending do not hold up the stop: what arrived before it is handled, the rest is not.

    Compressed sets are quickly sent and slowly checked, so that there is always more to read.
    """
    topics = ["a", "b"]
    numbered = bytes(MessageSet([b"%d" % number for number in range(500)], Codec.GZIP))
    bursts = [encode_request(ProduceRequest(topic, 0, numbered)) * 20 for topic in topics]

    def stream(connection: BrokerConnection, burst: bytes) -> None:
        with suppress(BrokerConnectionError):
            while True:
                connection.send(burst)

    with ThreadPoolExecutor(2) as executor:
        streams = [executor.submit(stream, open_connection(broker), burst) for burst in bursts]
        consumer = open_consumer(broker)
        eventually(lambda: all(consumer.fetch(topic, 0, 0).data for topic in topics))
        broker.process.terminate()
        assert broker.process.wait(20) == 0
        for streaming in streams:
            streaming.result(20)
    assert b"cutting off" not in broker.output()
    broker.start()
    assert b"recover" not in broker.output()
    for topic in topics:
        numbers = [int(message.payload) for message in read_all(broker, topic)]
        assert numbers == [position % 500 for position in range(len(numbers))]


def test_a_client_that_takes_nothing_does_not_hold_up_the_stop(
    new_broker: NewBroker, open_connection: OpenConnection
) -> None:
    """Its reply is cut off after a while, and the stop is clean all the same."""
    broker = new_broker({"log.flush.interval": 1})
    broker.start()
    with SyncProducer(broker.host, broker.port) as producer:
        for _ in range(20):
            producer.send("views", bytes(900_000))
    connection = open_connection(broker)
    connection.send(encode_request(FetchRequest("views", 0, 0, 100_000_000)))
    broker.process.terminate()
    assert broker.process.wait(30) == 0
    assert (broker.log_dir / MARK).exists()


def test_second_sigterm_ends_at_once(
    new_broker: NewBroker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    open_connection: OpenConnection,
) -> None:
    """While the last flush hangs, a second signal ends the process, without the mark; the next start recovers."""
    gate = tmp_path / "gate"
    monkeypatch.setenv("FSYNC_GATE", str(gate))
    broker = new_broker(program="gated_fsync.py")
    broker.start()
    connection = open_connection(broker)
    connection.send(produce("views", b"one"))
    connection.request(BARRIER)
    gate.touch()
    broker.process.terminate()
    eventually(lambda: b"stopping on SIGTERM" in broker.output())
    with pytest.raises(TimeoutError):
        broker.process.wait(0.3)
    broker.process.terminate()
    assert broker.process.wait(20) == 128 + signal.SIGTERM
    assert not (broker.log_dir / MARK).exists()
    gate.unlink()
    broker.start()
    assert b"the last stop was not clean" in broker.output()


def test_io_error_stops_the_broker(
    broker: LocalBroker, open_connection: OpenConnection, await_end: Callable[..., None], read_all: ReadAll
) -> None:
    """A write that fails half way: the broker ends with the reason, exit 1, no mark, and leaves no torn message."""
    first, second = MessageSet([b"before"]), MessageSet([bytes(50_000)])
    connection = open_connection(broker)
    connection.send(produce("views", *first))
    await_end(broker, "views", len(bytes(first)))
    psutil.Process(broker.process.pid).rlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
    connection.send(produce("views", *second))
    assert broker.process.wait(20) == 1
    reason = why_it_ended(broker)
    assert str(broker.log_dir / "views-0") in reason
    assert os.strerror(27) in reason  # EFBIG: file too large
    assert not (broker.log_dir / MARK).exists()
    [segment] = (broker.log_dir / "views-0").iterdir()
    assert segment.read_bytes() == bytes(first)

    broker.start()
    assert [message.payload for message in read_all(broker, "views")] == [b"before"]
    assert len(bytes(first)) == MAGIC_1_OVERHEAD_BYTES + len(b"before")


def test_directory_that_cannot_be_used(new_broker: NewBroker, tmp_path: Path) -> None:
    """The broker does not start, and names the path."""
    broker = new_broker()
    broker.log_dir.mkdir(parents=True)
    log = broker.log_dir / "views-0"
    log.mkdir()
    (log / f"{5:020}.kafka").write_bytes(b"")
    (log / f"{0:020}.kafka").write_bytes(b"")
    broker.launch()
    assert broker.process.wait(30) == 1
    assert f"{5:020}.kafka does not continue {0:020}.kafka" in why_it_ended(broker)
    assert not (broker.log_dir / MARK).exists()
