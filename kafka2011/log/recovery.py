"""Recovery after an unclean stop: cut the last segment after its last good message (paper, section 3.3).

Good means: the length makes sense and fits in the file, the magic is known, the CRC is right. Compressed payloads are
not opened. What is cut is kept beside the log as `{offset of the cut, 20 digits}.cut`, unless the disk has no room for
it. Good messages after the bad one mean that the file was damaged; none mean that the last write was torn.
"""

from __future__ import annotations

import logging
import os
import re
import zlib
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from kafka2011.disk import SYSTEM_DISK
from kafka2011.errors import LogError
from kafka2011.log.segment import (
    CUT_SUFFIX,
    NO_ROOM_ERRORS,
    OFFSET_DIGITS,
    find_segment_files,
    os_error_text,
)
from kafka2011.message.header import LENGTH, LENGTH_AND_MAGIC, LENGTH_BYTES, MessageHeader, read_header
from kafka2011.message.message_set import scan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from kafka2011.disk import Disk
    from kafka2011.message.header import AnyBytes

    Read = Callable[[int, int, int], AnyBytes]
    """What reads a file like os.pread: its descriptor, how many bytes, from which position on."""

logger = logging.getLogger(__name__)

CHUNK_BYTES = 4 * 1024 * 1024
"""How much of a file is in memory at a time. Larger messages are checked piece by piece."""

SEARCH_CHUNK_BYTES = 256 * 1024
"""The same for the search for good messages after a bad one, which may start many times."""

MAX_SEARCHED_BYTES = 256 * 1024 * 1024
"""How much that search reads before it gives up."""

MAX_CANDIDATES = 1_000_000
"""How many places it looks at more closely before it gives up."""

_CANDIDATE = re.compile(rb"(?=\x00[\x00-\x1f](?!\x00[\x00-\x06])..[\x00\x01])", re.DOTALL)
"""What the start of a message looks like: a length below 2 MiB, then magic 0 or 1.

Longer ones are left out, since checking their CRC by mistake would exhaust the search. So are those of empty
messages: in a run of zeros, such as a power cut leaves, they occur by chance.
"""


@dataclass(frozen=True, slots=True)
class Survivors:
    """Good messages after the first bad one: where the first starts, how many there are and how many bytes they take.

    `complete` is False when the search gave up before the end of the file.
    """

    first_offset: int | None
    messages: int
    size_bytes: int
    complete: bool


@dataclass(frozen=True, slots=True)
class Recovery:
    """What recovery found in one segment, and did.

    `valid_bytes` of the `size_bytes` remain, with `messages` messages in them. If anything was cut, `fault` says what
    stood there, `cut_path` where it went (None where there was no room), and `survivors` what good messages were
    among it.
    """

    path: Path
    start_offset: int
    size_bytes: int
    valid_bytes: int
    messages: int
    fault: str | None = None
    cut_path: Path | None = None
    survivors: Survivors | None = None

    @property
    def cut_offset(self) -> int:
        """Offset after the last good message: where the log goes on."""
        return self.start_offset + self.valid_bytes

    @property
    def cut_bytes(self) -> int:
        """How much was cut."""
        return self.size_bytes - self.valid_bytes

    @property
    def is_corruption(self) -> bool:
        """True if good messages followed the bad one, so that this was not a torn write."""
        return self.survivors is not None and self.survivors.messages > 0


class TotalProgress:
    """Adds up the progress of recovering many logs, and reports (bytes done, bytes in all). Raises LogError."""

    def __init__(self, directories: Iterable[Path], report: Callable[[int, int], None]) -> None:
        self._total_bytes = sum(map(_last_segment_bytes, directories))
        self._done_bytes = 0
        self._report = report

    def add(self, count: int) -> None:
        """Add what one log has done."""
        self._done_bytes += count
        self._report(self._done_bytes, self._total_bytes)


def _last_segment_bytes(directory: Path) -> int:
    try:
        files = find_segment_files(directory)
        return files[-1][1].stat().st_size if files else 0
    except OSError as error:
        raise LogError(os_error_text("cannot open the log in", directory, error)) from error


