"""A port with somebody behind it, for clients that should meet a broker of the test's own making."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

DEADLINE_S = 20.0


class Listener:
    """Serves every connection to a port of its own in a thread; `serve` gets its socket and its number, from 0."""

    def __init__(self, serve: Callable[[socket.socket, int], None]) -> None:
        self.connections = 0
        self.failures: list[Exception] = []
        self.port = 0
        self._serve = serve
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener: socket.socket | None = None
        self.start()

    def start(self) -> None:
        """Listen, on the same port as before."""
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listener.getsockname()[1]
        self.spawn(self._accept, self._listener)

    def refuse(self) -> None:
        """Take no more connections, until it is started again."""
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None

    def end_connections(self) -> None:
        """End those there are, on both sides."""
        for accepted in list(self._sockets):  # whoever connects again meanwhile is not among them
            with contextlib.suppress(OSError):
                accepted.shutdown(socket.SHUT_RDWR)

    def spawn(self, target: Callable[..., None], *arguments: object) -> None:
        """Run something beside; `close` waits for it."""
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def close(self) -> None:
        """Take no more connections, wait until all have ended, and fail if serving one failed."""
        self.refuse()
        for thread in self._threads:
            thread.join(DEADLINE_S)
            assert not thread.is_alive(), "somebody keeps a connection open"
        if self.failures:
            raise self.failures[0]

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):  # the listener was closed
            while True:
                accepted, _ = listener.accept()
                accepted.settimeout(DEADLINE_S)
                self._sockets.append(accepted)
                self.connections += 1
                self.spawn(self._run, accepted, self.connections - 1)

    def _run(self, accepted: socket.socket, number: int) -> None:
        try:
            with accepted:
                self._serve(accepted, number)
        except Exception as error:  # noqa: BLE001 (the test's own thread tells it)
            self.failures.append(error)
