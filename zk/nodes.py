"""Typed, bounded calls on znodes, and the one place where kazoo's errors become ours.

Nothing here retries. A call returns, or raises, within the session timeout; `zk.client` says what is never sent.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kazoo import exceptions as kazoo_errors

from zk import paths
from zk.client import CallRefused
from zk.errors import (
    ConnectionLost,
    NodeExists,
    NodeNotEmpty,
    NoNode,
    NotAllowed,
    NotConnected,
    SessionExpired,
    VersionConflict,
    ZkError,
    raise_first,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from zk.client import ZkClient

    Watch = Callable[[Any], object]
    Outcome = ZkError | None

ANY_VERSION = -1
_MANY = 16
"""From so many on znodes are created in transactions, which cost ZooKeeper and us less than a request for each."""
_IN_TRANSACTION = 100
_PIPELINED = 256
"""Requests of one call that are under way at a time; ZooKeeper reads no more when it has 1,000, of all clients."""
_OF_A_PATH = {
    kazoo_errors.NoNodeError: NoNode,
    kazoo_errors.NodeExistsError: NodeExists,
    kazoo_errors.NotEmptyError: NodeNotEmpty,
    kazoo_errors.NoAuthError: NotAllowed,
}


_NOT_TRIED = (kazoo_errors.RolledBackError, kazoo_errors.RuntimeInconsistency)
"""What a transaction answers for the steps before and after the one that stood in the way."""


def _no_watch(_path: str) -> None:
    return None


class Write(NamedTuple):
    """What to write to an existing znode, if it is at that version."""

    path: str
    data: bytes | None
    version: int


class Creation(NamedTuple):
    """A znode to be made."""

    path: str
    data: bytes | None
    ephemeral: bool = False


class Check(NamedTuple):
    """A znode that must be at that version."""

    path: str
    version: int


class Deletion(NamedTuple):
    """A znode to be deleted, if it is at that version."""

    path: str
    version: int = ANY_VERSION


class Listed(NamedTuple):
    """The names under a path, sorted, and how often some were made or deleted by then; None for an absent path."""

    names: list[str]
    changes: int | None


class _Request(NamedTuple):
    path: str
    send: Callable[[], Any]
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Node:
    """A znode as it was read. `owner` is the session of an ephemeral one, 0 for a persistent one."""

    path: str
    data: bytes | None
    version: int
    owner: int
    created_ms: int = 0
    """By the clock of the ZooKeeper server that took the write; so is `modified_ms`."""
    modified_ms: int = 0
    created_zxid: int = 0
    """The number of the write that made it, which rises with every write anywhere in the tree; so does the other."""
    modified_zxid: int = 0

    @property
    def ephemeral(self) -> bool:
        """Whether the node disappears with its session."""
        return self.owner != 0


class Nodes:
    """Calls on znodes through one client; with `session_id`, only ever in that session (else NotConnected).

    Every method raises ZkUnavailable (NotConnected, ConnectionLost, SessionExpired) when ZooKeeper does not answer.
    A watch is called once, from kazoo's one callback thread, and must only set an event. It is also called when the
    connection is lost, so read again then. Pass the same callable each time: kazoo keeps each different one until it
    fires.
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

    def get_many(self, wanted: Iterable[str], watch_of: Callable[[str], Watch | None] = _no_watch) -> dict[str, Node]:
        """Read many znodes, pipelined, each with its own watch. Absent ones are left out."""
        answers = self._pipelined(
            _Request(path, partial(self.client.get_async, path, watch=watch_of(path))) for path in wanted
        )
        raise_first(answers.values(), but=NoNode)
        return {path: _node(path, answer) for path, answer in answers.items() if not isinstance(answer, NoNode)}

    def read_children(self, path: str, watch: Watch | None = None, *, watch_data: bool = False) -> dict[str, Node]:
        """Read all znodes under a path: name to node, sorted by name, without those that vanished meanwhile.

        The watch fires when the list may have changed; with `watch_data`, also when a node's data may have.
        """
        return self.read_children_of_many([path], lambda _: watch, watch_data=watch_data)[path]

    def read_children_of_many(
        self, wanted: Iterable[str], watch_of: Callable[[str], Watch | None] = _no_watch, *, watch_data: bool = False
    ) -> dict[str, dict[str, Node]]:
        """Read all znodes under many paths, pipelined, as `read_children` does; by path."""
        names_of = self.children_of_many(wanted, watch_of)
        parent_of = {paths.child(path, name): path for path, names in names_of.items() for name in names}
        nodes = self.get_many(parent_of, lambda child: watch_of(parent_of[child]) if watch_data else None)
        children: dict[str, dict[str, Node]] = {path: {} for path in names_of}
        for child, node in nodes.items():
            children[parent_of[child]][child.rpartition("/")[2]] = node
        return children

    def exists(self, path: str, watch: Watch | None = None) -> bool:
        """Return whether a znode exists; the watch fires when it is created, changed or deleted."""
        with self.client.within_session(self._wanted):
            result = self.client.exists_async(path, watch=watch)
        return self._answer(result, path) is not None

    def count_changes(self, wanted: Iterable[str]) -> dict[str, int | None]:
        """Return how often children of znodes were created or deleted so far, pipelined; None for an absent znode."""
        answers = self._pipelined(_Request(path, partial(self.client.exists_async, path)) for path in wanted)
        raise_first(answers.values())
        return {path: None if stat is None else int(stat.cversion) for path, stat in answers.items()}

    def exist(self, wanted: Iterable[str], watch_of: Callable[[str], Watch | None] = _no_watch) -> dict[str, bool]:
        """Return whether many znodes exist, pipelined, as `exists` does."""
        answers = self._pipelined(
            _Request(path, partial(self.client.exists_async, path, watch=watch_of(path))) for path in wanted
        )
        raise_first(answers.values())
        return {path: answer is not None for path, answer in answers.items()}

    def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """List the names under a path, sorted; none when it is absent. The watch fires when the list may have changed.

        Also for a path that does not exist yet: the watch then fires when it is created.
        """
        return self.children_of_many([path], lambda _: watch)[path]

    def children_of_many(
        self, wanted: Iterable[str], watch_of: Callable[[str], Watch | None] = _no_watch
    ) -> dict[str, list[str]]:
        """List the names under many paths, pipelined, as `children` does; by path."""
        return {path: listed.names for path, listed in self.list_many(wanted, watch_of).items()}

    def list_many(
        self, wanted: Iterable[str], watch_of: Callable[[str], Watch | None] = _no_watch
    ) -> dict[str, Listed]:
        """Do as `children_of_many` does, and say how often each list had changed."""
        lists: dict[str, Listed] = {path: Listed([], None) for path in wanted}
        unlisted = list(lists)
        while unlisted:
            answers = self._pipelined(
                _Request(path, partial(self.client.get_children_async, path, watch=watch_of(path), include_data=True))
                for path in unlisted
            )
            raise_first(answers.values(), but=NoNode)
            for path, answer in answers.items():
                if not isinstance(answer, NoNode):
                    names, stat = answer
                    lists[path] = Listed(sorted(names), int(stat.cversion))
            absent = [path for path, answer in answers.items() if isinstance(answer, NoNode)]
            exist = self.exist((path for path in absent if watch_of(path) is not None), watch_of)
            unlisted = [path for path, does_exist in exist.items() if does_exist]  # created between the two calls
        return lists

    def create(self, path: str, data: bytes | None, *, ephemeral: bool = False) -> None:
        """Create a znode. Raises NodeExists, and NoNode without a parent."""
        with self.client.within_session(self._wanted):
            result = self.client.create_async(path, data, ephemeral=ephemeral)
        self._answer(result, path)

    def create_many(self, data_by_path: Mapping[str, bytes | None], *, ephemeral: bool = False) -> dict[str, Outcome]:
        """Create znodes, many in a request, and their persistent parents where missing. Returns the outcome of each.

        None where it was created, else the error: what was not answered may have happened. Raises ZkUnavailable when
        missing parents cannot be made.
        """
        outcomes = self._create(data_by_path, ephemeral=ephemeral)
        orphans = [path for path, outcome in outcomes.items() if isinstance(outcome, NoNode)]
        for parent in {paths.parent(path) for path in orphans}:
            self.ensure_persistent(parent)
        outcomes.update(self._create({path: data_by_path[path] for path in orphans}, ephemeral=ephemeral))
        return outcomes

    def _create(self, data_by_path: Mapping[str, bytes | None], *, ephemeral: bool) -> dict[str, Outcome]:
        """Create znodes in transactions where they are many; those of a transaction that was refused one by one."""
        outcomes: dict[str, Outcome] = {}
        if len(data_by_path) >= _MANY and None not in data_by_path.values():
            every = list(data_by_path)
            chunks = {every[at]: every[at : at + _IN_TRANSACTION] for at in range(0, len(every), _IN_TRANSACTION)}
            answers = self._pipelined(
                _Request(first, partial(self._create_all, {path: data_by_path[path] for path in chunk}, ephemeral))
                for first, chunk in chunks.items()
            )
            for first, answer in answers.items():
                if isinstance(answer, ZkError):  # nobody knows what became of it, or none of it was sent
                    outcomes.update(dict.fromkeys(chunks[first], answer))
                elif not any(isinstance(result, Exception) for result in answer):
                    outcomes.update(dict.fromkeys(chunks[first]))
        refused = {path: data for path, data in data_by_path.items() if path not in outcomes}
        outcomes.update(self._create_each(refused, ephemeral=ephemeral))
        return {path: outcomes[path] for path in data_by_path}

    def _create_all(self, data_by_path: Mapping[str, bytes | None], ephemeral: bool) -> Any:
        transaction = self.client.transaction()
        for path, data in data_by_path.items():
            transaction.create(path, data, ephemeral=ephemeral)
        return transaction.commit_async()

    def _create_each(self, data_by_path: Mapping[str, bytes | None], *, ephemeral: bool) -> dict[str, Outcome]:
        answers = self._pipelined(
            _Request(path, partial(self.client.create_async, path, data, ephemeral=ephemeral))
            for path, data in data_by_path.items()
        )
        return {path: answer if isinstance(answer, ZkError) else None for path, answer in answers.items()}

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
        return self.write(path, data, version).version

    def write(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Node:
        """Write an existing znode and return what it is now. Raises NoNode and VersionConflict."""
        with self.client.within_session(self._wanted):
            result = self.client.set_async(path, data, version)
        return _node(path, (data, self._answer(result, path, version)))

    def set_many(self, writes: Iterable[Write]) -> dict[str, int | ZkError]:
        """Write existing znodes, pipelined: the new version of each, or the error that `set` would raise."""
        answers = self._pipelined(
            _Request(path, partial(self.client.set_async, path, data, version), version)
            for path, data, version in writes
        )
        return {
            path: answer if isinstance(answer, ZkError) else int(answer.version) for path, answer in answers.items()
        }

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
                continue  # another created it meanwhile: set it
            return 0

    def transact(self, steps: Sequence[Write | Creation | Check | Deletion]) -> list[Any]:
        """Do all of it in one step, or nothing, and return kazoo's answer to each.

        Raises for the step that stood in the way: VersionConflict, NodeExists, NoNode.
        """
        with self.client.within_session(self._wanted):
            transaction = self.client.transaction()
            for step in steps:
                _ADD[type(step)](transaction, step)
            result = transaction.commit_async()
        answers: list[Any] = list(self._answer(result, steps[0].path))
        for step, answer in zip(steps, answers, strict=True):
            if not isinstance(answer, kazoo_errors.KazooException) or isinstance(answer, _NOT_TRIED):
                continue
            if isinstance(answer, kazoo_errors.BadVersionError):
                raise VersionConflict(step.path, getattr(step, "version", None)) from answer
            named = _OF_A_PATH.get(type(answer))
            raise ZkError(f"{step.path}: {type(answer).__name__}") if named is None else named(step.path)
        return answers

    def replace_ephemeral(self, path: str, data: bytes) -> None:
        """Delete a node and create it anew in one step, so that those who watch its parent's children look again.

        Raises ZkError when it is absent.
        """
        self.transact([Deletion(path), Creation(path, data, ephemeral=True)])

    def delete(self, path: str, version: int = ANY_VERSION) -> bool:
        """Delete a znode; False when it was absent. Raises VersionConflict and NodeNotEmpty."""
        with self.client.within_session(self._wanted):
            result = self.client.delete_async(path, version)
        try:
            self._answer(result, path, version)
        except NoNode:
            return False
        return True

    def delete_many(self, wanted: Iterable[str]) -> AbstractSet[str]:
        """Delete znodes, pipelined, and return those that were there. Raises the first error once all were tried."""
        answers = self._pipelined(_Request(path, partial(self.client.delete_async, path)) for path in wanted)
        raise_first(answers.values(), but=NoNode)
        return {path for path, answer in answers.items() if not isinstance(answer, NoNode)}

    def delete_tree(self, path: str) -> None:
        """Delete a path and all under it. Raises NodeNotEmpty when others go on adding to it."""
        for name in self.children(path):
            self.delete_tree(paths.child(path, name))
        self.delete(path)

    def permissions_of_many(self, wanted: Iterable[str]) -> dict[str, tuple[list[Any], Any]]:
        """Read who may do what with many znodes, pipelined, as kazoo's ACLs and stat. Absent ones are left out."""
        answers = self._pipelined(_Request(path, partial(self.client.get_acls_async, path)) for path in wanted)
        raise_first(answers.values(), but=NoNode)
        return {path: answer for path, answer in answers.items() if not isinstance(answer, NoNode)}

    def set_acls(self, wanted: Iterable[str], acls: list[Any] | None) -> None:
        """Give znodes these ACLs, pipelined. Raises the first error once all were tried, NotAllowed without ACLs."""
        if acls is None:
            raise NotAllowed("/")
        answers = self._pipelined(_Request(path, partial(self.client.set_acls_async, path, acls)) for path in wanted)
        raise_first(answers.values(), but=NoNode)

    def sync(self) -> None:
        """Ask the leader for an answer only; reads that follow see all that was written before."""
        with self.client.within_session(self._wanted):
            result = self.client.sync_async("/")
        self._answer(result, "/")

    def _pipelined(self, requests: Iterable[_Request]) -> dict[str, Any]:
        """Send requests without waiting for each answer, and return all answers, or errors, by path.

        They are carried out in this order. Those after one that was not answered may have been carried out or not.
        """
        answers: dict[str, Any] = {}
        under_way: deque[tuple[_Request, Any]] = deque()
        is_silent = False

        def await_first() -> None:
            nonlocal is_silent
            request, result = under_way.popleft()
            try:
                answers[request.path] = self._answer(result, request.path, request.version, wait=not is_silent)
            except ZkError as error:
                answers[request.path] = error
                is_silent = is_silent or isinstance(error, ConnectionLost)

        for request in requests:
            if len(under_way) >= _PIPELINED:
                await_first()
            with self.client.within_session(self._wanted):
                under_way.append((request, request.send()))
        while under_way:
            await_first()
        return answers

    def _answer(self, result: Any, path: str, version: int = ANY_VERSION, *, wait: bool = True) -> Any:
        """Wait for an answer and translate its error. Uses `wait`, whose timeout raises nothing under any handler."""
        timeout_ms = self.client.session_timeout_ms
        if not (result.ready() or (wait and result.wait(timeout_ms / 1000)) or result.ready()):
            raise ConnectionLost(f"{path}: no answer from ZooKeeper within {timeout_ms} ms")
        try:
            return result.get()
        except tuple(_OF_A_PATH) as error:
            raise _OF_A_PATH[type(error)](path) from error
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


_ADD: dict[type, Callable[[Any, Any], object]] = {
    Write: lambda transaction, step: transaction.set_data(step.path, step.data, step.version),
    Creation: lambda transaction, step: transaction.create(step.path, step.data, ephemeral=step.ephemeral),
    Check: lambda transaction, step: transaction.check(step.path, step.version),
    Deletion: lambda transaction, step: transaction.delete(step.path, step.version),
}


def _node(path: str, answer: Any) -> Node:
    data, stat = answer
    return Node(path, data, stat.version, stat.ephemeralOwner, stat.ctime, stat.mtime, stat.czxid, stat.mzxid)
