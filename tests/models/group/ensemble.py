"""A ZooKeeper ensemble in memory: a leader, followers that may lag or be cut off, sessions, versions and watches.

All servers' trees follow from one log of changes. A server answers reads from what it has applied, and its clients'
writes once it has applied them. The leader alone ends sessions; a follower reports once a second which of them it has
heard from, and until a change has reached it, it answers as if that had not happened.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kazoo import exceptions as kazoo_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.clocks import ManualClock

SESSION_S = 6
LEADER = 0


class Znode(NamedTuple):
    """A znode with as much of its stat as anybody here reads. `owner` is the session of an ephemeral one."""

    data: bytes | None
    version: int = 0
    cversion: int = 0
    owner: int = 0
    czxid: int = 0
    mzxid: int = 0

    @property
    def ephemeralOwner(self) -> int:  # noqa: N802 - the name that kazoo gives it
        return self.owner

    @property
    def ctime(self) -> int:
        return 0

    @property
    def mtime(self) -> int:
        return 0


class Request(NamedTuple):
    """What a client asks; `session_id` is the one that it goes out in."""

    kind: str
    path: str
    session_id: int
    data: bytes | None = None
    version: int = -1
    is_ephemeral: bool = False
    is_watched: bool = False

    @property
    def needs_leader(self) -> bool:
        return self.kind in {"create", "set", "delete", "sync"}


class Change(NamedTuple):
    """One entry of the log. `end` ends a session and deletes its znodes."""

    kind: str
    path: str
    session_id: int
    data: bytes | None = None
    is_ephemeral: bool = False


class Connection(Protocol):
    """What a server needs of a client."""

    def notice(self, kind: str, path: str) -> None:
        """Tell of a watch that fired: `data` or `children` of a path."""

    def disconnect(self) -> None:
        """Close the connection."""


@dataclass
class Server:
    """One server; `is_cut`: nothing passes between it and the leader, but its clients do not notice."""

    tree: dict[str, Znode]
    applied: int = 0
    lags: bool = False
    is_cut: bool = False
    touched: set[int] = field(default_factory=set)
    watches: dict[tuple[str, str], dict[Connection, None]] = field(default_factory=dict)
    clients: dict[int, Connection] = field(default_factory=dict)  # by session

    def apply(self, change: Change) -> None:
        kind, path = change.kind, change.path
        if kind == "create":
            owner = change.session_id if change.is_ephemeral else 0
            self.tree[path] = Znode(change.data, owner=owner, czxid=self.applied + 1, mzxid=self.applied + 1)
            self._fire("data", path)
            self._count_child(path)
        elif kind == "set":
            node = self.tree[path]
            self.tree[path] = node._replace(data=change.data, version=node.version + 1, mzxid=self.applied + 1)
            self._fire("data", path)
        elif kind == "delete":
            self._delete(path)
        elif kind == "end":
            for each in [each for each, node in self.tree.items() if node.owner == change.session_id]:
                self._delete(each)
            client = self.clients.pop(change.session_id, None)
            if client is not None:
                client.disconnect()
        self.applied += 1

    def _delete(self, path: str) -> None:
        del self.tree[path]
        self._fire("data", path)
        self._fire("children", path)
        self._count_child(path)

    def _count_child(self, path: str) -> None:
        parent = path.rpartition("/")[0]
        if parent:
            node = self.tree[parent]
            self.tree[parent] = node._replace(cversion=node.cversion + 1)
            self._fire("children", parent)

    def _fire(self, kind: str, path: str) -> None:
        for client in self.watches.pop((kind, path), {}):
            client.notice(kind, path)

    def forget(self, client: Connection, session_id: int) -> None:
        """Close a client's connection: its watches go with it."""
        self.clients.pop(session_id, None)
        for key in list(self.watches):
            self.watches[key].pop(client, None)
            if not self.watches[key]:
                del self.watches[key]


