"""Replaces a damaged segment by another copy of it: a new file, which is renamed over the old one once it is on disk.

Whatever ends the process between two steps, the old file or the new one is there whole. Nothing is written into the old
one: a crash would leave a mixture of both.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from kafka2011.disk import SYSTEM_DISK
from kafka2011.errors import LogError
from kafka2011.log.recovery import walk_messages
from kafka2011.log.scrub import damaged_stretches
from kafka2011.log.segment import REPAIR_SUFFIX, os_error_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka2011.disk import Disk
    from kafka2011.log.log import Log
    from kafka2011.log.segment import LogSegment
    from kafka2011.message.header import AnyBytes

PIECE_BYTES = 1024 * 1024
PAGE_BYTES = 4096


class UnfitCopyError(LogError):
    """The other copy of a segment is damaged itself, or is another segment: it repairs nothing."""


class SegmentRepair:
    """Writes another copy of the closed segment that starts at an offset; a context manager.

    `write` all of the copy, then `check` it, which may take long and may be called in a thread, then `install` it.
    What is not installed is removed in the end. All of them raise LogError, and nothing has changed then; so does the
    constructor if no closed segment starts there.
    """

    def __init__(self, log: Log, start_offset: int, disk: Disk = SYSTEM_DISK) -> None:
        self._log = log
        self._disk = disk
        self.segment = closed_segment(log, start_offset)
        self._path = self.segment.path.with_name(self.segment.path.name + REPAIR_SUFFIX)
        self._is_installed = False
        try:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise LogError(os_error_text("cannot make", self._path, error)) from error

    @property
    def size_bytes(self) -> int:
        """How large the copy has to be."""
        return self.segment.size_bytes

    def write(self, data: AnyBytes) -> None:
        """Write the next bytes of the copy."""
        try:
            self._disk.write_all(self._fd, data)
        except OSError as error:
            raise LogError(os_error_text("cannot write", self._path, error)) from error

    def check(self) -> None:
        """Compare the copy with what is there. Raises UnfitCopyError.

        All of its messages must be good, and its bytes must be the same wherever those that are there are good: another
        segment, whose checksums are right as well, is no copy of this one.
        """
        try:
            self._check()
        except OSError as error:
            raise LogError(os_error_text("cannot compare", self._path, error)) from error

    def _check(self) -> None:
        size, start = self.size_bytes, self.segment.start_offset
        copy_bytes = os.fstat(self._fd).st_size
        if copy_bytes != size:
            raise UnfitCopyError(f"it has {copy_bytes} bytes there, and {size} here")
        walk = walk_messages(self._fd, 0, size)
        if walk.fault is not None:
            raise UnfitCopyError(f"it is damaged there too, at offset {start + walk.end}: {walk.fault}")
        fd = self.segment.hold()
        try:
            for first, end in _good_ranges(fd, size):
                for position in range(first, end, PIECE_BYTES):
                    count = min(PIECE_BYTES, end - position)
                    if read_what_can_be_read(fd, count, position) != os.pread(self._fd, count, position):
                        raise UnfitCopyError(
                            f"it has other good messages there, between offsets {start + position} and"
                            f" {start + position + count}"
                        )
        finally:
            self.segment.release()

    def install(self) -> None:
        """Put the copy in the place of the segment, on disk when this returns; it counts as written when that was.

        Raises LogFailedError if the disk does not do it.
        """
        try:
            modified_ns = os.stat(self.segment.path).st_mtime_ns  # noqa: PTH116
            os.utime(self._fd, ns=(modified_ns, modified_ns))
            self._disk.fsync(self._fd)
            os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_DONTNEED)  # nobody has asked for it
        except OSError as error:
            raise LogError(os_error_text("cannot bring to disk", self._path, error)) from error
        doing = f"replace {self.segment.path.name} of {self._log.topic}-{self._log.partition}"
        with self._log.rewinding(doing, self._check_there) as rewind:
            rewind.replace(self.segment, self._path)
            self._is_installed = True

    def _check_there(self) -> None:
        if closed_segment(self._log, self.segment.start_offset) is not self.segment:
            raise LogError(f"{self.segment.path} has been replaced meanwhile")

    def close(self) -> None:
        """Remove what was not installed; may be called twice."""
        fd, self._fd = self._fd, -1
        if fd < 0:
            return
        with suppress(OSError):  # of what was installed all is on disk, and nobody needs the rest
            os.close(fd)
        if not self._is_installed:
            with suppress(OSError):
                self._disk.unlink(self._path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def closed_segment(log: Log, start_offset: int) -> LogSegment:
    """Return the closed segment that starts at an offset. Raises LogError if there is none."""
    for segment in log.segments.segments[:-1]:
        if segment.start_offset == start_offset:
            return segment
    raise LogError(f"{log.topic}-{log.partition} has no closed segment that starts at offset {start_offset}")


def read_what_can_be_read(fd: int, size: int, position: int) -> bytes:
    """Read like os.pread; a page that the disk does not give is full of zeros. Raises OSError for all else."""
    try:
        return os.pread(fd, size, position)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
    if size <= PAGE_BYTES:
        return bytes(size)
    pages = range(position, position + size, PAGE_BYTES)
    return b"".join(read_what_can_be_read(fd, min(PAGE_BYTES, position + size - page), page) for page in pages)


def _good_ranges(fd: int, size: int) -> Iterator[tuple[int, int]]:
    """Return the positions of good messages of a file, from and to."""
    position = 0
    for stretch in damaged_stretches(fd, size, read_what_can_be_read):
        if stretch.start > position:
            yield position, stretch.start
        position = stretch.end
    if size > position:
        yield position, size
