"""The calls of a process to the operating system, made on real files and told to a `ModelDisk`.

It stands between shipped code and `os`: before each change to the disk it tells the model, which may note what a crash
would leave now; while a call waits for the disk it lets others run; and it makes calls fail.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import IO, TYPE_CHECKING, Any, NamedTuple, NoReturn

from kafka2011.disk import Disk
from tests.models.log.disk import Directory, File, ModelDisk, Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kafka2011.message.header import AnyBytes
    from tests.support.clocks import ManualClock

CHANGES = frozenset({"create", "mkdir", "write", "sendfile", "fsync", "unlink", "ftruncate", "rename", "rmdir"})
"""The calls that change what the disk holds, now or at last."""

WAITING = frozenset({"write", "fsync", "unlink"})
"""The calls that the broker makes in threads, so that others may run meanwhile."""

CALLS = CHANGES | {"open", "close", "stat", "fstat", "listdir", "pread", "fadvise", "flock"}

ERRORS = {
    errno.ENOSPC: frozenset({"create", "mkdir", "write", "sendfile", "fsync", "rename"}),
    errno.EMFILE: frozenset({"create", "open"}),
    errno.EIO: CALLS,
}
"""The calls that may fail with each error."""

MODELLED = (
    *("open", "close", "stat", "fstat", "listdir", "scandir", "mkdir", "unlink", "ftruncate", "pread", "sendfile"),
    *("posix_fadvise", "rename", "replace", "rmdir"),
)

REFUSED = ("link", "symlink", "remove", "truncate", "pwrite", "writev", "fdatasync")
"""Calls that nobody makes: the disk would have to know them first."""


class StoppedError(BaseException):
    """The greenlet that made a call was killed while it waited: the call itself was done."""


class Fault(NamedTuple):
    """The call with this number fails, and if it lasts, all that can fail so until the next start.

    A `short` one lets half of a write through first. Without an error it is the caller that ends, not the call.
    """

    at: int
    error: int | None
    lasts: bool = False
    short: bool = False


class BlockedError(Exception):
    """Somebody holds the lock: a greenlet would wait for it, and is left out here."""


class ModelLock:
    """A lock that nobody waits for: whoever runs while another one waits for the disk gives up instead."""

    def __init__(self) -> None:
        self._is_held = False

    def acquire(self, blocking: bool = True) -> bool:
        if self._is_held:
            if blocking:
                raise BlockedError
            return False
        self._is_held = True
        return True

    def release(self) -> None:
        self._is_held = False

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_error: object) -> None:
        self.release()


class FileLayer(Disk):
    """The files in `root`, which the disk's root directory stands for."""

    make_lock = ModelLock

    def __init__(self, root: Path, disk: ModelDisk, clock: ManualClock) -> None:
        self.root = root
        self.disk = disk
        self.calls: list[str] = []
        self.fault: Fault | None = None
        self.has_failed = False
        self.has_lost_pages = False
        self.may_stop = False
        self.on_change: Callable[[], None] = lambda: None
        self.let_others_run: Callable[[str], None] = lambda _call: None
        self._prefix = f"{root}/"
        self._clock = clock
        self._numbers: dict[int, int] = {}  # by file descriptor
        self._written: set[int] = set()  # descriptors
        self._is_disk_full = False
        self._is_installed = False
        self._calls = self._all_calls()

    # Installing

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Stand between the operating system and whoever calls it in the block."""
        if self._is_installed:
            yield
            return
        self._is_installed = True
        for module, calls in self._calls.items():
            for name, call in calls.items():
                setattr(module, name, call)
        try:
            yield
        finally:
            for module, calls in _REAL.items():
                for name, call in calls.items():
                    setattr(module, name, call)
            self._is_installed = False

    def _all_calls(self) -> dict[ModuleType, dict[str, Any]]:
        calls: dict[str, Any] = {name: getattr(self, name) for name in MODELLED}
        calls |= {name: self._refuse(name) for name in REFUSED}
        return {os: calls, io: {"open": self._open_file}, fcntl: {"flock": self._flock}}

    def _refuse(self, name: str) -> Callable[..., NoReturn]:
        def refuse(*arguments: object, **_options: object) -> NoReturn:
            raise AssertionError(f"os.{name}{arguments} is not modelled")

        return refuse

    def restart(self) -> None:
        """Close what a process left open when it ended, and mend what failed."""
        for fd in self.open_descriptors():
            _real.close(fd)
        self._numbers.clear()
        self._written.clear()
        self.heal()

    def heal(self) -> None:
        """Let calls that failed succeed again."""
        if self.has_failed:
            self.fault = None
            self.has_failed = self._is_disk_full = False

    @property
    def awaits_fault(self) -> bool:
        """Say whether a fault is still to come."""
        return self.fault is not None and not self.has_failed

    def has_failed_with(self, error: int) -> bool:
        """Say whether it was with this error that calls have failed."""
        return self.has_failed and self.fault is not None and self.fault.error == error

    @contextmanager
    def without_faults(self) -> Iterator[None]:
        """Let all calls in the block succeed."""
        fault, self.fault = self.fault, None
        try:
            yield
        finally:
            self.fault = fault

    def open_descriptors(self) -> list[int]:
        """Return the descriptors of files in `root` that are open."""
        return [fd for fd in self._numbers if self._is_ours(fd)]

    def _is_ours(self, fd: int) -> bool:
        # Files that were opened as Python objects are closed without a call that is seen here.
        try:
            target = os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115 (Path would call what is replaced here)
        except FileNotFoundError:
            return False
        return f"{target}/".startswith(self._prefix)

    # What every call does

    def _begin(self, name: str) -> OSError | None:
        """Count a call and return the error that it is to raise, if any."""
        at = len(self.calls)
        self.calls.append(name)
        if name in CHANGES:
            self.on_change()
        fault = self.fault
        if fault is None or fault.error is None or name not in ERRORS[fault.error]:
            error = None
        elif at == fault.at or (fault.lasts and at > fault.at):
            error = OSError(fault.error, os.strerror(fault.error))
            self.has_failed = True
        else:
            error = None
        if name in WAITING:
            self.let_others_run(name)
        return error

    def _check(self, name: str) -> None:
        error = self._begin(name)
        if error is not None:
            raise error

    def _end(self) -> None:
        """End the caller, if its time has come: what it waited for was done."""
        fault = self.fault
        if fault is not None and fault.error is None and len(self.calls) > fault.at and self.may_stop:
            self.fault = None
            raise StoppedError

    def _names(self, path: object) -> tuple[str, ...] | None:
        """Return the path below `root`; None for a file elsewhere."""
        if isinstance(path, int):
            return None
        text = os.fspath(path)  # type: ignore[call-overload]
        if not f"{text}/".startswith(self._prefix):
            return None
        return tuple(text[len(self._prefix) :].split("/")) if len(text) > len(self._prefix) else ()

    def _parent(self, names: tuple[str, ...]) -> int:
        number = self.disk.find(names[:-1])
        assert number is not None
        return number

    # The calls

    def open(self, path: object, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        names = self._names(path)
        if names is None:
            return int(_real.open(path, flags, mode, dir_fd=dir_fd))
        is_new = bool(flags & os.O_CREAT) and self.disk.find(names) is None
        is_cut = bool(flags & os.O_TRUNC) and not is_new
        self._check("create" if is_new else "ftruncate" if is_cut else "open")
        fd: int = _real.open(path, flags, mode)
        number = self.disk.make(self._parent(names), names[-1], File()) if is_new else self.disk.find(names)
        assert number is not None
        self._numbers[fd] = number
        if is_cut:
            self.disk.resize(number, 0)
        if is_new or is_cut:
            self._set_time(fd)
        return fd

    def _open_file(self, file: object, *arguments: Any, **options: Any) -> IO[Any]:
        if self._names(file) is not None:
            options["opener"] = self.open
        opened: IO[Any] = _REAL[io]["open"](file, *arguments, **options)
        return opened

    def close(self, fd: int) -> None:
        if self._numbers.get(fd) is None:
            _real.close(fd)
            return
        # Where nothing was written there is nothing that a close could fail to write.
        error = self._begin("close") if fd in self._written else None
        self._written.discard(fd)
        del self._numbers[fd]
        _real.close(fd)  # even one that fails leaves the descriptor closed
        if error is not None:
            raise error

    def write(self, fd: int, data: AnyBytes) -> int:
        error = self._begin("write")
        if self._is_disk_full:
            error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if error is not None:
            assert self.fault is not None
            if self._is_disk_full or not self.fault.short or len(data) < 2:
                raise error
            self._is_disk_full = True
            data = bytes(data)[: len(data) // 2]
        number = self._numbers[fd]
        written = os.write(fd, data)
        self._written.add(fd)
        self.disk.append(number, bytes(data[:written]))
        self._set_time(fd)
        if error is None:
            self._end()
        return written

    def _set_time(self, fd: int) -> None:
        at_ns = int(self._clock.wall_s() * 1000) * 1_000_000
        os.utime(fd, ns=(at_ns, at_ns))

    def sendfile(self, out_fd: int, in_fd: int, offset: int, count: int) -> int:
        self._check("sendfile")
        sent: int = _real.sendfile(out_fd, in_fd, offset, count)
        self.disk.append(self._numbers[out_fd], _real.pread(in_fd, sent, offset))
        return sent

    def fsync(self, fd: int) -> None:
        number = self._numbers.get(fd)
        if number is None:  # a directory above `root`
            return
        count = self.disk.count_pending(number)  # what others write meanwhile is not brought to disk
        error = self._begin("fsync")
        if error is not None:
            self.has_lost_pages = True
            self.disk.fail_sync(number, count, len(self.calls))
            raise error
        self.disk.sync(number, count)
        self._end()

    def ftruncate(self, fd: int, size: int) -> None:
        self._check("ftruncate")
        _real.ftruncate(fd, size)
        self.disk.resize(self._numbers[fd], size)

    def unlink(self, path: object) -> None:
        names = self._names(path)
        assert names is not None
        self._check("unlink")
        _real.unlink(path)
        self.disk.remove(self._parent(names), names[-1])

    def rename(self, path: object, new_path: object) -> None:
        names, new_names = self._names(path), self._names(new_path)
        assert names is not None
        assert new_names is not None
        assert names[:-1] == new_names[:-1], "not modelled"
        self._check("rename")
        _real.rename(path, new_path)
        self.disk.rename(self._parent(names), names[-1], new_names[-1])

    def replace(self, path: object, new_path: object) -> None:
        self.rename(path, new_path)

    def rmdir(self, path: object) -> None:
        names = self._names(path)
        assert names is not None
        self._check("rmdir")
        _real.rmdir(path)
        self.disk.remove(self._parent(names), names[-1])

    def mkdir(self, path: object, mode: int = 0o777) -> None:
        names = self._names(path)
        assert names is not None
        self._check("mkdir")
        _real.mkdir(path, mode)
        self.disk.make(self._parent(names), names[-1], Directory())

    def stat(self, path: Any, **options: Any) -> os.stat_result:
        if self._names(path) is not None:
            self._check("stat")
        status: os.stat_result = _real.stat(path, **options)
        return status

    def fstat(self, fd: int) -> os.stat_result:
        self._check("fstat")
        status: os.stat_result = _real.fstat(fd)
        return status

    def listdir(self, path: Any) -> list[str]:
        self._check("listdir")
        return sorted(_real.listdir(path))

    def scandir(self, path: Any) -> Any:
        self._check("listdir")
        return _real.scandir(path)

    def pread(self, fd: int, size: int, position: int) -> bytes:
        self._check("pread")
        data: bytes = _real.pread(fd, size, position)
        return data

    def posix_fadvise(self, fd: int, offset: int, size: int, advice: int) -> None:
        assert (offset, size, advice) == (0, 0, os.POSIX_FADV_DONTNEED), "not modelled"
        self._check("fadvise")
        number = self._numbers[fd]
        before = self.disk.file(number).cached
        after = self.disk.drop_cache(number)
        if after != before:
            _real.pwrite(fd, after, 0)

    def _flock(self, fd: int, operation: int) -> None:
        self._check("flock")
        _REAL[fcntl]["flock"](fd, operation)


def write_tree(tree: Tree, directory: Path, clock: ManualClock) -> None:
    """Make real files of a tree in a directory that is there, last written now."""
    at_s = clock.wall_s()
    for name, content in tree.items():
        path = directory / name
        if isinstance(content, bytes):
            path.write_bytes(content)
            os.utime(path, (at_s, at_s))
        else:
            path.mkdir()
            write_tree(content, path, clock)


def read_tree(directory: Path) -> Tree:
    """Return what a real directory holds."""
    return {path.name: read_tree(path) if path.is_dir() else path.read_bytes() for path in sorted(directory.iterdir())}


_REAL: dict[ModuleType, dict[str, Any]] = {
    os: {name: getattr(os, name) for name in (*MODELLED, *REFUSED)},
    io: {"open": io.open},
    fcntl: {"flock": fcntl.flock},
}
_real: Any = SimpleNamespace(**_REAL[os])
