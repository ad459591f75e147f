"""Does to replicas what a schedule says, and undoes it."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from integration.chaos import belief
from integration.chaos.cluster import READY
from integration.chaos.faults import Begun, Faults
from integration.chaos.links import Mode, Way
from integration.chaos.power_cut import TAILS
from integration.chaos.replica_set import BROKER_ID, LEADER_SHARE, ON_ITS_WAY_S, SESSION_MS, launch, wait_for
from integration.chaos.schedule import FAULTS_OF_GATEWAYS, GATEWAY_LINK
from kafka2011.admin.replicas import candidates, elect
from zk.errors import ZkUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from integration.chaos.gateway import ChaosGateway
    from integration.chaos.going_back import Copies, ZooKeeperCopy
    from integration.chaos.power_cut import Tail
    from integration.chaos.remade_topic import RemadeTopic
    from integration.chaos.replica_set import ChaosReplica, ReplicaSet
    from integration.chaos.replica_watch import ReplicaWatch
    from integration.chaos.schedule import Fault

WEIGHTS: Mapping[str, float] = {
    "kill": 4,
    "pause": 3,
    "stop": 1,
    "wipe": 4,
    "power cut": 3,
    "power cut of all": 1,
    "disk full": 1,
    "link": 5,
    "slow": 2,
    "zookeeper pauses": 1,
    "left behind": 1.5,
    "outrun": 1.5,
    "wiped alone": 1,
    "no files": 1,
    "disk put back": 3,
    "end lost": 2,
    "zookeeper put back": 1,
    "bit flip": 2,
    "topic deleted": 2,
    "init again": 1,
    **belief.WEIGHTS,
}
LINKS = ("follower-leader", "follower-leader", "all-leader", "replica-zookeeper", "replica-zookeeper")
GATEWAY_WEIGHTS: Mapping[str, float] = {**WEIGHTS, **FAULTS_OF_GATEWAYS}
GATEWAY_LINKS = (*LINKS, GATEWAY_LINK)
LASTS_S: Mapping[str, tuple[float, float]] = {
    "kill": (0.0, 4.0),
    "pause": (0.3, 5.0),
    "stop": (0.0, 4.0),
    "wipe": (0.0, 4.0),
    "power": (0.0, 4.0),
    "disk": (1.5, 5.0),
    "link": (0.3, 7.0),
    "slow": (2.0, 8.0),
    "zookeeper": (0.5, 4.0),
    "left": (3.0, 6.0),
    "outrun": (2.0, 5.0),
    "wiped": (3.0, 6.0),
    "no": (0.5, 5.0),
    "end": (1.5, 4.0),
    "bit": (0.0, 0.0),
    "topic": (0.0, 0.0),
    "init": (0.0, 3.0),
    **belief.LASTS_S,
}
ZOOKEEPER = "zookeeper"
_SLOW_STOPS_S, _SLOW_RUNS_S = 0.4, 0.1
_POWER_SHARE = 0.5
_COPY_SHARE = 0.4
"""Of the times at which ZooKeeper would be put back, it is copied."""
_OUTRUN_SHARE = 1 / 2


class ReplicaFaults(Faults):
    """The faults that replicas may suffer."""

    def __init__(
        self,
        replicas: ReplicaSet,
        copies: Copies,
        zookeeper: ZooKeeperCopy,
        remade_topic: RemadeTopic,
        watch: ReplicaWatch,
        senders: Sequence[belief.Sender],
    ) -> None:
        self._replicas = replicas
        self._copies = copies
        self._remade_topic = remade_topic
        self._zookeeper = zookeeper
        self.leader = replicas.leader()
        self.belief = belief.BeliefFaults(self, replicas, copies, watch, senders)
        kinds = {
            "kill": lambda fault: self.ended(self.choose(fault), lambda replica: replica.kill()),
            "stop": lambda fault: self.ended(self.choose(fault), lambda replica: replica.stop()),
            "power cut": lambda fault: self.ended(self.choose(fault), lambda replica: replica.lose_power(_tail(fault))),
            "power cut of all": self._cut_power_of_all,
            "pause": lambda fault: self.paused(self.choose(fault)),
            "wipe": self._wipe,
            "disk full": lambda _: self.filled(replicas.all.values()),
            "link": self._link,
            "slow": self._slow,
            "zookeeper pauses": self._pause_zookeeper,
            "left behind": self._leave_behind,
            "outrun": self._outrun,
            "wiped alone": self._wipe_alone,
            "no files": self._forbid_files,
            "disk put back": lambda fault: self._hurt(fault, self._copies.put_back),
            "end lost": lambda fault: self._hurt(fault, lambda replica: self._copies.lose_end(replica, fault.pick)),
            "zookeeper put back": self._put_zookeeper_back,
            "bit flip": self._flip,
            "topic deleted": self._delete_topic,
            "init again": self._init_again,
            **self.belief.kinds,
        }
        super().__init__(kinds, replicas.all.values(), replicas.gateways)

    def begin(self, fault: Fault) -> Begun | None:
        """Begin a fault; None when there is nobody left who could suffer it."""
        if ZOOKEEPER not in self.suffering:
            self.leader = self._replicas.leader()
        return super().begin(fault)

    def role_of(self, begun: Begun) -> str:
        """Say of whom a fault is, if it is of one replica: of the leader, as far as is known, or a follower."""
        if len(begun.whom) != 1 or begun.whom[0] not in self._replicas.all:
            return ""
        return " of the leader" if begun.whom[0] == self.leader else " of a follower"

    # Processes and disks -----------------------------------------------------------------------------------------

    def _cut_power_of_all(self, fault: Fault) -> Begun | None:
        every = [each for each in self._replicas.all.values() if each.running]
        if not every or self._harmed.difference({ZOOKEEPER}):
            return None
        for each in every:
            each.kill()
        for each in every:
            each.lose_power(_tail(fault))
        return Begun(tuple(each.name for each in every), lambda: launch(every))

    def _wipe(self, fault: Fault) -> Begun | None:
        replica = self.choose(fault)
        if replica is None or ZOOKEEPER in self.suffering:
            return None
        replica.kill()
        self._lose_disk(replica)
        return Begun((replica.name,), replica.launch)

    def _lose_disk(self, replica: ChaosReplica) -> bool:
        """Empty the disk of a replica that has ended, if another one in sync has all that it had."""
        time.sleep(ON_ITS_WAY_S)
        may_be_lost = bool(self._replicas.sound() - {replica.name})
        if may_be_lost:
            replica.lose_disk()
        return may_be_lost

    def _hurt(self, fault: Fault, hurt: Callable[[ChaosReplica], bool]) -> Begun | None:
        """Hurt the disk of a replica that has ended, if another one in sync has all that it had."""
        replica = self.choose(fault)
        if replica is None or ZOOKEEPER in self.suffering:
            return None
        replica.kill()
        time.sleep(ON_ITS_WAY_S)
        if self._replicas.sound() - {replica.name} and hurt(replica):
            self._replicas.gone_back.add(replica.name)

        def undo() -> None:
            replica.launch()
            wait_for(lambda: replica.name not in self._replicas.gone_back & self._replicas.read_in_sync())
            with suppress(ZkUnavailable):
                self._replicas.sound()

        return Begun((replica.name,), undo)

    def _flip(self, fault: Fault) -> Begun | None:
        """Turn over a bit at a follower, if all others have good bytes: it repairs that by one of them."""
        replica = self.choose(fault, leader_share=0)
        if replica is None or ZOOKEEPER in self.suffering or self._replicas.sound() != set(self._replicas.all):
            return None
        flip = replica.flip_closed(fault.pick)
        if flip is None:
            return None
        self._replicas.flips[replica.name] = flip
        return Begun((replica.name,), lambda: None)

    def _forbid_files(self, fault: Fault) -> Begun | None:
        """Let a replica open no file, unless it has only begun to start: Python itself would end."""
        replica = self.choose(fault)
        if replica is None or READY not in replica.output():
            return None
        replica.forbid_files()
        return Begun((replica.name,), replica.allow_files)

    def _put_zookeeper_back(self, fault: Fault) -> Begun | None:
        """Have a follower be out of sync, and ZooKeeper go back to a copy in which it is not; or make such a copy.

        The one that led last is started first, as docs/how-to/operations.md says.
        """
        leader = self.leader
        if not self.are_well():
            return None
        if fault.pick < _COPY_SHARE:
            self._zookeeper.renew()
            return None
        every = list(self._replicas.all.values())
        follower = next(each for each in every if each.name != leader)
        follower.kill()
        wait_for(lambda: follower.name not in self._replicas.read_in_sync())
        time.sleep(ON_ITS_WAY_S)
        for each in every:
            each.kill()
        self._replicas.zookeeper.kill()
        time.sleep(ON_ITS_WAY_S + SESSION_MS / 1000)
        self._zookeeper.put_back()
        self._replicas.connect()
        self._replicas.all[leader].launch()
        wait_for(lambda: self._replicas.has_joined(leader))

        def undo() -> None:
            launch(every)
            wait_for(self._is_proposed_elected)  # or nobody has seen more than the copy has

        return Begun((*self._replicas.all, ZOOKEEPER), undo)

    def _delete_topic(self, _: Fault) -> Begun | None:
        """Delete a topic, as an operator does; its producer makes it anew."""
        if ZOOKEEPER in self.suffering or not self._remade_topic.delete(self._replicas.client):
            return None
        return Begun((), lambda: None)

    def _init_again(self, fault: Fault) -> Begun | None:
        """Forget the replicas, and begin anew with the leader's disk; an empty and a used directory are refused."""
        leader = self.leader
        if not self.are_well() or self._replicas.sound() != set(self._replicas.all):
            return None
        every = list(self._replicas.all.values())
        for each in every:
            each.kill()
        if not wait_for(self._replicas.are_forgotten):
            return Begun(tuple(self._replicas.all), lambda: launch(every))
        other = every[int(fault.pick * 997) % len(every)]
        self._replicas.begin_again(leader, other.name)
        self._replicas.all[leader].launch()
        return Begun(tuple(self._replicas.all), lambda: launch(every))

    def _is_proposed_elected(self) -> bool:
        """Elect whoever is proposed, once all are there; those that only the copy has go with their sessions."""
        client = self._replicas.client
        alive = candidates(client, BROKER_ID)
        best = next((candidate.replica for candidate in alive if candidate.is_proposed), None)
        if best is None or len(alive) < len(self._replicas.all):
            return False
        elect(client, BROKER_ID, best.name)
        return True

    def _slow(self, fault: Fault) -> Begun | None:
        """Let a follower run for a part of the time only."""
        replica = self.choose(fault, leader_share=0)
        if replica is None:
            return None
        over = threading.Event()

        def stop_and_go() -> None:
            while not over.is_set():
                replica.pause()
                over.wait(_SLOW_STOPS_S)
                replica.resume()
                over.wait(_SLOW_RUNS_S)

        thread = threading.Thread(target=stop_and_go, daemon=True)
        thread.start()

        def undo() -> None:
            over.set()
            thread.join()

        return Begun((replica.name,), undo)

    def _pause_zookeeper(self, fault: Fault) -> Begun | None:
        if ZOOKEEPER in self.suffering:
            return None
        self._replicas.zookeeper.pause()
        return Begun((ZOOKEEPER,), self._replicas.zookeeper.resume)

    # Links -------------------------------------------------------------------------------------------------------

    def _link(self, fault: Fault) -> Begun | None:
        mode, ways = Mode(fault.mode), tuple(Way) if fault.ways == "both" else (Way(fault.ways),)
        if fault.between == GATEWAY_LINK:
            gateway = self.choose_gateway(fault)
            return None if gateway is None else self.turn(f"{gateway.name} to zookeeper", mode, ways, gateway)
        replica = self.choose(fault, leader_share=0 if fault.between == "follower-leader" else LEADER_SHARE)
        if replica is None:
            return None
        if fault.between == "follower-leader":
            return self.turn(f"clients to {self.leader}", mode, ways, replica, only=replica)
        if fault.between == "all-leader":
            return self.turn(f"clients to {replica.name}", mode, ways, replica)
        return self.turn(f"{replica.name} to zookeeper", mode, ways, replica)

    def turn(
        self,
        name: str,
        mode: Mode,
        ways: tuple[Way, ...],
        server: ChaosReplica | ChaosGateway,
        only: ChaosReplica | None = None,
    ) -> Begun:
        link = self._replicas.links.every[name]
        link.turn(mode, ways, only_pid=None if only is None else only.process.pid)
        return Begun((server.name,), lambda: link.turn(Mode.OPEN))

    # Several things at once --------------------------------------------------------------------------------------

    def _leave_behind(self, fault: Fault) -> Begun | None:
        """Cut a follower off until it is out of sync, and then let all others end: it must not lead."""
        leader = self._replicas.all[self.leader]
        if not leader.running or not self.are_well():
            return None
        follower = self.choose(fault, leader_share=0)
        if follower is None:
            return None
        cut = self.turn(f"clients to {leader.name}", Mode.CUT, tuple(Way), follower, only=follower)
        wait_for(lambda: follower.name not in self._replicas.read_in_sync())
        others = [each for each in self._replicas.all.values() if each is not follower]
        for each in others:
            each.kill()

        def undo() -> None:
            launch(others)
            cut.undo()

        return Begun(tuple(self._replicas.all), undo)

    def _outrun(self, fault: Fault) -> Begun | None:
        """Let nothing come to a follower that is in sync, and then let all others end: it may lead."""
        leader = self._replicas.all[self.leader]
        if not leader.running or not self.are_well():
            return None
        follower = self.choose(fault, leader_share=0)
        if follower is None:
            return None
        frozen = self.turn(f"clients to {leader.name}", Mode.FROZEN, tuple(Way), follower, only=follower)
        time.sleep(self._replicas.lag_ms / 1000 * _OUTRUN_SHARE)
        others = [each for each in self._replicas.all.values() if each is not follower]
        for each in others:
            each.kill()
        if fault.pick < _POWER_SHARE:
            for each in others:
                each.lose_power(_tail(fault))
        frozen.undo()
        return Begun(tuple(each.name for each in others), lambda: launch(others))

    def _wipe_alone(self, fault: Fault) -> Begun | None:
        """Let all end, and start one of them without its disk: its name must not be enough to lead."""
        if not self.are_well():
            return None
        replica = self.choose(fault)
        if replica is None:
            return None
        every = list(self._replicas.all.values())
        for each in every:
            each.kill()
        if self._lose_disk(replica):
            replica.launch()
        return Begun(tuple(self._replicas.all), lambda: launch(every))

    def are_well(self) -> bool:
        """Say whether nobody suffers anything, but for gateways, and all are in sync, perhaps soon."""
        return not self._harmed and wait_for(lambda: self._replicas.read_in_sync() == set(self._replicas.all))

    @property
    def _harmed(self) -> set[str]:
        """Who suffers something, but for gateways: replicas go on without them."""
        return self.suffering - {gateway.name for gateway in self._replicas.gateways}

    # Choices -----------------------------------------------------------------------------------------------------

    def choose(self, fault: Fault, leader_share: float = LEADER_SHARE) -> ChaosReplica | None:
        """Return the leader, in a share of the cases, or a follower; None if there is nobody who runs unharmed."""
        able = [each for each in self.able(self._replicas.all.values()) if each.running]
        leader = next((each for each in able if each.name == self.leader), None)
        if fault.pick < leader_share and leader is not None:
            return leader
        followers = [each for each in able if each is not leader]
        return followers[int(fault.pick * 997) % len(followers)] if followers else None


def _tail(fault: Fault) -> Tail:
    return TAILS[int(fault.pick * 991) % len(TAILS)]
