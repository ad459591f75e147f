"""The connection that publishes: when it looks, renews itself, joins small sends, and what it counts as broken."""

from __future__ import annotations

import errno
import math
import socket
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kafka2011.config import SyncProducerConfig
from kafka2011.errors import BrokerConnectionError, ProtocolError
from kafka2011.producer import producer_connection as connection_module
from kafka2011.producer.producer_connection import LOOK_INTERVAL_S, Frame, ProducerConnection
from kafka2011.wire import connection as wire_connection
from kafka2011.wire.protocol import ProduceRequest, encode_request
from kafka2011.wire.sockets import connected_socket
from tests.support.clocks import ManualClock
from tests.support.produce_broker import ProduceBroker
from tests.support.waiting import eventually
from zk.cluster import Broker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.scripted_broker import Peer, Serve

FRAME = encode_request(ProduceRequest("t", 0, b""))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    """Give connections a clock that stands still; their sockets go by the real one, which says when sends time out."""
    found = ManualClock(math.ceil(time.monotonic()))  # whole, so that eighths of a second add up without rounding
    monkeypatch.setattr(connection_module, "time", SimpleNamespace(monotonic=found.monotonic_s))
    return found


@pytest.fixture(autouse=True)
def sockets(monkeypatch: pytest.MonkeyPatch) -> list[socket.socket]:
    """Return the sockets that connections open, each one when it is opened."""
    opened: list[socket.socket] = []

    def connected(*arguments: Any) -> socket.socket:
        opened.append(connected_socket(*arguments))
        return opened[-1]

    monkeypatch.setattr(wire_connection, "connected_socket", connected)
    return opened


@pytest.fixture
def broker() -> Iterator[ProduceBroker]:
    made = ProduceBroker(0)
    yield made
    made.close()


@pytest.fixture
def connection(broker: ProduceBroker) -> Iterator[ProducerConnection]:
    with connect(broker) as made:
        yield made


def connect(broker: ProduceBroker, **settings: int) -> ProducerConnection:
    given = {key.replace("_", "."): value for key, value in settings.items()}
    return ProducerConnection(broker.entry, SyncProducerConfig.from_properties(given))


def is_joining(sockets: list[socket.socket]) -> bool:
    """Whether the kernel may join small sends of the newest connection."""
    return not sockets[-1].getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_many_quick_sends_may_be_joined(
    clock: ManualClock, connection: ProducerConnection, sockets: list[socket.socket]
) -> None:
    """After 16 in a row; the first one after a pause goes out at once again, and begins a new row."""
    for _ in range(2):
        connection.write(FRAME)
        for _ in range(2):
            for _ in range(15):
                connection.write(FRAME)
                assert not is_joining(sockets)
            connection.write(FRAME)
            assert is_joining(sockets)
            clock.now_s += LOOK_INTERVAL_S * 1.5
            connection.write(FRAME)
            assert is_joining(sockets)
            clock.now_s += LOOK_INTERVAL_S * 3
            connection.write(FRAME)
            assert not is_joining(sockets)
        clock.now_s += 100
        connection.close()


def test_a_new_connection_begins_without_joining(
    clock: ManualClock, connection: ProducerConnection, sockets: list[socket.socket]
) -> None:
    """Its sends are counted anew."""
    for _ in range(10):
        connection.write(FRAME)
    connection.close()
    for _ in range(16):
        connection.write(FRAME)
        assert not is_joining(sockets)
    connection.write(FRAME)
    assert is_joining(sockets)
    connection.close()
    for _ in range(16):
        connection.write(FRAME)
        assert not is_joining(sockets)
    connection.write(FRAME)
    assert is_joining(sockets)


@pytest.mark.parametrize("publish", [ProducerConnection.write_all, ProducerConnection.push])
def test_a_connection_is_renewed_after_so_many_sends(
    broker: ProduceBroker, publish: Callable[[ProducerConnection, list[Frame]], None], sockets: list[socket.socket]
) -> None:
    """Exactly reconnect.interval, in either way of sending; it says when that is due."""
    with connect(broker, reconnect_interval=3) as connection:
        connection.open()
        several: list[list[Frame]] = [[(FRAME,)] * 2, [(FRAME[:5], FRAME[5:])]]
        for frames in several:
            assert not connection.reconnect_is_due
            publish(connection, frames)
        assert connection.reconnect_is_due
        assert len(sockets) == 1
        connection.write(FRAME)
        assert len(sockets) == 2
        for _ in range(2):
            assert not connection.reconnect_is_due
            connection.write(FRAME)
        assert connection.reconnect_is_due
        assert connection.broken == 0
    eventually(lambda: len(broker.requests) == 6)


def test_a_connection_is_renewed_after_a_time(
    clock: ManualClock, broker: ProduceBroker, sockets: list[socket.socket]
) -> None:
    """At the millisecond of reconnect.time.interval.ms, counted from when it was opened."""
    with connect(broker, reconnect_time_interval_ms=125) as connection:
        assert not connection.reconnect_is_due
        connection.write(FRAME)
        for opened in (1, 2):
            clock.now_ms += 124
            assert not connection.reconnect_is_due
            connection.write(FRAME)
            assert len(sockets) == opened
            clock.now_ms += 1
            assert connection.reconnect_is_due
            connection.write(FRAME)
            assert len(sockets) == opened + 1


