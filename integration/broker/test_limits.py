"""Quotas and limits of connections: who is over one waits or is refused, counted and named; nobody else notices."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from kafka2011.config import SyncProducerConfig
from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.errors import BrokerConnectionError
from kafka2011.message.message_set import MessageSet
from kafka2011.producer.producer_connection import ProducerConnection
from kafka2011.wire.connection import BrokerConnection
from kafka2011.wire.protocol import FetchRequest, FetchWait, MultiFetchRequest, ProduceRequest, encode_request
from tests.support.waiting import eventually
from zk.cluster import UNKNOWN_ID, Broker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kafka2011.local_cluster import LocalBroker

    NewBroker = Callable[..., LocalBroker]
    OpenConnection = Callable[[LocalBroker], BrokerConnection]
    CountsOf = Callable[[LocalBroker], dict[str, int]]

BARRIER = encode_request(MultiFetchRequest(()))
PAYLOAD = bytes(50_000)
ONE = bytes(MessageSet([PAYLOAD]))
SETS = 5
EMPTY = bytes(2)
"""An answer without its size: no error, and nothing."""
SLOW = 100
"""So many bytes a second that what is sent here would take an hour."""


def publish(broker: LocalBroker, security: str, topic: str, sets: int = SETS) -> None:
    """Publish sets to partition 0, one by one, each once the broker has handled the one before."""
    entry = Broker(UNKNOWN_ID, "127.0.0.1", broker.port, security=security)
    settings = SyncProducerConfig.of({"socket.timeout.ms": 100_000})
    with ProducerConnection(entry, settings) as connection:
        for _ in range(sets):
            connection.write(encode_request(ProduceRequest(topic, 0, ONE)))
            connection.prove()


def read(broker: LocalBroker, security: str, topic: str, sets: int = SETS) -> int:
    """Fetch sets one by one, and return how many came."""
    with SimpleConsumer("127.0.0.1", broker.port, {"socket.timeout.ms": 100_000}, security=security) as consumer:
        return sum(consumer.fetch(topic, 0, number * len(ONE), len(ONE)).data == ONE for number in range(sets))


def is_served(connection: BrokerConnection) -> bool:
    try:
        connection.send(BARRIER)
        connection.receive()
    except BrokerConnectionError:
        return False
    return True


def reopen(connection: BrokerConnection) -> bool:
    connection.close()
    connection.open()
    return False


@pytest.mark.parametrize(("slow", "fast"), [("slow", "fast"), ("", None)], ids=["tls", "plain"])
def test_who_is_over_the_quota_waits_and_nobody_else(
    new_broker: NewBroker,
    by_tls: dict[str, object],
    security_of: Callable[[str], str],
    counts_of: CountsOf,
    tmp_path: Path,
    slow: str,
    fast: str | None,
) -> None:
    """One principal of two; at a plain port, where all are one, what has no quota. And all of it comes in the end."""
    name = slow or "anonymous"
    security, other_security = (security_of(each) if each else "" for each in (slow, fast))
    quota = tmp_path / "quota.toml"
    quota.write_text("[produce]\nnobody = 1\n")
    settings = {**(by_tls if slow else {"log.flush.interval": 1}), "quota.file": quota}
    with new_broker(settings) as broker, ThreadPoolExecutor(1) as thread:
        publish(broker, security, "read")
        assert not any("throttled" in each for each in counts_of(broker))
        quota.write_text(f"[produce]\n{name} = {SLOW}\n")
        _await_quota(broker, b"was read again", lambda: read(broker, security, "read", 1))
        publishing = thread.submit(publish, broker, security, "read")
        eventually(lambda: f"{name} at 127.0.0.1:".encode() in broker.output())
        assert f"over its quota for produce, {SLOW} bytes a second".encode() in broker.output()
        if fast:
            publish(broker, other_security, "fast")
        assert read(broker, other_security or security, "read") == SETS
        assert not publishing.done()
        quota.write_text(f"[fetch]\n{name} = {SLOW}\n")
        publishing.result(60)
        assert read(broker, security, "read", 1) == 1  # however large
        reading = thread.submit(read, broker, security, "read", 2 * SETS)
        eventually(lambda: b"over its quota for fetch" in broker.output())
        publish(broker, security, "other")
        if fast:
            assert read(broker, other_security, "read", 2 * SETS) == 2 * SETS
        assert not reading.done()
        quota.write_text("")
        assert reading.result(60) == 2 * SETS
        counts = counts_of(broker)
        assert counts["throttled_ms_produce"] > 0
        assert counts["throttled_ms_fetch"] > 0
        assert broker.output().count(b"over its quota") == 2


def _await_quota(broker: LocalBroker, text: bytes, ask: Callable[[], object]) -> None:
    """Ask until a broker has read its quotas again, which it does when it is asked."""
    seen = broker.output().count(text)

    def has_read() -> bool:
        ask()
        return broker.output().count(text) > seen

    eventually(has_read)


def test_who_waits_for_a_quota_holds_nobody_up_and_may_go(
    new_broker: NewBroker, open_connection: OpenConnection, tmp_path: Path
) -> None:
    """A parked fetch is answered meanwhile; who goes leaves his place at once, and the broker stops at once."""
    quota = tmp_path / "quota.toml"
    quota.write_text(f'[produce]\n"*" = {SLOW}\n[fetch]\n"*" = {SLOW}\n')
    broker = new_broker({"log.flush.interval": 1, "quota.file": quota, "max.connections.per.address": 2})
    broker.start()
    reader, writer = open_connection(broker), open_connection(broker)
    reader.send(encode_request(FetchRequest("views", 0, 0, 2**20, FetchWait(50_000, 1))))
    writer.send(encode_request(ProduceRequest("views", 0, ONE)))
    writer.send(BARRIER)
    assert reader.receive() == EMPTY + ONE
    eventually(lambda: b"over its quota for produce" in broker.output())
    reader.send(encode_request(FetchRequest("views", 0, 0, 2**20)))
    eventually(lambda: b"over its quota for fetch" in broker.output())
    reader.close()
    late = open_connection(broker)
    eventually(lambda: is_served(late) or reopen(late))
    late.send(encode_request(FetchRequest("views", 0, 0, 2**20)))
    broker.stop()  # fails if it has to be killed
    assert b"did not end in time" not in broker.output()
    assert late.receive() == EMPTY + ONE
    assert writer.receive() == EMPTY


def test_too_many_connections(new_broker: NewBroker, open_connection: OpenConnection, counts_of: CountsOf) -> None:
    """Those beyond `max.connections` are closed, until others have gone."""
    broker = new_broker({"max.connections": 3})
    broker.start()
    served = [connection for connection in (open_connection(broker) for _ in range(5)) if is_served(connection)]
    assert len(served) == 3
    assert counts_of(broker)["refused"] == 2
    assert b"there are 3 connections already" in broker.output()
    served.pop().close()
    eventually(lambda: is_served(open_connection(broker)))


def test_too_many_connections_from_one_address(
    new_broker: NewBroker, open_connection: OpenConnection, counts_of: CountsOf
) -> None:
    """Those beyond are closed and counted, and logged once with the address; other addresses do not notice."""
    broker = new_broker({"bind.address": "0.0.0.0", "hostname": "127.0.0.1", "max.connections.per.address": 2})
    broker.start()
    served = [connection for connection in (open_connection(broker) for _ in range(5)) if is_served(connection)]
    assert len(served) == 2
    assert counts_of(broker)["refused_per_address"] == 3
    assert broker.output().count(b"there are 2 from its address already") == 1
    with socket.create_connection(("127.0.0.1", broker.port), 20, ("127.0.0.2", 0)) as other:
        other.sendall(BARRIER)
        assert other.recv(6) == bytes.fromhex("00000002 0000")
    served.pop().close()
    eventually(lambda: is_served(open_connection(broker)))


@pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "tls"])
def test_who_sends_nothing_is_closed_and_who_waits_is_not(
    new_broker: NewBroker,
    by_tls: dict[str, object],
    security_of: Callable[[str], str],
    counts_of: CountsOf,
    *,
    is_tls: bool,
) -> None:
    """Connections that are silent, or stop in the middle; not those whose fetch is parked for longer than that."""
    settings = {**(by_tls if is_tls else {"log.flush.interval": 1}), "connections.max.idle.ms": 300}
    security = security_of("reports") if is_tls else ""
    broker = new_broker(settings)
    with broker, ExitStack() as stack:

        def new() -> BrokerConnection:
            connection = BrokerConnection("127.0.0.1", broker.port, security=security)
            stack.enter_context(connection).open()
            return connection

        waits = new()
        waits.send(encode_request(FetchRequest("views", 0, 0, 2**20, FetchWait(50_000, 1))))
        for sent in (b"", BARRIER, BARRIER + BARRIER[:-1]):
            idle = new()
            if sent:
                idle.send(sent)
                assert idle.receive() == EMPTY
            with pytest.raises(BrokerConnectionError):
                idle.receive()
        assert counts_of(broker)["refused_idle"] == 3
        assert f"{'reports' if is_tls else 'anonymous'} at 127.0.0.1".encode() in broker.output()
        writer = new()
        writer.send(encode_request(ProduceRequest("views", 0, ONE)))
        assert waits.receive() == EMPTY + ONE
