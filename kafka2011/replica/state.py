"""What the replicas of a broker id agree on: the state, its text in a znode, and how it changes hands.

A broker id is a role that several processes may fill, each with a log.dir of its own; one of them leads at a time. The
state is written only on the version that was read, so there is one line of epochs, and in each at most one leader.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from kafka2011.errors import KafkaError
from kafka2011.json_document import read_document
from kafka2011.replica.lineage import BegunEpoch, SeenState, begin_epoch, is_of_line

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_DISK = re.compile(r"[0-9a-f]{1,64}")


class ReplicaStateError(KafkaError):
    """The state of a broker id's replicas, or what a replica knows of itself, cannot be read, used or kept."""


class Replica(NamedTuple):
    """One copy: the name of its process, and the id that its log.dir got at random, which a new disk has not."""

    name: str
    disk: str

    def __str__(self) -> str:
        return f"{self.name}:{self.disk}"

    @classmethod
    def of(cls, text: object) -> Self:
        """Read `name:disk`. Raises ValueError."""
        name, _, disk = text.partition(":") if isinstance(text, str) else ("", "", "")
        if not _NAME.fullmatch(name) or not _DISK.fullmatch(disk):
            raise ValueError(f"{text!r} is not a replica's name:disk")
        return cls(name, disk)


@dataclass(frozen=True, slots=True)
class ReadableFloor:
    """What a leader noted in an epoch: the sum of the readable ends of all partitions, in bytes.

    Whoever is in sync has no less than that on its disk. After a later accepted loss it says nothing.
    """

    epoch: int
    readable_bytes: int

    @property
    def text(self) -> str:
        """The znode's text."""
        return json.dumps({"epoch": self.epoch, "readable_bytes": self.readable_bytes})

    @classmethod
    def of(cls, text: str | bytes, where: str) -> Self:
        """Read the znode's text; `where` names it in the ReplicaStateError that is raised if it is not one."""
        return read_document(text, cls._of_document, ReplicaStateError, f"the readable floor in {where} is not one")

    @classmethod
    def _of_document(cls, document: dict[str, Any]) -> Self:
        epoch, readable_bytes = document["epoch"], document["readable_bytes"]
        if any(type(number) is not int or number < 0 for number in (epoch, readable_bytes)):
            raise ValueError(f"{readable_bytes!r} bytes in epoch {epoch!r}")
        return cls(epoch, readable_bytes)


class DeletedTopic(NamedTuple):
    """A topic that was deleted when an epoch began, and which of the operators' requests that was."""

    topic: str
    epoch: int
    request: str

    @classmethod
    def of(cls, document: object) -> Self:
        """Read it from a part of a JSON document. Raises ValueError."""
        match document:
            case [str(topic), int(epoch), str(request)]:
                return cls(topic, epoch, request)
        raise ValueError(f"{document!r} is not a topic, an epoch and a request")


