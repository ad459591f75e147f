"""What a connection holds of the gateway's memory, and that others are served when it is used up."""

from __future__ import annotations

import struct
from collections import Counter
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import gevent
import pytest
from gevent import socket
from gevent.event import Event

from kafka2011.broker.connections.answer_threads import AnswerThreads
from kafka2011.broker.connections.answer_writer import AnswerWriter
from kafka2011.broker.memory.request_memory import RequestMemory
from kafka2011.errors import KafkaError
from kafka2011.gateway.connection import SHORT_BYTES, GatewayConnection
from kafka2011.gateway.protocol.errors import ErrorCode
from kafka2011.gateway.protocol.fields import Api
from kafka2011.gateway.requests import dispatch
from kafka2011.gateway.requests.context import Caller

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MEMORY_BYTES = 8 * 1024 * 1024
SHARE_BYTES = MEMORY_BYTES // 4
FRAME_BYTES = MEMORY_BYTES
ANSWER_BYTES = MEMORY_BYTES // 8
SMALL_BUFFER_BYTES = 4096
DEADLINE_S = 5.0
VERSIONS = struct.pack(">ihhih", 10, Api.API_VERSIONS, 0, 1, -1)
HALF = struct.pack(">i", FRAME_BYTES) + bytes(60_000)
DESCRIBE = struct.pack(">ihhihbbb", 13, Api.DESCRIBE_CLUSTER, 0, 1, -1, 0, 0, 0)
PRODUCE_BODY = struct.pack(">hhiih5siii", -1, 1, 1000, 1, 5, b"views", 1, 0, 0)
PRODUCE = struct.pack(">ihhih", 10 + len(PRODUCE_BODY), Api.PRODUCE, 3, 1, -1) + PRODUCE_BODY
"""For one partition, which has no leader."""


class Clients:
    """Connections to a gateway that has nothing but memory."""

    def __init__(self) -> None:
        self.memory = RequestMemory(MEMORY_BYTES, FRAME_BYTES)
        self.memory.budget.patience_s = 0.05
        self.callers: list[Caller] = []
        self._servers: list[gevent.Greenlet[..., None]] = []
        self._ends: list[socket.socket] = []

    @property
    def held_bytes(self) -> int:
        """What all connections hold."""
        return self.memory.budget.held_bytes + self.memory.small_share.held_bytes

    def add(self, sent: bytes = b"") -> socket.socket:
        """Return the client's end of a new connection, which has sent something."""
        client, accepted = socket.socketpair()
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BUFFER_BYTES)
        client.settimeout(DEADLINE_S)
        threads = AnswerThreads.with_sends(0)
        connection = GatewayConnection(accepted, f"{len(self._ends)}", self.memory, Counter(), None, threads)
        caller = Caller("anonymous", connection.name, False, None)
        self.callers.append(caller)
        partitions = SimpleNamespace(find=lambda *_: ErrorCode.NOT_LEADER_OR_FOLLOWER)
        gateway = SimpleNamespace(counts=Counter(), partitions=partitions)
        self._servers.append(gevent.spawn(self._serve, connection, (gateway, caller)))
        self._ends.append(client)
        client.sendall(sent)
        return client

    def _serve(self, connection: GatewayConnection, served: Any) -> None:
        with suppress(KafkaError):
            connection.serve(served, FRAME_BYTES)
        connection.close()

    def end(self) -> None:
        """End all, and wait until nothing is left of them."""
        for client in self._ends:
            client.close()
        assert len(gevent.joinall(self._servers, DEADLINE_S)) == len(self._servers)


@pytest.fixture
def clients() -> Iterator[Clients]:
    made = Clients()
    yield made
    made.end()
    assert made.held_bytes == 0


