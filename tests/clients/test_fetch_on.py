"""Several sets of one partition by one call: which ones are asked for, and what may go wrong on the way."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import pytest

from kafka2011.consumer import simple_consumer
from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.errors import (
    BrokerConnectionError,
    InvalidMessageError,
    InvalidMessageSizeError,
    OffsetOutOfRangeError,
    ProtocolError,
)
from kafka2011.message.message_set import Message, decode, encode
from kafka2011.wire import connection
from kafka2011.wire.protocol import FetchRequest, FetchWait, encode_response_header
from tests.support.interruption import StoppedError, interruptible

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.scripted_broker import Peer, Serve

pytestmark = pytest.mark.usefixtures("each_code")

HELLO = encode(b"hello")
LOG = HELLO * 10
MAX_BYTES = 2 * len(HELLO) + 10
"""Two messages and a piece of one."""


def reply(body: bytes, code: int = 0) -> bytes:
    return encode_response_header(code, len(body)) + body


def serving(log: bytes = LOG, *, times: int | None = None) -> Callable[[Peer], None]:
    """Return a script that answers from a log that starts at 0, so often or to the connection's end."""

    def script(peer: Peer) -> None:
        left = times
        while left != 0 and isinstance(request := peer.request(), FetchRequest):
            peer.send(reply(log[request.offset : request.offset + request.max_bytes]))
            left = None if left is None else left - 1

    return script


def first_then(*replies: bytes | str) -> Callable[[Peer], None]:
    """Return a script that answers one request from the log and others by these replies, then ends the connection."""

    def script(peer: Peer) -> None:
        serving(times=1)(peer)
        for each in replies:
            if peer.request() is None:
                return
            peer.send(each)

    return script


def fetch_on(client: SimpleConsumer, most: int = 8, max_bytes: int = MAX_BYTES) -> list[tuple[int, int]]:
    """Return offset and size of each set."""
    return [(each.offset, len(each.data)) for each in client.fetch_on("views", 2, 0, max_bytes, most)]


def by_any(*sets: tuple[int, int]) -> list[tuple[int, int]]:
    """Return what is expected here: all of these in C, the first in Python."""
    return list(sets if connection.compiled is not None else sets[:1])


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a call go on however slow this machine is."""
    monkeypatch.setattr(connection, "SETS_WITHIN_MS", 60_000)


@pytest.fixture
def in_c(each_code: None) -> None:
    if connection.compiled is None:
        pytest.skip("Python fetches one set a call")


def consumer(port: int) -> SimpleConsumer:
    return SimpleConsumer("127.0.0.1", port, broker_id=4)


def test_sets_follow_one_another_to_the_end(serve: Serve) -> None:
    """Each starts behind the last whole message of the one before; a small one says that there is no more."""
    broker = serve(serving())
    with consumer(broker.port) as client:
        sets = by_any((0, 40), (30, 40), (60, 40), (90, 40), (120, 30), (150, 0))
        assert fetch_on(client) == sets
        assert broker.requests == [FetchRequest("views", 2, offset, MAX_BYTES, FetchWait(0, 0)) for offset, _ in sets]
        last = client.fetch_on("views", 2, 120, MAX_BYTES, 2)[0]
        assert [(each.payload, each.broker_id, each.next_offset) for each in last] == [
            (b"hello", 4, 135),
            (b"hello", 4, 150),
        ]


@pytest.mark.parametrize(("most", "wanted"), [(1, 1), (2, 2), (3, 3), (1000, 16)])
def test_no_more_than_wanted(serve: Serve, most: int, wanted: int) -> None:
    """Nor more than one call can."""
    broker = serve(serving(HELLO * 1000))
    with consumer(broker.port) as client:
        expected = by_any(*((30 * number, 40) for number in range(wanted)))
        assert fetch_on(client, most) == expected
        assert len(broker.requests) == len(expected)


def test_offsets_may_need_all_their_bytes(serve: Serve, in_c: None) -> None:
    """A carry goes up to the first byte."""
    start = 2**56 - 10

    def script(peer: Peer) -> None:
        peer.request()
        peer.send(reply(HELLO))
        peer.request()
        peer.send(reply(b""))

    broker = serve(script)
    with consumer(broker.port) as client:
        sets = client.fetch_on("views", 2, start, 15, 2)
    assert [each.offset for each in sets] == [start, start + 15]
    assert [request.offset for request in broker.requests if isinstance(request, FetchRequest)] == [start, start + 15]


def test_an_error_comes_with_its_set(serve: Serve, in_c: None) -> None:
    """And ends the call, as the only set or a later one."""
    broker = serve(first_then(reply(b"", 1), reply(b"", 1)))
    with consumer(broker.port) as client:
        good, bad = client.fetch_on("views", 2, 0, MAX_BYTES, 8)
        assert len(list(good)) == 2
        with pytest.raises(OffsetOutOfRangeError, match="views/4-2 at offset 30"):
            list(bad)
        [bad] = client.fetch_on("views", 2, 7, MAX_BYTES, 8)
        with pytest.raises(OffsetOutOfRangeError, match="views/4-2 at offset 7"):
            list(bad)


def test_a_set_without_a_whole_message_is_the_last(serve: Serve) -> None:
    """Whatever follows it cannot be known."""
    with consumer(serve(serving()).port) as client:
        [fetched] = client.fetch_on("views", 2, 0, len(HELLO) - 1, 8)
    with pytest.raises(InvalidMessageSizeError, match="views/4-2 at offset 0, which needs 15"):
        list(fetched)


def test_a_slow_broker_is_not_waited_for(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has come is given at once where the next set would take as long again."""
    monkeypatch.setattr(connection, "SETS_WITHIN_MS", 2)

    def script(peer: Peer) -> None:
        peer.request()
        time.sleep(0.01)  # five times as long as sets may take
        peer.send(reply(LOG[:MAX_BYTES]))
        assert peer.request() is None

    with consumer(serve(script).port) as client:
        assert fetch_on(client) == [(0, 40)]


