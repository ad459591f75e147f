"""ZooKeeper's tree in memory: enough of a client for all that `zk.nodes` asks."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from kazoo import exceptions as kazoo_errors

from zk import paths
from zk.security import Security

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager


class _Stat(NamedTuple):
    version: int
    cversion: int
    ephemeralOwner: int  # noqa: N815  # as kazoo calls it
    ctime: int = 0
    mtime: int = 0
    czxid: int = 0
    mzxid: int = 0


class _Znode:
    def __init__(self, data: bytes | None, owner: int, zxid: int = 0) -> None:
        self.data = data
        self.version = 0
        self.cversion = 0
        self.owner = owner
        self.modified_ms = 0
        self.created_zxid = self.zxid = zxid

    @property
    def stat(self) -> _Stat:
        return _Stat(
            self.version, self.cversion, self.owner, mtime=self.modified_ms, czxid=self.created_zxid, mzxid=self.zxid
        )


class _Answer:
    """The result of a call, there at once."""

    def __init__(self, value: Any, error: Exception | None) -> None:
        self._value = value
        self._error = error

    def ready(self) -> bool:
        return True

    def wait(self, timeout_s: float) -> bool:
        return True

    def get(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._value


class _Transaction:
    """Steps that are done together, or not at all."""

    def __init__(self, client: ZkClientInMemory) -> None:
        self._client = client
        self._steps: list[Callable[[], Any]] = []

    def create(self, path: str, data: bytes | None, ephemeral: bool = False) -> None:
        client = self._client
        self._steps.append(lambda: client.create_async(path, data, ephemeral).get())

    def set_data(self, path: str, data: bytes | None, version: int = -1) -> None:
        self._steps.append(lambda: self._client.set_async(path, data, version).get())

    def delete(self, path: str, version: int = -1) -> None:
        self._steps.append(lambda: self._client.delete_async(path, version).get())

    def check(self, path: str, version: int) -> None:
        self._steps.append(lambda: self._client.check(path, version))

    def commit_async(self) -> _Answer:
        try:
            self._client.before("commit", "/")
        except kazoo_errors.KazooException as error:
            return _Answer(None, error)
        before = copy.deepcopy(self._client.tree)
        answers: list[Any] = []
        for step in self._steps:
            try:
                answers.append(step())
            except kazoo_errors.KazooException as error:
                self._client.tree = before
                done, left = len(answers), len(self._steps) - len(answers) - 1
                rolled_back = [kazoo_errors.RolledBackError() for _ in range(done)]
                return _Answer([*rolled_back, error, *(kazoo_errors.RuntimeInconsistency() for _ in range(left))], None)
        return _Answer(answers, None)


class ZkClientInMemory:
    """A client whose calls are answered at once. Watches are not kept.

    `before` is called with the name and path of every call before it is carried out ("commit" and "/" for the steps of
    a transaction together): it may raise one of kazoo's
    errors, which is then the answer, or change the tree as somebody else would. `calls` lists all there were.
    `now_ms` is what its clock says.
    """

    session_timeout_ms = 6000
    security = Security()
    session_id = 1

    def __init__(self) -> None:
        self.tree: dict[str, _Znode] = {"/": _Znode(None, 0)}
        self.calls: list[tuple[str, str]] = []
        self.now_ms = 0
        self._writes = 0
        self.before: Callable[[str, str], object] = lambda _call, _path: None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        return None

    def within_session(self, session_id: int | None) -> AbstractContextManager[None]:
        return nullcontext()

    def get_async(self, path: str, watch: object = None) -> _Answer:
        return self._answered("get", path, lambda: ((node := self._at(path)).data, node.stat))

    def exists_async(self, path: str, watch: object = None) -> _Answer:
        return self._answered("exists", path, lambda: self.tree[path].stat if path in self.tree else None)

    def get_children_async(self, path: str, watch: object = None, include_data: bool = False) -> _Answer:
        return self._answered(
            "children", path, lambda: (self._names(path), self._at(path).stat) if include_data else self._names(path)
        )

    def create_async(self, path: str, data: bytes | None, ephemeral: bool = False) -> _Answer:
        return self._answered("create", path, lambda: self._create(path, data, self.session_id if ephemeral else 0))

    def set_async(self, path: str, data: bytes | None, version: int = -1) -> _Answer:
        return self._answered("set", path, lambda: self._set(path, data, version))

    def delete_async(self, path: str, version: int = -1) -> _Answer:
        return self._answered("delete", path, lambda: self._delete(path, version))

    def sync_async(self, path: str) -> _Answer:
        return self._answered("sync", path, lambda: path)

    def transaction(self) -> _Transaction:
        return _Transaction(self)

    def check(self, path: str, version: int) -> bool:
        if self._at(path).version != version:
            raise kazoo_errors.BadVersionError
        return True

    def _answered(self, call: str, path: str, carry_out: Callable[[], Any]) -> _Answer:
        self.calls.append((call, path))
        try:
            self.before(call, path)
            return _Answer(carry_out(), None)
        except kazoo_errors.KazooException as error:
            return _Answer(None, error)

    def _at(self, path: str) -> _Znode:
        if path not in self.tree:
            raise kazoo_errors.NoNodeError
        return self.tree[path]

    def _names(self, path: str) -> list[str]:
        self._at(path)
        return [each.rpartition("/")[2] for each in self.tree if each != "/" and paths.parent(each) == path]

    def _create(self, path: str, data: bytes | None, owner: int) -> str:
        parent = self._at(paths.parent(path))
        if path in self.tree:
            raise kazoo_errors.NodeExistsError
        parent.cversion += 1
        self._writes += 1
        self.tree[path] = _Znode(data, owner, self._writes)
        return path

    def _set(self, path: str, data: bytes | None, version: int) -> _Stat:
        node = self._at(path)
        if version not in {-1, node.version}:
            raise kazoo_errors.BadVersionError
        node.data = data
        node.version += 1
        node.modified_ms = self.now_ms
        self._writes += 1
        node.zxid = self._writes
        return node.stat

    def _delete(self, path: str, version: int) -> bool:
        node = self._at(path)
        if version not in {-1, node.version}:
            raise kazoo_errors.BadVersionError
        if self._names(path):
            raise kazoo_errors.NotEmptyError
        self._at(paths.parent(path)).cversion += 1
        del self.tree[path]
        return True
