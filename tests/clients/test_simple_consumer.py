"""SimpleConsumer against a broker on a real socket."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.errors import (
    BrokerConnectionError,
    InvalidMessageError,
    InvalidMessageSizeError,
    NotAllowedError,
    OffsetOutOfRangeError,
    ProtocolError,
    UnknownError,
    WrongPartitionError,
)
from kafka2011.message.compression import Codec
from kafka2011.message.message_set import Message, MessageSet, encode
from kafka2011.wire.protocol import (
    EARLIEST,
    LATEST,
    FetchRequest,
    FetchWait,
    MultiFetchRequest,
    OffsetsRequest,
    RefusalRequest,
    encode_offsets_body,
    encode_response_header,
)
from kafka2011.wire.refusal import Refusal, encode_answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.scripted_broker import Peer, ScriptedBroker, Serve

HELLO = encode(b"hello")
AT_ONCE = FetchWait(0, 0)
MIB = 1024 * 1024


def reply(body: bytes, code: int = 0) -> bytes:
    return encode_response_header(code, len(body)) + body


def answering(*replies: bytes) -> Callable[[Peer], None]:
    """Return a script that gives these replies, one to a request."""

    def script(peer: Peer) -> None:
        for each in replies:
            assert peer.request() is not None
            peer.send(each)
        assert peer.request() is None

    return script


def consumer(broker: ScriptedBroker) -> SimpleConsumer:
    return SimpleConsumer("127.0.0.1", broker.port, broker_id=4)


def test_a_fetch_gives_messages(serve: Serve) -> None:
    """With where they came from, and where to go on."""
    wrapper = bytes(MessageSet([b"a", b"b"], Codec.GZIP))
    broker = serve(answering(reply(HELLO + wrapper + HELLO[:7])))
    with consumer(broker) as client:
        fetched = client.fetch("views", 2, 1000, 500)
    end = 1015 + len(wrapper)
    assert list(fetched) == [
        Message("views", 4, 2, 1000, 1015, 0, b"hello"),
        Message("views", 4, 2, 1015, 1015, 0, b"a"),
        Message("views", 4, 2, 1015, end, 1, b"b"),
    ]
    assert list(fetched) == list(fetched)
    assert fetched.next_offset == end
    assert broker.requests == [FetchRequest("views", 2, 1000, 500, AT_ONCE)]


def test_the_fetch_size_is_a_setting(serve: Serve) -> None:
    """fetch.size is asked for where a call does not say."""
    broker = serve(answering(reply(b""), reply(b"")))
    with SimpleConsumer("127.0.0.1", broker.port, {"fetch.size": 77}) as client:
        assert list(client.fetch("t", 0, 5)) == []
        assert client.fetch("t", 0, 5, 0).next_offset == 5
    assert broker.requests == [FetchRequest("t", 0, 5, 77, AT_ONCE), FetchRequest("t", 0, 5, 0, AT_ONCE)]


@pytest.mark.parametrize(
    ("code", "error"), [(1, OffsetOutOfRangeError), (3, WrongPartitionError), (-1, UnknownError), (55, UnknownError)]
)
def test_a_brokers_error_is_raised(serve: Serve, code: int, error: type[Exception]) -> None:
    """By name, with topic, partition and offset; the connection goes on."""
    broker = serve(answering(reply(b"", code), reply(HELLO)))
    with consumer(broker) as client:
        with pytest.raises(error, match="views/4-2 at offset 1000"):
            client.fetch("views", 2, 1000)
        assert len(list(client.fetch("views", 2, 0))) == 1
    assert broker.connections == 1


def test_a_fetch_too_small_for_one_message_says_so(serve: Serve) -> None:
    """The error names the size needed, instead of an empty set that would be asked for again and again."""
    with consumer(serve(answering(reply(HELLO[:10])))) as client:
        fetched = client.fetch("views", 2, 1000, 10)
    with pytest.raises(InvalidMessageSizeError, match="views/4-2 at offset 1000, which needs 15"):
        list(fetched)
    assert fetched.next_offset == 1000


def test_a_corrupt_message_is_told_behind_the_good_ones(serve: Serve) -> None:
    """`next_offset` stands before it, so that it is not passed over in silence."""
    with consumer(serve(answering(reply(HELLO + HELLO[:-1] + b"?")))) as client:
        fetched = client.fetch("views", 2, 1000)
    messages = iter(fetched)
    assert next(messages).payload == b"hello"
    with pytest.raises(InvalidMessageError, match="views/4-2 at offset 1015"):
        next(messages)
    assert fetched.next_offset == 1015


def test_a_multifetch_keeps_errors_with_their_parts(serve: Serve) -> None:
    """The good parts are there; the refused ones raise when they are iterated over."""
    broker = serve(answering(reply(reply(HELLO) + reply(b"", 1) + reply(b"")), reply(b"")))
    with consumer(broker) as client:
        first, second, third = client.multifetch([("a", 0, 0, 100), ("b", 1, 9, 100), ("c", 0, 0, 100)])
        assert client.multifetch([]) == []
    assert [message.payload for message in first] == [b"hello"]
    assert (second.error.code if second.error else 0, list(third)) == (1, [])
    with pytest.raises(OffsetOutOfRangeError, match="b/4-1 at offset 9"):
        list(second)
    assert broker.requests[0] == MultiFetchRequest(
        (FetchRequest("a", 0, 0, 100), FetchRequest("b", 1, 9, 100), FetchRequest("c", 0, 0, 100)), AT_ONCE
    )


def test_wrong_answers_are_protocol_errors(serve: Serve) -> None:
    """Parts that are missing, offsets that are not there, or no error number at all; the connection goes on."""
    broker = serve(answering(reply(reply(HELLO)), reply(b"\0\0\0\2"), b"\0\0\0\1\0", reply(b"")))
    with consumer(broker) as client:
        with pytest.raises(ProtocolError, match="1 parts instead of 2"):
            client.multifetch([("a", 0, 0, 100), ("b", 0, 0, 100)])
        with pytest.raises(ProtocolError, match="claims 2 offsets"):
            client.get_offsets_before("a", 0, LATEST)
        with pytest.raises(ProtocolError, match="too short"):
            client.fetch("a", 0, 0)
        assert list(client.fetch("a", 0, 0)) == []


def test_offsets(serve: Serve) -> None:
    """Newest first, as the broker says."""
    broker = serve(answering(reply(encode_offsets_body([34, 0])), reply(encode_offsets_body([]))))
    with consumer(broker) as client:
        assert client.get_offsets_before("t", 1, LATEST, 2) == [34, 0]
        assert client.get_offsets_before("t", 1, EARLIEST) == []
    assert broker.requests == [OffsetsRequest("t", 1, -1, 2, is_ours=True), OffsetsRequest("t", 1, -2, 1, is_ours=True)]


def test_offsets_of_many_partitions(serve: Serve) -> None:
    """Each has its own answer, or its own error."""
    answers = [reply(encode_offsets_body([34])), reply(encode_offsets_body([])), reply(b"\0\0\0\2")]
    broker = serve(answering(*answers))
    with consumer(broker) as client:
        assert client.get_many_offsets_before([("t", 1, LATEST, 2), ("u", 0, EARLIEST, 1)]) == [[34], []]
        with pytest.raises(ProtocolError, match="claims 2 offsets"):
            client.get_many_offsets_before([("t", 1, LATEST, 2)])
        assert client.get_many_offsets_before([]) == []
    assert broker.requests[:2] == [
        OffsetsRequest("t", 1, -1, 2, is_ours=True),
        OffsetsRequest("u", 0, -2, 1, is_ours=True),
    ]


def test_a_name_that_is_no_text_is_refused_before_connecting(serve: Serve) -> None:
    """What cannot be encoded is our error, not Python's."""
    broker = serve()
    with consumer(broker) as client, pytest.raises(ProtocolError, match="Unicode"):
        client.fetch("\ud800", 0, 0)