def recover_last_segment(
    directory: Path,
    disk: Disk = SYSTEM_DISK,
    progress: Callable[[int], None] | None = None,
    *,
    is_synced: bool = False,
) -> Recovery | None:
    """Recover the last segment of a log; None if it has no segment. `progress` gets the bytes done since its last call.

    What remains is on disk afterwards, and so are the names of all segments; `is_synced` says that what the disk
    `covers` is there already. Raises LogError naming the path.
    """
    path = directory
    try:
        files = find_segment_files(directory)
        if not files:
            return None
        start_offset, path = files[-1]
        with path.open("r+b", buffering=0) as file:
            if not (is_synced and disk.covers(file.fileno())):
                disk.fsync_directory(directory)
                disk.fsync(file.fileno())  # these bytes are about to be readable, and readable means flushed
            return _recover(file, path, start_offset, disk, progress or (lambda _bytes: None))
    except OSError as error:
        raise LogError(os_error_text("cannot recover", path, error)) from error


def _recover(file: BinaryIO, path: Path, start_offset: int, disk: Disk, progress: Callable[[int], None]) -> Recovery:
    fd = file.fileno()
    size = os.fstat(fd).st_size
    # After an fsync that failed, the page cache may hold what the disk does not. Only the disk counts.
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    walk = walk_messages(fd, 0, size, progress)
    if walk.end == size:
        return Recovery(path, start_offset, size, size, walk.messages)
    survivors = _find_survivors(fd, walk.end, size, start_offset)
    cut_path = keep(fd, walk.end, size, path, start_offset + walk.end, disk)
    os.ftruncate(fd, walk.end)
    disk.fsync(fd)
    progress(size - walk.end)
    recovery = Recovery(path, start_offset, size, walk.end, walk.messages, walk.fault, cut_path, survivors)
    _report(recovery, survivors)
    return recovery


def _report(recovery: Recovery, survivors: Survivors) -> None:
    fate = f"moved to {recovery.cut_path}" if recovery.cut_path else "dropped, since the disk has no room for a copy"
    cut = f"cut {recovery.path} at offset {recovery.cut_offset} ({recovery.fault}): {recovery.cut_bytes} bytes {fate}"
    searched = "" if survivors.complete else "; the search after it ended early"
    if recovery.is_corruption:
        logger.error(
            "corrupt log: %s; among them %d good messages of %d bytes, the first at offset %s%s",
            *(cut, survivors.messages, survivors.size_bytes, survivors.first_offset, searched),
        )
    else:
        logger.warning("torn tail: %s; no good message among them%s", cut, searched)


@dataclass(frozen=True, slots=True)
class Walk:
    """Where a walk over good messages ended, how many there were, and what stands there unless it is the end."""

    end: int
    messages: int
    fault: str | None


def pread(fd: int, size: int, position: int) -> AnyBytes:
    """Read like os.pread, by way of the page cache."""
    return os.pread(fd, size, position)


def walk_messages(
    fd: int,
    position: int,
    size: int,
    progress: Callable[[int], None] = lambda _bytes: None,
    read: Read = pread,
) -> Walk:
    """Go from message to message, from `position` to the file's `size` or the first that is not good.

    `read` is called like os.pread. It may return fewer bytes, but one at least before the end, and may use their memory
    again with the next call.
    """
    messages = 0
    while position < size:
        chunk = read(fd, min(CHUNK_BYTES, size - position), position)
        if not chunk:
            raise OSError(f"the file became shorter while it was read, at position {position}")
        checked = scan(chunk)
        messages += checked.messages
        fault, step = checked.fault, checked.end
        if fault is None and step == 0:  # not one whole message in the chunk
            fault, step = _check_large(fd, chunk, position, size, read)
            messages += fault is None
        position += step
        progress(step)
        if fault is not None:
            return Walk(position, messages, fault)
    return Walk(position, messages, None)


def is_good_message(fd: int, position: int, size: int, read: Read = pread) -> bool:
    """Say whether a good message starts at a position of a file."""
    chunk = read(fd, min(SEARCH_CHUNK_BYTES, size - position), position)
    checked = scan(chunk, max_messages=1)
    if checked.messages or checked.fault is not None:
        return checked.messages > 0
    return _check_large(fd, chunk, position, size, read)[0] is None


