"""The replicas of one broker, with a ZooKeeper: over links that may fail, on disks that may lose power, fill or go."""

from __future__ import annotations

import shutil
import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Self

import psutil

from integration.chaos.broker import ChaosBroker
from integration.chaos.cluster import GATEWAY_SETTINGS
from integration.chaos.gateway import ChaosGateway
from integration.chaos.links import Links
from integration.chaos.power_cut import lose_unsynced
from integration.chaos.step_clock import build_step_clock
from kafka2011.admin.replicas import ReplicaChangeError, begin_replicas, remove_replicas
from kafka2011.admin.topics import create_topic
from kafka2011.log.segment import find_segment_files
from kafka2011.replica.known_file import KnownFile
from kafka2011.replica.state import ReadableFloor, ReplicaState, Wait, choose_role
from tests.support.waiting import eventually
from zk import paths
from zk.brokers import BrokerRegistry
from zk.child import stop_all
from zk.connecting import connect
from zk.errors import ZkUnavailable
from zk.local_zookeeper import LocalZooKeeper
from zk.nodes import Nodes
from zk.replicas import ReplicaRegistry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from integration.chaos.power_cut import Tail
    from kafka2011.replica.known import Known
    from zk.client import ZkClient

BROKER_ID = 0
TOPIC = "chaos-1"
PARTITIONS = 4
SESSION_MS = 2000
LAGS_MS = (1000, 4000)
"""How long a follower may be behind, by the seed: an end of one that has gone is noticed before that, or after it."""
LEADER_SHARE = 0.6
"""Of the faults of a single replica, as many are the leader's."""
ON_ITS_WAY_S = 0.5
"""How long what somebody sent before its end may take to arrive at ZooKeeper."""
_WAIT_S = 4 * SESSION_MS / 1000
_LOOK_S = 0.02
_SETTINGS = {
    "num.partitions": PARTITIONS,
    "log.file.size": 300_000,
    "zk.sessiontimeout.ms": SESSION_MS,
    "zk.connectiontimeout.ms": 30_000,
    "replica.address.gap.ms": 100,
    "log.scrub.interval.hours": 0.001,
    "log.cleanup.interval.mins": 1 / 60,
}