@pytest.mark.parametrize(
    ("max_bytes", "announced_bytes", "error"),
    [
        (MIB, 100 * MIB + 1, ProtocolError),
        (MIB, 2**31 - 1, ProtocolError),
        (200 * MIB, 200 * MIB + 3, ProtocolError),
        (200 * MIB, 200 * MIB + 2, BrokerConnectionError),  # it may be so large, but then it ends
    ],
)
def test_an_answer_larger_than_asked_for_is_refused(
    serve: Serve, max_bytes: int, announced_bytes: int, error: type[Exception]
) -> None:
    """The limit grows with what a fetch asks for, and no further than that."""

    def script(peer: Peer) -> None:
        peer.request()
        peer.send(announced_bytes.to_bytes(4, "big"))

    with consumer(serve(script)) as client, pytest.raises(error):
        client.fetch("t", 0, 0, max_bytes)


def test_a_fetch_on_a_dead_connection_is_repeated(serve: Serve) -> None:
    """A broker that restarted between two fetches is not the caller's concern."""

    def one(peer: Peer) -> None:
        peer.request()
        peer.send(reply(HELLO))

    broker = serve(one, answering(reply(HELLO)))
    with consumer(broker) as client:
        assert [len(list(client.fetch("t", 0, 0))) for _ in range(2)] == [1, 1]
    assert broker.connections == 2


