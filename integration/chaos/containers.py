"""Brokers and ZooKeeper as the containers of docker-compose.yml, in a project and on ports of their own.

Each container runs attached to a process of this machine, which ends with it and prints what it prints; signals go to
the container. Its way to others leads through the host, over links on an address that containers reach too.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

import psutil

from integration.chaos.broker import ChaosBroker
from integration.chaos.ensemble import LONGEST_VOTE_GAP_MS, QUICK, SERVERS, Ensemble, ZooKeeperServer, names_of_links
from integration.compose.clusters import host_address
from zk.child import ChildProcess
from zk.errors import ChildStartError
from zk.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from integration.chaos.links import Links
    from integration.chaos.power_cut import Tail
    from integration.chaos.records import MessageId

ROOT = Path(__file__).parents[2]
_COMPOSE_TIMEOUT_S = 120.0
_IMAGES_TIMEOUT_S = 1500.0
_STOP_TIMEOUT_S = 30.0
_POLL_S = 0.05
_MOST_TRIES, _RETRY_S = 20, 0.2
_WORDS: Mapping[int, tuple[str, ...]] = {signal.SIGSTOP: ("pause",), signal.SIGCONT: ("unpause",)}
_QUORUM_PORT, _ELECTION_PORT, _CLIENT_PORT = 2888, 3888, 2181
_RARELY = {"interval": "24h"}  # a check of a broker is a Python program, by default every five seconds
# Files are not preallocated by 64 MiB, and none is deleted: all are read in the end.
_ZOOKEEPER_SETTINGS = {
    "ZOO_TICK_TIME": str(QUICK.tick_ms),
    "ZOO_INIT_LIMIT": str(QUICK.init_limit),
    "ZOO_SYNC_LIMIT": str(QUICK.sync_limit),
    "ZOO_CFG_EXTRA": f"minSessionTimeout={2 * QUICK.tick_ms} maxSessionTimeout=60000 forceSync=no preAllocSize=1024 "
    f"fastleader.maxNotificationInterval={LONGEST_VOTE_GAP_MS}",
    "ZOO_AUTOPURGE_PURGEINTERVAL": "0",
}


class Project:
    """A Compose project: docker-compose.yml, and what a run changes in it; a context manager that removes all of it.

    What an earlier run in this directory left, because it was killed with -9, is removed first.
    """

    def __init__(self, directory: Path) -> None:
        self.name = project_name(directory)
        self._override = directory / "compose.json"
        self._services: dict[str, Mapping[str, object]] = {}
        self._ports = {"HOST_ADDRESS": "127.0.0.1"}
        self._containers: dict[str, str] = {}

    def __enter__(self) -> Self:
        self._run([ROOT / "scripts" / "images.sh"], _IMAGES_TIMEOUT_S)
        self._down()
        return self

    def __exit__(self, *_: object) -> None:
        self._down()

    def container(self, service: str, changes: Mapping[str, object], ports: Mapping[str, str]) -> str:
        """Return the id of a service's container, made with these changes and ports, but not started.

        One that was made otherwise is replaced.
        """
        known = self._containers.get(service)
        if known is not None:
            if self._services[service] == changes and ports.items() <= self._ports.items():
                return known
            docker("rm", "--force", known)
        self._services[service] = changes
        self._ports.update(ports)
        self._override.write_text(json.dumps({"services": self._services}, indent=1))
        self._compose("up", "--no-start", "--no-deps", "--no-build", service)
        labels = {"project": self.name, "service": service}
        filters = [f"--filter=label=com.docker.compose.{key}={value}" for key, value in labels.items()]
        [made] = docker("ps", "--all", "--quiet", "--no-trunc", *filters).split()
        self._containers[service] = made
        return made

    def _down(self) -> None:
        self._compose("--profile", "grow", "down", "--volumes", "--remove-orphans", "--timeout", "0")

    def _compose(self, *arguments: str) -> None:
        files = [path for path in (ROOT / "docker-compose.yml", self._override) if path.exists()]
        named = [argument for path in files for argument in ("--file", str(path))]
        self._run([ROOT / "scripts" / "compose.sh", *named, *arguments], _COMPOSE_TIMEOUT_S)

    def _run(self, command: Sequence[str | Path], timeout_s: float) -> None:
        environ = {**os.environ, **self._ports, "COMPOSE_PROJECT_NAME": self.name, "COMPOSE_PROFILES": ""}
        run([str(word) for word in command], timeout_s, environ)


def project_name(directory: Path) -> str:
    """Return the name of the project of a directory, which no other has."""
    return f"kafka2011-chaos-{hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:12]}"


def docker(*arguments: str) -> str:
    """Run a docker command and return what it printed. Raises RuntimeError with what it complains of."""
    return run(["docker", *arguments], _COMPOSE_TIMEOUT_S)


def run(command: Sequence[str], timeout_s: float, environ: Mapping[str, str] | None = None) -> str:
    """Run a command, out of reach of Ctrl-C, and return what it printed. Raises RuntimeError."""
    done = subprocess.run(
        command, env=environ, timeout=timeout_s, capture_output=True, text=True, start_new_session=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
    return done.stdout


class ContainerProcess(ChildProcess):
    """A service's container, as the process that is attached to it. What is changed in the service is for its start."""

    def __init__(
        self, project: Project, service: str, changes: Mapping[str, object], ports: Mapping[str, str], log_path: Path
    ) -> None:
        super().__init__(["docker"], log_path, stop_timeout_s=_STOP_TIMEOUT_S)
        self._project = project
        self._service = service
        self._changes = changes
        self._ports = ports
        self._id = ""
        self._pid = 0

    @property
    def container(self) -> str:
        """The container's id. Raises ChildStartError before the first start."""
        if not self._id:
            raise ChildStartError(f"{self._service} was not started")
        return self._id

    def start(self) -> None:
        """Start the container, unless it runs already, and wait until it does; first make it, if need be."""
        if self.running:
            return
        self._id = self._project.container(self._service, self._changes, self._ports)
        self.command = ["docker", "start", "--attach", self._id]
        super().start()
        status = ""
        while self.running and status != "running":
            time.sleep(_POLL_S)
            status, self._pid = self._state()

    @property
    def pid(self) -> int:
        """The process id on this machine, of what docker's small init started. Raises ChildStartError, psutil.Error."""
        if not self._pid:
            raise ChildStartError(f"{self._service} does not run")
        inside = psutil.Process(self._pid)
        return int(next(iter(inside.children()), inside).pid)

    def pause(self) -> None:
        """Freeze all of the container; it is frozen when this returns."""
        self.send_signal(signal.SIGSTOP)

    def send_signal(self, number: int) -> None:
        """Send a signal, to stop and to go on by freezing all of the container; nothing when it has ended."""
        is_over = not self.running or (number == signal.SIGCONT and self._state()[0] != "paused")
        tries = 0
        while not is_over:
            try:
                docker(*_WORDS.get(number, ("kill", f"--signal={number}")), self.container)
            except RuntimeError:
                tries += 1
                if tries == _MOST_TRIES:
                    raise
                time.sleep(_RETRY_S)  # it has just ended, or it is so busy that it cannot be frozen at once
                is_over = not self.running
            else:
                return

    def _state(self) -> tuple[str, int]:
        """Return what docker calls the container's status, and the process id of the first process in it, or 0."""
        status, pid = docker("inspect", "--format", "{{ .State.Status }} {{ .State.Pid }}", self.container).split()
        return status, int(pid)


