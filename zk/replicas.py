"""The replicas of a broker id in ZooKeeper: who of them lives, who leads, and the state that they agree on.

    /replicas/{id}/state            persistent   what they agree on; written only on the version that was read
    /replicas/{id}/floor            persistent   the least that everybody in sync has; written by the leader alone
    /replicas/{id}/leader           ephemeral    the replica that leads, by name and disk
    /replicas/{id}/members/{name}   ephemeral    where a replica listens, and its disk's id

What the texts of `state`, `floor` and `leader`, and a member's `seen`, mean is up to whoever uses this; here they are
text with a version and an owner.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from zk import ephemeral, paths
from zk.cluster import text_from
from zk.errors import MalformedNode, NoNode
from zk.nodes import ANY_VERSION, Check, Creation, Nodes, Write

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zk.client import ZkClient
    from zk.nodes import Node, Watch

MAX_PORT = 65535


@dataclass(frozen=True, slots=True)
class Member:
    """A replica that lives: where other replicas reach it, by TLS or not, and the id of its disk.

    `trouble` says why it can neither lead nor follow, if an operator should know, and `damage` what is damaged on its
    disk, which keeps it from nothing. `seen` is the newest state that its disk knows of, `speaks` has the numbers of
    the requests of replicas that it answers. Each is empty if it says nothing of that. `session` is the ZooKeeper
    session that made the znode, 0 before it is made; it is not part of the text.
    """

    host: str
    port: int
    disk: str
    by_tls: bool = False
    trouble: str = ""
    seen: str = ""
    damage: str = ""
    speaks: tuple[int, ...] = ()
    session: int = 0

    @property
    def text(self) -> str:
        """What stands in its znode."""
        document: dict[str, Any] = {"host": self.host, "port": self.port, "disk": self.disk}
        if self.by_tls:
            document["tls"] = True
        if self.trouble:
            document["trouble"] = self.trouble
        if self.seen:
            document["seen"] = self.seen
        if self.damage:
            document["damage"] = self.damage
        if self.speaks:
            document["speaks"] = self.speaks
        return json.dumps(document)

    @classmethod
    def from_node(cls, path: str, data: bytes | None, session: int = 0) -> Self:
        """Read a znode's text. Raises MalformedNode."""
        text = text_from(path, data)
        try:
            document = json.loads(text)
            host, port, disk = document["host"], document["port"], document["disk"]
            by_tls, speaks = document.get("tls", False), tuple(document.get("speaks", ()))
            trouble, seen, damage = (document.get(key, "") for key in ("trouble", "seen", "damage"))
        except (ValueError, RecursionError, TypeError, KeyError, AttributeError) as error:
            raise MalformedNode(path, text, "not a replica's address") from error
        is_good = isinstance(host, str) and host and type(port) is int and 0 < port <= MAX_PORT
        are_texts = all(isinstance(it, str) for it in (disk, trouble, seen, damage))
        if not (is_good and are_texts and isinstance(by_tls, bool) and all(type(it) is int for it in speaks)):
            raise MalformedNode(path, text, "not a replica's address")
        return cls(host, port, disk, by_tls, trouble, seen, damage, speaks, session)


class ReplicaNodes(NamedTuple):
    """What there is of a broker id. `state` is None without replicas; `leader` is None while nobody leads.

    `floor` is None before one was noted. It was read before `state`.

    `is_mine` says whether this session has made the leader's node. Members whose znodes are malformed are left out.
    """

    state: str | None
    version: int
    leader: str | None
    is_mine: bool
    members: Mapping[str, Member]
    floor: str | None = None


