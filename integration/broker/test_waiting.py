"""Fetches that wait at the end of a log: what ends the wait, and that 0.7's clients see nothing of it."""

from __future__ import annotations

import signal
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from kafka2011.message.message_set import MessageSet
from kafka2011.wire.protocol import (
    FetchRequest,
    FetchWait,
    MultiFetchRequest,
    OffsetsRequest,
    ProduceRequest,
    encode_request,
)
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kafka2011.consumer.simple_consumer import SimpleConsumer
    from kafka2011.local_cluster import LocalBroker
    from kafka2011.wire.connection import BrokerConnection

    NewBroker = Callable[..., LocalBroker]
    OpenConnection = Callable[[LocalBroker], BrokerConnection]
    OpenConsumer = Callable[[LocalBroker], SimpleConsumer]
    CountsOf = Callable[[LocalBroker], dict[str, int]]

ONE = bytes(MessageSet([b"one"]))
ENDS = ("parked_ready", "parked_late", "parked_gone", "parked_more", "parked_stopped")
LONG_MS = 50_000
HUGE = 2**31 - 1
NEVER = 1_000_000_000
EMPTY = bytes(2)
"""An answer without its size: no error, and nothing."""


def produce(topic: str, messages: bytes = ONE, partition: int = 0) -> bytes:
    return encode_request(ProduceRequest(topic, partition, messages))


def fetch(offset: int = 0, max_ms: int = LONG_MS, min_bytes: int = 1, *, max_bytes: int = 1000) -> bytes:
    return encode_request(FetchRequest("views", 0, offset, max_bytes, FetchWait(max_ms, min_bytes)))


def parked_now(counts: dict[str, int]) -> int:
    return counts.get("parked", 0) - sum(counts.get(end, 0) for end in ENDS)


@pytest.fixture
def await_parked(counts_of: CountsOf) -> Callable[..., None]:
    """Wait until that many requests are parked at a broker, and as many were for each reason given."""

    def wait(broker: LocalBroker, count: int, **ended: int) -> None:
        def are_parked() -> bool:
            counts = counts_of(broker)
            return parked_now(counts) == count and all(counts.get(end, 0) == ended[end] for end in ended)

        eventually(are_parked)

    return wait


def test_a_fetch_is_answered_when_something_comes(
    broker: LocalBroker, open_connection: OpenConnection, await_parked: Callable[..., None]
) -> None:
    """Also one that asked before the topic was there; what is there is answered with at once, wait or not."""
    reader, writer = open_connection(broker), open_connection(broker)
    reader.send(fetch())
    await_parked(broker, 1)
    writer.send(produce("others") + produce("views"))
    assert reader.receive() == EMPTY + ONE
    reader.send(fetch(len(ONE)))
    await_parked(broker, 1, parked_ready=1)
    writer.send(produce("views"))
    assert reader.receive() == EMPTY + ONE
    assert bytes(reader.request(fetch(0, HUGE))) == EMPTY + ONE * 2
    await_parked(broker, 0, parked=2)


def test_a_multifetch_waits_for_any_of_its_parts(
    new_broker: NewBroker, open_connection: OpenConnection, await_parked: Callable[..., None]
) -> None:
    """One answer for all parts, of which one has something; partitions and topics may be new."""
    broker = new_broker({"log.flush.interval": 1, "num.partitions": 2})
    broker.start()
    reader, writer = open_connection(broker), open_connection(broker)
    parts = tuple(FetchRequest(topic, partition, 0, 1000) for topic in ("views", "new") for partition in (0, 1))
    for number, (topic, partition) in enumerate((("views", 1), ("new", 0)), 1):
        reader.send(
            encode_request(MultiFetchRequest(parts[: 2 * number], FetchWait(LONG_MS, 1 + 2 * (number - 1) * len(ONE))))
        )
        await_parked(broker, 1)
        writer.send(produce(topic, ONE * number, partition))
        answer = reader.receive()
        assert answer.count(ONE) == [0, 1, 3][number]