def test_an_end_by_the_broker_is_noticed_and_counted_once(
    clock: ManualClock, broker: ProduceBroker, connection: ProducerConnection
) -> None:
    """At the next look, which is a millisecond after the last; what is sent then goes over a new connection."""
    connection.write(FRAME)
    eventually(lambda: len(broker.requests) == 1)
    broker.end_connections()
    eventually(lambda: connection.answer_waits)
    clock.now_s += LOOK_INTERVAL_S
    connection.write(FRAME)
    assert connection.broken == 1
    eventually(lambda: len(broker.requests) == 2)
    assert broker.connections == 2
    connection.finish()
    assert connection.broken == 1


def test_finishing_counts_a_connection_that_broke_off(broker: ProduceBroker, connection: ProducerConnection) -> None:
    """What was sent last may be lost."""
    connection.write(FRAME)
    eventually(lambda: len(broker.requests) == 1)
    broker.end_connections()
    eventually(lambda: connection.answer_waits)
    connection.finish()
    assert (connection.broken, connection.is_open) == (1, False)


def test_renewing_counts_a_connection_that_broke_off(clock: ManualClock, serve: Serve) -> None:
    """The same, when it was to be replaced by another one."""
    is_reset = threading.Event()

    def reset(peer: Peer) -> None:
        peer.request()
        peer.reset()
        is_reset.set()

    served = serve(reset, lambda peer: peer.requests() and None)
    config = SyncProducerConfig.from_properties({"reconnect.interval": 1})
    with ProducerConnection(Broker(0, "127.0.0.1", served.port), config) as connection:
        connection.write(FRAME)
        assert is_reset.wait(20)
        connection.write(FRAME)
        assert connection.broken == 1
        connection.finish()
        assert connection.broken == 1


class StubbornSocket:
    """One that no option can be set of, once it is told so."""

    def __init__(self, opened: socket.socket) -> None:
        self.is_stubborn = False
        self._opened = opened

    def __getattr__(self, name: str) -> Any:
        return getattr(self._opened, name)

    def setsockopt(self, *option: Any) -> None:
        if self.is_stubborn:
            raise OSError(errno.EINVAL, "no such option")
        self._opened.setsockopt(*option)


def test_a_connection_that_cannot_be_told_to_join_sends_has_ended(
    clock: ManualClock, connection: ProducerConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that cannot be written to: some kernels say so of a connection that was reset."""
    opened: list[StubbornSocket] = []

    def connected(*arguments: Any) -> StubbornSocket:
        opened.append(StubbornSocket(connected_socket(*arguments)))
        return opened[-1]

    monkeypatch.setattr(wire_connection, "connected_socket", connected)
    connection.write(FRAME)
    opened[0].is_stubborn = True
    for _ in range(15):
        connection.write(FRAME)
    with pytest.raises(BrokerConnectionError, match="no such option"):
        connection.write(FRAME)
    assert (connection.broken, connection.is_open) == (1, False)


def test_an_answer_that_waits_can_be_seen(broker: ProduceBroker, connection: ProducerConnection) -> None:
    """Without reading it; a connection that is not open has nothing to wait for."""
    assert connection.answer_waits
    connection.open()
    assert not connection.answer_waits
    connection.push([(connection_module.BARRIER,)])
    eventually(lambda: connection.answer_waits)
    connection.answer()
    assert not connection.answer_waits


@pytest.mark.parametrize("in_c", [True, False])
def test_the_answers_that_have_come_are_read_together(
    serve: Serve, in_c: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where one of them comes in two pieces; no more than are due, and one at a time without C code."""

    def answer(peer: Peer) -> None:
        for _ in range(3):
            peer.request()
        peer.send("00000002 0000 00000002 0000 00000002 00")
        assert peer.request()
        peer.send("00")
        peer.send("00000002 0000")

    if not in_c:
        monkeypatch.setattr("kafka2011.wire.connection.compiled", None)
    with ProducerConnection(Broker(0, "127.0.0.1", serve(answer).port), SyncProducerConfig()) as connection:
        connection.open()
        connection.push([(connection_module.BARRIER,)] * 3)
        eventually(lambda: connection.answer_waits)
        if in_c:
            connection.push([(connection_module.BARRIER,)])
            assert connection.answers(3) == 3
        else:
            assert connection.answers(3) == 1
            connection.push([(connection_module.BARRIER,)])
            assert connection.answers(2) == 1
            assert connection.answers(1) == 1
        assert connection.answers(1) == 1


def test_it_is_known_how_much_was_sent_before_an_error(serve: Serve) -> None:
    """Whole requests that were handed over are not in doubt; the one that was cut is."""
    cut = threading.Event()

    def read_little(peer: Peer) -> None:
        peer.request()
        assert cut.wait(10)

    config = SyncProducerConfig.of({"buffer.size": 4096})
    with ProducerConnection(Broker(0, "127.0.0.1", serve(read_little).port), config) as connection:
        connection.open()
        connection.limit(100)
        frames = [(FRAME,), *[(FRAME[:9], FRAME[9:] + FRAME * 999)] * 3000]
        with pytest.raises(BrokerConnectionError) as raised:
            connection.write_all(frames)
        cut.set()
        assert len(FRAME) < raised.value.sent_bytes < sum(len(part) for frame in frames for part in frame)


def test_a_wrong_answer_ends_the_connection(serve: Serve) -> None:
    """Nothing is known of what was sent before."""

    def answer_with_an_error(peer: Peer) -> None:
        peer.request()
        peer.send("00000002 0001")

    served = serve(answer_with_an_error)
    config = SyncProducerConfig()
    with ProducerConnection(Broker(0, "127.0.0.1", served.port), config) as connection:
        with pytest.raises(ProtocolError, match="answers a fetch of nothing with"):
            connection.prove()
        assert not connection.is_open
