"""The disk: the calls that may have to wait for it, the locks to hold meanwhile, and what makes directories survive.

What was written survives the end of the process, but only what was synced survives a power cut: a file's bytes by one
fsync, its name by another, of the directory. Everything raises OSError.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_TAKEN = frozenset({errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR})
"""What rename(2) answers for a target that holds something, by file system, or that is no directory."""

_NOTHING_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


class Lock(Protocol):
    """What serializes those who use a log."""

    def acquire(self, blocking: bool = True) -> bool:
        """Take it; say whether that was done."""

    def release(self) -> object:
        """Give it back."""

    def __enter__(self) -> Any: ...

    def __exit__(self, kind: Any, error: Any, traceback: Any, /) -> Any: ...


class Sync(Protocol):
    """A file that has to be brought to disk, for somebody who waits for it."""

    @property
    def fd(self) -> int:
        """The file."""

    def end(self, error: OSError | None) -> None:
        """Take note that it is on disk, or why it is not. Does not wait."""


_NEW_SUFFIX = ".new"


def is_replaced_file(name: str, of: str) -> bool:
    """Say whether a file is called `of`, or is what was to take its place and was left by a crash."""
    return name in {of, of + _NEW_SUFFIX}


class Disk:
    """The operating system's own calls, made where they are asked for.

    A broker makes them in threads instead, so that others run meanwhile, and needs locks that fit that. Raises OSError.
    """

    def write(self, fd: int, data: bytes | memoryview) -> int:
        """Write as much as one call takes, into the page cache; return how many bytes."""
        return os.write(fd, data)

    def write_all(self, fd: int, data: bytes | memoryview) -> None:
        """Write everything: a full disk, a signal, or more than one call can write, ends a write early."""
        written = self.write(fd, data)
        while written < len(data):
            count = self.write(fd, memoryview(data)[written:])
            if not count:
                raise OSError(errno.EIO, f"wrote {written} of {len(data)} bytes")
            written += count

    def fsync(self, fd: int) -> None:
        """Make a file's bytes, or a directory's names, survive a power cut."""
        os.fsync(fd)

    def fsync_directory(self, directory: str | Path) -> None:
        """Make names that were added to or removed from the directory survive a power cut."""
        fsync_directory(directory, self.fsync)

    @contextmanager
    def replacing(self, path: Path, new: Path | None = None) -> Iterator[BinaryIO]:
        """Give a file that takes the place of another one once all of it is on disk.

        It is called `new` at first; by default as `is_replaced_file` knows it. A crash or a failure leaves the one
        before.
        """
        if new is None:
            new = path.with_name(path.name + _NEW_SUFFIX)
        with new.open("wb") as file:
            yield file
            file.flush()
            self.fsync(file.fileno())
        new.replace(path)
        self.fsync_directory(path.parent)

    def unlink(self, path: Path) -> None:
        """Remove a name; that of a file that nobody has open takes a third of a second for a gigabyte."""
        path.unlink()

    def close(self, fd: int) -> None:
        """Close a deleted file, which frees its bytes: that takes as long, and nobody is to wait for it."""
        os.close(fd)

    def watch(self, directory: Path) -> None:
        """Get ready for `fsync_all` of files in it; called before they are written to, and `unwatch` in the end."""

    def unwatch(self) -> None:
        """Be done with that; may be called twice."""

    def sync_file_system(self) -> bool:
        """Bring everything on the file system of the watched directory to disk, if that can be relied on and is quick.

        Say whether that was done; then files that it `covers` need no fsync for what was written to them before.
        """
        return False

    def covers(self, fd: int) -> bool:  # noqa: ARG002 (for others)
        """Say whether a file is on that file system."""
        return False

    def fsync_all(self, syncs: Sequence[Sync]) -> None:
        """Bring many files to disk, and tell each what came of it, whatever comes of the others."""
        for sync in syncs:
            sync.end(error_of(self.fsync, sync.fd))

    def make_lock(self) -> Lock:
        """Make a lock that may be held while a call waits."""
        return threading.RLock()


SYSTEM_DISK = Disk()
"""The disk of everything that is not given a different one."""


def open_directory(directory: str | Path) -> int:
    """Open a directory in order to lock it or to bring its names to disk."""
    return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def lock_directory(directory: str | Path) -> int:
    """Lock a directory, and return the descriptor that holds the lock until it is closed.

    Raises BlockingIOError if another descriptor holds it.
    """
    fd = open_directory(directory)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(fd)
        raise
    return fd


def is_directory(path: Path) -> bool:
    """Say whether a directory is there. Raises OSError if the disk does not tell, which Path.is_dir of 3.14 hides."""
    return _has_kind(path, stat.S_ISDIR)


def is_regular_file(path: Path) -> bool:
    """Say whether a file is there, and no directory or the like. Raises OSError if the disk does not tell."""
    return _has_kind(path, stat.S_ISREG)


def _has_kind(path: Path, is_kind: Callable[[int], bool]) -> bool:
    try:
        return is_kind(path.stat().st_mode)
    except OSError as error:
        if error.errno in _NOTHING_THERE:
            return False
        raise


def error_of(call: Callable[..., object], *arguments: object) -> OSError | None:
    """Call, and return the error of the operating system if that fails."""
    try:
        call(*arguments)
    except OSError as error:
        return error
    return None


def fsync_directory(directory: str | Path, fsync: Callable[[int], None] | None = None) -> None:
    """Bring to disk which names a directory has."""
    with _opened(directory, os.O_DIRECTORY) as fd:
        (fsync or os.fsync)(fd)


def fsync_tree(directory: str | Path) -> None:
    """Bring a directory to disk, with all files and directories below it."""
    for parent, _, names in os.walk(directory, topdown=False, onerror=_raise):
        for name in names:
            with _opened(f"{parent}/{name}") as fd:
                os.fsync(fd)
        fsync_directory(parent)


def publish_directory(source: str | Path, directory: str | Path, name: str) -> None:
    """Bring a directory to disk and rename it to `name` in another one.

    rename(2) refuses a target that holds something, and so decides which of several comes first: the others get
    FileExistsError, and nothing of theirs moves.
    """
    fsync_tree(source)
    with _opened(directory, os.O_DIRECTORY) as into:
        try:
            os.rename(source, name, dst_dir_fd=into)
        except OSError as error:
            if error.errno in _TAKEN:
                raise FileExistsError(errno.EEXIST, "it is there already", f"{directory}/{name}") from error
            raise
        os.fsync(into)
    fsync_directory(Path(source).parent)


@contextmanager
def _opened(path: str | Path, flags: int = 0) -> Iterator[int]:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    try:
        yield fd
    finally:
        os.close(fd)


def _raise(error: OSError) -> None:
    raise error