def test_a_broker_that_is_not_there(closed_port: int) -> None:
    """The error names it."""
    with (
        SimpleConsumer("127.0.0.1", closed_port) as client,
        pytest.raises(BrokerConnectionError, match=f"127.0.0.1:{closed_port}"),
    ):
        client.fetch("t", 0, 0)


def test_threads_get_their_own_answers(serve: Serve) -> None:
    """Requests of several threads over one connection: nobody gets another's messages."""

    def echo(peer: Peer) -> None:
        while (request := peer.request()) is not None:
            assert isinstance(request, FetchRequest)
            peer.send(reply(encode(b"%s %d" % (request.topic.encode(), request.offset))))

    mixed: list[bytes] = []
    broker = serve(echo)
    with consumer(broker) as client:

        def work(topic: str) -> None:
            for offset in range(300):
                [message] = client.fetch(topic, 0, offset)
                if message.payload != f"{topic} {offset}".encode():
                    mixed.append(message.payload)

        threads = [threading.Thread(target=work, args=(topic,)) for topic in ("a", "b", "c")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert mixed == []
    assert (broker.connections, len(broker.requests)) == (1, 900)


PATCHED = """
from gevent import monkey
monkey.patch_all()
import gevent, socket
from gevent.server import StreamServer
from kafka2011 import MessageSet, SimpleConsumer, SyncProducer
from kafka2011.wire.protocol import FetchRequest, FrameReader, decode_request, encode_response_header

stored = bytearray()

def serve(connection, address):
    reader = FrameReader()
    while data := connection.recv(65536):
        reader.receive_data(data)
        while (frame := reader.next_frame()) is not None:
            request = decode_request(frame)
            if isinstance(request, FetchRequest):
                data = bytes(stored[request.offset:][:request.max_bytes])
                connection.sendall(encode_response_header(0, len(data)) + data)
            else:
                stored.extend(request.messages)

with gevent.Timeout(20):
    server = StreamServer(("127.0.0.1", 0), serve)
    server.start()
    assert socket.socket.__module__.startswith("gevent")
    with SyncProducer("127.0.0.1", server.server_port) as producer:
        sending = [gevent.spawn(lambda n=n: [producer.send("t", b"%d" % n) for _ in range(50)]) for n in range(4)]
        gevent.joinall(sending, raise_error=True)
    with SimpleConsumer("127.0.0.1", server.server_port) as consumer:
        fetching = [gevent.spawn(lambda: [m.payload for m in consumer.fetch("t", 0, 0)]) for _ in range(4)]
        gevent.joinall(fetching, raise_error=True)
    counts = {tuple(sorted(g.value)) for g in fetching}
    assert counts == {tuple(sorted([b"0", b"1", b"2", b"3"] * 50))}, counts
    print("done")
"""


def test_clients_work_under_gevents_monkey_patching() -> None:
    """In an application that patched everything, they wait without stopping the other greenlets."""
    done = subprocess.run(
        [sys.executable, "-c", PATCHED],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert (done.stdout, done.stderr) == ("done\n", "")


ASKS: dict[str, Callable[[SimpleConsumer], object]] = {
    "fetch": lambda client: client.fetch("views", 0, 0),
    "offsets": lambda client: client.get_offsets_before("views", 0, LATEST),
    "offsets of many": lambda client: client.get_many_offsets_before([("views", 0, LATEST, 1)]),
}


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
def test_who_may_not_consume_learns_why(serve: Serve, ask: Callable[[SimpleConsumer], object]) -> None:
    """The broker is asked for the reason, and the error names principal, topic, broker and rules."""
    broker = serve(answering(reply(b"", 29), encode_answer(Refusal("web at 1.2.3.4:5", "/etc/allow.toml"))))
    words = (
        f"web at 1.2.3.4:5 may not consume topic 'views': see /etc/allow.toml of broker 4 at 127.0.0.1:{broker.port}"
    )
    with consumer(broker) as client, pytest.raises(NotAllowedError, match=words):
        ask(client)
    assert broker.requests[1] == RefusalRequest("views")


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"principal": 1, "rules": ""}'])
def test_a_reason_that_makes_no_sense_is_an_error(serve: Serve, body: bytes) -> None:
    """It names the topic all the same."""
    broker = serve(answering(reply(b"", 29), reply(body)))
    with consumer(broker) as client, pytest.raises(ProtocolError, match="why it refused topic views"):
        client.fetch("views", 0, 0)
