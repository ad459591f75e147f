"""Faults that go by whom the replicas themselves believe, not by what a run knows of their disks.

What is confirmed survives while one replica that the state names in sync keeps its disk. So a disk is hurt, and as
soon as the state names its replica in sync again all others lose theirs: it alone must have everything. A replica whose
disk has gone back also starts while all others are down: it must not lead.
"""

from __future__ import annotations

import shutil
import time
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from integration.chaos.faults import Begun
from integration.chaos.links import Mode, Way
from integration.chaos.records import NO_KEY, MessageId, payload_of
from integration.chaos.replica_set import (
    LEADER_SHARE,
    ON_ITS_WAY_S,
    PARTITIONS,
    SESSION_MS,
    TOPIC,
    launch,
    wait_for,
)
from kafka2011.errors import KafkaError
from kafka2011.producer.sync_producer import SyncProducer
from zk.errors import ZkUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from integration.chaos.going_back import Copies
    from integration.chaos.replica_set import ChaosReplica, ReplicaSet
    from integration.chaos.replica_watch import ReplicaWatch
    from integration.chaos.schedule import Fault

WEIGHTS: Mapping[str, float] = {"believed again": 3, "late request": 2, "put back alone": 2, "led before": 2}
LASTS_S: Mapping[str, tuple[float, float]] = {
    "believed": (0.0, 3.0),
    "late": (0.0, 2.0),
    "put": (2.0, 5.0),
    "led": (2.0, 5.0),
}
_EMPTY_SHARE, _COPY_SHARE = 1 / 3, 1 / 2
_RETURN_S = 15.0
"""How long a replica may take to come back, and to be in sync again."""
_LONGEST_TRUST_S = 0.5
"""For so long at most others keep their disks after a replica is in sync again."""
_ASKED_S = 0.7
"""How long a follower's last request is held back before it ends: it has asked by then, and is still in sync."""
_MACHINE_SHARE = 2 / 3
"""Of the replicas that have lost an end, as many are machines that have died."""
_SESSION_SEEN_S = SESSION_MS / 1000 / 2
"""From then on a leader stops until its follower has come back: it does not see it go."""
_MOMENT_S = 0.15
"""A follower that has come back runs for so long at most, until it stops."""
_HEARD_S = 1.0
"""How long it may take until a request that is late is believed."""
_TAIL_MESSAGES = 4000
"""More than producers send until a leader that was killed is in sync again."""


class Sender(Protocol):
    """Whoever sends messages all the while."""

    def quiet(self) -> AbstractContextManager[None]:
        """Have it send nothing in this block."""


class OtherFaults(Protocol):
    """What all faults among replicas share: whom they may hurt, and how links are turned."""

    leader: str

    def are_well(self) -> bool:
        """Say whether nobody suffers anything, and all are in sync, perhaps soon."""

    def choose(self, fault: Fault, leader_share: float = ..., /) -> ChaosReplica | None:
        """Return who is to suffer a fault; None if there is nobody who runs unharmed."""

    def turn(
        self, name: str, mode: Mode, ways: tuple[Way, ...], replica: ChaosReplica, only: ChaosReplica | None = None
    ) -> Begun:
        """Have a link do something until the fault ends, to all of its users or to one alone."""


