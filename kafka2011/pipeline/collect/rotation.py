"""Finds what became of a file that was rotated away, and what came between it and the file that has its name now."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.pipeline.collect.positions import FileKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka2011.pipeline.collect.positions import FilePosition

_COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".lz4", ".Z")


class FoundFile(NamedTuple):
    """A file that once had the watched name."""

    path: str
    key: FileKey
    size_bytes: int
    modified_ns: int


@dataclass
class Former:
    """What the directory says of files that once had the watched name, oldest first.

    `readable` has those with bytes that nobody read; `compressed` those that can no longer be read; `gone` the ones
    that no file of the directory is any more.
    """

    readable: list[FoundFile] = field(default_factory=list)
    compressed: list[FoundFile] = field(default_factory=list)
    gone: list[FilePosition] = field(default_factory=list)


def find_former(path: str, known: Mapping[FileKey, FilePosition]) -> Former:
    """Look through the directory of a watched path. `known` are the positions of all files that had its name.

    Besides those, files count that are named like rotated ones and were last written after the newest known one was
    seen: they came and went unseen. Raises OSError.
    """
    former = Former()
    real = Path(path).resolve()
    directory, current, pattern = real.parent, real.name, _rotated(real.name)
    since_ns = max((each.modified_ns for each in known.values()), default=None)
    there: set[FileKey] = set()
    with os.scandir(directory) as entries:
        for entry in entries:
            named = pattern.fullmatch(entry.name)
            # An entry's own inode is not that behind a link, or a mount, but neither is a rotated file.
            if not named and not any(entry.inode() == key.inode for key in known):
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if not stat.S_ISREG(status.st_mode):
                continue
            found = FoundFile(str(directory / entry.name), FileKey.of(status), status.st_size, status.st_mtime_ns)
            there.add(found.key)
            before = known.get(found.key)
            if before is not None:
                if found.size_bytes != before.position and entry.name != current:
                    former.readable.append(found)
            elif named and since_ns is not None and found.modified_ns >= since_ns:
                (former.compressed if named["compressed"] else former.readable).append(found)
    former.gone = [each for key, each in known.items() if key not in there]
    former.readable.sort(key=_age)
    former.compressed.sort(key=_age)
    return former


def _age(found: FoundFile) -> tuple[int, int, str]:
    """Order by time; of files of the same instant, log.2 is older than log.1."""
    number = found.path.rpartition(".")[2]
    return found.modified_ns, -int(number) if number.isdigit() and len(number) < 4 else 0, found.path


@lru_cache(1000)
def _rotated(name: str) -> re.Pattern[str]:
    """Match what logrotate and logging libraries call `name` later: with a number or a date after it, or inside it."""
    stem, dot, extension = name.rpartition(".")
    number = r"[-._][0-9][0-9TZ:._-]*"
    forms = [re.escape(name) + number]
    if stem:
        forms.append(re.escape(stem) + number + re.escape(dot + extension))
    compressed = "|".join(map(re.escape, _COMPRESSED))
    return re.compile(f"(?:{'|'.join(forms)})(?P<compressed>{compressed})?")
