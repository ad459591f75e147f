"""Finds what became of files that were rotated away, and what came between them and the file that has their name now.

A file is the one that is known if it has its inode and, as far as that was read, its content: inodes are used again,
and files are truncated. What a known file held may be in another one by now, which was compressed, or copied before the
truncation. That is told by the content too, so that it is read on from there, and once.
"""

from __future__ import annotations

import os
import stat
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.collect.content import Content, OpenFiles, PackedFile, PlainFile, fingerprint
from kafka2011.collect.names import (
    COMPRESSED,
    OF_MULTILOG,
    family_name,
    first_word,
    rotated_pattern,
    target_pattern,
    without_compression,
)
from kafka2011.collect.positions import FileKey
from kafka2011.collect.unpack import UnpackError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from kafka2011.collect.positions import FilePosition

_SECOND_NS = 1_000_000_000


class FoundFile(NamedTuple):
    """A file that once had the watched name, or has what such a one held."""

    path: str
    key: FileKey
    size_bytes: int
    modified_ns: int

    @property
    def name(self) -> str:
        """What it is called in its directory."""
        return self.path.rpartition("/")[2]

    @property
    def is_packed(self) -> bool:
        """Whether it is compressed, by its name."""
        return self.path.endswith(COMPRESSED)

    def has_time_of(self, known: FilePosition) -> bool:
        """Whether it was written when a known file was last; what compresses files keeps that, some only the second."""
        return has_time_of(self.modified_ns, known)

    def is_older_than(self, known: FilePosition) -> bool:
        """Whether it was last written before a known file was."""
        return self.modified_ns // _SECOND_NS < known.modified_ns // _SECOND_NS


class Unread(NamedTuple):
    """A file with lines that nobody read, and the known one whose content goes on there, if one does."""

    file: FoundFile
    continues: FileKey | None
    content: Content


@dataclass
class Former:
    """What a directory says of files that once had the watched name, oldest first.

    `there` are known files and their places; `unread` those with bytes that nobody read; `read` has known files that
    were compressed after they were read, and `gone` those that are nowhere any more; `broken` are compressed files that
    cannot be read, and why. `beside` are newer files that are not read, whose names begin like a link's target.
    """

    there: list[FoundFile] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    read: list[tuple[FileKey, FoundFile]] = field(default_factory=list)
    broken: list[tuple[FoundFile, str]] = field(default_factory=list)
    gone: list[FileKey] = field(default_factory=list)
    beside: list[FoundFile] = field(default_factory=list)

    def close(self) -> None:
        """Close what is open: nobody will read it."""
        for unread in self.unread:
            unread.content.close()


class Listing:
    """The names in a directory at one moment. Raises OSError."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._by_inode: defaultdict[int, list[str]] = defaultdict(list)
        with os.scandir(directory) as entries:
            for entry in entries:
                # An entry's own inode is not that behind a link, or a mount, but neither is a rotated file.
                self._by_inode[entry.inode()].append(entry.name)
        self._names = sorted(name for names in self._by_inode.values() for name in names)

    def rotated(self, name: str) -> set[str]:
        """Return the names that rotated files of this one have; one that is being compressed only uncompressed."""
        pattern = rotated_pattern(name)
        names = {rotated_name for rotated_name in self._beginning(name) if pattern.fullmatch(rotated_name)}
        return {
            rotated_name
            for rotated_name in names
            if not (rotated_name.endswith(COMPRESSED) and rotated_name.rpartition(".")[0] in names)
        }

    def family(self, name: str) -> set[str]:
        """Return the names that rotated files of the same log have, this one's own too."""
        family = family_name(name)
        return {other for other in self._names if family_name(other) == family}

    def between(self, former: Iterable[str], current: str) -> set[str]:
        """Return the names of a link's targets between these and the current one, and of what they were rotated to."""
        patterns = [pattern for name in former if (pattern := target_pattern(name, current)) is not None]
        names = {
            name for name in self._names if any(pattern.fullmatch(without_compression(name)) for pattern in patterns)
        }
        return names.union(*(self.rotated(without_compression(name)) for name in names)) - {current}

    def beginning_as(self, name: str) -> set[str]:
        """Return the names with the first word of this one."""
        word = first_word(name)
        return {other for other in self._names if first_word(other) == word} if word else set()

    def with_inodes(self, keys: Iterable[FileKey]) -> set[str]:
        """Return the names of these inodes."""
        return {name for key in keys for name in self._by_inode.get(key.inode, ())}

    def look(self, names: Iterable[str]) -> list[FoundFile]:
        """Return those that are regular files, oldest first."""
        files = []
        for name in names:
            path = str(self._directory / name)
            try:
                status = os.stat(path, follow_symlinks=False)  # noqa: PTH116 (the path is text)
            except FileNotFoundError:
                continue
            if stat.S_ISREG(status.st_mode):
                files.append(FoundFile(path, FileKey.of(status), status.st_size, status.st_mtime_ns))
        return sorted(files, key=_age)

    def _beginning(self, name: str) -> Iterator[str]:
        stem = name.rpartition(".")[0] or name
        starts = [stem + separator for separator in "-._"]
        if name == OF_MULTILOG:
            starts.append("@")
        for start in starts:
            at = bisect_left(self._names, start)
            while at < len(self._names) and self._names[at].startswith(start):
                yield self._names[at]
                at += 1


