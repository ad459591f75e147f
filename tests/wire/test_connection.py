"""One connection to a broker: what goes wrong on it, and what is tried again."""

from __future__ import annotations

import contextlib
import fcntl
import struct
import termios
import threading
import time
from typing import TYPE_CHECKING

import pytest

from kafka2011.errors import BrokerConnectionError, ProtocolError
from kafka2011.message.message_set import encode
from kafka2011.wire import connection as connection_module
from kafka2011.wire.connection import BrokerConnection
from kafka2011.wire.protocol import FetchRequest, ProduceRequest, encode_request, topic_field
from tests.support.interruption import StoppedError, interruptible, ticking
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.scripted_broker import Peer, ScriptedBroker, Serve

pytestmark = pytest.mark.usefixtures("each_code")

ASK = encode_request(FetchRequest("t", 0, 0, 100))
REPLY = "00000003 0000 61"
BODY = b"\0\0a"


def connect(broker: ScriptedBroker, socket_timeout_ms: int = 10_000, max_frame_bytes: int = 1000) -> BrokerConnection:
    return BrokerConnection(
        "127.0.0.1", broker.port, socket_timeout_ms=socket_timeout_ms, max_frame_bytes=max_frame_bytes
    )


def answer(peer: Peer) -> None:
    """Answer every request."""
    while peer.request():
        peer.send(REPLY)


def answer_once_and_close(peer: Peer) -> None:
    peer.request()
    peer.send(REPLY)


def test_a_connection_is_made_when_it_is_needed(serve: Serve) -> None:
    """Not before, once for many requests, and again after close, which may be called twice."""
    broker = serve(answer, answer)
    with connect(broker) as connection:
        assert not connection.is_open
        assert [connection.request(ASK) for _ in range(3)] == [BODY] * 3
        assert broker.connections == 1
        connection.close()
        connection.close()
        assert connection.request(ASK) == BODY
        assert broker.connections == 2


def test_a_refused_connection_names_the_broker(closed_port: int) -> None:
    """The error is ours, and says which broker."""
    connection = BrokerConnection("127.0.0.1", closed_port)
    for call in (connection.open, lambda: connection.send(ASK), lambda: connection.request(ASK)):
        with pytest.raises(BrokerConnectionError, match=f"127.0.0.1:{closed_port}"):
            call()
    assert not connection.is_open


def test_a_large_buffer_is_filled_before_anything_is_read(serve: Serve) -> None:
    """So a broker need not wait for the application in the middle of a response."""
    response = bytes(200_000)
    arrived = threading.Event()

    def script(peer: Peer) -> None:
        peer.request()
        peer.send(len(response).to_bytes(4) + response)
        eventually(lambda: not _bytes_under_way(peer))
        arrived.set()

    with BrokerConnection("127.0.0.1", serve(script).port, buffer_bytes=400_000) as connection:
        connection.send(ASK)
        assert arrived.wait(20)
        assert connection.receive(len(response)) == response


def _bytes_under_way(peer: Peer) -> int:
    (unacknowledged,) = struct.unpack("i", fcntl.ioctl(peer.socket, termios.TIOCOUTQ, bytes(4)))
    return int(unacknowledged)


def test_many_requests_take_few_round_trips(serve: Serve) -> None:
    """So many are sent together, and answered in order; on a dead connection they are sent again."""

    def script(peer: Peer) -> None:
        answered = 0
        for together in (128, 128, 44):
            for _ in range(together):
                peer.request()
            for number in range(answered, answered + together):
                peer.send(f"00000006 0000 {number:08x}")
            answered += together
        peer.request()

    broker = serve(answer_once_and_close, script)
    with connect(broker) as connection:
        assert connection.request(ASK) == BODY
        eventually(connection.ended_by_broker)
        answers = connection.request_many([ASK] * 300)
        assert [int.from_bytes(each[2:]) for each in answers] == list(range(300))
        assert connection.request_many([]) == []
    assert broker.connections == 2