class ContainerServer(ZooKeeperServer):
    """One server of ZooKeeper in a container; its data is in the project's volumes."""

    process: ContainerProcess

    def transaction_logs(self) -> list[bytes]:
        self.directory.mkdir(parents=True, exist_ok=True)
        docker("cp", f"{self.process.container}:/datalog/version-2", str(self.directory))
        return super().transaction_logs()


class ContainerBroker(ChaosBroker):
    """One broker in a container. Its directory is the same one inside, and belongs to whoever runs this."""

    def __init__(
        self, broker_id: int, directory: Path, settings: Mapping[str, object], links: Links, project: Project
    ) -> None:
        super().__init__(broker_id, directory, {**settings, "bind.address": "0.0.0.0"}, links, None)
        self._project = project
        self._mounted_directory = directory / self.name

    def _make_process(self, arguments: Sequence[str]) -> ChildProcess:
        number = self.broker_id + 1  # the service's; brokers of a run are counted from 0
        changes = {
            "command": list(arguments),
            "restart": "no",
            "user": f"{os.getuid()}:{os.getgid()}",
            "volumes": [f"{self._mounted_directory}:{self._mounted_directory}"],
            "healthcheck": _RARELY,
        }
        ports = {f"BROKER_{number}_PORT": str(self.port)}
        return ContainerProcess(self._project, f"broker-{number}", changes, ports, self.output_path)

    def cut_power(self, tail: Tail) -> set[MessageId] | None:
        return None  # the broker there is the image's, which notes nothing

    def forbid_files(self) -> None:
        with suppress(psutil.Error):
            super().forbid_files()

    def allow_files(self) -> None:
        with suppress(psutil.Error, ChildStartError):
            super().allow_files()


