"""Three ZooKeeper servers, which reach one another and are reached over links that can fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tests.support.waiting import eventually
from zk.child import ChildProcess, stop_all
from zk.four_letters import mode_of
from zk.local_zookeeper import server_command
from zk.ports import free_port

if TYPE_CHECKING:
    from pathlib import Path

    from integration.chaos.links import Links
    from zk.local_zookeeper import ServerTls

SERVERS = (1, 2, 3)
READY_TIMEOUT_S = 60.0
LONGEST_VOTE_GAP_MS = 2000
"""How long a server that finds no leader waits at most before it asks the others again; by default a minute."""
_SETTINGS = """\
maxSessionTimeout=60000
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=srvr
clientPortAddress=127.0.0.1
"""
_MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


def names_of_links(number: int, other: int) -> tuple[str, str]:
    """Return the names of the links from one server to another: to follow it as its leader, and to elect one."""
    return f"zookeeper-{number} to zookeeper-{other}", f"zookeeper-{number} votes to zookeeper-{other}"


class Pace(NamedTuple):
    """How patient servers are: the tick, and for how many of them a follower may be about to begin, or lag."""

    tick_ms: int
    init_limit: int
    sync_limit: int


QUICK = Pace(tick_ms=500, init_limit=20, sync_limit=6)


class ZooKeeperServer:
    """One server of the ensemble, as a process; its data is in `directory`.

    `client_port` is where it is reached without a link, and `tls_port`, unless that is 0, where all clients meet it.

    A server tells the others where it takes part in elections, in the words of its own settings. So all are known by
    the same names and ports everywhere, and a file of hosts for each process says over which links they are reached.
    """

    def __init__(
        self,
        number: int,
        directory: Path,
        ports: dict[int, tuple[int, int]],
        links: Links,
        pace: Pace,
        tls: ServerTls | None,
    ) -> None:
        self.name = f"zookeeper-{number}"
        self.number = number
        self.directory = directory
        self.client_port = free_port()
        self.tls_port = 0 if tls is None else free_port()
        directory.mkdir(parents=True)
        (directory / "myid").write_text(str(number))
        settings = directory / "zoo.cfg"
        lines = [
            f"tickTime={pace.tick_ms}",
            f"initLimit={pace.init_limit}",
            f"syncLimit={pace.sync_limit}",
            f"minSessionTimeout={2 * pace.tick_ms}",
            f"{_SETTINGS}dataDir={directory}\nclientPort={self.client_port}",
        ]
        if tls is not None:  # the plain port is only asked for the server's mode
            lines.append(f"secureClientPortAddress=127.0.0.1\nsecureClientPort={self.tls_port}\n{tls.settings()}")
            lines.append(f"{tls.quorum_settings()}ssl.quorum.hostnameVerification=false")  # all have one certificate
        lines += [f"server.{other}=zookeeper-{other}:{quorum}:{vote}" for other, (quorum, vote) in ports.items()]
        settings.write_text("\n".join(lines))
        hosts = [f"127.0.0.1 zookeeper-{number}"]
        for other in ports.keys() - {number}:
            host = f"127.0.2.{10 * number + other}"
            hosts.append(f"{host} zookeeper-{other}")
            for name, port in zip(names_of_links(number, other), ports[other], strict=True):
                links.add(name, ("127.0.0.1", port), host=host, port=port)
        (directory / "hosts").write_text("\n".join(hosts) + "\n")
        options = [
            f"-Djdk.net.hosts.file={directory / 'hosts'}",
            f"-Dzookeeper.fastleader.maxNotificationInterval={LONGEST_VOTE_GAP_MS}",
            "-Dzookeeper.forceSync=no",
        ]
        command = server_command(_MAIN_CLASS, settings, options)
        self.process = ChildProcess(command, directory / "zookeeper.log")

    @property
    def address(self) -> str:
        """Where it is reached without a link, as host:port."""
        return f"127.0.0.1:{self.client_port}"

    def mode(self) -> str:
        """Return `leader`, `follower`, or nothing while it does not serve."""
        return mode_of("127.0.0.1", self.client_port, 1)

    def start(self) -> None:
        """Start it, without waiting until it serves."""
        self.process.start()

    def kill(self) -> None:
        """End it with kill -9; its data stays."""
        self.process.kill()

    def pause(self) -> None:
        """Stop it where it is."""
        self.process.pause()

    def resume(self) -> None:
        """Let it go on."""
        self.process.resume()

    def transaction_logs(self) -> list[bytes]:
        """Return its record of all that was ever written, file by file."""
        return [path.read_bytes() for path in sorted(self.directory.glob("version-2/log.*"))]


class Ensemble:
    """A leader and two followers, reached over links on one address of this host; a context manager.

    `security` is the file that says how clients meet them.
    """

    def __init__(
        self, directory: Path, links: Links, pace: Pace = QUICK, tls: ServerTls | None = None, security: str = ""
    ) -> None:
        self._links = links
        self._security = security
        ports = {number: (free_port(), free_port()) for number in SERVERS}
        self.servers = {
            number: ZooKeeperServer(number, directory / f"zookeeper-{number}", ports, links, pace, tls)
            for number in SERVERS
        }

    def leader(self) -> ZooKeeperServer | None:
        """Return the server that leads now; None while nobody does."""
        return next((server for server in self.servers.values() if server.mode() == "leader"), None)

    def connect_for(self, client: str) -> str:
        """Return a zk.connect for one client, whose links to the servers can fail apart from all others."""
        links = [
            self._links.add(f"{client} to {server.name}", ("127.0.0.1", server.tls_port or server.client_port))
            for server in self.servers.values()
        ]
        addresses = ",".join(link.address for link in links)
        return f"{addresses}?security={self._security}" if self._security else addresses

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
