"""A whole cluster on this machine: one ZooKeeper and some brokers, each in a process of its own.

    with LocalCluster(brokers=3) as cluster:
        print(cluster.zk_connect, cluster.brokers[0].port)

Nothing of it outlives the process that made it, not even by kill -9. Used by `kafka2011 cluster`, the demo and tests.
"""

from __future__ import annotations

import logging
import re
import socket
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from string import ascii_lowercase
from typing import TYPE_CHECKING, Self

from kafka2011 import local_security
from kafka2011.admin.replicas import begin_replicas
from kafka2011.broker.ready import Ready
from kafka2011.errors import KafkaError
from zk.brokers import BrokerRegistry
from zk.child import ChildProcess, stop_all
from zk.closing import Closing
from zk.connecting import connect
from zk.gateways import GatewayRegistry
from zk.local_zookeeper import LocalZooKeeper
from zk.ports import free_port
from zk.replicas import ReplicaRegistry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zk.client import ZkClient

logger = logging.getLogger(__name__)

PROGRAM = (sys.executable, "-m", "kafka2011")
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
_HOST = "127.0.0.1"
_POLL_S = 0.02
_ZK_TIMEOUT_MS = 20_000
_LOG_TAIL_BYTES = 2000
_GATEWAY_READY = re.compile(rb"^the gateway is ready on (\S+):(\d+)\r?\n", re.MULTILINE)


class LocalClusterError(KafkaError):
    """A process of the cluster did not start or stop as it should; the text ends with its own last words."""


