"""HDFS as one of PyArrow's file systems, by a client that needs no Java; every call of it ends.

hdfs-native waits for a NameNode that is silent as long as that takes. It lets other threads run meanwhile, so each call
gets a thread, and is left to itself when its time is over.
"""

from __future__ import annotations

import ctypes
import shutil
import threading
from typing import TYPE_CHECKING, Any, Self, TypeVar

from hdfs_native.fsspec import HdfsFileSystem
from pyarrow.fs import FSSpecHandler, PyFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable

    from hdfs_native import FileStatus
    from pyarrow.fs import FileInfo, FileSelector, FileSystem

Result = TypeVar("Result")

PATIENCE_S = 60.0
"""A call that takes longer has failed; whatever it was to do may happen yet."""
_PIECE_BYTES = 4 * 1024 * 1024
_AT_ONCE = frozenset({"seek", "tell", "seekable", "readable", "writable", "closed", "flush"})
_LIMITS = {
    "dfs.client.socket-timeout": "20000",  # how long a DataNode may be silent, in milliseconds
    "dfs.client.failover.max.attempts": "6",  # of reaching a NameNode, in about ten seconds; by default 15, in minutes
    "dfs.client.failover.sleep.max.millis": "3000",
}


def hdfs(authority: str) -> FileSystem:
    """Return the HDFS of a NameNode, `host:port`, or of a name service, as Hadoop's configuration has it."""
    host, _, port = authority.partition(":")
    return PyFileSystem(_Handler(_Hdfs(host, int(port) if port else None, **_LIMITS)))


def bounded(call: Callable[[], Result], path: str) -> Result:
    """Call something that asks HDFS. Raises TimeoutError, naming the path, when there is no answer."""
    results: list[Result] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(call())
        except BaseException as error:  # noqa: BLE001 (it is raised by whoever waits)
            errors.append(error)

    thread = threading.Thread(target=work, name="hdfs", daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError(f"{path}: HDFS has not answered for {PATIENCE_S:.0f} seconds")
    return results[0]


class _Handler(FSSpecHandler):  # type: ignore[misc]  # PyArrow has no types
    """PyArrow's use of such a file system, with listings that are one call."""

    def get_file_info_selector(self, selector: FileSelector) -> list[FileInfo]:
        """List a directory. Raises FileNotFoundError, NotADirectoryError and other OSErrors.

        PyArrow asks twice before whether it is there, and takes one that is made meanwhile for a file.
        """
        base = "/" + selector.base_dir.strip("/")
        try:
            infos = self.fs.find(base, maxdepth=None if selector.recursive else 1)
        except FileNotFoundError:
            if selector.allow_not_found:
                return []
            raise
        if base in infos:
            raise NotADirectoryError(base)
        return [self._create_file_info(path, info) for path, info in infos.items()]


class _Hdfs(HdfsFileSystem):
    """hdfs-native's file system with bounded calls, which tells PyArrow when a file was changed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # A forked child that dropped its copy, as fsspec does at once, would wait for threads that it does not have.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.client))
        self.client: Any = Bounded(self.client)

    def isfile(self, path: str) -> bool:
        """Say whether a file is there; fsspec would say no for an HDFS that is away, too. Raises OSError."""
        return self._type_of(path) == "file"

    def isdir(self, path: str) -> bool:
        """Say whether a directory is there, as `isfile` does."""
        return self._type_of(path) == "directory"

    def find(self, path: str, maxdepth: int | None = None, **_: Any) -> dict[str, dict[str, Any]]:
        """List what is below a directory, or in it; fsspec would leave out what it cannot list. Raises OSError."""
        statuses = self.client.list_status(path, maxdepth is None)
        return {status.path: self._convert_file_status(status) for status in statuses}

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """Copy a file; hdfs-native would write the copy under a name that HDFS refuses, first. Raises OSError."""
        with self.open(path1, "rb") as source, self.open(path2, "wb") as copy:
            shutil.copyfileobj(source, copy, _PIECE_BYTES)

    def _type_of(self, path: str) -> str | None:
        try:
            return str(self.info(path)["type"])
        except FileNotFoundError:
            return None

    def _convert_file_status(self, status: FileStatus) -> dict[str, Any]:
        info: dict[str, Any] = super()._convert_file_status(status)
        return {**info, "mtime": status.modification_time / 1000}


class Bounded:
    """A client, a reader or a writer of hdfs-native whose calls end.

    `close` is passed on as every other call is, so this class must have none, not even by inheritance.
    """

    def __init__(self, asked: Any, path: str = "HDFS") -> None:
        self._asked = asked
        self._path = path

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._asked, name)
        if name in _AT_ONCE or not callable(attribute):
            return attribute

        def call(*args: Any, **kwargs: Any) -> Any:
            path = args[0] if args and isinstance(args[0], str) else self._path
            try:
                answer = bounded(lambda: self._answer(attribute, args, kwargs), path)
            except OSError:
                raise
            except RuntimeError as error:  # as which this client raises all that Hadoop has complained of
                raise OSError(f"{path}: {str(error).partition(chr(10))[0]}") from error
            return Bounded(answer, path) if hasattr(answer, "close") else answer  # a file

        return call

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @staticmethod
    def _answer(asked: Any, args: Any, kwargs: Any) -> Any:
        answer = asked(*args, **kwargs)
        is_listing = hasattr(answer, "__next__") and not hasattr(answer, "close")
        return list(answer) if is_listing else answer  # it asks for more as it is read
