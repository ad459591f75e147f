"""A broker on a real socket that does just what a test says."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import TYPE_CHECKING

import pytest

from kafka2011.protocol import FrameReader, Request, decode_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Script = Callable[["Peer"], None]

DEADLINE_S = 20.0


class Peer:
    """The broker's end of one connection."""

    def __init__(self, accepted: socket.socket, requests: list[Request]) -> None:
        self.socket = accepted
        self._reader = FrameReader()
        self._requests = requests

    def request(self) -> Request | None:
        """Return the next request, which is noted, or None when the client has ended the connection."""
        while (frame := self._reader.next_frame()) is None:
            received = self.socket.recv(65536)
            if not received:
                return None
            self._reader.receive_data(received)
        request = decode_request(frame)
        self._requests.append(request)
        return request

    def requests(self) -> list[Request]:
        """Return all that comes until the client ends the connection."""
        return list(iter(self.request, None))

    def send(self, data: str | bytes) -> None:
        """Send bytes, or what they are in hex."""
        self.socket.sendall(bytes.fromhex(data) if isinstance(data, str) else data)

    def reset(self) -> None:
        """End the connection as a broker does that dies."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


class ScriptedBroker:
    """Serves one connection after the other with the scripts given, each in a thread of its own."""

    def __init__(self, scripts: tuple[Script, ...]) -> None:
        self.requests: list[Request] = []
        self.connections = 0
        self.failures: list[BaseException] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._acceptor = threading.Thread(target=self._accept, args=(scripts,))
        self._acceptor.start()

    def _accept(self, scripts: tuple[Script, ...]) -> None:
        with contextlib.suppress(OSError):  # the listener was closed
            while True:
                accepted, _ = self._listener.accept()
                accepted.settimeout(DEADLINE_S)
                script = scripts[self.connections] if self.connections < len(scripts) else _not_expected
                self.connections += 1
                thread = threading.Thread(target=self._serve, args=(accepted, script))
                self._threads.append(thread)
                thread.start()

    def _serve(self, accepted: socket.socket, script: Script) -> None:
        try:
            with accepted:
                script(Peer(accepted, self.requests))
        except Exception as error:  # noqa: BLE001 (the test's own thread tells it)
            self.failures.append(error)

    def stop(self) -> None:
        """End, and fail if a script did."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in (self._acceptor, *self._threads):
            thread.join(DEADLINE_S)
            assert not thread.is_alive()
        assert self.failures == []


def _not_expected(peer: Peer) -> None:
    raise AssertionError("a connection more than the script has")


@pytest.fixture
def serve() -> Iterator[Callable[..., ScriptedBroker]]:
    """Give a function that starts a broker with a script for each connection."""
    brokers: list[ScriptedBroker] = []

    def start(*scripts: Script) -> ScriptedBroker:
        brokers.append(ScriptedBroker(scripts))
        return brokers[-1]

    yield start
    for broker in brokers:
        broker.stop()


@pytest.fixture
def closed_port() -> Iterator[int]:
    """Give a port that refuses connections, and that nobody else gets meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]