class LocalServer:
    """One server of a cluster in a child process; a context manager. Its port stays when it is started again.

    `title` is what errors call it, `command` what `program` is called with beside `properties`, and `ready` finds the
    address in what it prints once it serves.
    """

    def __init__(
        self,
        title: str,
        command: str,
        properties: Mapping[str, str],
        output_path: Path,
        ready: Callable[[bytes], tuple[str, int] | None],
        program: Sequence[str] = PROGRAM,
    ) -> None:
        self.title = title
        self.output_path = output_path
        self.host = properties.get("hostname", "127.0.0.1")
        self._command = command
        self._properties = {"port": "0", **properties}
        self._ready = ready
        self._program = program
        self._process: ChildProcess | None = None
        self._output_start = 0

    def __repr__(self) -> str:
        state = "running" if self.running else "not running"
        return f"<{type(self).__name__} {self.title} on {self.host}:{self._properties['port']}, {state}>"

    @property
    def port(self) -> int:
        """The port that clients connect to. Raises LocalClusterError before the first start."""
        port = int(self._properties["port"])
        if port == 0:
            raise LocalClusterError(f"{self.title} was not started, so it has no port yet")
        return port

    @property
    def process(self) -> ChildProcess:
        """The server's process: its pid, exit status and signals. Raises LocalClusterError before the first start."""
        if self._process is None:
            raise LocalClusterError(f"{self.title} was not started")
        return self._process

    @property
    def running(self) -> bool:
        """Whether the process is alive (paused or not)."""
        return self._process is not None and self._process.running

    def launch(self) -> None:
        """Start the process without waiting for it to be ready; nothing when it runs."""
        if self.running:
            return
        self.output_path.parent.mkdir(parents=True, exist_ok=True)
        self._output_start = self.output_path.stat().st_size if self.output_path.exists() else 0
        if self._properties["port"] == "0":
            # It comes back on this port, so none that an outgoing connection may be given while the server is down.
            self._properties["port"] = str(free_port(self._properties.get("bind.address", "127.0.0.1")))
        arguments = [self._command]
        for key, value in self._properties.items():
            arguments += ["--override", f"{key}={value}"]
        self._process = self._make_process(arguments)
        self._process.start()

    def wait_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until the server serves and is registered. Raises LocalClusterError when that takes too long."""
        deadline_s = time.monotonic() + timeout_s
        while (ready := self._ready(self.output())) is None:
            if not self.running:
                raise LocalClusterError(f"{self.title} ended with status {self.process.poll()}: {self._last_words()}")
            if time.monotonic() > deadline_s:
                raise LocalClusterError(f"{self.title} is not ready after {timeout_s:g} s: {self._last_words()}")
            time.sleep(_POLL_S)
        self.host, port = ready
        self._properties["port"] = str(port)

    def start(self) -> None:
        """Start the server and wait until it is ready; nothing when it runs."""
        if not self.running:
            self.launch()
            self.wait_ready()

    def output(self) -> bytes:
        """Return what the server printed and logged since its last start."""
        if not self.output_path.exists():
            return b""
        with self.output_path.open("rb") as output:
            output.seek(self._output_start)
            return output.read()

    def stop(self) -> None:
        """Stop the server in order (SIGTERM); may be called twice."""
        if self._process is not None:
            self._process.stop()

    def kill(self) -> None:
        """End the server with kill -9: it stays registered until its session ends."""
        self.process.kill()

    def pause(self) -> None:
        """Stop the process where it is (SIGSTOP): connections stay open, nobody answers."""
        self.process.pause()

    def resume(self) -> None:
        """Let a paused server go on (SIGCONT)."""
        self.process.resume()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _make_process(self, arguments: Sequence[str]) -> ChildProcess:
        """Return what runs the command line `kafka2011` with these arguments, not yet started."""
        return ChildProcess([*self._program, *arguments], self.output_path, stop_timeout_s=STOP_TIMEOUT_S)

    def _last_words(self) -> str:
        return self.output()[-_LOG_TAIL_BYTES:].decode(errors="replace").strip() or "(it printed nothing)"


class LocalBroker(LocalServer):
    """One broker in a child process; a context manager. Its port and its logs stay when it is started again.

    `replica` is its name where it is one of several processes with the same logs, else empty.
    `program` is what runs the command line `kafka2011`.
    """

    def __init__(
        self, broker_id: int, directory: Path, properties: Mapping[str, str], program: Sequence[str] = PROGRAM
    ) -> None:
        self.broker_id = broker_id
        self.replica = properties.get("replica.name", "")
        self.log_dir = directory / "logs"
        own = {"brokerid": str(broker_id), "log.dir": str(self.log_dir)}
        output_path = directory / "broker.log"
        super().__init__(f"broker {broker_id}", "broker", {**properties, **own}, output_path, _broker_ready, program)

    def launch(self) -> None:
        """Start the process without waiting for it to be ready; nothing when it runs."""
        self.log_dir.mkdir(parents=True, exist_ok=True)
        super().launch()


class LocalGateway(LocalServer):
    """A gateway for today's clients in a child process; a context manager. It keeps numbers in its directory."""

    def __init__(self, directory: Path, properties: Mapping[str, str], program: Sequence[str] = PROGRAM) -> None:
        own = {"directory": str(directory / "numbers")}
        super().__init__(
            "the gateway", "gateway", {**properties, **own}, directory / "gateway.log", _gateway_ready, program
        )


def _broker_ready(output: bytes) -> tuple[str, int] | None:
    ready = Ready.find(output)
    return None if ready is None else (ready.host, ready.port)


def _gateway_ready(output: bytes) -> tuple[str, int] | None:
    match = _GATEWAY_READY.search(output)
    return None if match is None else (match[1].decode(), int(match[2]))