@pytest.mark.parametrize("size", [0, 100, 9 * 1024 * 1024])
def test_more_may_come_than_was_asked_for(serve: Serve, size: int) -> None:
    """It is taken as it is, as the first set or a later one, and the connection goes on."""
    broker = serve(first_then(reply(bytes(size)), reply(bytes(size)), reply(HELLO)))
    with consumer(broker.port) as client:
        if connection.compiled is not None:
            assert fetch_on(client) == [(0, 40), (30, size)]
        else:
            assert [*fetch_on(client), *fetch_on(client)] == [(0, 40), (0, size)]
        assert fetch_on(client) == [(0, size)]
        assert fetch_on(client) == [(0, 15)]
    assert broker.connections == 1


def test_more_than_is_received_at_once(serve: Serve) -> None:
    """A fetch may be larger than what memory is set aside for in advance."""
    size = 9 * 1024 * 1024
    broker = serve(serving(bytes(size)))
    with consumer(broker.port) as client:
        assert fetch_on(client, max_bytes=size) == [(0, size)]


def test_a_set_may_come_byte_by_byte(serve: Serve) -> None:
    """Nothing depends on how it is cut."""

    def script(peer: Peer) -> None:
        while isinstance(request := peer.request(), FetchRequest):
            for byte in reply(LOG[request.offset : request.offset + 20]):
                peer.send(bytes([byte]))

    with consumer(serve(script).port) as client:
        assert fetch_on(client, max_bytes=20)[0] == (0, 20)
        assert fetch_on(client, most=1, max_bytes=20) == [(0, 20)]


@pytest.mark.parametrize("size", ["00000000", "ffffffff", "7fffffff", "00000001 00"])
def test_a_response_of_an_impossible_size_is_refused(serve: Serve, in_c: None, size: str) -> None:
    """As the first one or a later one: an error, not a set, and the connection ends."""
    broker = serve(first_then(size), first_then(), first_then(size))
    with consumer(broker.port) as client:
        with pytest.raises(ProtocolError, match="response of"):
            fetch_on(client)
        assert fetch_on(client, most=1) == [(0, 40)]
    assert broker.connections == 2


