"""The protocol of RabbitMQ's streams, frame by frame: enough to begin what goes past it as bytes, and to count.

A frame is its size, a key, a version, and for most keys a number that the answer repeats.
"""

from __future__ import annotations

import socket
import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING

from paper_benchmarks.measuring.errors import BenchmarkError

if TYPE_CHECKING:
    from collections.abc import Iterator

DECLARE_PUBLISHER, PUBLISH, CONFIRM, _SUBSCRIBE, DELIVER, CREDIT = 0x01, 0x02, 0x03, 0x07, 0x08, 0x09
CREATE, _PROPERTIES, _HANDSHAKE, _AUTHENTICATE, _TUNE, _OPEN = 0x0D, 0x11, 0x12, 0x13, 0x14, 0x15
PUBLISH_ERROR, _HEARTBEAT = 0x04, 0x17
UNSUBSCRIBE = 0x0C
_OK = 1
FIRST, _LAST = 1, 2
_ANSWER = 0x8000
CREDITS = 10
BUFFER_BYTES = 1 << 20
TIMEOUT_S = 600.0


def text(value: str) -> bytes:
    """Return a string of the protocol."""
    return struct.pack(">H", len(value)) + value.encode()


def frame(key: int, body: bytes) -> bytes:
    """Return one frame."""
    return struct.pack(">IHH", len(body) + 4, key, 1) + body


class StreamSocket:
    """A connection, frame by frame."""

    def __init__(self, host: str, port: int) -> None:
        self.socket = socket.create_connection((host, port), TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._data = b""
        self._called = 0

    def open(self) -> None:
        """Log in as the guest of a new node."""
        self.call(_PROPERTIES, struct.pack(">I", 0))
        self.call(_HANDSHAKE, b"")
        self.call(_AUTHENTICATE, text("PLAIN") + struct.pack(">I", 12) + b"\0guest\0guest")
        key, body = next(self.frames())
        while key != _TUNE:
            key, body = next(self.frames())
        self.socket.sendall(frame(_TUNE, body))
        self.call(_OPEN, text("/"))

    def call(self, key: int, body: bytes) -> None:
        """Ask for something, and wait until it is done. Raises BenchmarkError when it is refused."""
        self._called += 1
        self.socket.sendall(frame(key, struct.pack(">I", self._called) + body))
        for answered, answer in self.frames():
            if answered == key | _ANSWER:
                if (code := struct.unpack_from(">H", answer, 4)[0]) != _OK:
                    raise BenchmarkError(f"RabbitMQ refuses request {key:#x} with code {code}")
                return

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """Give key and body of one frame after the other; heartbeats are answered."""
        while True:
            while len(self._data) < 4 or len(self._data) < 4 + int.from_bytes(self._data[:4]):
                if not (received := self.socket.recv(BUFFER_BYTES)):
                    raise BenchmarkError("RabbitMQ ended the connection")
                self._data += received
            end = 4 + int.from_bytes(self._data[:4])
            found, self._data = self._data[:end], self._data[end:]
            key = int.from_bytes(found[4:6])
            if key == _HEARTBEAT:
                self.socket.sendall(found)
            else:
                yield key, found[8:]

    def subscribe(self, stream: str, where: int, chunks: int = CREDITS) -> None:
        """Have chunks delivered from the first or the last one on, so many chunks at once."""
        self.call(_SUBSCRIBE, struct.pack(">B", 1) + text(stream) + struct.pack(">HHI", where, chunks, 0))

    def rest(self) -> bytearray:
        """Return what came after the last frame; the next bytes are on the socket."""
        rest, self._data = bytearray(self._data), b""
        return rest


@contextmanager
def connected(host: str, port: int) -> Iterator[StreamSocket]:
    """Give a connection that is open, and end it."""
    connection = StreamSocket(host, port)
    with connection.socket:
        connection.open()
        yield connection


def end_of(host: str, port: int, stream: str) -> int:
    """Return how many messages a stream has: where its last chunk ends. It must have one."""
    with connected(host, port) as connection:
        connection.subscribe(stream, _LAST)
        for key, body in connection.frames():
            if key == DELIVER:
                records = struct.unpack_from(">I", body, 5)[0]
                return int(struct.unpack_from(">Q", body, 25)[0] + records)
    raise AssertionError