def find_former(
    path: str,
    known: Mapping[FileKey, FilePosition],
    since_ns: int,
    open_files: OpenFiles,
    listing: Listing,
    *,
    held: Collection[FileKey] = (),
    replaced: FileKey | None = None,
    others_known: Mapping[FileKey, FilePosition] = MappingProxyType({}),
) -> Former:
    """Look at the directory of a watched path. `known` are the positions of all files that had its name.

    Besides those, files count that are named like rotated ones and were last written after `since_ns`, when the newest
    known one had been written as it was last seen: they came and went unseen. `held` are known files that are open, so
    that they are what they were; `replaced` is one that has other content now. What a known one held may also be in a
    rotated file of the same log that has another number, as where the path itself has one; `others_known` are what such
    files are known as.

    If the path is a link, files count that may have been its target after the known ones. Raises OSError.
    """
    current = Path(path).resolve().name
    rotated = listing.rotated(current)
    files = listing.look(rotated | listing.with_inodes(known))
    former = Former()
    same = _same(files, known, held, replaced, rotated | {current}, open_files)
    former.there = [file for file in files if file.key in same]
    former.gone = sorted(known.keys() - same, key=lambda key: known[key].modified_ns)
    oldest = min((known[key].modified_ns for key in former.gone), default=since_ns)
    others = [
        file
        for file in files
        if file.name in rotated and file.key not in same and file.modified_ns >= min(oldest, since_ns) - _SECOND_NS
    ]
    others = [file for file in others if file.key in known or not _is_known(file, others_known, open_files)]
    with _Unpacking(open_files) as unpacking:
        for file in former.there:
            if file.name != current and _has_unread(file, known[file.key]):
                _add_unread(former, file, None, unpacking)
        others = [file for file in others if not _is_copy(file, [known[key] for key in same], unpacking)]
        if former.gone:
            relatives = [
                file
                for file in listing.look(listing.family(current) - rotated - {current})
                if file.key not in same and not _is_known(file, others_known, open_files)
            ]
            _find_gone(former, known, others, relatives, unpacking)
        _find_unseen(former, known, since_ns, others, unpacking)
        if Path(path).is_symlink():
            is_known = partial(_is_known, others_known=others_known, open_files=open_files)
            _find_targets(former, current, known, same, since_ns, listing, is_known, unpacking)
    former.unread.sort(key=lambda unread: _age(unread.file))
    return former


