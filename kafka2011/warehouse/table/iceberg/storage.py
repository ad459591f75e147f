"""Files and directories of an Iceberg table: what Spark wrote, and what nobody needs any more.

pyiceberg reads, writes and deletes single files; the file system under it can list directories too. A location may be
written in several ways (`/a`, `file:///a`), so what is compared are paths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pyarrow.fs import FileSelector, FileType, LocalFileSystem
from pyiceberg.io.pyarrow import PyArrowFileIO

from kafka2011.disk import fsync_tree
from kafka2011.warehouse.errors import WarehouseError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.io import FileIO

_MARKER = "_committing"


class StoredFile(NamedTuple):
    """A file below a location. `name` is its path from there on."""

    location: str
    name: str
    size_bytes: int
    modified_s: float


class Storage:
    """The file system that a table's `FileIO` reaches."""

    def __init__(self, io: FileIO) -> None:
        if not isinstance(io, PyArrowFileIO):
            raise WarehouseError(
                f"{type(io).__name__} cannot list directories: the catalogue needs"
                " py-io-impl=pyiceberg.io.pyarrow.PyArrowFileIO"
            )
        self._io = io

    def path(self, location: str) -> str:
        """Return the one path of a location."""
        return self._found(location)[1]

    def walk(self, location: str) -> Iterator[StoredFile]:
        """Yield the files below a directory, in order of their names; none when it is not there."""
        fs, path = self._found(location)
        for info in sorted(fs.get_file_info(_below(path, recursive=True)), key=lambda info: str(info.path)):
            if info.type == FileType.File:
                name = info.path[len(path) :].lstrip("/")
                yield StoredFile(f"{location}/{name}", name, info.size, info.mtime_ns / 1e9)

    def directories(self, location: str) -> list[tuple[str, float]]:
        """List name and time of last change of the directories right below one, in order."""
        fs, path = self._found(location)
        found = fs.get_file_info(_below(path, recursive=False))
        return sorted((info.base_name, info.mtime_ns / 1e9) for info in found if info.type == FileType.Directory)

    def make_directory(self, location: str) -> None:
        """Make a directory, with those above it."""
        fs, path = self._found(location)
        fs.create_dir(path, recursive=True)

    def remove_directory(self, location: str) -> None:
        """Remove a directory with all that is in it; it may be gone."""
        fs, path = self._found(location)
        if fs.get_file_info(path).type == FileType.Directory:
            fs.delete_dir(path)

    def remove_file(self, location: str) -> None:
        """Remove a file; it may be gone."""
        fs, path = self._found(location)
        if fs.get_file_info(path).type == FileType.File:
            fs.delete_file(path)

    def sync(self, location: str) -> None:
        """Bring what is below a local directory to disk; elsewhere a file that was closed is safe. Raises OSError."""
        fs, path = self._found(location)
        if isinstance(fs, LocalFileSystem):
            fsync_tree(path)

    def mark(self, location: str) -> None:
        """Make a directory young again, since what is in it is being committed. Raises OSError when it is gone."""
        fs, path = self._found(location)
        if fs.get_file_info(path).type != FileType.Directory:
            raise FileNotFoundError(f"{location} is gone")
        with fs.open_output_stream(f"{path}/{_MARKER}") as file:
            file.write(b"")

    def _found(self, location: str) -> tuple[Any, str]:
        scheme, netloc, path = self._io.parse_location(location, self._io.properties)
        return self._io.fs_by_scheme(scheme, netloc), path


def _below(path: str, *, recursive: bool) -> FileSelector:
    return FileSelector(path, recursive=recursive, allow_not_found=True)