class Flip(NamedTuple):
    """A byte on disk that is not what it was."""

    path: Path
    at: int
    was: int

    @property
    def is_there(self) -> bool:
        """Whether it is still so."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.at)
                return file.read(1) not in {b"", bytes([self.was])}
        except FileNotFoundError:
            return False


class ChaosReplica(ChaosBroker):
    """One of them; `number` is its place among them, for an address of its own."""

    def __init__(
        self,
        name: str,
        number: int,
        directory: Path,
        links: Links,
        step_clock: Path | None,
        settings: dict[str, object],
    ) -> None:
        settings = {**_SETTINGS, **settings, "replica.name": name}
        super().__init__(BROKER_ID, directory, settings, links, step_clock, name=name, host=f"127.0.3.{number + 1}")
        self.direct_port = int(self._usual["port"])

    @property
    def disk_id(self) -> str | None:
        """What its disk says of itself; None if it is empty."""
        known = KnownFile(self.logs).load()
        return None if known is None else known.replica.disk

    def lose_power(self, tail: Tail) -> None:
        """End it, and let what it has not brought to disk vanish."""
        self.kill()
        lose_unsynced(self.logs, self.notes, self.synced, tail)

    def kill_with_watchdog(self) -> None:
        """End it as a machine does that dies: its session lasts until it times out."""
        for child in psutil.Process(self.process.pid).children():
            child.kill()
        self.kill()

    def ends(self) -> dict[int, int]:
        """Return where its log of each partition ends, by what is on disk."""
        found = {}
        for directory in self.logs.glob(f"{TOPIC}-*"):
            files = find_segment_files(directory)
            if files:
                found[int(directory.name.rpartition("-")[2])] = files[-1][0] + files[-1][1].stat().st_size
        return found

    def flip_closed(self, pick: float) -> Flip | None:
        """Turn over a bit in a closed segment, as it is on disk; None if it has none."""
        closed = [
            path
            for directory in sorted(self.logs.glob(f"{TOPIC}-*"))
            for path in sorted(directory.glob("*.kafka"))[:-1]
        ]
        if not closed:
            return None
        path = closed[int(pick * 977) % len(closed)]
        at = int(pick * path.stat().st_size)
        with path.open("r+b") as file:
            file.seek(at)
            [was] = file.read(1)
            file.seek(at)
            file.write(bytes([was ^ 0x10]))
        return Flip(path, at, was)

    def lose_disk(self) -> None:
        """Give it an empty disk; it must not run."""
        for directory in (self.logs, self.synced):
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
        self.notes.unlink(missing_ok=True)

    def segments(self) -> dict[str, bytes]:
        """Return the bytes of each segment."""
        found = {}
        for path in sorted(self.logs.glob("*/*.kafka")):
            with suppress(FileNotFoundError):  # its topic has just been deleted
                found[str(path.relative_to(self.logs))] = path.read_bytes()
        return found


class ReplicaSet:
    """All of them; a context manager. The first one begins, and all are in sync before anything happens.

    The one called `small` has a disk of only `small_bytes`, where it may be mounted. `clocks_s` says by how much each
    wall clock is off from the beginning, where there is a compiler. A follower may be behind by `lag_ms`. There are as
    many gateways as `gateways` says.
    """

    def __init__(
        self, directory: Path, clocks_s: Sequence[float], small: int, small_bytes: int, lag_ms: int, gateways: int = 0
    ) -> None:
        self.lag_ms = lag_ms
        self._small_bytes = small_bytes
        self._stack = ExitStack()
        self._directory = directory
        self._clocks_s = clocks_s
        self._small = small
        self._leader = ""
        self._gateway_count = gateways
        self.gateways: list[ChaosGateway] = []
        self.gone_back: set[str] = set()
        """Whose disks have gone back, and who may not have been put out of sync since then."""
        self.flips: dict[str, Flip] = {}

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        try:
            self._begin()
        except BaseException:
            self._stack.close()
            raise
        return self

    def _begin(self) -> None:
        self.links = self._stack.enter_context(Links())
        self.zookeeper_data = self._directory / "zookeeper"
        self.zookeeper = self._stack.enter_context(LocalZooKeeper(data_dir=self.zookeeper_data))
        self.zk_connect = self.zookeeper.connect_string
        self.all: dict[str, ChaosReplica] = {}
        step_clock = build_step_clock(self._directory)
        for number, (name, off_s) in enumerate(zip("abcdefg", self._clocks_s, strict=False)):
            settings = {"zk.connect": self._connect_for(name), "replica.lag.time.max.ms": self.lag_ms}
            replica = ChaosReplica(name, number, self._directory, self.links, step_clock, settings)
            self.all[name] = replica
            replica.clock.step(off_s)
            self._stack.callback(replica.stop_for_good)
            if number == self._small:
                replica.mount_small_disk(self._small_bytes)
        client = self.connect()
        begun = KnownFile(self.all["a"].logs).load_or_begin("a").replica
        self._registry.begin(ReplicaState.first(begun).text)
        for each in self.all.values():
            each.launch()
        for each in self.all.values():
            each.wait_ready()
        self.await_all()
        create_topic(client, TOPIC)
        for number in range(1, self._gateway_count + 1):
            settings = {**GATEWAY_SETTINGS, "zk.connect": self._connect_for(f"gateway-{number}")}
            gateway = ChaosGateway(number, self._directory, settings)
            self.gateways.append(gateway)
            self._stack.callback(gateway.stop)
            gateway.launch()
        for gateway in self.gateways:
            gateway.wait_ready()

    def _connect_for(self, name: str) -> str:
        """Return where a process finds ZooKeeper, over a link of its own."""
        host, port = self.zk_connect.rsplit(":", 1)
        return self.links.add(f"{name} to zookeeper", (host, int(port))).address

    def connect(self) -> ZkClient:
        """Connect to ZooKeeper, again if it has gone back: what was seen of it before is of no use."""
        self.client = client = self._stack.enter_context(connect(self.zk_connect, 20_000))
        self._registry = ReplicaRegistry(client, BROKER_ID)
        self._brokers = BrokerRegistry(client)
        return client

    def has_joined(self, name: str) -> bool:
        """Say whether a process has come and told what its disk has seen."""
        member, known = self._registry.read().members.get(name), KnownFile(self.all[name].logs).load()
        return member is not None and known is not None and member.seen == known.newest_seen.text

    def session_of(self, name: str) -> int | None:
        """Return which session says that a replica lives; None if none does, as far as is known."""
        node = None
        with suppress(ZkUnavailable):
            node = Nodes(self.client).get(paths.replica_member(BROKER_ID, name))
        return None if node is None else node.owner

    def lead_by_state(self) -> tuple[int, str]:
        """Return the epoch and who leads in it, also before it is registered; 0 and no name if that is unknown."""
        state = None
        with suppress(ZkUnavailable):
            state = self.state()
        return (0, "") if state is None else (state.epoch, "" if state.leader is None else state.leader.name)

    def tells(self, known: Known, has_bytes: int) -> bool:
        """Say whether what is in ZooKeeper tells of a disk that it lacks something, if it is in sync."""
        nodes, me = self._registry.read(), known.replica
        floor = None if nodes.floor is None else ReadableFloor.of(nodes.floor, "the registry")
        state = replace(self.state(), in_sync=frozenset({me}))
        role = choose_role(
            *(me, known.epoch, state, nodes.version, None),
            is_mine=False,
            has_bytes=has_bytes,
            draw="",
            floor=floor,
        )
        return isinstance(role, Wait) and role.has_gone_back

    def are_forgotten(self) -> bool:
        """Have ZooKeeper forget all replicas, once none is alive; say whether that has been done."""
        try:
            remove_replicas(self.client, BROKER_ID)
        except ReplicaChangeError:
            return False
        return True

    def begin_again(self, leader: str, used: str) -> None:
        """Have replicas again, of which one has everything; an operator's mistakes must be refused first."""
        empty = self._directory / "empty"
        empty.mkdir(exist_ok=True)
        for name, log_dir in (("x", empty), (used, self.all[used].logs)):
            try:
                begin_replicas(self.client, BROKER_ID, name, log_dir)
            except ReplicaChangeError:
                continue
            raise AssertionError(f"{log_dir} may have replicas follow it")
        begin_replicas(self.client, BROKER_ID, leader, self.all[leader].logs, accept_loss=True)

    def sound(self) -> set[str]:
        """Return who is in sync with a disk that has not gone back, and has no byte that was turned over, if known.

        Nor a copy of one: a replica that follows a damaged leader may have copied it.
        """
        try:
            in_sync = self.read_in_sync()
        except ZkUnavailable:
            return set()
        self.gone_back &= in_sync
        damaged = {owner: self._with_damage(owner, flip) for owner, flip in self.flips.items()}
        self.flips = {owner: flip for owner, flip in self.flips.items() if damaged[owner]}
        return in_sync - self.gone_back - {name for names in damaged.values() for name in names}

    def _with_damage(self, owner: str, flip: Flip) -> set[str]:
        """Return the replicas that have a turned byte, which one of them had first."""
        place = flip.path.relative_to(self.all[owner].logs)
        return {name for name, each in self.all.items() if flip._replace(path=each.logs / place).is_there}

    def state(self) -> ReplicaState:
        """Return what ZooKeeper says."""
        found = self._registry.read().state
        assert found is not None
        return ReplicaState.of(found, "the registry")

    def leader(self) -> str:
        """Return who is registered as the broker, or was last."""
        found = None
        with suppress(ZkUnavailable):
            found = self._brokers.brokers().get(BROKER_ID)
        for name, each in self.all.items():
            if found is not None and each.direct_port == found.port:
                self._leader = name
        return self._leader

    def in_sync(self) -> set[str]:
        """Return who is in sync, with the disk that it has now, if ZooKeeper answers."""
        try:
            return self.read_in_sync()
        except ZkUnavailable:
            return set()

    def read_in_sync(self) -> set[str]:
        """Return the same. Raises ZkUnavailable."""
        return {each.name for each in self.state().in_sync if self.all[each.name].disk_id == each.disk}

    def await_all(self, timeout_s: float = 60.0) -> None:
        """Wait until all are in sync and one of them is the broker."""
        eventually(lambda: self.in_sync() == set(self.all), timeout_s, what="all in sync")
        eventually(lambda: BROKER_ID in self._brokers.brokers(), timeout_s, what="a registered leader")

    def heal(self) -> None:
        """Open all links, and let everything run."""
        self.zookeeper.resume()
        self.links.open_all()
        for server in (*self.all.values(), *self.gateways):
            server.resume()
            server.launch()

    def __exit__(self, *_: object) -> None:
        self.heal()  # or else nobody ends in order
        stop_all(each.process for each in self.all.values())
        self._stack.close()


def wait_for(condition: Callable[[], bool], most_s: float = _WAIT_S) -> bool:
    """Wait a moment for a condition, and say whether it has come true."""
    ends_s = time.monotonic() + most_s
    is_true = False
    while not is_true and time.monotonic() < ends_s:
        with suppress(ZkUnavailable):
            is_true = condition()
        time.sleep(_LOOK_S)
    return is_true


def launch(replicas: Iterable[ChaosReplica]) -> None:
    """Start replicas, without waiting for them."""
    for each in replicas:
        each.launch()
