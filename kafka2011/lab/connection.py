"""A connection to a student's broker: sends bytes, and reads what comes within a time limit."""

from __future__ import annotations

import contextlib
import socket
import time
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Callable

ANSWER_TIMEOUT_S = 3.0
CONNECT_TIMEOUT_S = 10.0
_MORE_S = 0.05
_MORE_BYTES = 64 * 1024
_POLL_S = 0.01


class ReceivedBytes(NamedTuple):
    """What came: the bytes, and whether the other side has closed the connection after them."""

    data: bytes
    is_closed: bool


class TimedConnection:
    """One TCP connection to a port of this machine; a context manager."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), ANSWER_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data: bytes) -> None:
        """Send bytes; nothing happens if the other side has closed, which reading will show."""
        with contextlib.suppress(OSError):
            self._socket.settimeout(ANSWER_TIMEOUT_S)
            self._socket.sendall(data)

    def read(self, size: int, timeout_s: float = ANSWER_TIMEOUT_S) -> ReceivedBytes:
        """Read until this many bytes have come, the other side closes, or the time is over."""
        return self._read(size, timeout_s, lambda _: True)

    def read_while(self, wanted: bytes) -> ReceivedBytes:
        """Read as many bytes as are wanted, or until one of them differs."""
        return self._read(len(wanted), ANSWER_TIMEOUT_S, wanted.startswith)

    def end_requests(self) -> None:
        """Tell the other side that no more requests come; it can still answer."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def _read(self, size: int, timeout_s: float, goes_on: Callable[[bytes], bool]) -> ReceivedBytes:
        deadline_s = time.monotonic() + timeout_s
        data = b""
        while len(data) < size and goes_on(data):
            piece = self._receive(size - len(data), deadline_s - time.monotonic())
            if piece is None:
                return ReceivedBytes(data, is_closed=False)
            if not piece:
                return ReceivedBytes(data, is_closed=True)
            data += piece
        return ReceivedBytes(data, is_closed=False)

    def read_more(self) -> bytes:
        """Return what else comes within a moment, to show it."""
        return self.read(_MORE_BYTES, _MORE_S).data

    def close(self) -> None:
        """Close the connection; may be called twice."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _receive(self, size: int, timeout_s: float) -> bytes | None:
        """Return some bytes, b"" if the other side has closed, or None when the time is over."""
        if timeout_s <= 0:
            return None
        self._socket.settimeout(timeout_s)
        try:
            return self._socket.recv(min(size, _MORE_BYTES))
        except TimeoutError:
            return None
        except OSError:
            return b""


def connect_when_ready(port: int, is_running: Callable[[], bool]) -> TimedConnection | None:
    """Return a connection as soon as somebody listens; None when the time is over or the program has ended."""
    deadline_s = time.monotonic() + CONNECT_TIMEOUT_S
    while time.monotonic() < deadline_s and is_running():
        try:
            return TimedConnection(port)
        except OSError:
            time.sleep(_POLL_S)
    return None