def test_the_answer_comes_when_time_is_up(broker: LocalBroker, open_connection: OpenConnection) -> None:
    """It is empty, and not early."""
    reader = open_connection(broker)
    for request in (
        fetch(0, 200),
        encode_request(MultiFetchRequest((FetchRequest("views", 0, 0, 9),), FetchWait(200, 1))),
    ):
        began_s = time.monotonic()
        assert set(bytes(reader.request(request))[:2]) == {0}
        assert time.monotonic() - began_s >= 0.2


def test_min_bytes_are_waited_for(
    broker: LocalBroker, open_connection: OpenConnection, await_parked: Callable[..., None]
) -> None:
    """Less does not end the wait before its time; more than the fetch may bring is not waited for."""
    reader, writer = open_connection(broker), open_connection(broker)
    reader.send(fetch(min_bytes=3 * len(ONE)))
    await_parked(broker, 1)
    for _ in range(3):
        writer.send(produce("views"))
    assert reader.receive() == EMPTY + ONE * 3
    assert bytes(reader.request(fetch(max_bytes=len(ONE), min_bytes=HUGE))) == EMPTY + ONE
    assert bytes(reader.request(fetch(max_ms=100, min_bytes=HUGE))) == EMPTY + ONE * 3
    await_parked(broker, 0, parked_ready=1, parked_late=1)


@pytest.mark.parametrize(
    ("max_ms", "min_bytes", "max_bytes"),
    [(0, 1, 9), (-1, 1, 9), (-(2**31), 1, 9), (LONG_MS, 0, 9), (LONG_MS, -(2**31), 9), (LONG_MS, 1, 0)],
)
def test_what_asks_for_no_wait_does_not_wait(
    broker: LocalBroker, open_connection: OpenConnection, max_ms: int, min_bytes: int, max_bytes: int
) -> None:
    """Numbers that are no times, or that are there already."""
    assert bytes(open_connection(broker).request(fetch(0, max_ms, min_bytes, max_bytes=max_bytes))) == EMPTY


def test_errors_do_not_wait(broker: LocalBroker, open_connection: OpenConnection) -> None:
    """A part with an error is answered at once, the others with it, whatever they wait for."""
    reader = open_connection(broker)
    reader.send(produce("views"))
    assert bytes(reader.request(fetch(offset=10**6)))[:2] == b"\0\1"
    wait = FetchWait(LONG_MS, HUGE)
    for bad in (
        FetchRequest("views", 7, 0, 9),
        FetchRequest("../views", 0, 0, 9),
        FetchRequest("views", 0, 10**9, 9),
        FetchRequest("views", 0, 0, -1),
    ):
        answer = bytes(reader.request(encode_request(MultiFetchRequest((FetchRequest("other", 0, 0, 9), bad), wait))))
        assert answer[:2] == bytes(2), "the whole has no error"
        assert answer[12:14] != bytes(2), "the bad part has"
    twice = MultiFetchRequest((FetchRequest("other", 0, 0, 9),) * 2, wait)
    assert len(reader.request(encode_request(twice))) == 2 + 2 * 6


def test_bytes_that_are_no_wait_are_ignored(broker: LocalBroker, open_connection: OpenConnection) -> None:
    """As in 0.7: what follows a body means nothing, unless it is `WAIT` and two numbers and nothing else."""
    reader = open_connection(broker)
    body = encode_request(FetchRequest("views", 0, 0, 1000))[4:]
    wait = struct.pack(">4sii", b"WAIT", LONG_MS, 1)
    for tail in (wait[:-1], wait + b"\0", b"wait" + wait[4:], b"\xff" * 12):
        assert bytes(reader.request(struct.pack(">i", len(body + tail)) + body + tail)) == EMPTY
    nothing = struct.pack(">ihh", 4 + len(wait), 2, 0) + wait
    assert bytes(reader.request(nothing)) == EMPTY, "a barrier never waits"


