"""One segment file of a partition's log, and pieces of it for sendfile (paper, section 3.1).

`{log directory}/{offset of the first byte, 20 digits}.kafka` holds messages back to back and nothing else. The
segment that is appended to keeps its file open; any other is opened when somebody reads from it, and closed when
the last reader is done, so that few files stay open and the bytes of a deleted segment live until its last send ends.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import threading
from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.disk import SYSTEM_DISK, is_regular_file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from types import TracebackType

    from kafka2011.disk import Disk
    from kafka2011.message.header import AnyBytes

logger = logging.getLogger(__name__)

SEGMENT_SUFFIX = ".kafka"
CUT_SUFFIX = ".cut"
REPAIR_SUFFIX = ".repair"
"""Of a file that is to take the place of the segment before this in its name."""
OFFSET_DIGITS = 20

NO_ROOM_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT})
NO_FILES_ERRORS = frozenset({errno.EMFILE, errno.ENFILE})

_SEGMENT_NAME = re.compile(r"([0-9]{20})\.kafka")


def segment_path(directory: Path, start_offset: int) -> Path:
    """Return the path of the segment that starts at this offset."""
    return directory / f"{start_offset:0{OFFSET_DIGITS}}{SEGMENT_SUFFIX}"


def find_segment_files(directory: Path, *, warn_of_others: bool = False) -> list[tuple[int, Path]]:
    """Return (start offset, path) of every segment file in the directory, by offset."""
    files = []
    for path in directory.iterdir():
        name = _SEGMENT_NAME.fullmatch(path.name)
        if name and is_regular_file(path):
            files.append((int(name[1]), path))
        elif warn_of_others and path.suffix != CUT_SUFFIX:
            logger.warning("skipped %s: not a segment file", path)
    return sorted(files)


def os_error_text(doing: str, path: Path, error: OSError) -> str:
    """Return one sentence for an operating system's error, with what to do about it where that is known."""
    text = f"{doing} {path}: {error.strerror or error}"
    if error.errno in NO_FILES_ERRORS:
        text += "; every partition keeps one file open: raise the limit on open files (ulimit -n)"
    return text


class LogSlice:
    """A piece of one segment file: `size` bytes at `position` of `fd`. Size 0 is an empty set, without a file.

    A context manager: the file stays open, even if its segment is deleted meanwhile, until `release()`, which may
    be called twice. While a slice is parked, its file is closed and its segment is not deleted. A slice belongs to one
    reader.
    """

    __slots__ = ("_is_parked", "_segment", "fd", "position", "size")

    def __init__(self, segment: LogSegment | None, fd: int, position: int, size: int) -> None:
        self._segment = segment
        self._is_parked = False
        self.fd = fd
        self.position = position
        self.size = size

    @property
    def is_parked(self) -> bool:
        """Whether its file has to be opened again."""
        return self._is_parked

    def park(self) -> None:
        """Close the file until `resume`, if nobody else needs it: one reply may hold slices of very many segments."""
        if self._segment is not None and not self._is_parked and self._segment.park():
            self._is_parked = True
            self.fd = -1

    def resume(self) -> None:
        """Open the file of a parked slice again. Raises OSError."""
        if self._segment is not None and self._is_parked:
            self.fd = self._segment.resume()
            self._is_parked = False

    def release(self) -> None:
        """Let go of the file; the last one to do so closes it."""
        segment, self._segment = self._segment, None
        if segment is not None:
            self.fd = -1  # a number that may soon belong to another file
            if self._is_parked:
                segment.forget()
            else:
                segment.release()

    def __enter__(self) -> LogSlice:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<LogSlice of {self.size} bytes at {self.position}>"


EMPTY_SLICE = LogSlice(None, -1, 0, 0)
"""The empty slice. It holds nothing, so it may be shared."""