def test_a_response_may_come_byte_by_byte(serve: Serve) -> None:
    """And the next one in the same piece as its end."""

    def script(peer: Peer) -> None:
        peer.request()
        peer.request()
        for byte in bytes.fromhex(REPLY):
            peer.send(bytes([byte]))
        peer.send(REPLY)
        peer.request()

    with connect(serve(script)) as connection:
        connection.send(ASK * 2)
        assert connection.receive() == connection.receive() == BODY


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 200, *range(4060, 4080), 3_000_000])
@pytest.mark.parametrize("partition", [0, -1, 2**31 - 1, -(2**31)])
def test_a_message_is_sent_as_a_produce(serve: Serve, size: int, partition: int) -> None:
    """Whoever encodes it, C or Python; a large one goes out in as many pieces as the socket takes."""
    payload = bytes(range(256)) * (size // 256) + bytes(size % 256)

    def script(peer: Peer) -> None:
        peer.request()
        peer.request()
        peer.send(REPLY)
        peer.request()

    broker = serve(script)
    with connect(broker) as connection:
        connection.open()
        for _ in range(2):
            connection.send_message(topic_field("views"), partition, payload, time.monotonic() + 20)
        assert connection.receive() == BODY
    assert broker.requests == [ProduceRequest("views", partition, encode(payload))] * 2


def test_messages_wait_for_a_broker_that_reads_late(serve: Serve) -> None:
    """Small ones too, in whole: the socket takes parts of them once it is full."""
    payloads = [bytes([number % 251]) * (number % 3000) for number in range(10_000)]
    is_sending = threading.Event()

    def script(peer: Peer) -> None:
        assert is_sending.wait(20)
        for _ in payloads:
            peer.request()
        peer.send(REPLY)

    broker = serve(script)
    with connect(broker) as connection:
        connection.open()
        for number, payload in enumerate(payloads):
            if number == 1:
                is_sending.set()
            connection.send_message(topic_field("views"), 0, payload, time.monotonic() + 20)
        assert connection.receive() == BODY
    assert broker.requests == [ProduceRequest("views", 0, encode(payload)) for payload in payloads]


@pytest.mark.parametrize("partition", [2**31, -(2**31) - 1, 2**80])
def test_a_message_that_does_not_fit_a_request_is_not_sent(serve: Serve, partition: int) -> None:
    """The connection is as it was."""

    def script(peer: Peer) -> None:
        peer.request()
        peer.send(REPLY)
        peer.request()

    broker = serve(script)
    with connect(broker) as connection:
        connection.open()
        with pytest.raises(ProtocolError, match="does not fit"):
            connection.send_message(topic_field("views"), partition, b"payload", time.monotonic() + 20)
        assert connection.request(ASK) == BODY
    assert len(broker.requests) == 1


def test_what_is_no_message_is_refused(serve: Serve) -> None:
    """The C code checks what it is given."""
    if connection_module.compiled is None:
        pytest.skip("no C code")
    for arguments in ((1, b"", 0, bytearray(), 0.0), (1, "", 0, b"", 0.0), (1, b"", 0, b""), ("", b"", 0, b"", 0.0)):
        with pytest.raises(TypeError):
            connection_module.compiled.produce(*arguments)
    assert connection_module.compiled.crc32(b"123456789") == 0xCBF43926


@pytest.mark.parametrize("sent", ["", "0000", "00000003", "00000003 0000"])
@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_connection_that_ends_in_the_middle(serve: Serve, sent: str, how: str) -> None:
    """Wherever it ends, the request fails by name; it was the connection's first, so it is not asked again."""

    def script(peer: Peer) -> None:
        peer.request()
        peer.send(sent)
        if how == "reset":
            peer.reset()

    broker = serve(script)
    with connect(broker) as connection:
        with pytest.raises(BrokerConnectionError, match=f"127.0.0.1:{broker.port}"):
            connection.request(ASK)
        assert not connection.is_open
    assert broker.connections == 1


def test_a_request_on_a_dead_connection_is_repeated_once(serve: Serve) -> None:
    """A broker that restarted meanwhile is met by the next request on a new connection."""
    broker = serve(answer_once_and_close, answer)
    with connect(broker) as connection:
        assert [connection.request(ASK), connection.request(ASK)] == [BODY] * 2
    assert broker.connections == 2


def test_a_request_is_not_repeated_twice(serve: Serve) -> None:
    """If the new connection fails as well, so does the request."""
    broker = serve(answer_once_and_close, lambda peer: peer.reset())
    with connect(broker) as connection:
        connection.request(ASK)
        with pytest.raises(BrokerConnectionError):
            connection.request(ASK)
    assert broker.connections == 2


def test_a_broker_that_does_not_answer_is_not_asked_again(serve: Serve) -> None:
    """It would only wait as long again; the late answer is not taken for another request's."""
    slow_done = threading.Event()

    def slow(peer: Peer) -> None:
        peer.request()
        peer.send(REPLY)
        peer.request()
        slow_done.wait(20)

    broker = serve(slow, answer)
    with connect(broker, socket_timeout_ms=1000) as connection:
        assert connection.request(ASK) == BODY
        with pytest.raises(BrokerConnectionError, match="timed out"):
            connection.request(ASK)
        assert not connection.is_open
        assert broker.connections == 1
        slow_done.set()
        assert connection.request(ASK) == BODY


@pytest.mark.parametrize("limit_ms", [20, 20_000])
def test_a_limit_may_be_shorter_or_longer_than_the_sockets_own(serve: Serve, limit_ms: int) -> None:
    """Which C relies on where it ends in time: a broker that answers late is waited for, or not."""

    def late(peer: Peer) -> None:
        peer.request()
        peer.send(REPLY)
        peer.request()
        if limit_ms > 1000:
            time.sleep(0.1)  # longer than the socket's own: that it is over shows nowhere
            peer.send(REPLY)
        peer.request()

    with connect(serve(late), socket_timeout_ms=50 if limit_ms > 1000 else 60_000) as connection:
        connection.request(ASK)
        connection.limit(limit_ms)
        if limit_ms > 1000:
            assert connection.request(ASK) == BODY
        else:
            with pytest.raises(BrokerConnectionError, match="timed out"):
                connection.request(ASK)


def produce(connection: BrokerConnection, payload: bytes, times: int = 1) -> None:
    connection.open()
    ends_s = time.monotonic() + 0.2
    for _ in range(times):
        connection.send_message(topic_field("t"), 0, payload, ends_s)


CALLS: dict[str, Callable[[BrokerConnection], object]] = {
    "request": lambda connection: connection.request(ASK),
    "fetch": lambda connection: connection.fetch(ASK, 1000, 2),
    "receive": lambda connection: connection.receive(),
    "send": lambda connection: connection.send(bytes(50_000_000)),
    "produce": lambda connection: produce(connection, bytes(50_000_000)),
    "small produces": lambda connection: produce(connection, bytes(2000), times=25_000),
}


@pytest.mark.parametrize("call", CALLS)
def test_signals_do_not_put_a_timeout_off(serve: Serve, call: str) -> None:
    """However often they interrupt the wait, such as those of a profiler."""
    done = threading.Event()
    with ticking(), connect(serve(lambda _: done.wait(40)), socket_timeout_ms=200) as connection:
        with pytest.raises(BrokerConnectionError, match="timed out"):
            CALLS[call](connection)
        assert not connection.is_open
        done.set()


@pytest.mark.parametrize("call", ["request", "fetch", "receive"])
@pytest.mark.parametrize("size", [900, 9_000_000])
def test_bytes_that_drip_do_not_put_a_timeout_off(serve: Serve, call: str, size: int) -> None:
    """A response as a whole has that long, whether C has room for it or not."""
    ends_s = time.monotonic() + 20

    def script(peer: Peer) -> None:
        peer.send(size.to_bytes(4))
        with contextlib.suppress(OSError):
            while time.monotonic() < ends_s:
                peer.send("00")
                time.sleep(0.01)

    broker = serve(script)
    with (
        connect(broker, socket_timeout_ms=200, max_frame_bytes=size) as connection,
        pytest.raises(BrokerConnectionError, match="timed out"),
    ):
        CALLS[call](connection)


@pytest.mark.parametrize("size", [0, -1, 1001, 2**31 - 1])
def test_a_response_of_an_impossible_size_is_refused(serve: Serve, size: int) -> None:
    """Nothing is read or taken memory for, the connection ends, and the request is not repeated."""

    def script(peer: Peer) -> None:
        answer_once_and_close(peer)
        peer.request()
        peer.send(size.to_bytes(4, "big", signed=True))
        peer.request()

    broker = serve(script)
    with connect(broker) as connection:
        connection.request(ASK)
        with pytest.raises(ProtocolError, match=f"announces a response of {size} bytes"):
            connection.request(ASK)
        assert not connection.is_open
    assert broker.connections == 1


def test_one_request_may_expect_more_than_others(serve: Serve) -> None:
    """A caller that asked for much says so."""

    def script(peer: Peer) -> None:
        peer.request()
        peer.send((2000).to_bytes(4, "big") + bytes(2000))
        peer.request()

    with connect(serve(script)) as connection:
        assert connection.request(ASK, max_frame_bytes=2000) == bytes(2000)


def test_an_interrupted_call_leaves_no_half_answer_behind(serve: Serve) -> None:
    """Ctrl-C, or an application's own timeout, in the middle of a response: the next request gets its own answer."""
    with interruptible() as interrupt:

        def script(peer: Peer) -> None:
            peer.request()
            peer.send("00000006 0000 6162")
            interrupt()
            with contextlib.suppress(ConnectionResetError):  # the half that was not read
                assert peer.request() is None

        with connect(serve(script, answer)) as connection:
            with pytest.raises(StoppedError):
                connection.request(ASK)
            assert connection.request(ASK) == BODY


def test_the_brokers_end_is_noticed(serve: Serve) -> None:
    """An end or a reset shows without sending anything; a quiet connection has not ended."""
    ends = threading.Event()

    def script(peer: Peer) -> None:
        peer.request()
        ends.wait(20)

    def reset(peer: Peer) -> None:
        script(peer)
        peer.reset()

    for how in (script, reset):
        ends.clear()
        with connect(serve(how)) as connection:
            assert not connection.ended_by_broker()
            connection.send(ASK)
            assert not connection.ended_by_broker()
            ends.set()
            eventually(connection.ended_by_broker)
            assert connection.is_open  # it only looks


def test_draining_waits_until_the_broker_has_handled_all(serve: Serve) -> None:
    """`drain_and_close` ends when the broker, having read everything, ends the connection, and not before."""
    handles, drained = threading.Event(), threading.Event()

    def script(peer: Peer) -> None:
        assert len(peer.requests()) == 3
        peer.send(REPLY)  # nobody waits for it
        handles.wait(20)

    connection = connect(serve(script))
    connection.send(ASK * 3)
    results: list[bool] = []

    def drain() -> None:
        results.append(connection.drain_and_close())
        drained.set()

    thread = threading.Thread(target=drain)
    thread.start()
    assert not drained.wait(0.1)
    handles.set()
    thread.join(20)
    assert results == [True]
    assert not connection.is_open
    assert connection.drain_and_close()  # nothing is left to do


def test_draining_tells_when_the_broker_broke_off(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """A reset means that not all may have been handled."""

    def script(peer: Peer) -> None:
        peer.requests()
        peer.reset()

    broker = serve(script)
    connection = connect(broker)
    connection.send(ASK)
    assert not connection.drain_and_close()
    assert f"127.0.0.1:{broker.port}" in caplog.text
    assert not connection.is_open


def test_draining_has_a_limit(serve: Serve) -> None:
    """A broker that never ends the connection, or sends for ever, holds nobody up for ever."""
    done = threading.Event()

    def silent(peer: Peer) -> None:
        done.wait(20)

    def endless(peer: Peer) -> None:
        while not done.wait(0.001):
            try:
                peer.send(REPLY)
            except OSError:
                return

    for script in (silent, endless):
        connection = connect(serve(script), socket_timeout_ms=50)
        connection.open()
        assert not connection.drain_and_close()
    done.set()