class ReplicaRegistry:
    """Reads and writes /replicas/{id} in one session; without `session_id`, in any.

    Every method raises ZkUnavailable when ZooKeeper does not answer: then a write may have been done, or may still be.
    """

    def __init__(self, client: ZkClient, broker_id: int, session_id: int | None = None) -> None:
        self._nodes = Nodes(client, session_id)
        self._broker_id = broker_id
        self._state = paths.replica_state(broker_id)
        self._leader = paths.replica_leader(broker_id)
        self._floor = paths.replica_floor(broker_id)

    def read(self, watch: Watch | None = None) -> ReplicaNodes:
        """Return what there is, as of now: the server asks the leader first. The watch fires when any of it changes."""
        nodes = self._nodes
        session_id = nodes.session_id
        nodes.sync()
        members = nodes.read_children(paths.replica_members(self._broker_id), watch, watch_data=True)
        wanted = [self._leader, self._floor, self._state]
        nodes_read = nodes.get_many(wanted, lambda path: None if path == self._floor else watch)
        leader = nodes_read.get(self._leader)
        if leader is None and watch is not None:
            # To be told of one that comes. One that came meanwhile is seen the next time: the watch is for its end.
            nodes.exists(self._leader, watch)
        floor, state = nodes_read.get(self._floor), nodes_read.get(self._state)
        return ReplicaNodes(
            None if state is None else text_from(self._state, state.data),
            -1 if state is None else state.version,
            None if leader is None else text_from(self._leader, leader.data),
            leader is not None and leader.owner == session_id,
            _members(members),
            None if floor is None else text_from(self._floor, floor.data),
        )

    def begin(self, state: str) -> None:
        """Make the first state. Raises NodeExists when there is one."""
        self._delete_floor()  # one of before the replicas were removed by an older release
        self._nodes.create_with_parents(self._state, state.encode())

    def write(self, state: str, version: int) -> int:
        """Write the state on that version, and return the new one. Raises VersionConflict, and NoNode."""
        return self._nodes.set(self._state, state.encode(), version)

    def note_floor(self, floor: str, version: int) -> None:
        """Write the floor if the state has that version. Raises VersionConflict, NodeExists and NoNode if not."""
        step = (
            Creation(self._floor, floor.encode())
            if not self._nodes.exists(self._floor)
            else Write(self._floor, floor.encode(), ANY_VERSION)
        )
        self._nodes.transact([self.check(version), step])

    def _delete_floor(self) -> None:
        with suppress(NoNode):
            self._nodes.delete(self._floor)

    def lead(self, state: str, version: int, leader: str) -> int:
        """Write the state on that version and make the leader's node, in one step; return the new version.

        A leader's node of this session may be there: of an attempt that was not answered. Raises VersionConflict,
        NodeExists when another leads, and NoNode.
        """
        leader_node = self._nodes.get(self._leader)
        is_mine = leader_node is not None and leader_node.owner == self._nodes.session_id
        step = (
            Write(self._leader, leader.encode(), leader_node.version)
            if leader_node is not None and is_mine
            else Creation(self._leader, leader.encode(), ephemeral=True)
        )
        written, _ = self._nodes.transact([Write(self._state, state.encode(), version), step])
        return int(written.version)

    def check(self, version: int) -> Check:
        """Return the step of a transaction that demands this version of the state."""
        return Check(self._state, version)

    def join(self, name: str, member: Member, wait_ms: int = 0) -> None:
        """Say that a replica lives, waiting for an older process of that name to go. Raises NodeHeld when it stays."""
        path = paths.replica_member(self._broker_id, name)
        self._nodes.ensure_persistent(paths.replica_members(self._broker_id))
        ephemeral.hold(self._nodes, path, member.text.encode(), wait_ms)

    def tell(self, name: str, member: Member) -> None:
        """Have a replica's znode, which this session has made, say something else. Raises NoNode."""
        self._nodes.set(paths.replica_member(self._broker_id, name), member.text.encode())

    def remove(self, version: int) -> bool:
        """Remove the state on that version, and the floor; False when there is none. Raises VersionConflict."""
        try:
            is_removed = self._nodes.delete(self._state, version)
        except NoNode:
            is_removed = False
        self._delete_floor()
        return is_removed


def replicated_brokers(client: ZkClient) -> list[int]:
    """Return the broker ids that have replicas, or had some that are still there. Raises ZkUnavailable."""
    return sorted(int(name) for name in Nodes(client).children(paths.REPLICAS) if name.isascii() and name.isdigit())


def _members(nodes: Mapping[str, Node]) -> dict[str, Member]:
    by_name: dict[str, Member] = {}
    for name, node in nodes.items():
        try:
            by_name[name] = Member.from_node(node.path, node.data, node.owner)
        except MalformedNode:  # who reads the registry finds nobody there; doctor names it
            continue
    return by_name