MOST_DELETIONS = 200
"""How many topics are remembered as deleted. A replica that was away for longer needs an empty log.dir."""


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """Who leads since which epoch, and who has all that may be read, `in_sync`.

    `loss_epoch` is the epoch in which an operator last gave up what the elected replica did not have; 0 if never.
    `settled` is the newest epoch that all in in_sync have on their disks: 0 if no leader has said so. `line` has the
    newest epochs, each with the znode's version that began it; it is empty if an older release wrote the state.
    `deleted` has the topics that were deleted last, each once: a disk that has not seen its epoch has still to do so.
    """

    epoch: int
    leader: Replica | None
    in_sync: frozenset[Replica]
    loss_epoch: int = 0
    settled: int = 0
    line: tuple[BegunEpoch, ...] = ()
    deleted: tuple[DeletedTopic, ...] = ()

    @property
    def text(self) -> str:
        """The znode's text."""
        document: dict[str, Any] = {
            "epoch": self.epoch,
            "leader": None if self.leader is None else str(self.leader),
            "in_sync": sorted(map(str, self.in_sync)),
        }
        if self.loss_epoch:
            document["loss_epoch"] = self.loss_epoch
        if self.settled:
            document["settled"] = self.settled
        if self.line:
            document["line"] = self.line
        if self.deleted:
            document["deleted"] = self.deleted
        return json.dumps(document)

    @classmethod
    def of(cls, text: str | bytes, where: str) -> Self:
        """Read the znode's text; `where` names it in the ReplicaStateError that is raised if it is not one."""
        return read_document(text, cls._of_document, ReplicaStateError, f"the state of replicas in {where} is not one")

    @classmethod
    def _of_document(cls, document: dict[str, Any]) -> Self:
        epoch, leader = document["epoch"], document["leader"]
        loss_epoch, settled = document.get("loss_epoch", 0), document.get("settled", 0)
        if type(epoch) is not int or any(type(it) is not int or not 0 <= it <= epoch for it in (loss_epoch, settled)):
            raise ValueError(f"epoch {epoch!r} with a loss in {loss_epoch!r}, settled in {settled!r}")
        in_sync = frozenset(map(Replica.of, document["in_sync"]))
        if not in_sync or len({each.name for each in in_sync}) < len(in_sync):
            raise ValueError("in_sync names nobody, or somebody twice")
        line = tuple(map(BegunEpoch.of, document.get("line", ())))
        deleted = tuple(map(DeletedTopic.of, document.get("deleted", ())))
        leads = None if leader is None else Replica.of(leader)
        return cls(epoch, leads, in_sync, loss_epoch, settled, line, deleted)

    @classmethod
    def first(cls, replica: Replica, draw: str = "", seen_epoch: int = 0) -> Self:
        """Return the state with which replicas begin: the log.dir of this one has everything.

        If it has seen an epoch, another log.dir may have more, and an operator has accepted the loss of that.
        """
        epoch = seen_epoch + 1 if seen_epoch else 0
        return cls(epoch, None, frozenset({replica}), loss_epoch=epoch, line=(BegunEpoch(epoch, draw, 0),))

    def led_by(self, replica: Replica, version: int, draw: str) -> ReplicaState:
        """Return the state in which a replica begins to lead: a new epoch, and the same in_sync.

        It is to be written on that version.
        """
        epoch = self.epoch + 1
        return replace(self, epoch=epoch, leader=replica, line=self._line_with(epoch, version, draw))

    def with_in_sync(self, replicas: frozenset[Replica], settled: int) -> ReplicaState:
        """Return the state with others in sync, who have that epoch on their disks, in the same epoch."""
        return replace(self, in_sync=replicas, settled=settled)

    def elected(self, replica: Replica, version: int, draw: str, seen_epoch: int = 0) -> ReplicaState:
        """Return the state after an operator gave up all that a replica does not have. It has yet to take the lead.

        It is to be written on that version, and its epoch is above the highest that any replica has seen.
        """
        epoch = max(self.epoch, seen_epoch) + 1
        line = self._line_with(epoch, version, draw)
        return replace(
            self, epoch=epoch, leader=None, in_sync=frozenset({replica}), loss_epoch=epoch, settled=0, line=line
        )

    def deleting(self, topic: str, request: str, version: int, draw: str) -> ReplicaState:
        """Return the state in which a topic is deleted: a new epoch, in which nobody leads yet.

        It is to be written on that version, by the leader, whose term is over then. Whoever enters a later epoch
        deletes the topic first.
        """
        epoch = self.epoch + 1
        others = [it for it in self.deleted if it.topic != topic][1 - MOST_DELETIONS :]
        deleted = (*others, DeletedTopic(topic, epoch, request))
        return replace(self, epoch=epoch, leader=None, line=self._line_with(epoch, version, draw), deleted=deleted)

    def deleted_since(self, epoch: int) -> frozenset[str]:
        """Return the topics that a disk has still to delete which has seen this epoch, and none after it."""
        return frozenset(it.topic for it in self.deleted if it.epoch > epoch)

    def has_done(self, topic: str, request: str) -> bool:
        """Say whether a topic was deleted because of this request."""
        return any((it.topic, it.request) == (topic, request) for it in self.deleted)

    @property
    def floor_epoch(self) -> int:
        """The epoch before which a readable floor says nothing: less may be readable since."""
        return max(self.loss_epoch, max((it.epoch for it in self.deleted), default=0))

    def _line_with(self, epoch: int, version: int, draw: str) -> tuple[BegunEpoch, ...]:
        return begin_epoch(self.line, BegunEpoch(epoch, draw, version + 1))

    def seen_by(self, replica: Replica, version: int) -> SeenState:
        """Return what a replica's disk keeps of this state, which has that version."""
        newest = self.line[-1] if self.line else None
        draw = newest.draw if newest is not None and newest.epoch == self.epoch else ""
        return SeenState(self.epoch, draw, version, replica in self.in_sync)

    def comes_after(self, seen: SeenState, version: int) -> bool:
        """Say whether this state, of that version, is a later one than one that was seen, or the same.

        If not, ZooKeeper has gone back to a copy of before, and may have gone on from there. What was seen before an
        operator accepted a loss counts no more.
        """
        if seen.epoch < self.loss_epoch:
            return True
        return seen.epoch <= self.epoch and seen.version <= version and is_of_line(self.line, seen)