class LocalCluster(Closing):
    """Runs ZooKeeper and the brokers 0 to `brokers` - 1 on this machine; a context manager.

    Everything listens on 127.0.0.1 and on free ports. With `bind_address`, brokers listen there; for 0.0.0.0 set the
    property hostname too. `first_port` is the port of broker 0, and the other brokers take the ports after it, each
    only if it is free.

    `zk_connect` names a ZooKeeper to use instead of starting one, which listens at `zookeeper_port`. `properties` are
    settings of every broker, by 0.7's names. `directory` keeps logs and outputs; without it they are in a temporary
    directory, which `close` removes.

    Each broker has `replicas` processes that hold the same logs. `brokers` lists the first process of each, which leads
    at first, and `processes` lists all. With `gateway`, today's Kafka clients connect to `bootstrap_servers`; it may
    also be a port, which is used if it is free. With `secure`, clients connect to ZooKeeper and brokers over TLS only;
    `zk_connect` then names the file with the clients' settings, in `directory`/security.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        zk_connect: str | None = None,
        zookeeper_port: int = 0,
        directory: Path | str | None = None,
        properties: Mapping[str, object] | None = None,
        first_port: int = 0,
        bind_address: str = _HOST,
        secure: bool = False,
        replicas: int = 1,
        gateway: bool | int = False,
    ) -> None:
        if isinstance(brokers, bool) or not isinstance(brokers, int):
            raise TypeError(f"brokers is how many there are, not {type(brokers).__name__}")
        if properties is not None and not isinstance(properties, Mapping):
            raise TypeError(f"properties are a dict with dotted keys, not {type(properties).__name__}")
        self._resources = ExitStack()
        if directory is None:
            self.directory = Path(self._resources.enter_context(tempfile.TemporaryDirectory(prefix="kafka2011-")))
        else:
            self.directory = Path(directory).absolute()
        self._given_zk_connect = zk_connect
        self.zookeeper: LocalZooKeeper | None = None
        if secure and zk_connect is not None:
            raise ValueError("a secure cluster has a ZooKeeper of its own")
        self._security = local_security.secure(self.directory / "security", [_HOST, "localhost"]) if secure else None
        if zk_connect is None:
            data = None if directory is None else self.directory / "zookeeper"
            self.zookeeper = LocalZooKeeper(
                zookeeper_port, data, bind_address, tls=None if self._security is None else self._security.zookeeper
            )
        self._properties = {key: str(value) for key, value in (properties or {}).items()}
        if bind_address != _HOST:
            self._properties.setdefault("bind.address", bind_address)
        if self._security is not None:
            self._properties = {**self._security.properties, **self._properties}
        self._first_count = brokers
        self._first_port = first_port
        self._replicas = replicas
        self.brokers: dict[int, LocalBroker] = {}
        self.processes: list[LocalBroker] = []
        self.gateway: LocalGateway | None = None
        self._gateway_port = 0 if gateway is True else int(gateway) or -1

    def __repr__(self) -> str:
        running = sum(broker.running for broker in self.brokers.values())
        return (
            f"<LocalCluster in {self.directory}, {running} of {len(self.brokers) or self._first_count} brokers running>"
        )

    @property
    def zk_connect(self) -> str:
        """Return the value for the setting zk.connect."""
        if self._given_zk_connect is not None:
            return self._given_zk_connect
        assert self.zookeeper is not None
        if self._security is not None:
            return f"{self.zookeeper.connect_string}?security={self._security.security}"
        return self.zookeeper.connect_string

    @property
    def bootstrap_servers(self) -> str:
        """Return the address for today's clients. Raises LocalClusterError without a gateway."""
        if self.gateway is None:
            raise LocalClusterError("the cluster has no gateway, or was not started")
        return f"{self.gateway.host}:{self.gateway.port}"

    def start(self) -> None:
        """Start what is not running, and wait until all is ready."""
        if self.zookeeper is not None:
            self.zookeeper.start()
        while len(self.brokers) < self._first_count:
            self._new_broker()
        if self._replicas > 1:
            self._begin_replicas()
        idle: list[LocalServer] = [broker for broker in self.processes if not broker.running]
        if self._gateway_port >= 0:
            self.gateway = self.gateway or self._new_gateway()
            idle += [] if self.gateway.running else [self.gateway]
        for server in idle:
            server.launch()
        for server in idle:
            server.wait_ready()
        if self._replicas > 1:
            self._await_registered("no replica leads", lambda client: BrokerRegistry(client).brokers())
        if self.gateway is not None:
            self._await_registered("no gateway serves", lambda client: GatewayRegistry(client).claims())

    def add_broker(self) -> LocalBroker:
        """Start one more broker, with the next number, and return it."""
        broker = self._new_broker()
        self.start()
        return broker

    def stop(self) -> None:
        """Stop the brokers in order, then ZooKeeper. Logs stay, and `start` starts everything again."""
        if self.gateway is not None:
            self.gateway.stop()
        stop_all(broker.process for broker in self.processes if broker.running)
        if self.zookeeper is not None:
            self.zookeeper.stop()

    def close(self) -> None:
        """Stop everything and remove temporary files; may be called twice."""
        self.stop()
        if self.zookeeper is not None:
            self.zookeeper.close()
        self._resources.close()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def _new_broker(self) -> LocalBroker:
        broker_id = len(self.brokers)
        port = self._first_port + broker_id if self._first_port else 0
        first = {"port": str(port if port and _is_free(port) else 0)}
        if self._replicas == 1:
            broker = self._new_process(broker_id, f"broker-{broker_id}", first)
        else:
            broker, *_ = [
                self._new_process(
                    broker_id, f"broker-{broker_id}-{name}", {**({} if number else first), "replica.name": name}
                )
                for number, name in enumerate(_replica_names(self._replicas))
            ]
        self.brokers[broker_id] = broker
        return broker

    def _new_process(self, broker_id: int, directory: str, properties: Mapping[str, str]) -> LocalBroker:
        settings = {"zk.connect": self.zk_connect, **properties, **self._properties}
        broker = LocalBroker(broker_id, self.directory / directory, settings)
        self.processes.append(broker)
        return broker

    def _new_gateway(self) -> LocalGateway:
        port = self._gateway_port if self._gateway_port and _is_free(self._gateway_port) else 0
        settings = {"zk.connect": self.zk_connect, "port": str(port)}
        if "bind.address" in self._properties:
            settings["bind.address"] = self._properties["bind.address"]
        if "hostname" in self._properties:
            settings["advertised.host"] = self._properties["hostname"]
        if self._security is not None:
            settings |= self._security.properties
        return LocalGateway(self.directory / "gateway", settings)

    def _begin_replicas(self) -> None:
        """Say of each new broker which of its processes has everything."""
        with connect(self.zk_connect, connection_timeout_ms=_ZK_TIMEOUT_MS) as client:
            for broker in self.brokers.values():
                if ReplicaRegistry(client, broker.broker_id).read().state is None:
                    broker.log_dir.mkdir(parents=True, exist_ok=True)
                    begin_replicas(client, broker.broker_id, next(_replica_names(1)), broker.log_dir, is_new=True)

    def _await_registered(self, complaint: str, registered: Callable[[ZkClient], Mapping[int, object]]) -> None:
        """Wait until something is registered for each broker id. Raises LocalClusterError when that takes too long."""
        deadline_s = time.monotonic() + START_TIMEOUT_S
        with connect(self.zk_connect, connection_timeout_ms=_ZK_TIMEOUT_MS) as client:
            while missing := self.brokers.keys() - registered(client).keys():
                if time.monotonic() > deadline_s:
                    raise LocalClusterError(f"{complaint} brokers {sorted(missing)}")
                time.sleep(_POLL_S)


def _replica_names(count: int) -> Iterator[str]:
    """Yield a, b, ..., z, a1, b1, ..."""
    for number in range(count):
        turn, letter = divmod(number, len(ascii_lowercase))
        yield f"{ascii_lowercase[letter]}{turn or ''}"


def _is_free(port: int) -> bool:
    try:
        socket.create_server((_HOST, port)).close()
    except (OSError, OverflowError):
        return False
    return True