def test_requests_behind_a_parked_one_are_answered_after_it(
    broker: LocalBroker, open_connection: OpenConnection, await_parked: Callable[..., None]
) -> None:
    """And end its wait: who sends more wants something else. What came with others behind it does not wait at all."""
    reader = open_connection(broker)
    offsets = encode_request(OffsetsRequest("views", 0, -1, 1))
    reader.send(fetch())
    await_parked(broker, 1)
    reader.send(offsets + fetch() + produce("views") + fetch())
    assert [len(reader.receive()) for _ in range(4)] == [2, 2 + 4 + 8, 2, 2 + len(ONE)]
    await_parked(broker, 0, parked_more=1)


def test_the_beginning_of_a_request_behind_ends_the_wait(
    broker: LocalBroker, open_connection: OpenConnection, await_parked: Callable[..., None]
) -> None:
    """A byte is enough; the rest may come later."""
    reader = open_connection(broker)
    reader.send(fetch())
    await_parked(broker, 1)
    request = encode_request(OffsetsRequest("views", 0, -1, 1))
    reader.send(request[:1])
    assert reader.receive() == EMPTY
    reader.send(request[1:])
    assert len(reader.receive()) == 14


@pytest.mark.parametrize("how", ["close", "reset", "half"])
def test_a_client_that_goes_is_noticed(
    broker: LocalBroker, open_connection: OpenConnection, await_parked: Callable[..., None], how: str
) -> None:
    """Nothing is left of it, and it is counted."""
    with socket.create_connection(("127.0.0.1", broker.port)) as client:
        client.sendall(fetch())
        await_parked(broker, 1)
        if how == "half":
            client.shutdown(socket.SHUT_WR)
            client.settimeout(20)
            assert client.recv(1) == b""
        if how == "reset":
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await_parked(broker, 0, parked_gone=1)


def test_a_stop_answers_what_is_parked(
    broker: LocalBroker, open_connection: OpenConnection, await_parked: Callable[..., None]
) -> None:
    """The broker does not wait for it: the answer is empty, then the connection ends."""
    readers = [open_connection(broker) for _ in range(3)]
    for reader in readers:
        reader.send(fetch())
    await_parked(broker, 3)
    with ThreadPoolExecutor() as pool:
        answers = [pool.submit(reader.receive) for reader in readers]
        broker.process.send_signal(signal.SIGTERM)
        assert [answer.result(timeout=20) for answer in answers] == [EMPTY] * 3
    assert broker.process.wait(20) == 0
    assert '"parked_stopped": 3' in broker.output().decode()


def test_very_many_partitions_do_not_wait_when_memory_is_short(
    new_broker: NewBroker, open_connection: OpenConnection, counts_of: CountsOf
) -> None:
    """Parked requests have a limit, too; beyond it they are answered at once, as in 0.7."""
    broker = new_broker({"max.socket.request.bytes": 2_000_000, "queued.max.bytes": 2_000_000, "num.partitions": 2000})
    broker.start()
    many = tuple(FetchRequest("views", partition, 0, 9) for partition in range(2000))
    reader = open_connection(broker)
    assert len(reader.request(encode_request(MultiFetchRequest(many, FetchWait(LONG_MS, 1))))) == 2 + 6 * 2000
    assert counts_of(broker)["parked_refused"] == 1


def test_a_flush_is_due_when_a_reader_waits(
    new_broker: NewBroker, open_connection: OpenConnection, await_parked: Callable[..., None], counts_of: CountsOf
) -> None:
    """What no rule would flush for long is flushed for who waits for it, come before or after it; for nobody else."""
    broker = new_broker({"log.flush.interval": NEVER, "log.default.flush.scheduler.interval.ms": NEVER})
    broker.start()
    reader, writer = open_connection(broker), open_connection(broker)
    writer.send(produce("views"))
    writer.request(encode_request(MultiFetchRequest(())))
    assert bytes(writer.request(encode_request(FetchRequest("views", 0, 0, 1000)))) == EMPTY
    assert bytes(reader.request(fetch())) == EMPTY + ONE
    for number in range(1, 4):
        reader.send(fetch(number * len(ONE)))
        await_parked(broker, 1)
        writer.send(produce("views") + produce("others"))
        assert reader.receive() == EMPTY + ONE
    assert counts_of(broker)["flushes"] == 4


