"""A server for a student's client to speak to: what it answers to each frame is up to a stage."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_BYTES = 16 * 1024 * 1024
_SLOW_S = 0.005


class CutOffError(Exception):
    """Sends these bytes and closes the connection."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.data = data


class FrameServer:
    """Serves each connection in a thread; a context manager. It listens from `start` on, on a port that stays.

    `answer(connection number, frame with its size)` returns the bytes to send, or None to close the connection. It is
    called in the connection's thread. With `is_slow`, answers are sent byte by byte.
    """

    def __init__(self, answer: Callable[[int, bytes], bytes | None], port: int, *, is_slow: bool = False) -> None:
        self._is_slow = is_slow
        self.port = port
        self.connections = 0
        self._answer = answer
        self._listener: socket.socket | None = None
        self._open: set[socket.socket] = set()

    def start(self) -> None:
        """Listen and serve."""
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def close(self) -> None:
        """Close all connections; may be called twice."""
        for each in (self._listener, *list(self._open)):
            if each is not None:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.add(connection)
            threading.Thread(target=self._serve, args=(connection, self.connections), daemon=True).start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as stream:
            while len(head := stream.read(4)) == 4:
                size = int.from_bytes(head, "big", signed=True)
                if not 0 < size <= _MOST_BYTES or len(body := stream.read(size)) < size:
                    return
                try:
                    answer = self._answer(number, head + body)
                except CutOffError as error:
                    connection.sendall(error.data)
                    return
                if answer is None:
                    return
                self._send(connection, answer)

    def _send(self, connection: socket.socket, answer: bytes) -> None:
        if not self._is_slow:
            connection.sendall(answer)
            return
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(len(answer)):
            connection.sendall(answer[at : at + 1])
            time.sleep(_SLOW_S)