def _find_targets(
    former: Former,
    current: str,
    known: Mapping[FileKey, FilePosition],
    same: set[FileKey],
    since_ns: int,
    listing: Listing,
    is_known: Callable[[FoundFile], bool],
    unpacking: _Unpacking,
) -> None:
    """Find what a link led to after the newest known file, and newer files whose names do not fit its targets."""
    found = [*former.there, *(file for _, file in former.read), *(unread.file for unread in former.unread)]
    seen = {*same, *(file.key for file in found)}
    names = listing.between({without_compression(file.name) for file in found}, current)
    candidates = (names | listing.beginning_as(current)) - listing.rotated(current) - {current}
    new = [file for file in listing.look(candidates) if file.key not in seen and not is_known(file)]
    positions = [known[key] for key in same]
    targets = [file for file in new if file.name in names and not _is_copy(file, positions, unpacking)]
    _find_unseen(former, known, since_ns, targets, unpacking)
    former.beside = [file for file in new if file.name not in names and file.modified_ns >= since_ns]


def _same(
    files: list[FoundFile],
    known: Mapping[FileKey, FilePosition],
    held: Collection[FileKey],
    replaced: FileKey | None,
    names: set[str],
    open_files: OpenFiles,
) -> set[FileKey]:
    """Return which known files are what they were."""
    same = {key for key in held if key in known}
    for file in files:
        saved = known.get(file.key)
        if saved is None or file.key == replaced or file.key in same:
            continue
        # Of what was not read only the inode is known, which any file may have by now.
        if is_as_seen(file, saved) or ((saved.position or file.name in names) and still_holds(file, saved, open_files)):
            same.add(file.key)
    return same


def _find_gone(
    former: Former,
    known: Mapping[FileKey, FilePosition],
    others: list[FoundFile],
    relatives: list[FoundFile],
    unpacking: _Unpacking,
) -> None:
    """Find what has the content of known files that are gone, and take it out of the lists."""
    for key in list(former.gone):
        gone = [known[other] for other in former.gone]
        file = _compressed_by_time(others, known[key], gone)
        if file is None:
            file = next((candidate for candidate in others if _goes_on(candidate, known[key], unpacking)), None)
        if file is None and known[key].position:  # of relatives only the content tells: they may be other logs
            file = next(
                (candidate for candidate in relatives if _has_content_of(candidate, known[key], unpacking)), None
            )
        if file is None:
            continue
        (others if file in others else relatives).remove(file)
        former.gone.remove(key)
        if _is_packed_after_reading(file, known[key]):
            former.read.append((key, file))
        else:
            _add_unread(former, file, key, unpacking)


def _is_known(file: FoundFile, others_known: Mapping[FileKey, FilePosition], open_files: OpenFiles) -> bool:
    """Whether a file is what another path's position says of it."""
    saved = others_known.get(file.key)
    return saved is not None and (is_as_seen(file, saved) or still_holds(file, saved, open_files))


def _find_unseen(
    former: Former,
    known: Mapping[FileKey, FilePosition],
    since_ns: int,
    others: list[FoundFile],
    unpacking: _Unpacking,
) -> None:
    """Find what came after the newest known file and is none of them."""
    for file in others:
        if file.modified_ns < since_ns:
            continue
        if unpacking.open(file) is not None or not any(file.has_time_of(known[key]) for key in former.gone):
            _add_unread(former, file, None, unpacking)


def _add_unread(former: Former, file: FoundFile, continues: FileKey | None, unpacking: _Unpacking) -> None:
    content = unpacking.take(file)
    if content is not None:
        former.unread.append(Unread(file, continues, content))
    else:
        former.broken.append((file, unpacking.faults[file.key]))


class _Unpacking:
    """Files that are opened to be compared; those that nobody takes are closed in the end."""

    def __init__(self, open_files: OpenFiles) -> None:
        self._open_files = open_files
        self._opened: dict[FileKey, Content | None] = {}
        self.faults: dict[FileKey, str] = {}

    def __enter__(self) -> _Unpacking:
        return self

    def __exit__(self, *_: object) -> None:
        for content in self._opened.values():
            if content is not None:
                content.close()

    def open(self, file: FoundFile) -> Content | None:
        """Open a file; None for a compressed one that cannot be read, for which `faults` says why."""
        if file.key not in self._opened:
            content: Content | None = None
            if not file.is_packed:
                content = PlainFile(file.path, file.key, self._open_files)
            else:
                try:
                    content = PackedFile(file.path, file.key)
                except UnpackError as error:
                    self.faults[file.key] = str(error)
            self._opened[file.key] = content
        return self._opened[file.key]

    def take(self, file: FoundFile) -> Content | None:
        """Open a file, and let whoever asks close it."""
        content = self.open(file)
        self._opened.pop(file.key)
        return content