@pytest.mark.parametrize("sent", ["", "0000", "0000002a", "0000002a 00", "0000002a 0000", "0000002a 0000 00000b"])
@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_connection_that_ends_in_the_middle(serve: Serve, in_c: None, sent: str, how: str) -> None:
    """What came before is fetched again, from a broker that answers: nothing is passed over."""

    def script(peer: Peer) -> None:
        first_then(sent)(peer)
        if how == "reset":
            peer.reset()

    broker = serve(script, serving())
    with consumer(broker.port) as client:
        with pytest.raises(BrokerConnectionError, match=f"127.0.0.1:{broker.port}"):
            fetch_on(client)
        assert fetch_on(client, most=1) == [(0, 40)]


def test_a_dead_connection_is_made_again(serve: Serve) -> None:
    """Once, as for every request that changes nothing."""
    broker = serve(serving(times=1), serving())
    with consumer(broker.port) as client:
        assert fetch_on(client, most=1) == fetch_on(client, most=1) == [(0, 40)]
    assert broker.connections == 2


def test_a_broker_that_stops_answering(serve: Serve, in_c: None) -> None:
    """Between two sets as anywhere: the call ends by the socket's timeout, and it is not asked again."""

    def script(peer: Peer) -> None:
        serving(times=1)(peer)
        peer.request()
        assert peer.request() is None

    broker = serve(script)
    with (
        SimpleConsumer("127.0.0.1", broker.port, {"socket.timeout.ms": 50}) as client,
        pytest.raises(BrokerConnectionError, match="timed out"),
    ):
        fetch_on(client)
    assert broker.connections == 1


def test_an_interrupted_call_leaves_no_half_answer_behind(serve: Serve, in_c: None) -> None:
    """Ctrl-C in the middle of the second set: the next call gets its own answer."""
    with interruptible() as interrupt:

        def script(peer: Peer) -> None:
            first_then("0000002a 0000 00")(peer)
            interrupt()
            with contextlib.suppress(ConnectionResetError):  # the half that was not read
                assert peer.request() is None

        with consumer(serve(script, serving()).port) as client:
            with pytest.raises(StoppedError):
                fetch_on(client)
            assert fetch_on(client, most=1) == [(0, 40)]


def test_a_log_is_read_to_its_end_as_columns(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set after set, without an object for each message; a part of a message at a set's end is fetched again."""
    monkeypatch.setattr(simple_consumer, "LARGE_FETCH_BYTES", 1)
    with consumer(serve(serving()).port) as client:
        batches = list(client.arrow("t", 0, len(HELLO), MAX_BYTES))
    found = [Message(**row) for batch in batches for row in batch.to_pylist()]
    assert found == list(decode(LOG[len(HELLO) :], "t", 4, 0, len(HELLO)))
    assert len(batches) == 5


def test_columns_of_a_log_end_with_the_error(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the good messages before it; the broker's errors are raised, too."""
    monkeypatch.setattr(simple_consumer, "LARGE_FETCH_BYTES", 1)
    broken = LOG + HELLO[:-1] + b"?" + LOG
    with consumer(serve(serving(broken)).port) as client:
        batches = client.arrow("t", 0, 0, MAX_BYTES)
        assert sum(next(batches).num_rows for _ in range(5)) == 10
        with pytest.raises(InvalidMessageError, match=f"t/4-0 at offset {len(LOG)}: CRC"):
            next(batches)
    with (
        consumer(serve(first_then(reply(b"", 1))).port) as client,
        pytest.raises(OffsetOutOfRangeError, match=f"t/4-0 at offset {2 * len(HELLO)}"),
    ):
        list(client.arrow("t", 0, 0, MAX_BYTES))


def test_a_log_is_read_by_more_at_once_while_there_is_much(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """As much as is taken together, after a set that was large; and nobody meets anything that is under way."""
    monkeypatch.setattr(simple_consumer, "LARGE_FETCH_BYTES", 3 * MAX_BYTES)
    broker = serve(serving(HELLO * 19))
    with consumer(broker.port) as client:
        batches = client.arrow("views", 2, 0, MAX_BYTES)
        first = next(batches)
        assert client.fetch("views", 2, 30, MAX_BYTES).next_offset == 60
        assert first.column("next_offset").to_pylist() == [15, 30]
        assert sum(batch.num_rows for batch in batches) == 17
    asked = [(each.offset, each.max_bytes) for each in broker.requests if isinstance(each, FetchRequest)]
    large = 3 * MAX_BYTES
    assert asked == [(0, 40), (30, 40), (30, large), (150, large), (270, large), (285, 40)]
