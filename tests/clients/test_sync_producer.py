"""SyncProducer against a broker on a real socket."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from kafka2011.config import SyncProducerConfig
from kafka2011.errors import BrokerConnectionError, ConfigError, MessageSizeTooLargeError
from kafka2011.message.compression import Codec
from kafka2011.message.message_set import MessageSet, decode
from kafka2011.message.topic import InvalidTopicError
from kafka2011.producer.sync_producer import SyncProducer
from kafka2011.wire.protocol import ANY_PARTITION, MultiProduceRequest, ProduceRequest
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.scripted_broker import Peer, ScriptedBroker, Serve

HELLO = bytes.fromhex("0000000b 01 00 3610a686 68656c6c6f")


def read_all(peer: Peer) -> None:
    peer.requests()


def producer(broker: ScriptedBroker, **config: int) -> SyncProducer:
    return SyncProducer("127.0.0.1", broker.port, SyncProducerConfig(**config))


@pytest.mark.parametrize(
    ("messages", "data"),
    [
        (b"hello", HELLO),
        (bytearray(b"hello"), HELLO),
        (memoryview(b"hello"), HELLO),
        ([b"hello", b"hello"], HELLO * 2),
        ((payload for payload in (b"hello", b"hello")), HELLO * 2),
        (MessageSet([b"hello"]), HELLO),
        (MessageSet([b"hello"], magic=0), bytes(MessageSet([b"hello"], magic=0))),
        (MessageSet([b"hello"] * 9, Codec.SNAPPY), bytes(MessageSet([b"hello"] * 9, Codec.SNAPPY))),
        ([], b""),
        (b"", bytes(MessageSet([b""]))),
    ],
    ids=range(10),
)
def test_what_may_be_sent(serve: Serve, messages: bytes, data: bytes) -> None:
    """One payload, several, or a set; to a partition, or to one that the broker picks."""
    broker = serve(read_all)
    with producer(broker) as client:
        client.send("views", messages, 3)
        client.send("views", b"")
    assert broker.requests == [
        ProduceRequest("views", 3, data),
        ProduceRequest("views", ANY_PARTITION, bytes(MessageSet([b""]))),
    ]


def test_several_sets_in_one_request(serve: Serve) -> None:
    """`multi_send` keeps the order."""
    broker = serve(read_all)
    with producer(broker) as client:
        client.multi_send([("a", 0, b"hello"), ("b", -1, [b"hello", b"hello"])])
    assert broker.requests == [MultiProduceRequest((ProduceRequest("a", 0, HELLO), ProduceRequest("b", -1, HELLO * 2)))]


@pytest.mark.parametrize(
    ("topic", "messages", "error"),
    [
        ("t", bytes(101), MessageSizeTooLargeError),
        ("t", [b"small", bytes(101), b"small"], MessageSizeTooLargeError),
        ("t", MessageSet([bytes(range(256))], Codec.GZIP), MessageSizeTooLargeError),
        ("t", MessageSet.from_bytes(bytes(MessageSet([bytes(101)], magic=0))), MessageSizeTooLargeError),
        ("a/b", b"x", InvalidTopicError),
        ("", b"x", InvalidTopicError),
        ("t", "text", TypeError),
        ("t", ["text"], TypeError),
        ("t", None, TypeError),
    ],
    ids=range(9),
)
def test_what_cannot_be_sent_sends_nothing(serve: Serve, topic: str, messages: bytes, error: type[Exception]) -> None:
    """An error before a connection is even made, for a part of a multi-send too; exactly the limit passes."""
    broker = serve(read_all)
    with producer(broker, max_message_size=100) as client:
        with pytest.raises(error):
            client.send(topic, messages)
        with pytest.raises(error):
            client.multi_send([("t", 0, b"x"), (topic, 0, messages)])
        assert broker.connections == 0
        client.send("t", bytes(100))
    assert len(broker.requests) == 1


def test_a_broker_that_is_not_there(closed_port: int) -> None:
    """The error names the broker; closing is then nothing."""
    with SyncProducer("127.0.0.1", closed_port) as client, pytest.raises(BrokerConnectionError, match=str(closed_port)):
        client.send("t", b"x")


def test_a_set_is_never_sent_twice(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """A broker that closed the connection gets what comes next on a new one, and nothing again; the log tells."""

    def refuse(peer: Peer) -> None:
        peer.request()

    broker = serve(refuse, read_all)
    with producer(broker) as client:
        client.send("t", b"refused")
        eventually(client._connection.ended_by_broker)
        client._connection._look_at_s = 0.0  # it does not look for every send
        client.send("t", b"next")
        assert client.broken_connections == 1
    sets = [request.messages for request in broker.requests if isinstance(request, ProduceRequest)]
    assert sets == [bytes(MessageSet([b"refused"])), bytes(MessageSet([b"next"]))]
    assert f"127.0.0.1:{broker.port} closed the connection" in caplog.text


def test_a_send_that_breaks_off_is_not_repeated(serve: Serve) -> None:
    """Part of it may have been handled: the caller decides."""

    def reset(peer: Peer) -> None:
        peer.socket.recv(1000)
        peer.reset()

    broker = serve(reset, read_all)
    with producer(broker) as client:
        with pytest.raises(BrokerConnectionError, match=f"127.0.0.1:{broker.port}"):
            client.send("t", [bytes(1_000_000)] * 50)
        assert (broker.connections, client.broken_connections) == (1, 1)
        client.send("t", b"next")
    assert broker.requests == [ProduceRequest("t", -1, bytes(MessageSet([b"next"])))]


def test_close_waits_until_all_is_handled(serve: Serve) -> None:
    """After `with` the broker has read every set."""
    handled: list[int] = []
    gate = threading.Event()

    def script(peer: Peer) -> None:
        gate.wait(20)
        handled.append(len(peer.requests()))

    client = producer(serve(script))
    for _ in range(100):
        client.send("t", b"hello")
    closing = threading.Thread(target=client.close)
    closing.start()
    closing.join(0.1)
    assert closing.is_alive()
    gate.set()
    closing.join(20)
    assert handled == [100]
    client.close()
    assert client.broken_connections == 0


def test_close_tells_of_a_refused_set(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """If nothing is sent after it, the end is where a refusal is noticed."""
    client = producer(serve(lambda peer: peer.request()))
    client.send("t", b"refused")
    eventually(client._connection.ended_by_broker)
    client.close()
    assert client.broken_connections == 1
    assert "closed the connection" in caplog.text


def test_close_tells_of_a_broker_that_went_away(serve: Serve) -> None:
    """A reset while it drains is a broken connection too."""

    def script(peer: Peer) -> None:
        peer.requests()
        peer.reset()

    client = producer(serve(script))
    client.send("t", b"x")
    client.close()
    assert client.broken_connections == 1


def test_a_closed_producer_may_be_used_again(serve: Serve) -> None:
    """The next send connects."""
    broker = serve(read_all, read_all)
    client = producer(broker)
    for _ in range(2):
        client.send("t", b"x")
        client.close()
    assert (broker.connections, len(broker.requests), client.broken_connections) == (2, 2, 0)


def test_reconnecting_after_so_many_sends_loses_nothing(serve: Serve) -> None:
    """Each connection is drained before the next is made, so the sets arrive in order."""
    broker = serve(*[read_all] * 4)
    with producer(broker, reconnect_interval=3) as client:
        for number in range(10):
            client.send("t", b"%d" % number)
    assert broker.connections == 4
    assert _payloads(broker) == [b"%d" % number for number in range(10)]
    assert client.broken_connections == 0


def test_reconnecting_after_a_time(serve: Serve) -> None:
    """An interval of 0 has passed at once; -1 never passes."""
    broker = serve(*[read_all] * 3)
    with producer(broker, reconnect_time_interval_ms=0) as client:
        for _ in range(3):
            client.send("t", b"x")
    assert broker.connections == 3
    other = serve(read_all)
    with producer(other, reconnect_time_interval_ms=-1) as client:
        for _ in range(3):
            client.send("t", b"x")
    assert other.connections == 1


def test_threads_share_one_connection(serve: Serve) -> None:
    """Requests of several threads arrive whole, and each thread's in order."""
    broker = serve(read_all)

    with producer(broker) as client:

        def work(name: int) -> None:
            for number in range(300):
                client.send("t", b"%d %d" % (name, number) + bytes(number * 7))

        threads = [threading.Thread(target=work, args=(name,)) for name in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert broker.connections == 1
    arrived = [payload.rstrip(b"\0") for payload in _payloads(broker)]
    for name in range(3):
        assert [each for each in arrived if each.startswith(b"%d " % name)] == [
            b"%d %d" % (name, n) for n in range(300)
        ]


def test_settings_come_with_07s_names(serve: Serve) -> None:
    """Dotted or underscored; unknown ones are refused."""
    broker = serve()
    client = SyncProducer("127.0.0.1", broker.port, {"max.message.size": "10"})
    with pytest.raises(MessageSizeTooLargeError, match="10"):
        client.send("t", bytes(11))
    with pytest.raises(ConfigError, match=r"max\.message\.size"):
        SyncProducer("127.0.0.1", broker.port, {"max.message.sise": 10})


def _payloads(broker: ScriptedBroker) -> list[bytes]:
    return [
        message.payload
        for request in broker.requests
        if isinstance(request, ProduceRequest)
        for message in decode(bytes(request.messages), "t", None, 0, 0)
    ]
