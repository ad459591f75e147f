"""The ZooKeeper client over connections that end and answers that go wrong, against a server that does as told."""

from __future__ import annotations

import errno
import os
import socket
import struct
import threading
from collections import deque
from contextlib import ExitStack
from typing import TYPE_CHECKING, NoReturn

import pytest
from kazoo.handlers.threading import SequentialThreadingHandler

from tests.support.waiting import eventually
from zk.connecting import connect
from zk.errors import NotConnected, ZkUnavailable
from zk.nodes import Nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zk.client import ZkClient

SESSION_ID = 7
TIMEOUT_S = 20.0
SESSION_MS = 20_000
SYNC, CLOSE = 9, -11
PING_XID = -2


class Server:
    """Grants every connection one session, and notes the numbers of its requests.

    `orders` are for the syncs to come: `wrong` is to answer with another number than the request's, `drop` to hang up.
    So many as `silences` of the connections to come are never answered.
    """

    def __init__(self, stack: ExitStack) -> None:
        self._listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self._stack = stack
        self.address = "{}:{}".format(*self._listener.getsockname())
        self.xids: list[list[int]] = []
        self.orders: deque[str] = deque()
        self.silences = 0
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        try:
            while True:
                client, _ = self._listener.accept()
                with client:
                    client.settimeout(TIMEOUT_S)
                    self._serve(client, client.makefile("rb"))
        except OSError:
            pass  # closed

    def _serve(self, client: socket.socket, requests: object) -> None:
        def read() -> bytes:
            [size] = struct.unpack(">i", requests.read(4).rjust(4, b"\0"))  # type: ignore[attr-defined]
            return bytes(requests.read(size))  # type: ignore[attr-defined]

        def send(body: bytes) -> None:
            client.sendall(struct.pack(">i", len(body)) + body)

        read()
        if self.silences:
            self.silences -= 1
            requests.read(1)  # type: ignore[attr-defined]  # until the client hangs up
            return
        send(struct.pack(">iiqi", 0, SESSION_MS, SESSION_ID, 16) + bytes(16) + b"\0")
        xids: list[int] = []
        self.xids.append(xids)
        while request := read():
            xid, kind = struct.unpack_from(">ii", request)
            order = ""
            if xid != PING_XID:
                xids.append(xid)
                if kind == SYNC and self.orders:
                    order = self.orders.popleft()
            if order == "drop":
                return
            body = struct.pack(">i", 1) + b"/" if kind == SYNC else b""
            send(struct.pack(">iqi", xid + 2 if order == "wrong" else xid, 1, 0) + body)
            if kind == CLOSE:
                return


@pytest.fixture
def server() -> Iterator[Server]:
    with ExitStack() as stack:
        yield Server(stack)


@pytest.fixture
def client(server: Server) -> Iterator[ZkClient]:
    with connect(server.address, SESSION_MS, connection_timeout_ms=SESSION_MS) as client:
        yield client


def fail_once(client: ZkClient, server: Server, order: str) -> None:
    """Have one question fail, and wait for the next connection."""
    server.orders.append(order)
    connections = len(server.xids)
    with pytest.raises(ZkUnavailable):
        Nodes(client).sync()
    eventually(lambda: len(server.xids) > connections and client.session_id == SESSION_ID, TIMEOUT_S)


def test_requests_are_counted_on_over_connections(client: ZkClient, server: Server) -> None:
    """No number is used twice in a session: a server takes what is under way by its number."""
    for _ in range(3):
        Nodes(client).sync()
        fail_once(client, server, "drop")
    Nodes(client).sync()
    every = [xid for xids in server.xids for xid in xids]
    assert len(server.xids) == 4
    assert every == list(range(1, len(every) + 1))


def test_an_answer_to_another_request(client: ZkClient, server: Server) -> None:
    """What was asked fails as unanswered, and the client connects again and goes on in its session."""
    Nodes(client).sync()
    fail_once(client, server, "wrong")
    Nodes(client).sync()
    assert client.session_id == SESSION_ID


def test_a_server_that_does_not_answer_is_asked_again_soon(server: Server) -> None:
    """One that has just started may swallow a connect: only from then on is it given more time to answer."""
    server.silences = 2
    with connect(server.address, 60_000, connection_timeout_ms=int(TIMEOUT_S * 1000)) as client:
        assert client.session_id == SESSION_ID
    assert server.silences == 0


def test_no_file_descriptor_is_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for ZooKeeper waits for a descriptor, too: a broker with replicas once ended."""

    def no_sockets() -> NoReturn:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    handler = SequentialThreadingHandler()
    monkeypatch.setattr(handler, "create_socket_pair", no_sockets)
    with pytest.raises(NotConnected, match=r"127.0.0.1:1 can be opened: .*Too many open files"):
        connect("127.0.0.1:1", handler=handler)