def peers_of(number: int, host: str, ways: Mapping[int, tuple[int, ...]]) -> str:
    """Return a server's ZOO_SERVERS: itself by its name, and the others on ports of this host that lead to them."""
    addresses = {number: f"zookeeper-{number}:{_QUORUM_PORT}:{_ELECTION_PORT}"}
    addresses |= {other: f"{host}:{quorum}:{election}" for other, (quorum, election) in ways.items()}
    return " ".join(f"server.{each}={addresses[each]};{_CLIENT_PORT}" for each in sorted(addresses))


class Containers:
    """The containers of docker-compose.yml."""

    security = ""
    most_brokers = 4

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._project = Project(directory)

    def __enter__(self) -> Self:
        self._project.__enter__()
        self._host = host_address()
        return self

    def __exit__(self, *_: object) -> None:
        self._project.__exit__()

    def make_ensemble(self, links: Links) -> Ensemble:
        ports = {number: (free_port(), free_port()) for number in SERVERS}
        return Ensemble([self._make_server(number, ports, links) for number in SERVERS], links, self._host)

    def make_broker(
        self, broker_id: int, settings: Mapping[str, object], links: Links, step_clock: Path | None
    ) -> ChaosBroker:
        del step_clock  # it may need another libc than that in the image
        return ContainerBroker(broker_id, self._directory, settings, links, self._project)

    def _make_server(self, number: int, ports: Mapping[int, tuple[int, int]], links: Links) -> ZooKeeperServer:
        """Make one server. `ports` are where each is reached by others, to be followed and for elections."""
        ways: dict[int, tuple[int, ...]] = {}
        for other in ports.keys() - {number}:
            named = zip(names_of_links(number, other), ports[other], strict=True)
            ways[other] = tuple(links.add(name, ("127.0.0.1", port), host=self._host).port for name, port in named)
        published = zip(ports[number], (_QUORUM_PORT, _ELECTION_PORT), strict=True)
        changes = {
            "environment": {**_ZOOKEEPER_SETTINGS, "ZOO_SERVERS": peers_of(number, self._host, ways)},
            "restart": "no",
            "ports": [f"127.0.0.1:{port}:{inside}" for port, inside in published],
            "healthcheck": _RARELY,
        }
        name = f"zookeeper-{number}"
        directory = self._directory / name
        client_port = free_port()
        variables = {f"ZOOKEEPER_{number}_PORT": str(client_port)}
        process = ContainerProcess(self._project, name, changes, variables, directory / "zookeeper.log")
        return ContainerServer(number, directory, client_port, process)
