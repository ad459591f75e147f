"""A broker on a real socket that does just what a test says."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

from kafka2011.wire.protocol import FrameReader, Request, decode_request
from tests.support.listener import Listener

if TYPE_CHECKING:
    from collections.abc import Callable

    Script = Callable[["Peer"], None]
    Serve = Callable[..., "ScriptedBroker"]


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


class ScriptedBroker(Listener):
    """Serves one connection after the other with the scripts given."""

    def __init__(self, *scripts: Script) -> None:
        self.requests: list[Request] = []
        self._scripts = scripts
        super().__init__(self._play)

    def _play(self, accepted: socket.socket, number: int) -> None:
        assert number < len(self._scripts), "a connection more than there are scripts"
        self._scripts[number](Peer(accepted, self.requests))
