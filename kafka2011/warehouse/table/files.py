"""The few things that a table does with files: list, read, write, delete, and rename without overwriting.

`hadoop_files.HadoopFiles` does the same through Hadoop. Paths are absolute; what fails raises OSError.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol
from uuid import uuid4

from kafka2011.disk import fsync_directory, publish_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Check = Callable[[Sequence[str], Callable[[str], bytes]], None]
    """Is given the names in a directory and what reads a file in it; raises to prevent a rename into it."""


_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


class FileStatus(NamedTuple):
    """One file."""

    path: str
    size_bytes: int
    modified_s: float


class Files(Protocol):
    """Files of one file system."""

    def names(self, directory: str) -> list[str]:
        """List what is in a directory, sorted; nothing where there is none."""

    def walk(self, directory: str) -> list[FileStatus]:
        """List all files below a directory, sorted by path; nothing where there is none."""

    def read(self, path: str) -> bytes:
        """Read a whole file. Raises FileNotFoundError."""

    def write(self, path: str, data: bytes) -> None:
        """Write a whole file, in place of one that is there. Raises FileNotFoundError without its directory."""

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it, where they are missing."""

    def modified_s(self, path: str) -> float:
        """Return when a file or directory was last changed. Raises FileNotFoundError."""

    def delete(self, path: str) -> None:
        """Delete a file, or a directory with all that is in it; it may be gone already."""

    def can_rename(self, source: str, directory: str) -> bool:
        """Whether both are on one file system."""

    def publish(self, source: str, directory: str, name: str, check: Check) -> None:
        """Bring a directory to disk and rename it to `name` in another directory, if `check` raises nothing.

        If several do so at once, one succeeds. Raises FileExistsError when the name is taken; nothing moves then.
        """


class LocalFiles:
    """Files of this machine."""

    def names(self, directory: str) -> list[str]:
        """List what is in a directory, sorted; nothing where there is none."""
        try:
            return sorted(os.listdir(directory))  # noqa: PTH208 (names alone are wanted, and may be many)
        except FileNotFoundError:
            return []

    def walk(self, directory: str) -> list[FileStatus]:
        """List all files below a directory, sorted by path; nothing where there is none."""
        found = []
        for parent, _, names in os.walk(directory, onerror=_unless_missing):
            for name in names:
                path = f"{parent}/{name}"
                try:
                    status = os.stat(path)  # noqa: PTH116
                except FileNotFoundError:
                    continue  # as good as gone before
                found.append(FileStatus(path, status.st_size, status.st_mtime))
        return sorted(found)

    def read(self, path: str) -> bytes:
        """Read a whole file. Raises FileNotFoundError."""
        return Path(path).read_bytes()

    def write(self, path: str, data: bytes) -> None:
        """Write a whole file, in place of one that is there."""
        Path(path).write_bytes(data)

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it, where they are missing; the new ones last."""
        missing = [each for each in (Path(path), *Path(path).parents) if not each.is_dir()]
        Path(path).mkdir(parents=True, exist_ok=True)
        for each in missing:
            fsync_directory(each.parent)

    def modified_s(self, path: str) -> float:
        """Return when a file or directory was last changed. Raises FileNotFoundError."""
        return Path(path).stat().st_mtime

    def delete(self, path: str) -> None:
        """Delete a file, or a directory with all that is in it; it may be gone already.

        A directory loses its name first, so that nobody meets, or publishes, what is left of one.
        """
        if not Path(path).is_dir():
            Path(path).unlink(missing_ok=True)
            return
        dying = Path(path).with_name(f".{uuid4().hex}.deleted")
        try:
            Path(path).rename(dying)
        except FileNotFoundError:
            return  # somebody else's work
        shutil.rmtree(dying)

    def can_rename(self, source: str, directory: str) -> bool:
        """Whether both are on one file system."""
        return Path(source).stat().st_dev == Path(directory).stat().st_dev

    def publish(self, source: str, directory: str, name: str, check: Check) -> None:
        """Bring a directory to disk and rename it to `name` in another directory, if `check` raises nothing."""

        def check_in(into: int) -> None:
            names = sorted(os.listdir(into))
            check(names, lambda path: _read_in(into, path))

        publish_directory(source, directory, name, check_in)

    def exchange(self, one: str, other: str) -> None:
        """Give two directories one another's names, in one step: renameat2(2), which most local file systems have."""
        renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
        if renameat2 is None:
            raise OSError(errno.ENOSYS, "this C library has no renameat2", one)
        if renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), one, None, other)
        for parent in {Path(one).parent, Path(other).parent}:
            fsync_directory(parent)


def _read_in(directory: int, path: str) -> bytes:
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags, dir_fd=directory)) as file:
        return file.read()


def _unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