class BeliefFaults:
    """Faults of this kind. `lacking` has what was wrong: who was in sync without having everything."""

    def __init__(
        self,
        faults: OtherFaults,
        replicas: ReplicaSet,
        copies: Copies,
        watch: ReplicaWatch,
        senders: Sequence[Sender],
    ) -> None:
        self.kinds = {
            "believed again": self._believe_again,
            "late request": self._deliver_late,
            "put back alone": self._put_back_alone,
            "led before": self._put_back_former_leader,
        }
        self.lacking: list[str] = []
        self._faults = faults
        self._replicas = replicas
        self._copies = copies
        self._watch = watch
        self._senders = senders
        self._tails = 0

    @property
    def _every(self) -> list[ChaosReplica]:
        return list(self._replicas.all.values())

    def _is_in_sync(self, replica: ChaosReplica) -> bool:
        return replica.name in self._replicas.read_in_sync()

    def _is_another_sound(self, replica: ChaosReplica) -> bool:
        """Say whether another one in sync has all: while all were killed, the last may have put the others out."""
        return bool(self._replicas.sound() - {replica.name})

    # While the others run

    def _believe_again(self, fault: Fault) -> Begun | None:
        """Hurt a disk, and have all others lose theirs as soon as its replica is in sync again."""
        replica = self._unharmed(fault)
        if replica is None:
            return None
        replica.kill()
        time.sleep(ON_ITS_WAY_S)
        if self._is_another_sound(replica):
            self._hurt(replica, fault.pick)
        is_out = wait_for(lambda: not self._is_in_sync(replica), _ASKED_S)
        replica.launch()
        is_out = is_out or wait_for(lambda: not self._is_in_sync(replica))
        if not is_out or not wait_for(lambda: self._is_in_sync(replica), _RETURN_S):
            return Begun((replica.name,), lambda: None)
        self._replicas.gone_back.discard(replica.name)
        time.sleep(_LONGEST_TRUST_S * (fault.pick * 7919 % 1))
        return self._lose_all_but(replica)

    def _hurt(self, replica: ChaosReplica, pick: float) -> None:
        if pick * 7907 % 1 < _EMPTY_SHARE:
            replica.lose_disk()
        else:
            self._set_back(replica, pick)

    def _set_back(self, replica: ChaosReplica, pick: float) -> None:
        """Have a disk lack its newest bytes, which only a sum tells, or be an earlier copy, as its epoch may tell."""
        is_put_back = pick * 7877 % 1 < _COPY_SHARE and self._copies.put_back(replica)
        if is_put_back or self._copies.lose_end(replica, pick):
            self._replicas.gone_back.add(replica.name)

    def _deliver_late(self, fault: Fault) -> Begun | None:
        """Hold back what a follower says before its disk loses an end, until it has come back; nobody sends anything.

        Its machine may die with it: then its session lasts, and its leader may not see it go.
        """
        replica = self._unharmed(fault, leader_share=0)
        if replica is None:
            return None
        leader = self._replicas.all[self._faults.leader]
        with ExitStack() as stack:
            for sender in self._senders:
                stack.enter_context(sender.quiet())
            held = self._faults.turn(f"clients to {leader.name}", Mode.FROZEN, (Way.FORTH,), replica, only=replica)
            stack.callback(held.undo)
            time.sleep(_ASKED_S)
            if not self._return_without_end(replica, leader, fault.pick):
                return Begun((replica.name,), replica.launch)
            held.undo()
            if wait_for(lambda: self._is_in_sync(replica), _HEARD_S):
                begun = self._lose_all_but(replica)
                replica.resume()
                return begun
        return Begun((replica.name,), replica.resume)

    def _return_without_end(self, replica: ChaosReplica, leader: ChaosReplica, pick: float) -> bool:
        """Have a replica lose an end, come back, and stop when it is out of sync; say whether it has."""
        session = self._replicas.session_of(replica.name)
        with_machine = pick * 7901 % 1 < _MACHINE_SHARE
        if with_machine:
            replica.kill_with_watchdog()
        else:
            replica.kill()
        if not self._copies.lose_end(replica, pick, must_be_told=False):
            return False
        self._replicas.gone_back.add(replica.name)
        replica.launch()
        if with_machine:
            time.sleep(_SESSION_SEEN_S)
            leader.pause()
        wait_for(lambda: self._replicas.session_of(replica.name) not in {None, session}, _RETURN_S)
        leader.resume()
        time.sleep(_MOMENT_S * (pick * 7919 % 1))
        replica.pause()
        is_out = wait_for(lambda: not self._is_in_sync(replica))
        if is_out:
            self._replicas.gone_back.discard(replica.name)
        else:
            replica.resume()
        return is_out

    def _lose_all_but(self, replica: ChaosReplica) -> Begun:
        """End all others, and empty their disks if the state says by then that this one has everything."""
        others = [each for each in self._every if each is not replica]
        for each in others:
            each.kill()
        time.sleep(ON_ITS_WAY_S)
        if replica.name in self._replicas.in_sync():
            self._note_lacking(replica)
            for each in others:
                each.lose_disk()
        return Begun(tuple(each.name for each in others), lambda: launch(others))

    def _note_lacking(self, replica: ChaosReplica) -> None:
        ends = replica.ends()
        for partition, end in self._watch.ends.items():
            if ends.get(partition, 0) < end:
                self.lacking.append(
                    f"{replica.name} is in sync, and ends at {ends.get(partition, 0)} in partition {partition},"
                    f" of which clients could read {end}"
                )

    # While the others are down

    def _put_back_alone(self, fault: Fault) -> Begun | None:
        """Start one whose disk has gone back before all others."""
        replica = self._unharmed(fault)
        if replica is None:
            return None
        for each in self._every:
            each.kill()
        time.sleep(ON_ITS_WAY_S)
        if self._is_another_sound(replica):
            self._set_back(replica, fault.pick)
        return self._start_alone(replica)

    def _put_back_former_leader(self, fault: Fault) -> Begun | None:
        """Put back what a leader had when it ended, after it has followed the next one; it starts before all others.

        It has more by then than was readable, as it took what nobody else got. So only the epoch tells that it has gone
        back.
        """
        replica = self._unharmed(fault, leader_share=1)
        if replica is None:
            return None
        cut = self._faults.turn(f"clients to {replica.name}", Mode.CUT, tuple(Way), replica)
        with _undone(cut.undo):  # not frozen: what it has sent by then would arrive after it has ended
            self._send_to_it_alone(replica, int(fault.pick * 7919) % PARTITIONS)
            replica.kill()
        copy = self._copies.make(replica)
        wait_for(lambda: not self._is_in_sync(replica), _RETURN_S)
        replica.launch()
        if not wait_for(lambda: self._is_in_sync(replica), _RETURN_S):
            return Begun((replica.name,), lambda: None)
        for each in self._every:
            each.kill()
        time.sleep(ON_ITS_WAY_S)
        if self._is_another_sound(replica) and self._copies.replace(replica, copy):
            self._replicas.gone_back.add(replica.name)
        shutil.rmtree(copy)
        return self._start_alone(replica)

    def _send_to_it_alone(self, leader: ChaosReplica, partition: int) -> None:
        """Have a leader take messages that no follower gets, and that nobody waits for."""
        self._tails += 1
        messages = [payload_of(MessageId(f"tail{self._tails}", number), NO_KEY) for number in range(_TAIL_MESSAGES)]
        due = leader.ends().get(partition, 0) + sum(map(len, messages))
        with suppress(KafkaError), SyncProducer("127.0.0.1", leader.direct_port) as producer:
            producer.send(TOPIC, messages, partition)
            wait_for(lambda: leader.ends().get(partition, 0) > due, _ASKED_S)

    def _start_alone(self, replica: ChaosReplica) -> Begun:
        epoch_before, _ = self._replicas.lead_by_state()
        replica.launch()

        def undo() -> None:
            epoch, leader = self._replicas.lead_by_state()
            if 0 < epoch_before < epoch and leader == replica.name in self._replicas.gone_back:
                self.lacking.append(f"{replica.name} leads, and ZooKeeper tells that its disk has gone back")
            launch(self._every)
            wait_for(lambda: replica.name not in self._replicas.gone_back & self._replicas.read_in_sync())
            with suppress(ZkUnavailable):
                self._replicas.sound()

        return Begun(tuple(self._replicas.all), undo)

    def _unharmed(self, fault: Fault, leader_share: float = LEADER_SHARE) -> ChaosReplica | None:
        """Return the leader, in a share of the cases, or a follower, if all are in sync and nobody suffers anything."""
        if not self._faults.are_well() or self._replicas.sound() != set(self._replicas.all):
            return None
        self._faults.leader = self._replicas.lead_by_state()[1] or self._faults.leader
        return self._faults.choose(fault, leader_share)


@contextmanager
def _undone(undo: Callable[[], object]) -> Iterator[None]:
    try:
        yield
    finally:
        undo()
