"""Sockets between fibers: ports, bounded buffers, ends, resets and timeouts as the kernel has them."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import TYPE_CHECKING

from tests.models.producer.fibers import WaitList

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.models.producer.fibers import Scheduler


class SocketInMemory:
    """One end of a connection."""

    def __init__(self, scheduler: Scheduler, capacity_bytes: int) -> None:
        self.peer = self
        self.is_closed = False
        self._scheduler = scheduler
        self._capacity_bytes = capacity_bytes
        self._received = bytearray()
        self._is_ended = False  # the peer sends no more
        self._is_reset = False
        self._changed = WaitList(scheduler)
        self._timeout_s: float | None = None

    def sendall(self, data: bytes) -> None:
        """Send, waiting for room. Raises TimeoutError when it has none in time."""
        self._scheduler.pause()
        self._check_open()
        rest = memoryview(data)
        while rest:
            if self._is_reset:
                raise BrokenPipeError("the connection was reset")
            if self.peer.is_closed:  # the answer to this is a reset, which comes too late for this call
                self._is_reset = True
                self._changed.wake()
                return
            room = self._capacity_bytes - len(self.peer._received)
            if room > 0:
                self.peer._received += rest[:room]
                rest = rest[room:]
                self.peer._changed.wake()
            elif not self._changed.wait(self._timeout_s):
                raise TimeoutError("timed out")

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Return what there is, waiting for it; with MSG_PEEK leaving it there."""
        self._scheduler.pause()
        self._check_open()
        while not self._received and not self._is_ended:
            if self._is_reset:
                raise ConnectionResetError("the connection was reset")
            if not self._changed.wait(self._timeout_s):
                raise TimeoutError("timed out")
        data = bytes(self._received[:size])
        if flags != socket.MSG_PEEK:
            del self._received[:size]
            self.peer._changed.wake()
        return data

    @property
    def is_readable(self) -> bool:
        """Whether `recv` would not wait."""
        return bool(self._received) or self._is_ended or self._is_reset

    def shutdown(self, _how: int) -> None:
        """Send no more."""
        self._check_open()
        if self._is_reset:
            raise OSError("the connection was reset")
        self.peer._end(is_reset=False)

    def close(self) -> None:
        """End both directions; what was sent can still be read, unless something is left unread here."""
        if not self.is_closed:
            self.is_closed = True
            self.peer._end(is_reset=bool(self._received))

    def reset(self) -> None:
        """End the connection as a process does that dies."""
        self.is_closed = True
        self._received.clear()
        self.peer._end(is_reset=True)
        self._end(is_reset=True)

    def setsockopt(self, level: int, option: int, value: int) -> None:
        """There is nothing to set."""

    def settimeout(self, timeout_s: float | None) -> None:
        """Wait no longer than that in each call."""
        self._timeout_s = timeout_s

    def fileno(self) -> int:
        """Return a number."""
        return -1

    def _end(self, *, is_reset: bool) -> None:
        if is_reset:
            self._is_reset = True
        else:
            self._is_ended = True
        self._changed.wake()

    def _check_open(self) -> None:
        if self.is_closed:
            raise OSError("the socket is closed")


class Network:
    """Ports and who listens there."""

    def __init__(self, scheduler: Scheduler, capacity_bytes: int) -> None:
        self.clients: list[SocketInMemory] = []
        self._scheduler = scheduler
        self._capacity_bytes = capacity_bytes
        self._accepts: dict[int, Callable[[SocketInMemory], object]] = {}
        self._silent: set[int] = set()
        self._ports = 9000

    def listen(self, accept: Callable[[SocketInMemory], object], port: int = 0) -> int:
        """Give a port's connections to `accept`; 0 is a new one."""
        if not port:
            self._ports += 1
            port = self._ports
        self._accepts[port] = accept
        return port

    def refuse(self, port: int) -> None:
        """Listen there no more."""
        self._accepts.pop(port, None)

    def silence(self, port: int, *, silent: bool) -> None:
        """Answer nothing at all to who connects, or do so again."""
        (self._silent.add if silent else self._silent.discard)(port)

    def connected_socket(self, _host: str, port: int, timeout_s: float, _buffer_bytes: int) -> SocketInMemory:
        """Connect, as `connected_socket` of a connection does."""
        self._scheduler.pause()
        if port in self._silent:
            self._scheduler.sleep(timeout_s)
            raise TimeoutError("timed out")
        accept = self._accepts.get(port)
        if accept is None:
            raise ConnectionRefusedError("nobody listens")
        client, server = (SocketInMemory(self._scheduler, self._capacity_bytes) for _ in range(2))
        client.peer, server.peer = server, client
        self.clients.append(client)
        accept(server)
        return client


class _Poll:
    def register(self, opened: SocketInMemory, _events: int) -> None:
        self._opened = opened

    def poll(self, _timeout_ms: int) -> list[SocketInMemory]:
        return [self._opened] if self._opened.is_readable else []


SELECT = SimpleNamespace(poll=_Poll, POLLIN=1)
"""What stands in for `select`."""