def _check_large(fd: int, head: AnyBytes, position: int, size: int, read: Read) -> tuple[str | None, int]:
    """Check a message that is not wholly in the chunk; return (fault, 0) or (None, its bytes)."""
    header = read_header(head)
    if not isinstance(header, MessageHeader):
        return header or f"{len(head)} bytes are no message", 0
    end = position + header.message_bytes
    if end > size:
        return f"length {header.length} with {size - position - LENGTH_BYTES} bytes left in the file", 0
    at = position + header.overhead_bytes
    running = 0
    while at < end:
        piece = read(fd, min(CHUNK_BYTES, end - at), at)
        if not piece:
            raise OSError(f"the file became shorter while it was read, at position {at}")
        running = zlib.crc32(piece, running)
        at += len(piece)
    return (None, end - position) if running == header.crc else (f"CRC differs from the stored {header.crc:#010x}", 0)


def _find_survivors(fd: int, bad: int, size: int, start_offset: int) -> Survivors:
    """Look for good messages after the bad one at position `bad`, with bounded effort."""
    effort = SearchEffort()
    first: int | None = None
    messages = found_bytes = 0
    position = bad
    while True:
        position_of_good = find_message(fd, position + 1, size, effort)
        if position_of_good is None:
            break
        walk = walk_messages(fd, position_of_good, size)
        first = start_offset + position_of_good if first is None else first
        messages += walk.messages
        found_bytes += walk.end - position_of_good
        position = walk.end
    return Survivors(first, messages, found_bytes, not effort.is_spent)


class SearchEffort:
    """What is left of the allowance of searches in one file."""

    def __init__(self) -> None:
        self.bytes = MAX_SEARCHED_BYTES
        self.candidates = MAX_CANDIDATES

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left."""
        return self.bytes <= 0 or self.candidates <= 0


def find_message(fd: int, position: int, size: int, effort: SearchEffort, read: Read = pread) -> int | None:
    """Return the first position, from `position` on, where a good message starts; None if none is found."""
    while position < size and not effort.is_spent:
        chunk = bytes(read(fd, min(SEARCH_CHUNK_BYTES, size - position), position))
        effort.bytes -= len(chunk)
        is_zeros = chunk.count(0) == len(chunk)  # what a power cut leaves; slow to match against
        for candidate in () if is_zeros else _CANDIDATE.finditer(chunk):
            at = position + candidate.start()
            end = at + LENGTH_BYTES + LENGTH.unpack_from(chunk, candidate.start())[0]
            if end > size:
                continue
            effort.candidates -= 1
            effort.bytes -= end - at
            if effort.is_spent:
                return None
            if is_good_message(fd, at, size, read):
                return at
        if position + len(chunk) >= size:
            return None
        position += len(chunk) - LENGTH_AND_MAGIC.size + 1  # a header may lie across the seam
    return None


def keep(fd: int, position: int, size: int, path: Path, cut_offset: int, disk: Disk) -> Path | None:
    """Copy what will be cut to a new file beside its segment and bring it to disk; never write over an earlier one.

    Returns None when the disk is full: the log must be cut all the same, or the broker could not start again.
    """
    cut_path: Path | None = None
    try:
        cut_path, cut_fd = _create_cut_file(path.parent, cut_offset)
        with closing(os.fdopen(cut_fd, "wb", buffering=0)):
            _copy(fd, position, size, cut_fd)
            disk.fsync(cut_fd)
        disk.fsync_directory(path.parent)
    except OSError as error:
        if cut_path is not None:
            cut_path.unlink()
        if error.errno in NO_ROOM_ERRORS:
            return None
        raise
    return cut_path


def _copy(fd: int, position: int, size: int, to_fd: int) -> None:
    while position < size:
        copied = os.sendfile(to_fd, fd, position, size - position)
        if not copied:
            raise OSError(f"the file became shorter while it was cut, at position {position}")
        position += copied


def _create_cut_file(directory: Path, cut_offset: int) -> tuple[Path, int]:
    number = 1
    while True:
        again = "" if number == 1 else f".{number}"
        path = directory / f"{cut_offset:0{OFFSET_DIGITS}}{again}{CUT_SUFFIX}"
        try:
            return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileExistsError:
            number += 1