@pytest.fixture
def large_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have DescribeCluster answer as a fetch does: with as much as it may have."""

    def answer(_gateway: Any, caller: Caller, _body: Any) -> dict[str, Any]:
        return {"cluster_id": "x" * min(caller.reserve(MEMORY_BYTES), 30_000)}

    monkeypatch.setitem(dispatch.HANDLERS, Api.DESCRIBE_CLUSTER, answer)


def eventually(condition: Callable[[], object]) -> None:
    with gevent.Timeout(DEADLINE_S):
        while not condition():
            gevent.sleep(0.001)


def is_answered(client: socket.socket) -> bool:
    client.sendall(VERSIONS)
    return len(client.recv(100)) > 0


def test_small_requests_are_answered_when_halves_of_others_hold_all_memory(clients: Clients) -> None:
    memory, halves = clients.memory, 2 * MEMORY_BYTES // len(HALF)
    memory.budget.patience_s = memory.small_share.patience_s = 10 * DEADLINE_S
    for _ in range(halves):
        clients.add(HALF)
    eventually(lambda: len(memory.budget.waiting) + len(memory.small_share.unfinished) == halves)
    assert memory.budget.waiting
    memory.small_share.patience_s = 0
    assert is_answered(clients.add())
    assert clients.held_bytes <= MEMORY_BYTES + SHARE_BYTES


def test_an_answer_may_take_a_part_of_the_memory_and_little_when_it_is_short(clients: Clients) -> None:
    for _ in range(20):
        clients.add(VERSIONS).recv(100)
    sizes = [caller.reserve(MEMORY_BYTES) for caller in clients.callers]
    assert sizes == [ANSWER_BYTES] * 8 + [SHORT_BYTES] * 12
    assert clients.held_bytes == sum(sizes) <= MEMORY_BYTES + SHARE_BYTES
    assert clients.callers[0].reserve(0) == 0
    assert clients.held_bytes == sum(sizes[1:])


@pytest.mark.usefixtures("large_answers")
def test_an_answer_is_held_until_the_client_has_taken_it(clients: Clients) -> None:
    client = clients.add(DESCRIBE)
    eventually(lambda: 30_000 < clients.held_bytes < SHORT_BYTES)
    size = 0
    while size < 30_000:
        size += len(client.recv(MEMORY_BYTES))
    eventually(lambda: clients.held_bytes == 0)
    assert is_answered(client)


@pytest.mark.usefixtures("large_answers")
def test_what_was_under_way_is_given_back_when_the_client_goes(clients: Clients) -> None:
    client = clients.add(10 * DESCRIBE)
    eventually(lambda: clients.held_bytes > 30_000)
    client.close()
    eventually(lambda: clients.held_bytes == 0)


@pytest.mark.usefixtures("large_answers")
def test_what_waits_for_memory_is_counted_once(clients: Clients) -> None:
    """A request waits for memory while those before it are answered and give theirs back."""
    other = clients.memory.budget.claim("other", lambda: None)
    other.resize(MEMORY_BYTES)
    clients.memory.budget.patience_s = 10 * DEADLINE_S
    large = struct.pack(">ihhih", 100_000, Api.API_VERSIONS, 0, 1, -1) + bytes(100_000 - 10)
    client = clients.add(VERSIONS + large)
    eventually(lambda: clients.memory.budget.waiting)
    assert client.recv(1000)
    other.resize(0)
    assert client.recv(1000)
    assert is_answered(client)
    assert clients.held_bytes == 0


def test_small_answers_that_are_there_are_sent_together(clients: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    client = clients.add(PRODUCE)
    size = len(client.recv(MEMORY_BYTES))
    sent: list[int] = []
    send = AnswerWriter.send_bytes

    def note(writer: AnswerWriter, data: bytes) -> None:
        sent.append(len(data))
        send(writer, data)

    monkeypatch.setattr(AnswerWriter, "send_bytes", note)
    client.sendall(5 * PRODUCE)
    received = 0
    while received < 5 * size:
        received += len(client.recv(MEMORY_BYTES))
    assert sum(sent) == 5 * size
    assert len(sent) < 5


def test_an_answer_does_not_wait_for_the_next_one(clients: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    may_answer = Event()

    def wait(*_: object) -> dict[str, Any]:
        assert may_answer.wait(DEADLINE_S)
        return {}

    monkeypatch.setitem(dispatch.HANDLERS, Api.DESCRIBE_CLUSTER, wait)
    client = clients.add(PRODUCE + DESCRIBE)
    assert client.recv(MEMORY_BYTES)
    assert not may_answer.is_set()
    may_answer.set()
    assert client.recv(MEMORY_BYTES)
