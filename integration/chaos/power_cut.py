"""A power cut: what a process had not brought to disk in a directory vanishes, names and bytes; it must have ended."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, get_args

from integration.chaos.records import whole_lines
from integration.chaos.synced import names_line, read_synced, size_line

if TYPE_CHECKING:
    from pathlib import Path

    from integration.chaos.synced import Synced

Tail = Literal["gone", "torn", "zeros"]
"""What a power cut leaves of bytes that were not brought to disk: nothing, half of them, or as many zeros."""
TAILS: tuple[Tail, ...] = get_args(Tail)


def lose_unsynced(root: Path, notes: Path, kept: Path, tail: Tail) -> dict[Path, int]:
    """Leave below a directory what is on disk, by the notes of `synced`, and return what of it has lost something.

    Each such file comes with how many of its bytes are still what they were.
    """
    synced = read_synced(whole_lines(notes))
    lost = _lose_names(root, synced, kept)
    for path in root.rglob("*"):
        if path.is_file():
            found = path.stat()
            size = min(found.st_size, synced.sizes.get(found.st_ino, 0))
            if size < found.st_size:
                lost[path] = size if tail != "torn" else (size + found.st_size) // 2
                os.truncate(path, lost[path])
                if tail == "zeros":
                    os.truncate(path, found.st_size)
    note_all(root, notes, kept)
    return lost


def note_all(root: Path, notes: Path, kept: Path) -> None:
    """Note that what is below a directory is on disk as it is."""
    with notes.open("ab") as out:
        out.write(b"\n")  # kill -9 may have torn the last line
        for directory in (root, *(path for path in root.iterdir() if path.is_dir())):
            names = {entry.name: (entry.inode(), entry.is_dir()) for entry in os.scandir(directory)}
            out.write(names_line(directory.stat().st_ino, names))
        for path in root.rglob("*"):
            if path.is_file():
                found = path.stat()
                with suppress(FileExistsError):
                    os.link(path, kept / str(found.st_ino))
                out.write(size_line(found.st_ino, found.st_size))


def _lose_names(directory: Path, synced: Synced, kept: Path) -> dict[Path, int]:
    """Remove the names that are not on disk, bring back those that still are, and return the files that went."""
    names = synced.names.get(directory.stat().st_ino, {})
    lost: dict[Path, int] = {}
    for entry in list(os.scandir(directory)):
        path = directory / entry.name
        if entry.name in names and names[entry.name][0] == entry.inode():
            if entry.is_dir():
                lost |= _lose_names(path, synced, kept)
        elif entry.is_dir():
            lost |= {each: 0 for each in path.rglob("*") if each.is_file()}
            shutil.rmtree(path)
        else:
            lost[path] = 0
            path.unlink()
    for name, (inode, is_directory) in names.items():
        if not is_directory and not (directory / name).exists():
            os.link(kept / str(inode), directory / name)
    return lost