class LogSegment:
    """A file that starts at `start_offset` of the log and holds `size_bytes` bytes, flushed or not.

    It `has_remains` when an append was cut off again, but perhaps not on the disk yet.

    Methods let OSError through: only the log knows whether it is one reader's problem or the end of the log.
    """

    __slots__ = (
        *("_disk", "_fd", "_holders", "_is_doomed", "_lock", "_parked"),
        *("has_remains", "path", "size_bytes", "start_offset"),
    )

    def __init__(self, path: Path, start_offset: int, size_bytes: int, disk: Disk = SYSTEM_DISK) -> None:
        self.path = path
        self.start_offset = start_offset
        self.size_bytes = size_bytes
        self.has_remains = False
        self._disk = disk
        self._fd = -1
        self._holders = 0
        self._parked = 0  # slices that will want the file again
        self._is_doomed = False  # the file is to be deleted
        # Held for a few instructions and never while waiting, so it needs no lock of the caller's concurrency.
        self._lock = threading.Lock()

    @classmethod
    def create(cls, directory: Path, start_offset: int, disk: Disk = SYSTEM_DISK) -> LogSegment:
        """Make a new, empty file and hold it open for appending. Raises FileExistsError if it is there."""
        segment = cls(segment_path(directory, start_offset), start_offset, 0, disk)
        segment.hold_for_append(os.O_CREAT | os.O_EXCL)
        return segment

    @property
    def end_offset(self) -> int:
        """Offset after the last byte that was appended."""
        return self.start_offset + self.size_bytes

    def hold_for_append(self, flags: int = 0) -> None:
        """Open the file for appending and keep it open until `release()`. Raises OSError, EBUSY while it is read."""
        with self._lock:
            if self._fd >= 0:
                raise OSError(errno.EBUSY, "it is being read")
            self._fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | flags, 0o666)
            self._holders = 1

    def hold(self) -> int:
        """Return the file's descriptor, open until `release()`; all holders share one."""
        with self._lock:
            return self._hold()

    def release(self) -> None:
        """Undo one hold; the last one closes the file."""
        with self._lock:
            self._release()

    def park(self) -> bool:
        """Undo one hold until `resume` or `forget`; False, and still held, when the file is to be deleted."""
        with self._lock:
            if self._is_doomed:
                return False
            self._parked += 1
            self._release()
            return True

    def resume(self) -> int:
        """Hold a parked file again, and return its descriptor."""
        with self._lock:
            fd = self._hold()
            self._forget()
            return fd

    def forget(self) -> None:
        """Give up what was parked."""
        with self._lock:
            self._forget()

    def prepare_deletion(self) -> bool:
        """Forbid parking the file, since its name is about to go; False when it is parked already."""
        with self._lock:
            if self._parked:
                return False
            self._is_doomed = True
            return True

    def _hold(self) -> int:
        if self._fd < 0:
            self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        self._holders += 1
        return self._fd

    def _release(self) -> None:
        assert self._holders > 0, "released more often than held"
        self._holders -= 1
        if self._holders == 0:
            fd, self._fd = self._fd, -1
            (self._disk.close if self._is_doomed else os.close)(fd)

    def _forget(self) -> None:
        assert self._parked > 0, "resumed more often than parked"
        self._parked -= 1

    def slice(self, position: int, size: int) -> LogSlice:
        """Return `size` bytes at `position` for sending. The caller keeps them within what is flushed."""
        return LogSlice(self, self.hold(), position, size)

    def append(self, data: AnyBytes) -> None:
        """Write all of `data` after the last byte, into the page cache. Raises OSError; none of it then counts."""
        try:
            self._disk.write_all(self._fd, data)
        except BaseException as error:  # also when a greenlet is stopped while it waits
            self.has_remains = True
            try:
                os.ftruncate(self._fd, self.size_bytes)
            except OSError:
                if not isinstance(error, OSError):
                    raise
            raise
        self.size_bytes += len(data)

    def begin_sync(self) -> int:
        """Return the descriptor of what is to be brought to disk, all of it. The segment must be held for appending."""
        self.has_remains = False  # before: an append may fail meanwhile
        return self._fd

    def sync(self) -> None:
        """Bring what was appended to disk. The segment must be held for appending."""
        fd = self.begin_sync()
        try:
            self._disk.fsync(fd)
        except BaseException:
            self.has_remains = True
            raise

    def cut(self, size_bytes: int) -> None:
        """Remove what comes after these bytes, on disk. The segment must be held for appending."""
        os.ftruncate(self._fd, size_bytes)
        self.size_bytes = size_bytes
        self.sync()

    def rename(self, path: Path, start_offset: int) -> None:
        """Give the file the name of a segment that starts elsewhere. The name is not on disk then."""
        self.path.rename(path)
        self.path, self.start_offset = path, start_offset

    def modified_ms(self) -> int:
        """Say when the file was last written, in whole wall clock milliseconds since the epoch."""
        return os.stat(self.path).st_mtime_ns // 1_000_000  # noqa: PTH116 (Path.stat costs twice as much)

    def note_modified(self, modified_ms: int) -> None:
        """Have it count as last written at that time."""
        modified_ns = modified_ms * 1_000_000
        os.utime(self.path, ns=(modified_ns, modified_ns))

    def __repr__(self) -> str:
        return f"<LogSegment {self.path}, {self.size_bytes} bytes>"


class SegmentList(NamedTuple):
    """All segments of a log by offset, with their first offsets apart, for bisecting.

    It never changes: a log replaces the whole list, so that a reader without a lock sees one state of it.
    """

    starts: tuple[int, ...]
    segments: tuple[LogSegment, ...]

    @classmethod
    def of(cls, segments: Iterable[LogSegment]) -> SegmentList:
        """Make the list from segments in order."""
        ordered = tuple(segments)
        return cls(tuple(segment.start_offset for segment in ordered), ordered)

    @property
    def active(self) -> LogSegment:
        """The segment that is appended to."""
        return self.segments[-1]

    def find(self, offset: int) -> LogSegment:
        """Return the segment that holds the byte at this offset, which must not lie before the first one."""
        return self.segments[bisect_right(self.starts, offset) - 1]
