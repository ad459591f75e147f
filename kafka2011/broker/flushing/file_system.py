"""A file system all of whose files are brought to disk by one call, syncfs(2), where that can be relied on.

It tells of pages that could not be written since Linux 5.8, to a descriptor that was opened before, and not on every
file system: where a layer of containers merges directories, it succeeds and does nothing. Elsewhere each file has an
fsync of its own.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kafka2011.disk import open_directory

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS = frozenset({"ext4", "xfs", "btrfs"})
LEAST_RELEASE = (5, 8)

_LIBC = ctypes.CDLL(None, use_errno=True)


class FileSystem:
    """The file system of a directory, from before anything that matters is written; `close` may be called twice."""

    def __init__(self, directory_fd: int) -> None:
        self._fd = directory_fd
        self._device = os.fstat(directory_fd).st_dev

    @classmethod
    def of(cls, directory: Path) -> FileSystem | None:
        """Return the one that holds a directory; None if it is not to be relied on, or unknown."""
        if _release() < LEAST_RELEASE or not _is_allowed():
            return None
        with suppress(OSError):
            fd = open_directory(directory)
            with suppress(OSError):
                if kind_of(fd) in KINDS:
                    return cls(fd)
            os.close(fd)
        return None

    def holds(self, fd: int) -> bool:
        """Say whether a file is on it: a log's directory may be a link, or another disk may be mounted there."""
        return os.fstat(fd).st_dev == self._device

    def begin_sync(self) -> Callable[[], None]:
        """Return what brings all of it to disk, to be called once, even after `close`. That raises OSError."""
        fd = os.dup(self._fd)

        def sync() -> None:
            try:
                if _LIBC.syncfs(fd):
                    number = ctypes.get_errno()
                    raise OSError(number, os.strerror(number))
            finally:
                os.close(fd)

        return sync

    def close(self) -> None:
        """Need it no more."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def kind_of(fd: int) -> str:
    """Return what kind of file system holds an open directory, "" if the kernel does not tell. Raises OSError."""
    # Not statfs(2), whose number for ext4 is also that of ext2.
    told = re.search(r"^mnt_id:\s*(\d+)$", Path(f"/proc/self/fdinfo/{fd}").read_text(), re.MULTILINE)
    for line in Path("/proc/self/mountinfo").read_text(errors="replace").splitlines() if told else ():
        mounted, _, source = line.partition(" - ")
        if told is not None and mounted.split()[0] == told[1]:
            return source.split()[0]
    return ""


def _is_allowed() -> bool:
    """Say whether the call is there, and not forbidden: then it finds fault with what is no descriptor."""
    return hasattr(_LIBC, "syncfs") and _LIBC.syncfs(-1) != 0 and ctypes.get_errno() == errno.EBADF


def _release() -> tuple[int, ...]:
    release = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return tuple(map(int, release.groups())) if release else (0,)
