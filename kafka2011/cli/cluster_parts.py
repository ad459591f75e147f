"""The parts of a running `kafka2011 cluster`: started again when they have ended, and shown by `--status`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

import click

from kafka2011.cli.restarts import Restarts
from kafka2011.errors import KafkaError
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafka2011.local_cluster import LocalCluster, LocalServer
    from zk.clock import Clock

RUNNING, ENDED = "running", "ended"


@dataclass(slots=True)
class Part:
    """One process: its name, whether it runs, and how often it was started again since the cluster was started.

    `ended_last` is when it ended last, in UTC, None if it never did; `log` is what it prints.
    """

    COLUMNS: ClassVar = ("part", "state", "pid", "address", "restarts", "ended_last", "log")

    part: str
    state: str
    pid: int
    address: str
    restarts: int
    ended_last: str | None
    log: str

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return asdict(self)


class ClusterParts:
    """Looks after the processes of a cluster that was started. `tell` gets all of them whenever one has changed."""

    def __init__(
        self, cluster: LocalCluster, tell: Callable[[Sequence[Part]], None], clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._cluster = cluster
        self._tell = tell
        self._clock = clock
        self._restarts = Restarts()
        self._parts: dict[str, Part] = {}
        self._told: list[Part] = []

    def look(self) -> None:
        """Start again servers that have ended. Raises KafkaError when one has ended too often, or ZooKeeper has."""
        failure: KafkaError | None = None
        for broker in self._cluster.processes:
            name = f"replica {broker.replica} of {broker.title}" if broker.replica else broker.title
            failure = self._look_at(name, broker) or failure
        if self._cluster.gateway is not None:
            failure = self._look_at("gateway", self._cluster.gateway) or failure
        zookeeper = self._cluster.zookeeper
        if zookeeper is not None:
            address, log = zookeeper.connect_string, str(zookeeper.log_path)
            self._note("ZooKeeper", zookeeper.pid, address, log, is_running=zookeeper.running)
            if not zookeeper.running:
                failure = KafkaError(f"ZooKeeper on {address} has stopped unexpectedly: see {log}")
        parts = list(self._parts.values())
        if parts != self._told:
            self._tell(parts)
            self._told = [Part(**part.to_json()) for part in parts]
        if failure is not None:
            raise failure

    def _look_at(self, name: str, server: LocalServer) -> KafkaError | None:
        """Start a server again if its time has come. Return the error if it has ended too often."""
        is_running = server.running
        address, log = f"{server.host}:{server.port}", str(server.output_path)
        part = self._note(name, server.process.pid, address, log, is_running=is_running)
        if is_running:
            return None
        pause_s = self._restarts.ended(name, self._clock.monotonic_s())
        if pause_s is None:
            return KafkaError(f"{name} has crashed repeatedly: see {log}")
        if pause_s == 0:
            click.echo(f"{name} has crashed, and is restarted: see {log}", err=True)
            server.launch()
            self._restarts.started(name)
            part.state, part.pid = RUNNING, server.process.pid
            part.restarts += 1
        return None

    def _note(self, name: str, pid: int, address: str, log: str, *, is_running: bool) -> Part:
        part = self._parts.setdefault(name, Part(name, RUNNING, pid, address, 0, None, log))
        if part.state == RUNNING and not is_running:
            now = datetime.fromtimestamp(self._clock.wall_s(), UTC)
            part.state, part.ended_last = ENDED, now.isoformat(timespec="seconds").replace("+00:00", "Z")
        return part
