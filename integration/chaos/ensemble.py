"""Three ZooKeeper servers as processes, which reach one another and are reached over links that can fail."""

from __future__ import annotations

import signal
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from tests.support.waiting import eventually
from zk import local
from zk.child import ChildProcess, stop_all
from zk.ports import free_port

if TYPE_CHECKING:
    from pathlib import Path

    from integration.chaos.links import Links

SERVERS = (1, 2, 3)
TICK_MS = 500
READY_TIMEOUT_S = 60.0
_SETTINGS = f"""\
tickTime={TICK_MS}
initLimit=20
syncLimit=6
minSessionTimeout={2 * TICK_MS}
maxSessionTimeout=60000
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=srvr
clientPortAddress=127.0.0.1
"""
_MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


class ZooKeeperServer:
    """One server of the ensemble."""

    def __init__(self, number: int, directory: Path, ports: dict[int, tuple[int, int]], links: Links) -> None:
        self.name = f"zookeeper-{number}"
        self.number = number
        self.directory = directory
        self.client_port = free_port()
        directory.mkdir(parents=True)
        (directory / "myid").write_text(str(number))
        (directory / "log4j2.properties").write_text(local._LOGGING)
        lines = [f"{_SETTINGS}dataDir={directory}\nclientPort={self.client_port}"]
        for other, (quorum_port, election_port) in ports.items():
            port = quorum_port
            if other != number:
                port = links.add(f"{self.name} to zookeeper-{other}", ("127.0.0.1", quorum_port)).port
            lines.append(f"server.{other}=127.0.0.1:{port}:{election_port}")
        (directory / "zoo.cfg").write_text("\n".join(lines))
        options = [
            *local._JVM_OPTIONS,
            f"-Dlog4j2.configurationFile={directory / 'log4j2.properties'}",
            "-Dzookeeper.forceSync=no",
        ]
        command = [local.find_java(), *options, "-cp", local.find_jars(), _MAIN_CLASS, str(directory / "zoo.cfg")]
        self.process = ChildProcess(command, directory / "zookeeper.log")

    def mode(self) -> str:
        """Return `leader`, `follower`, or nothing while it does not serve."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.client_port), 1) as probe:
            probe.settimeout(1)
            probe.sendall(b"srvr")
            with probe.makefile() as answer:
                return next((line.split()[1] for line in answer if line.startswith("Mode: ")), "")
        return ""

    def start(self) -> None:
        """Start the process, without waiting until it serves."""
        self.process.start()

    def kill(self) -> None:
        """End it with kill -9; its data stays."""
        self.process.kill()

    def pause(self) -> None:
        """Stop it where it is."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self.process.send_signal(signal.SIGCONT)


class Ensemble:
    """A leader and two followers; a context manager."""

    def __init__(self, directory: Path, links: Links) -> None:
        self._links = links
        ports = {number: (free_port(), free_port()) for number in SERVERS}
        self.servers = {
            number: ZooKeeperServer(number, directory / f"zookeeper-{number}", ports, links) for number in SERVERS
        }

    def leader(self) -> ZooKeeperServer | None:
        """Return the server that leads now; None while nobody does."""
        return next((server for server in self.servers.values() if server.mode() == "leader"), None)

    def connect_for(self, client: str) -> str:
        """Return a zk.connect for one client, whose links to the servers can fail apart from all others."""
        links = [
            self._links.add(f"{client} to {server.name}", ("127.0.0.1", server.client_port))
            for server in self.servers.values()
        ]
        return ",".join(link.address for link in links)

    def await_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until all three serve."""
        eventually(
            lambda: sorted(server.mode() for server in self.servers.values()) == ["follower", "follower", "leader"],
            timeout_s,
        )

    def __enter__(self) -> Ensemble:
        try:
            for server in self.servers.values():
                server.start()
            self.await_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        stop_all(server.process for server in self.servers.values())
