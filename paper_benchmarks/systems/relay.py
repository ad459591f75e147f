"""A relay: stands between clients and a server, passes bytes on, and counts them both ways."""

from __future__ import annotations

import socket
import socketserver
import threading
from typing import TYPE_CHECKING, Any, Self

from paper_benchmarks.systems.system import System

if TYPE_CHECKING:
    from types import TracebackType

_HOST = "127.0.0.1"
_BUFFER_BYTES = 256 * 1024
_TIMEOUT_S = 600.0


class Relay:
    """Listens for clients of one server; a context manager. `to_server` and `to_clients` are bytes passed until now."""

    def __init__(self, host: str, port: int) -> None:
        relay = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with socket.create_connection((host, port), _TIMEOUT_S) as server:
                    relay._serve(self.request, server)

        self.to_server = 0
        self.to_clients = 0
        self._listener = socketserver.ThreadingTCPServer((_HOST, 0), Handler)
        self._listener.daemon_threads = True
        self._listener.block_on_close = False  # a connection that a killed client left ends by itself
        self._thread = threading.Thread(target=self._listener.serve_forever, args=(0.05,), name="relay", daemon=True)

    @property
    def address(self) -> tuple[str, int]:
        """Where clients connect to."""
        host, port = self._listener.server_address[:2]
        return str(host), int(port)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._listener.shutdown()
        self._listener.server_close()
        self._thread.join()

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        for end in (client, server):
            end.settimeout(_TIMEOUT_S)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        back = threading.Thread(target=self._pass_on, args=(server, client, "to_clients"), name="relay", daemon=True)
        back.start()
        self._pass_on(client, server, "to_server")
        back.join()

    def _pass_on(self, source: socket.socket, target: socket.socket, counter: str) -> None:
        """Pass on until the source ends, which the target is then told. Each counter has one client at a time."""
        buffer = memoryview(bytearray(_BUFFER_BYTES))
        try:
            while count := source.recv_into(buffer):
                setattr(self, counter, getattr(self, counter) + count)
                target.sendall(buffer[:count])
            target.shutdown(socket.SHUT_WR)
        except OSError:  # one side is gone: so is the other, soon
            for end in (source, target):
                end.close()


class Relayed(System):
    """A system whose clients come through a relay; what it used and stored is not known by it."""

    def __init__(self, system: System, relay: Relay) -> None:
        super().__init__(system.name, system.version, *relay.address, system.settings)
        self._system = system

    def server(self) -> dict[str, Any]:
        """Return what the driver needs, with the relay's address in place of the server's."""
        return {**self._system.server(), "host": self.host, "port": self.port}

    def count(self, topic: str) -> int:
        """Ask the server itself."""
        return self._system.count(topic)
