"""The few things that a table does with files, on this machine and in stores that others reach too.

Paths are absolute, or URIs; what fails raises OSError. What else reads or writes files takes `file_system`, which is
one of PyArrow's, can be pickled, and knows a path by the name that `inside` returns.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar
from uuid import uuid4

from pyarrow.fs import LocalFileSystem, copy_files

from kafka2011.disk import fsync_directory, fsync_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyarrow.fs import FileSystem

Result = TypeVar("Result")


class FileStatus(NamedTuple):
    """One file."""

    path: str
    size_bytes: int
    modified_s: float


class Files(Protocol):
    """Files of one file system."""

    file_system: FileSystem
    storage_options: dict[str, str]
    """What deltalake is told of the store."""
    may_overwrite: bool
    """Whether a store of this kind may take a second file of one name, although the writer forbids it."""

    def inside(self, path: str) -> str:
        """Return the path as `file_system` takes it."""

    def bounded(self, call: Callable[[], Result], path: str) -> Result:
        """Call something that asks the store. Raises TimeoutError, naming the path, when there is no answer."""

    def may_have(self, directory: str) -> bool:
        """Say whether a directory could be there; no is certain."""

    def names(self, directory: str) -> list[str]:
        """List what is in a directory, sorted; nothing where there is none."""

    def walk(self, directory: str) -> list[FileStatus]:
        """List all files below a directory, sorted by path; nothing where there is none."""

    def read(self, path: str) -> bytes:
        """Read a whole file. Raises FileNotFoundError."""

    def write(self, path: str, data: bytes) -> None:
        """Write a whole file, in place of one that is there. Raises FileNotFoundError without its directory."""

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it, where they are missing and the store has any."""

    def delete(self, path: str) -> None:
        """Delete a file, or a directory with all that is in it; it may be gone already."""

    def old_directories(self, directory: str, prefix: str, before_s: float) -> list[str]:
        """Return the directories in a directory, of names with a prefix, in which nothing was written since."""

    def secure(self, directory: str) -> list[FileStatus]:
        """List all files below a directory once they outlive a power cut, and will not be cleaned up soon.

        Raises FileNotFoundError when somebody has removed it.
        """

    def keep(self, paths: Iterable[str]) -> list[FileStatus]:
        """Return these files, which will not be cleaned up soon. Raises FileNotFoundError when one is gone."""

    def secure_files(self, paths: Iterable[str]) -> None:
        """Bring files of one directory to disk, as far as they are there."""


class LocalFiles:
    """Files of this machine."""

    def __init__(self) -> None:
        self.file_system = LocalFileSystem()
        self.storage_options: dict[str, str] = {}
        self.may_overwrite = False

    def inside(self, path: str) -> str:
        """Return the path as `file_system` takes it."""
        return path

    def bounded(self, call: Callable[[], Result], path: str) -> Result:  # noqa: ARG002 (the protocol's)
        """Call it: a disk answers."""
        return call()

    def may_have(self, directory: str) -> bool:
        """Say whether a directory is there."""
        return Path(directory).is_dir()

    def names(self, directory: str) -> list[str]:
        """List what is in a directory, sorted; nothing where there is none."""
        try:
            return sorted(os.listdir(directory))  # noqa: PTH208 (names alone are wanted, and may be many)
        except FileNotFoundError:
            return []

    def walk(self, directory: str) -> list[FileStatus]:
        """List all files below a directory, sorted by path; nothing where there is none."""
        files = []
        for parent, _, names in os.walk(directory, onerror=_unless_missing):
            for name in names:
                path = f"{parent}/{name}"
                try:
                    status = os.stat(path)  # noqa: PTH116
                except FileNotFoundError:
                    continue  # as good as gone before
                files.append(FileStatus(path, status.st_size, status.st_mtime))
        return sorted(files)

    def read(self, path: str) -> bytes:
        """Read a whole file. Raises FileNotFoundError."""
        return Path(path).read_bytes()

    def write(self, path: str, data: bytes) -> None:
        """Write a whole file, in place of one that is there."""
        Path(path).write_bytes(data)

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it, where they are missing; the new ones last."""
        missing = [directory for directory in (Path(path), *Path(path).parents) if not directory.is_dir()]
        Path(path).mkdir(parents=True, exist_ok=True)
        for directory in missing:
            fsync_directory(directory.parent)

    def delete(self, path: str) -> None:
        """Delete a file, or a directory with all that is in it; it may be gone already.

        A directory loses its name first, so that nobody meets what is left of one.
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

    def old_directories(self, directory: str, prefix: str, before_s: float) -> list[str]:
        """Return the directories in a directory, of names with a prefix, in which nothing was written since."""
        every = Path(directory).glob(f"{prefix}*")
        return sorted(str(staged) for staged in every if max(map(_modified_s, [staged, *staged.rglob("*")])) < before_s)

    def secure(self, directory: str) -> list[FileStatus]:
        """List all files below a directory once they are on disk. Raises FileNotFoundError when it is gone."""
        if not Path(directory).is_dir():
            raise FileNotFoundError(f"{directory} is gone")
        fsync_tree(directory)
        return self.keep(file.path for file in self.walk(directory))

    def keep(self, paths: Iterable[str]) -> list[FileStatus]:
        """Return these files, young again: a cleaning that began before may take old ones."""
        kept = []
        for path in paths:
            os.utime(path)
            status = Path(path).stat()
            kept.append(FileStatus(path, status.st_size, status.st_mtime))
        return kept

    def secure_files(self, paths: Iterable[str]) -> None:
        """Bring files of one directory to disk, as far as they are there."""
        directories = set()
        for path in paths:
            directories.add(Path(path).parent)
            try:
                with Path(path).open("rb") as file:
                    os.fsync(file.fileno())
            except FileNotFoundError:
                continue
        for directory in directories:
            fsync_directory(directory)


def bring(source_files: Files, source: str, files: Files, path: str) -> None:
    """Have a file at another path too, in a directory that is made: under one more name, or as a copy."""
    files.make_directory(path.rpartition("/")[0])
    if isinstance(source_files, LocalFiles) and isinstance(files, LocalFiles):
        try:
            os.utime(source)  # before it has that name: a cleaning must never find it old
            Path(path).hardlink_to(source)
        except (FileNotFoundError, FileExistsError):
            raise
        except OSError:  # another file system, or one without such names, or somebody else's file
            shutil.copyfile(source, path)
    else:
        copy_files(
            source_files.inside(source),
            files.inside(path),
            source_filesystem=source_files.file_system,
            destination_filesystem=files.file_system,
        )


def _modified_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return float("inf")  # it was there just now: somebody is at it


def _unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
