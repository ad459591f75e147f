"""Runs `kafka2011` and notes what it brings to disk below a directory.

    python -m integration.chaos.synced DIRECTORY NOTES KEPT broker --override ...

NOTES gets one line for each fsync that has succeeded, with what it covers: how long a file was before, or which names
a directory had. KEPT holds each such file under its inode's number, since a name whose removal was not brought to disk
comes back after a power cut, with its file.
"""

from __future__ import annotations

import ctypes
import json
import os
import stat
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Names = dict[str, tuple[int, bool]]

_BUFFER_BYTES = 32_768
_ENTRY = struct.Struct("=QqHB")  # of getdents64: inode, offset, length of the entry, type
_IS_DIRECTORY = 4


class Synced(NamedTuple):
    """What has been brought to disk, by inode: the sizes of files, and of directories the inode of each name.

    A name's inode comes with whether it is a directory's.
    """

    sizes: dict[int, int]
    names: dict[int, Names]


def noting(fsync: Callable[[int], None], directory: Path, notes: Path, kept: Path) -> Callable[[int], None]:
    """Return an fsync that also notes, before it returns, what it has covered below a directory."""
    kept.mkdir(parents=True, exist_ok=True)
    out = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    os.write(out, b"\n")  # kill -9 may have torn the last line

    def fsync_and_note(fd: int) -> None:
        path = Path(f"/proc/self/fd/{fd}").readlink()
        line = _covered_by(fd, path, kept) if path.is_relative_to(directory) else b""
        fsync(fd)
        os.write(out, line)

    return fsync_and_note


def _covered_by(fd: int, path: Path, kept: Path) -> bytes:
    """Return the line for what an fsync is about to cover. Opens no file: the process may not be allowed to."""
    found = os.fstat(fd)
    if not stat.S_ISDIR(found.st_mode):
        _keep(path, found.st_ino, kept)
        return size_line(found.st_ino, found.st_size)
    names = dict(_names_in(fd))
    for name, (inode, is_directory) in names.items():
        if not is_directory:
            _keep(path / name, inode, kept)
    return names_line(found.st_ino, names)


def _keep(path: Path, inode: int, kept: Path) -> None:
    with suppress(FileExistsError, FileNotFoundError):
        os.link(path, kept / str(inode))


def _names_in(directory_fd: int) -> Iterator[tuple[str, tuple[int, bool]]]:
    """Yield the names of an open directory, which os.listdir would open once more."""
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(_BUFFER_BYTES)
    os.lseek(directory_fd, 0, os.SEEK_SET)
    while (size := libc.getdents64(directory_fd, buffer, _BUFFER_BYTES)) > 0:
        data, position = buffer.raw[:size], 0
        while position < size:
            inode, _, length, kind = _ENTRY.unpack_from(data, position)
            name = os.fsdecode(data[position + _ENTRY.size : position + length].split(b"\0", 1)[0])
            if name not in {".", ".."}:
                yield name, (inode, kind == _IS_DIRECTORY)
            position += length
    if size < 0:
        raise OSError(ctypes.get_errno(), "getdents64")


def size_line(inode: int, size_bytes: int) -> bytes:
    """Return the line for a file."""
    return f"{json.dumps([inode, size_bytes])}\n".encode()


def names_line(inode: int, names: Names) -> bytes:
    """Return the line for a directory."""
    return f"{json.dumps([inode, names])}\n".encode()


def read_synced(lines: Iterable[str]) -> Synced:
    """Return what is on disk, by all notes; the fsync of a torn line did not return to the broker."""
    synced = Synced({}, {})
    for line in lines:
        with suppress(json.JSONDecodeError):
            inode, covered = json.loads(line)
            if isinstance(covered, dict):
                synced.names[inode] = {name: (number, is_directory) for name, (number, is_directory) in covered.items()}
            else:
                synced.sizes[inode] = covered
    return synced


def _main(directory: str, notes: str, kept: str, *arguments: str) -> int:
    os.fsync = noting(os.fsync, Path(directory).resolve(), Path(notes), Path(kept))  # type: ignore[assignment]
    from integration.chaos.defects import VARIABLE, plant, plant_in_replica
    from kafka2011.broker.flushing import disk_threads  # whoever takes os.fsync when it is imported must get this one
    from kafka2011.cli.app import main

    plant("broker")
    if os.environ.get(VARIABLE):
        plant_in_replica()
    disk_threads.FILES_FOR_ALL = sys.maxsize  # what syncfs covers is not noted
    return main(list(arguments))


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
