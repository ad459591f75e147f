"""Three real ZooKeeper servers that reach one another over links which a test can freeze."""

from __future__ import annotations

import contextlib
import socket
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from tests.support.waiting import eventually
from zk import local
from zk.child import ChildProcess
from zk.ports import free_port

if TYPE_CHECKING:
    from pathlib import Path

TICK_MS = 300
_SERVERS = (1, 2, 3)
# As patient as can be, so that a follower that was cut off serves on for as long as a session lives.
_SETTINGS = f"tickTime={TICK_MS}\ninitLimit=100\nsyncLimit=30\nadmin.enableServer=false\n4lw.commands.whitelist=srvr\n"
_MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


class Link:
    """Passes on what connects to its port, both ways, until it is frozen: nothing is lost then, and nothing arrives."""

    def __init__(self, target_port: int) -> None:
        self._target = ("127.0.0.1", target_port)
        self._open = threading.Event()
        self._open.set()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def freeze(self) -> None:
        """Pass on nothing any more."""
        self._open.clear()

    def close(self) -> None:
        """End all connections."""
        for each in [self._listener, *self._sockets]:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._open.set()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self._sockets.append(near)
                try:
                    far = socket.create_connection(self._target)
                except OSError:
                    near.close()
                    continue
                self._sockets.append(far)
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while received := source.recv(65536):
                self._open.wait()
                sink.sendall(received)
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class Ensemble:
    """A leader and two followers; a context manager."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._clients = {server: free_port() for server in _SERVERS}
        self._quorum = {server: free_port() for server in _SERVERS}
        self._election = {server: free_port() for server in _SERVERS}
        self._links: dict[tuple[int, int], Link] = {}
        self._stack = ExitStack()

    @property
    def leader(self) -> int:
        """The server that leads."""
        return next(server for server in _SERVERS if self._mode(server) == "leader")

    def address(self, server: int) -> str:
        """Return what to give as zk.connect to talk to this server alone."""
        return f"127.0.0.1:{self._clients[server]}"

    def link(self, follower: int, leader: int) -> Link:
        """Return the one over which a follower talks to the leader."""
        return self._links[follower, leader]

    def __enter__(self) -> Self:
        with self._stack:
            for server in _SERVERS:
                self._start(server)
            eventually(lambda: sorted(map(self._mode, _SERVERS)) == ["follower", "follower", "leader"])
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self, server: int) -> None:
        directory = self._directory / str(server)
        directory.mkdir()
        (directory / "myid").write_text(str(server))
        (directory / "log4j2.properties").write_text(local._LOGGING)
        lines = [
            _SETTINGS,
            f"dataDir={directory}",
            f"clientPort={self._clients[server]}",
            "clientPortAddress=127.0.0.1",
        ]
        for other in _SERVERS:
            port = self._quorum[other]
            if other != server:
                self._links[server, other] = link = Link(port)
                self._stack.callback(link.close)
                port = link.port
            lines.append(f"server.{other}=127.0.0.1:{port}:{self._election[other]}")
        (directory / "zoo.cfg").write_text("\n".join(lines))
        options = [
            *local._JVM_OPTIONS,
            f"-Dlog4j2.configurationFile={directory / 'log4j2.properties'}",
            "-Dzookeeper.forceSync=no",
        ]
        command = [local.find_java(), *options, "-cp", local.find_jars(), _MAIN_CLASS, str(directory / "zoo.cfg")]
        self._stack.enter_context(ChildProcess(command, directory / "zookeeper.log"))

    def _mode(self, server: int) -> str:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._clients[server]), 5) as probe:
            probe.sendall(b"srvr")
            with probe.makefile() as answer:
                return next((line.split()[1] for line in answer if line.startswith("Mode: ")), "")
        return ""