class StateWrite(NamedTuple):
    """A state to be written, only on that version of the znode."""

    state: ReplicaState
    version: int


class Lead(NamedTuple):
    """To lead: write the state and create the leader's node, in one transaction."""

    write: StateWrite


class Follow(NamedTuple):
    """To follow a leader in its epoch."""

    epoch: int
    leader: Replica


class Wait(NamedTuple):
    """To wait until the state or the leader's node changes. `has_gone_back` if it is because of this disk."""

    reason: str
    has_gone_back: bool = False


def why_too_old(state: ReplicaState, version: int, seen: Mapping[Replica, SeenState]) -> str:
    """Say why nothing may be done by a state of that version: replicas have seen a newer one. Empty if none has.

    `seen` is what each replica's disk knows of. Nobody leads, follows or cuts anything then, until an operator elects
    one.
    """
    newer = {replica: it for replica, it in seen.items() if not state.comes_after(it, version)}
    if not newer:
        return ""
    who = ", ".join(
        f"{replica} has seen epoch {it.epoch}, version {it.version}{', in sync' if it.is_in_sync else ''}"
        for replica, it in sorted(newer.items())
    )
    return (
        f"ZooKeeper has gone back: the state of the replicas is of epoch {state.epoch}, version {version}, and {who}."
        " An operator has to elect one"
    )


class Proposal(NamedTuple):
    """Whom to elect when ZooKeeper has gone back; it `may_lack` something that was readable."""

    replica: Replica
    may_lack: bool


def to_be_elected(state: ReplicaState, version: int, seen: Mapping[Replica, SeenState]) -> Proposal | None:
    """Return whose disk has most when ZooKeeper has gone back; None if the state is not too old.

    Of those that have seen a newer state and were in sync in it, it is the one that has seen the newest. If none was,
    it is one that is in sync by the state that went back; the one with everything may be away.
    """
    newer = {replica: it for replica, it in seen.items() if not state.comes_after(it, version)}
    if not newer:
        return None
    knowing = {replica: it for replica, it in newer.items() if it.is_in_sync}
    others = {replica: it for replica, it in seen.items() if replica in state.in_sync}
    best = max(knowing or others or newer, key=lambda replica: (seen[replica].newness, replica))
    newest = max(it.newness for it in newer.values())
    return Proposal(best, may_lack=best not in knowing or seen[best].newness < newest)


def choose_role(
    me: Replica,
    seen_epoch: int,
    state: ReplicaState,
    version: int,
    node: Replica | None,
    *,
    is_mine: bool,
    has_bytes: int,
    draw: str,
    floor: ReadableFloor | None = None,
) -> Lead | Follow | Wait:
    """Say what a replica that neither leads nor follows has to do; `seen_epoch` is the highest that it ever saw.

    The state was read on that version, after a sync: a server that lags has seen less than this replica. `node` is what
    the leader's node says, None without one, and `is_mine` whether my present session has made it: then the transaction
    that made it was not answered, and the lead is taken once more, in an epoch after that one. So whoever leads began
    its epoch in this process, with an answer. `draw` is a random text for the epoch that would begin. Before this,
    `why_too_old` says whether anything may be done by the state.

    `has_bytes` is the sum of its logs' ends, without topics that it has still to delete, and `floor` was read before
    the state. One that is in sync by the state, and whose disk lacks what all in sync had, has gone back. It waits
    until the leader has put it out: to follow sooner would store the epoch, by which this is known.
    """
    if me in state.in_sync and (lacks := _lacks(seen_epoch, has_bytes, state, floor)):
        return Wait(f"the disk of {me} has gone back to an older state: it is in sync, and {lacks}", has_gone_back=True)
    if node is not None and not is_mine:
        if node == state.leader and node != me:
            return Follow(state.epoch, node)
        return Wait(f"{node} has the leader's node, and {state.leader or 'nobody'} leads")
    if me not in state.in_sync:
        return Wait(f"nobody leads, and {me} is not in sync: {', '.join(sorted(map(str, state.in_sync)))}")
    return Lead(StateWrite(state.led_by(me, version, draw), version))


def _lacks(seen_epoch: int, has_bytes: int, state: ReplicaState, floor: ReadableFloor | None) -> str:
    """Say what a disk has not that all in sync have had; an empty text if it has all that."""
    if seen_epoch < state.settled:
        return f"has not seen epoch {state.settled}, which all in sync have seen"
    if floor is not None and floor.epoch >= state.floor_epoch and has_bytes < floor.readable_bytes:
        missing = floor.readable_bytes - has_bytes
        return f"has {has_bytes} bytes; clients could read {floor.readable_bytes}, so {missing} are missing"
    return ""
