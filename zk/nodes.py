"""Typed, bounded calls on znodes, and the one place where kazoo's errors become ours.

Nothing here retries. A call answers, or raises, within the session timeout; `zk.client` says what is never sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kazoo import exceptions as kazoo_errors

from zk import paths
from zk.client import CallRefused
from zk.errors import (
    ConnectionLost,
    NodeExists,
    NodeNotEmpty,
    NoNode,
    NotConnected,
    SessionExpired,
    VersionConflict,
    ZkError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zk.client import ZkClient

    Watch = Callable[[Any], object]

ANY_VERSION = -1
_PIPELINED = 64
"""Reads sent before the first answer is awaited."""


@dataclass(frozen=True, slots=True)
class Node:
    """A znode as it was read. `owner` is the session of an ephemeral one, 0 for a persistent one."""

    path: str
    data: bytes | None
    version: int
    owner: int

    @property
    def ephemeral(self) -> bool:
        """Whether the node goes with its session."""
        return self.owner != 0


class Nodes:
    """Calls on znodes through one client; with `session_id`, only ever in that session (else NotConnected).

    Every method raises ZkUnavailable (NotConnected, ConnectionLost, SessionExpired) when ZooKeeper does not answer.
    A watch is called once, from kazoo's one callback thread, and must only set an event. Also when the connection is
    lost, so read again then. Give the same callable at every reading: kazoo keeps each different one until it fires.
    """

    def __init__(self, client: ZkClient, session_id: int | None = None) -> None:
        self.client = client
        self._wanted = session_id

    @property
    def session_id(self) -> int:
        """The session that calls go out in. Raises NotConnected when there is none."""
        current = self.client.session_id
        if current is None or (self._wanted is not None and current != self._wanted):
            raise NotConnected("not connected to ZooKeeper, or no longer in the same session")
        return current

    def within(self, session_id: int) -> Nodes:
        """Return the same calls, bound to one session."""
        return Nodes(self.client, session_id)

    def get(self, path: str, watch: Watch | None = None) -> Node | None:
        """Read a znode; None when it is absent (a watch is then not set: see `exists`)."""
        with self.client.within_session(self._wanted):
            result = self.client.get_async(path, watch=watch)
        try:
            return _node(path, self._answer(result, path))
        except NoNode:
            return None

    def get_many(self, wanted: Iterable[str]) -> dict[str, Node]:
        """Read many znodes, pipelined. Absent ones are left out."""
        every = list(wanted)
        found: dict[str, Node] = {}
        for start in range(0, len(every), _PIPELINED):
            with self.client.within_session(self._wanted):
                results = [(path, self.client.get_async(path)) for path in every[start : start + _PIPELINED]]
            for path, result in results:
                try:
                    found[path] = _node(path, self._answer(result, path))
                except NoNode:
                    continue
        return found

    def read_children(self, path: str, watch: Watch | None = None) -> dict[str, Node]:
        """Read all znodes under a path: name to node, sorted by name, without those that went meanwhile."""
        by_path = {paths.child(path, name): name for name in self.children(path, watch)}
        return {by_path[child]: node for child, node in self.get_many(by_path).items()}

    def exists(self, path: str, watch: Watch | None = None) -> bool:
        """Tell whether a znode exists; the watch fires when it is created, changed or deleted."""
        with self.client.within_session(self._wanted):
            result = self.client.exists_async(path, watch=watch)
        return self._answer(result, path) is not None

    def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """List the names under a path, sorted; none when it is absent. The watch fires when the list may have changed.

        Also for a path that does not exist yet: the watch then fires when it is created.
        """
        while True:
            with self.client.within_session(self._wanted):
                result = self.client.get_children_async(path, watch=watch)
            try:
                return sorted(self._answer(result, path))
            except NoNode:
                if watch is None or not self.exists(path, watch):
                    return []
            # It was created between the two calls: list again.

    def create(self, path: str, data: bytes | None, *, ephemeral: bool = False) -> None:
        """Create a znode. Raises NodeExists, and NoNode without a parent."""
        with self.client.within_session(self._wanted):
            result = self.client.create_async(path, data, ephemeral=ephemeral)
        self._answer(result, path)

    def ensure_persistent(self, path: str) -> None:
        """Create a path and its parents with null data, as 0.7 does (kazoo's own ensure_path writes empty data)."""
        try:
            self.create(path, None)
        except NodeExists:
            return
        except NoNode:
            if paths.parent(path) == "/":
                raise
            self.ensure_persistent(paths.parent(path))
            self.ensure_persistent(path)

    def create_with_parents(self, path: str, data: bytes | None, *, ephemeral: bool = False) -> None:
        """Create a znode, and its persistent parents when they are missing. Raises NodeExists."""
        try:
            self.create(path, data, ephemeral=ephemeral)
        except NoNode:
            self.ensure_persistent(paths.parent(path))
            self.create(path, data, ephemeral=ephemeral)

    def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> int:
        """Write an existing znode and return its new version. Raises NoNode and VersionConflict."""
        with self.client.within_session(self._wanted):
            result = self.client.set_async(path, data, version)
        return int(self._answer(result, path, version).version)

    def upsert(self, path: str, data: bytes) -> int:
        """Write a persistent znode, creating it and its parents where missing. Returns its new version."""
        while True:
            try:
                return self.set(path, data)
            except NoNode:
                pass
            try:
                self.create_with_parents(path, data)
            except NodeExists:
                continue  # created by another meanwhile: set it
            return 0

    def delete(self, path: str, version: int = ANY_VERSION) -> bool:
        """Delete a znode; False when it was absent. Raises VersionConflict and NodeNotEmpty."""
        with self.client.within_session(self._wanted):
            result = self.client.delete_async(path, version)
        try:
            self._answer(result, path, version)
        except NoNode:
            return False
        return True

    def delete_tree(self, path: str) -> None:
        """Delete a path and all under it. Raises NodeNotEmpty when others go on adding to it."""
        for name in self.children(path):
            self.delete_tree(paths.child(path, name))
        self.delete(path)

    def sync(self) -> None:
        """Ask the leader for nothing but an answer; reads that follow see all that was written before."""
        with self.client.within_session(self._wanted):
            result = self.client.sync_async("/")
        self._answer(result, "/")

    def _answer(self, result: Any, path: str, version: int = ANY_VERSION) -> Any:
        """Await an answer and translate its error. Waits by `wait`, whose timeout raises nothing under any handler."""
        timeout_ms = self.client.session_timeout_ms
        result.wait(timeout_ms / 1000)
        if not result.ready():
            raise ConnectionLost(f"{path}: no answer from ZooKeeper within {timeout_ms} ms")
        try:
            return result.get()
        except kazoo_errors.NoNodeError as error:
            raise NoNode(path) from error
        except kazoo_errors.NodeExistsError as error:
            raise NodeExists(path) from error
        except kazoo_errors.NotEmptyError as error:
            raise NodeNotEmpty(path) from error
        except kazoo_errors.BadVersionError as error:
            raise VersionConflict(path, version) from error
        except CallRefused as error:
            raise NotConnected(f"{path}: not sent: {error}") from error
        except (kazoo_errors.ConnectionLoss, kazoo_errors.ConnectionClosedError) as error:
            raise ConnectionLost(f"{path}: the connection to ZooKeeper was lost") from error
        except kazoo_errors.SessionExpiredError as error:  # the base of ConnectionClosedError, so after it
            raise SessionExpired(f"{path}: the ZooKeeper session has expired") from error
        except kazoo_errors.KazooException as error:
            raise ZkError(f"{path}: {type(error).__name__} {error}") from error


def _node(path: str, answer: Any) -> Node:
    data, stat = answer
    return Node(path, data, stat.version, stat.ephemeralOwner)