class Ensemble:
    """All servers. Whoever checks them is called with each change before the leader applies it, and after that."""

    def __init__(self, clock: ManualClock, followers: int, tree: dict[str, bytes | None]) -> None:
        self.clock = clock
        self.log: list[Change] = []
        nodes = {path: Znode(data) for path, data in tree.items()}
        self.servers = [Server(dict(nodes)) for _ in range(1 + followers)]
        self.leader = self.servers[LEADER]
        self.expires_s: dict[int, float] = {}  # live sessions
        self.before_change: Callable[[Change], None] = lambda _: None
        self.after_change: Callable[[Change], None] = lambda _: None
        self._sessions_made = 0

    # Sessions --------------------------------------------------------------------------------------------------------

    def connect(self, client: Connection, number: int, session_id: int | None) -> int:
        """Connect to a server, in a session that lives or else in a new one; return its id."""
        server = self.servers[number]
        assert not server.is_cut
        self._catch_up(server)  # a client goes to no server that knows less than it has seen
        if session_id is None or session_id not in self.expires_s:
            self._sessions_made += 1
            session_id = self._sessions_made
        self.expires_s[session_id] = self.clock.now_s + SESSION_S
        server.clients[session_id] = client
        return session_id

    def end(self, session_id: int) -> None:
        """End a session."""
        if self.expires_s.pop(session_id, None) is not None:
            self.commit(Change("end", "", session_id))

    def tick(self) -> None:
        """Let followers report whom they heard from, and the leader end the sessions that are over."""
        now_s = self.clock.now_s
        for server in self.servers:
            if not server.is_cut:
                for session_id in server.touched & self.expires_s.keys():
                    self.expires_s[session_id] = now_s + SESSION_S
                server.touched.clear()
        for session_id in [each for each, expires_s in self.expires_s.items() if expires_s <= now_s]:
            self.end(session_id)

    # Requests --------------------------------------------------------------------------------------------------------

    def can_answer(self, number: int, request: Request) -> bool:
        """Say whether a server can answer a request now, or waits for the leader."""
        return not (self.servers[number].is_cut and request.needs_leader)

    def answer(self, client: Connection, number: int, request: Request) -> Any:
        """Carry out a request and return its answer, or the error of kazoo's that it is answered with."""
        server = self.servers[number]
        self.touch(number, request.session_id)
        if request.needs_leader:
            outcome = self._write(request)
            self._catch_up(server)
            return outcome
        return self._read(client, server, request)

    def touch(self, number: int, session_id: int) -> None:
        """Note that a server has heard from a session."""
        self.servers[number].touched.add(session_id)
        if number == LEADER and session_id in self.expires_s:
            self.expires_s[session_id] = self.clock.now_s + SESSION_S

    def _read(self, client: Connection, server: Server, request: Request) -> Any:
        path, node = request.path, server.tree.get(request.path)
        if request.is_watched and (node is not None or request.kind == "exists"):
            kind = "children" if request.kind == "children" else "data"
            server.watches.setdefault((kind, path), {})[client] = None
        if request.kind == "exists":
            return node
        if node is None:
            return kazoo_errors.NoNodeError()
        if request.kind == "children":
            under = path + "/"
            return [
                each[len(under) :] for each in server.tree if each.startswith(under) and "/" not in each[len(under) :]
            ], node
        return node.data, node

    def _write(self, request: Request) -> Any:
        tree, path = self.leader.tree, request.path
        if request.session_id not in self.expires_s:
            return kazoo_errors.SessionExpiredError()
        if request.kind == "sync":
            return path
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal
        self.commit(Change(request.kind, path, request.session_id, request.data, request.is_ephemeral))
        return tree[path] if request.kind == "set" else path

    def _refusal(self, request: Request) -> Exception | None:
        tree, node = self.leader.tree, self.leader.tree.get(request.path)
        parent = request.path.rpartition("/")[0]
        if request.kind == "create" and node is not None:
            return kazoo_errors.NodeExistsError()  # type: ignore[no-any-return]
        if (request.kind == "create" and parent and parent not in tree) or (request.kind != "create" and node is None):
            return kazoo_errors.NoNodeError()  # type: ignore[no-any-return]
        if node is not None and request.version not in {-1, node.version}:
            return kazoo_errors.BadVersionError()  # type: ignore[no-any-return]
        return None

    def commit(self, change: Change) -> None:
        """Enter a change into the log; servers that neither lag nor are cut off apply it at once."""
        self.before_change(change)
        self.log.append(change)
        self.leader.apply(change)
        self.after_change(change)
        for server in self.servers[1:]:
            if not server.lags and not server.is_cut:
                self._catch_up(server)

    def _catch_up(self, server: Server) -> None:
        while server.applied < len(self.log):
            server.apply(self.log[server.applied])

    # Events ----------------------------------------------------------------------------------------------------------

    def lag(self, number: int, *, lags: bool) -> None:
        """Have a follower apply what it must only, or all there is again."""
        server = self.servers[number]
        server.lags = lags
        if not lags and not server.is_cut:
            self._catch_up(server)

    def cut(self, number: int, *, is_cut: bool) -> None:
        """Cut a follower off from the leader, or connect it again."""
        server = self.servers[number]
        server.is_cut = is_cut
        if not is_cut and not server.lags:
            self._catch_up(server)