def has_time_of(modified_ns: int, known: FilePosition) -> bool:
    """Return whether a time is that of a known file; what compresses files keeps it, some only the second."""
    return modified_ns in {known.modified_ns, known.modified_ns // _SECOND_NS * _SECOND_NS}


def is_as_seen(file: FoundFile, known: FilePosition) -> bool:
    """Return whether a file has the time and size that a known one had."""
    if file.is_packed:
        return file.has_time_of(known)
    return file.modified_ns == known.modified_ns and file.size_bytes == known.size_bytes


def still_holds(file: FoundFile, known: FilePosition, open_files: OpenFiles) -> bool:
    """Return whether a file with the inode of a known one is that one, by its content."""
    if file.is_packed:
        return False
    content = PlainFile(file.path, file.key, open_files)
    try:
        return holds(content, file.size_bytes, known)
    finally:
        content.close()


def holds(content: Content, size_bytes: int, known: FilePosition) -> bool:
    """Whether content begins as that of a known file, as far as that was read; if it was not, by its size."""
    if not known.position:
        return size_bytes >= known.size_bytes
    return fingerprint(content, known.position) == known.fingerprint


def _has_unread(file: FoundFile, known: FilePosition) -> bool:
    return known.position != (known.size_bytes if file.is_packed else file.size_bytes)


def _is_packed_after_reading(file: FoundFile, known: FilePosition) -> bool:
    return file.is_packed and file.has_time_of(known) and known.position >= known.size_bytes


def _compressed_by_time(files: list[FoundFile], known: FilePosition, gone: list[FilePosition]) -> FoundFile | None:
    """Return the compressed file that alone can be a known one which was read to its end, by their times.

    None if files of the same second make it uncertain: some compressors keep no more of a time.
    """
    candidates = [file for file in files if _is_packed_after_reading(file, known)]
    if len(candidates) != 1 or sum(candidates[0].has_time_of(other) for other in gone) > 1:
        return None
    return candidates[0]


def _goes_on(file: FoundFile, known: FilePosition, unpacking: _Unpacking) -> bool:
    """Whether a file has what a known one held that is gone; its time decides if it cannot be unpacked."""
    if _is_packed_after_reading(file, known) and unpacking.open(file) is None:
        return True
    return _has_content_of(file, known, unpacking)


def _has_content_of(file: FoundFile, known: FilePosition, unpacking: _Unpacking) -> bool:
    if file.is_older_than(known) or not known.size_bytes:
        return False
    content = unpacking.open(file)
    if content is None:
        return False
    return holds(content, content.status().size_bytes, known)


def _is_copy(file: FoundFile, same: list[FilePosition], unpacking: _Unpacking) -> bool:
    """Whether a file has just what one of these has; its time decides if it cannot be unpacked, or nothing was read."""
    timed = [saved for saved in same if file.is_packed and file.has_time_of(saved)]
    content = unpacking.open(file) if any(saved.position for saved in same) else None
    if content is None:
        return bool(timed)
    size_bytes = content.status().size_bytes
    return any(
        size_bytes == saved.size_bytes and (holds(content, size_bytes, saved) if saved.position else saved in timed)
        for saved in same
    )


def _age(file: FoundFile) -> tuple[int, int, str]:
    """Order by time; of files of the same instant, log.2 is older than log.1."""
    number = file.path.rpartition(".")[2]
    return file.modified_ns, -int(number) if number.isdigit() and len(number) < 4 else 0, file.path
