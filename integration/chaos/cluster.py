"""The processes of a run: the ensemble, brokers, producers and groups, with links between all of them."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Self

from integration.chaos.broker import ChaosBroker, host_of_broker
from integration.chaos.ensemble import Ensemble
from integration.chaos.gateway import ChaosGateway, bootstrap_servers_of
from integration.chaos.links import Links
from integration.chaos.records import TODAY
from integration.chaos.step_clock import StepClock, build_step_clock
from kafka2011.admin.topics import create_topic
from kafka2011.local_security import secure as make_security
from tests.support.waiting import eventually
from zk.child import ChildProcess, stop_all
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from integration.chaos.records import MessageId
    from integration.chaos.segments import Flip
    from kafka2011.local_cluster import LocalServer
    from kafka2011.local_security import LocalSecurity

ROOT = Path(__file__).parents[2]
BROKERS, MOST_BROKERS = 3, 5
BROKER_WITH_SMALL_DISK = 0
READY = b" is ready on "
FIRST_TOPIC = "chaos-1"
SESSION_S = 3.0
STYLES = ("one", "lists", "by-hand", "pauses")
PRODUCERS = ("keyed", "unkeyed", "plain")
MESSAGES_PER_S = 50
PARTITIONS = 2
"""The number of partitions of a topic that a broker has at first."""

BROKER_SETTINGS: Mapping[str, object] = {
    "num.partitions": PARTITIONS,
    "log.file.size": 30_000,
    "log.flush.interval": 50,
    "log.default.flush.scheduler.interval.ms": 100,
    "log.cleanup.interval.mins": 1 / 60,  # so that passes meet a wall clock that is off
    "zk.sessiontimeout.ms": int(SESSION_S * 1000),
    "zk.connectiontimeout.ms": 60_000,
    "join.topics": "true",
}
MEMBER_SETTINGS: Mapping[str, object] = {
    "zk.sessiontimeout.ms": int(SESSION_S * 1000),
    "zk.connectiontimeout.ms": 60_000,
    "fetcher.backoff.ms": 100,
    "rebalance.backoff.ms": 1500,
    "autocommit.interval.ms": 500,
    "socket.timeout.ms": 5000,
}
GATEWAY_SETTINGS: Mapping[str, object] = {
    "zk.sessiontimeout.ms": int(SESSION_S * 1000),
    "zk.connectiontimeout.ms": 60_000,
    "request.timeout.ms": 5000,
}
PRODUCER_SETTINGS: Mapping[str, object] = {
    "zk.sessiontimeout.ms": int(SESSION_S * 1000),
    "zk.connectiontimeout.ms": 60_000,
    "producer.type": "async",
    "queue.time": 50,
    "batch.size": 20,
    "socket.timeout.ms": 5000,
    "connect.timeout.ms": 3000,
    "confirm.timeout.ms": 120_000,
}


class Client:
    """A producer or a member: a process that writes down what it does."""

    def __init__(
        self, name: str, kind: str, style: str, group: str, command: list[str], directory: Path, step_clock: Path | None
    ) -> None:
        self.name = name
        self.kind = kind
        self.style = style
        self.group = group
        self.clock = StepClock(step_clock, directory / f"{name}.clock")
        self.notes = directory / f"{name}.notes"
        self.process = ChildProcess(
            [
                *self.clock.prefix,
                sys.executable,
                "-m",
                f"integration.chaos.{kind}",
                str(self.notes.absolute()),
                *command,
            ],
            directory / f"{name}.log",
            cwd=ROOT,
            stop_timeout_s=60.0,
        )
        self.was_killed = False
        self.is_leaving = False

    @property
    def has_begun(self) -> bool:
        """Whether it has written something down: then it has joined its group, or has begun to send."""
        return self.notes.stat().st_size > 0

    def start(self) -> None:
        """Start the process, without waiting until it does something."""
        self.notes.touch()
        self.process.start()

    def kill(self) -> None:
        """End it with kill -9."""
        self.was_killed = True
        self.process.kill()

    def leave(self) -> None:
        """Ask it to end in order, and do not wait."""
        self.is_leaving = True
        self.process.terminate()
        self.process.resume()

    def pause(self) -> None:
        """Stop it where it is."""
        self.process.pause()

    def resume(self) -> None:
        """Let it go on."""
        self.process.resume()


class Cluster:
    """All of it; a context manager that leaves nothing running.

    With `secure`, clients connect to brokers and ZooKeeper over TLS only, with certificates. `gateways` is how many
    gateways there are.
    """

    def __init__(self, directory: Path, *, secure: bool = False, gateways: int = 0) -> None:
        self.directory = directory
        self.processes = directory / "processes"
        self._is_secure = secure
        self._security: LocalSecurity | None = None
        self.topics_path = directory / "topics"
        self.flips_path = directory / "flips"
        self.flips: list[Flip] = []
        self.vanished: set[MessageId] = set()
        self.links = Links()
        self.brokers: dict[int, ChaosBroker] = {}
        self.gateways: list[ChaosGateway] = []
        self._gateway_count = gateways
        self.clients: list[Client] = []
        self._counts: dict[str, int] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.processes.mkdir(parents=True)
        self.topics_path.write_text(f"{FIRST_TOPIC}\n")
        try:
            self._step_clock = build_step_clock(self.directory)
            self._stack.enter_context(self.links)
            if self._is_secure:
                hosts = ["127.0.0.1", *map(host_of_broker, range(MOST_BROKERS))]
                self._security = make_security(self.processes / "security", hosts)
            tls = None if self._security is None else self._security.zookeeper
            ensemble = Ensemble(self.processes, self.links, tls=tls, security=self.security)
            self.ensemble = self._stack.enter_context(ensemble)
            self.zk_connect = self.ensemble.connect_for("the run")
            for _ in range(BROKERS):
                self.add_broker()
            for broker in self.brokers.values():
                broker.wait_ready()
            self.create_topic(FIRST_TOPIC)
            for number in range(1, self._gateway_count + 1):
                self._add_gateway(number)
            for gateway in self.gateways:
                gateway.wait_ready()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_clients_and_brokers()
        self._stack.close()

    @property
    def security(self) -> str:
        """The file that says how clients meet brokers and ZooKeeper; empty where all is open."""
        return "" if self._security is None else str(self._security.security)

    def grow_topics(self) -> str:
        """Let producers send to a topic that does not exist yet, and return its name."""
        topic = f"chaos-{len(self.topics()) + 1}"
        with self.topics_path.open("a") as file:
            file.write(f"{topic}\n")
        return topic

    def topics(self) -> list[str]:
        """Return the topics that producers send to."""
        return self.topics_path.read_text().split()

    def note_flip(self, flip: Flip) -> None:
        """Tell members what they cannot read, so that they step over it."""
        self.flips.append(flip)
        with self.flips_path.open("a") as file:
            file.write(f"{flip.where} {flip.offset} {flip.next_offset}\n")

    def create_topic(self, topic: str) -> None:
        """Make a topic on all brokers."""
        with connect(self.zk_connect, 10_000, connection_timeout_ms=30_000) as client:
            create_topic(client, topic)

    def add_broker(self) -> ChaosBroker:
        """Start one more broker, without waiting until it is ready."""
        broker_id = len(self.brokers)
        settings = {**BROKER_SETTINGS, "zk.connect": self.ensemble.connect_for(f"broker-{broker_id}")}
        doors = {} if self._security is None else self._security.properties
        broker = ChaosBroker(broker_id, self.processes, {**settings, **doors}, self.links, self._step_clock)
        self.brokers[broker_id] = broker
        self._stack.callback(broker.stop_for_good)
        if broker_id == BROKER_WITH_SMALL_DISK:
            broker.mount_small_disk()
        self._stack.enter_context(broker.archive)
        broker.launch()
        return broker

    def _add_gateway(self, number: int) -> None:
        settings = {**GATEWAY_SETTINGS, "zk.connect": self.ensemble.connect_for(f"gateway-{number}")}
        gateway = ChaosGateway(number, self.processes, settings)
        self.gateways.append(gateway)
        self._stack.callback(gateway.stop)
        gateway.launch()

    def add_member(self, group: str, style: str = "") -> Client:
        """Start one more member of a group; styles take turns unless one is named."""
        number = self._next(group)
        name = f"{group}-{number}"
        style = style or STYLES[number % len(STYLES)]
        settings = {
            **MEMBER_SETTINGS,
            "zk.connect": self.ensemble.connect_for(name),
            "groupid": group,
            "consumerid": name,
            "autocommit.enable": "false" if style == "by-hand" else "true",
        }
        return self._start(name, "member", style, group, [style, "1", json.dumps(settings)])

    def add_producer(self, style: str) -> Client:
        """Start a producer, under a name that no other has had."""
        name = f"{style}.{self._next(style)}"
        settings = {
            **PRODUCER_SETTINGS,
            "zk.connect": self.ensemble.connect_for(name),
            "confirm": "false" if style == "plain" else "true",
            "compression.codec": 2 if style == "unkeyed" else 0,
        }
        if style == TODAY:
            settings = {"bootstrap.servers": bootstrap_servers_of(self.gateways)}
        command = [style, str(MESSAGES_PER_S), str(self.topics_path), json.dumps(settings)]
        return self._start(name, "producer", style, "", command)

    def live(self, kind: str, group: str = "") -> list[Client]:
        """Return the clients of a kind that run and are not about to leave."""
        return [
            each
            for each in self.clients
            if each.kind == kind and (not group or each.group == group) and each.process.running and not each.is_leaving
        ]

    def end(self, kind: str, timeout_s: float) -> list[str]:
        """Have all clients of a kind end in order, and return what went wrong with that."""
        running = [each for each in self.clients if each.kind == kind and each.process.running]
        for each in running:
            each.leave()
        wrong = []
        for each in running:
            try:
                each.process.wait(timeout_s)
            except TimeoutError:
                wrong.append(f"{each.name} did not end within {timeout_s:g} s")
                each.kill()
        return wrong + [
            f"{each.name} ended with status {each.process.poll()}"
            for each in self.clients
            if each.kind == kind and not each.was_killed and each.process.poll() not in {0, None}
        ]

    def heal(self, timeout_s: float = 60.0) -> None:
        """Open all links, let everything run, and wait until servers serve."""
        self.links.open_all()
        for server in self.ensemble.servers.values():
            server.resume()
            server.start()
        for each in self.clients:
            each.resume()
        for broker in self.brokers.values():
            broker.resume()
        for gateway in self.gateways:
            gateway.resume()
        self.ensemble.await_ready(timeout_s)
        eventually(lambda: _are_ready(self.brokers.values()), timeout_s, what="every broker's return")
        eventually(lambda: _are_ready(self.gateways), timeout_s, what="every gateway's return")
        eventually(self._clients_begun, timeout_s, what="every client's beginning")

    def _clients_begun(self) -> bool:
        return all(each.has_begun for kind in ("producer", "member") for each in self.live(kind))

    def _start(self, name: str, kind: str, style: str, group: str, command: list[str]) -> Client:
        # A client of today waits by the wall clock of the kernel, which does not step: it would wait for days.
        step_clock = None if style == TODAY else self._step_clock
        client = Client(name, kind, style, group, command, self.processes, step_clock)
        self.clients.append(client)
        client.start()
        return client

    def _next(self, name: str) -> int:
        self._counts[name] = self._counts.get(name, 0) + 1
        return self._counts[name]

    def _stop_clients_and_brokers(self) -> None:
        for each in self.clients:
            each.process.kill()
        self.links.open_all()
        stop_all(broker.process for broker in self.brokers.values() if broker.running)


def _are_ready(servers: Iterable[LocalServer]) -> bool:
    """Say whether all are ready, and start those that have ended."""
    for server in servers:
        if not server.running:
            server.launch()
        if READY not in server.output():
            return False
    return True