def test_what_comes_during_a_flush_is_flushed_for_who_waits(
    new_broker: NewBroker,
    open_connection: OpenConnection,
    await_parked: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The flush under way does not cover it, and no rule would flush it for long."""
    gate = tmp_path / "gate"
    monkeypatch.setenv("FSYNC_GATE", str(gate))
    settings = {"log.flush.interval": 100, "log.default.flush.scheduler.interval.ms": NEVER, "log.flush.awaited.ms": 0}
    broker = new_broker(settings, program="gated_fsync.py")
    broker.start()
    reader, writer = open_connection(broker), open_connection(broker)
    many = bytes(MessageSet([b"one"] * 100))
    writer.send(produce("views"))
    assert bytes(reader.request(fetch())) == EMPTY + ONE
    gate.touch()
    writer.send(produce("views", many))
    eventually(gate.with_suffix(".waits").exists)
    writer.send(produce("views"))
    writer.request(encode_request(MultiFetchRequest(())))
    reader.send(fetch(len(ONE), min_bytes=len(many + ONE), max_bytes=10_000))
    await_parked(broker, 1)
    gate.unlink()
    assert reader.receive() == EMPTY + many + ONE


def test_flushes_for_readers_can_be_switched_off(
    new_broker: NewBroker, open_connection: OpenConnection, await_parked: Callable[..., None]
) -> None:
    """Then 0.7's two rules alone decide."""
    broker = new_broker({"log.flush.interval": 2, "log.flush.awaited.ms": -1})
    broker.start()
    reader, writer = open_connection(broker), open_connection(broker)
    reader.send(fetch())
    await_parked(broker, 1)
    writer.send(produce("views"))
    writer.request(encode_request(MultiFetchRequest(())))
    await_parked(broker, 1, parked_ready=0)
    writer.send(produce("views"))
    assert reader.receive() == EMPTY + ONE * 2


def test_a_thread_can_interrupt_what_waits(
    broker: LocalBroker, open_consumer: OpenConsumer, await_parked: Callable[..., None]
) -> None:
    """The fetch ends empty on the same connection, and no other waits until they may again."""
    consumer = open_consumer(broker)
    asks: list[Callable[[], bytes]] = [
        lambda: consumer.fetch("views", 0, 0, wait_ms=LONG_MS).data,
        lambda: consumer.fetch_on("views", 0, 0, 1000, 8, wait_ms=LONG_MS)[0].data,
        lambda: consumer.multifetch([("views", 0, 0, 1000)], wait_ms=LONG_MS)[0].data,
    ]
    for ask in asks:
        consumer.let_wait()
        with ThreadPoolExecutor() as pool:
            answer = pool.submit(ask)
            await_parked(broker, 1)
            consumer.interrupt()
            consumer.interrupt()
            assert answer.result(timeout=20) == b""
            assert ask() == b"", "it does not wait"
    assert broker.output().count(b"connection from") == 0


def test_many_parked_readers_all_get_what_comes(
    broker: LocalBroker, open_connection: OpenConnection, await_parked: Callable[..., None]
) -> None:
    """One flush ends all their waits."""
    readers = [open_connection(broker) for _ in range(100)]
    for reader in readers:
        reader.send(fetch())
    await_parked(broker, 100)
    open_connection(broker).send(produce("views"))
    assert {bytes(reader.receive()) for reader in readers} == {EMPTY + ONE}


def test_one_that_waits_holds_up_nobody(
    broker: LocalBroker, open_connection: OpenConnection, await_parked: Callable[..., None]
) -> None:
    """Other connections are served meanwhile, and theirs is not confused with its answer."""
    reader, other = open_connection(broker), open_connection(broker)
    reader.send(fetch(min_bytes=1000))
    await_parked(broker, 1)
    for _ in range(100):
        assert len(other.request(encode_request(OffsetsRequest("views", 0, -1, 1)))) == 14
    await_parked(broker, 1)
