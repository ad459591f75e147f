"""The segment files of one log, in its directory: opened, begun, deleted and cut; which to delete is said elsewhere.

After each step the files are a log: a crash between two steps leaves one.
"""

from __future__ import annotations

import errno
import logging
import os
from contextlib import ExitStack
from itertools import pairwise
from typing import TYPE_CHECKING

from kafka2011.disk import is_directory, open_directory
from kafka2011.errors import LogError
from kafka2011.log.recovery import keep
from kafka2011.log.segment import REPAIR_SUFFIX, LogSegment, SegmentList, find_segment_files, segment_path

if TYPE_CHECKING:
    from pathlib import Path

    from kafka2011.disk import Disk

logger = logging.getLogger(__name__)


class SegmentFiles:
    """The segments of a log, of which `list` is replaced as a whole. Whoever changes them holds the log's locks.

    Lets OSError through.
    """

    __slots__ = ("_disk", "directory", "list")

    def __init__(self, directory: Path, disk: Disk) -> None:
        self.directory = directory
        self._disk = disk
        self.list = SegmentList((), ())

    def make_directory(self) -> None:
        """Make the log's directory if it is absent; its name is on disk with the first segment."""
        if not is_directory(self.directory):
            self.directory.mkdir()

    def open(self) -> None:
        """Open what is there, or begin the first segment. Raises LogError if a segment does not continue the last.

        What is left of a repair that did not end is removed.
        """
        for path in self.directory.iterdir():
            if path.suffix == REPAIR_SUFFIX:
                self._disk.unlink(path)
        files = find_segment_files(self.directory, warn_of_others=True)
        segments = [LogSegment(path, start, path.stat().st_size, self._disk) for start, path in files]
        for segment, following in pairwise(segments):
            if segment.end_offset != following.start_offset:
                raise LogError(
                    f"{following.path} does not continue {segment.path.name}, which ends at offset"
                    f" {segment.end_offset}: a segment is missing or has changed"
                )
        if segments:
            segments[-1].hold_for_append()
        else:
            self._disk.fsync_directory(self.directory.parent)  # also if an earlier try made it and got no further
            segments = [self._create(0)]
        self.list = SegmentList.of(segments)

    def _create(self, start_offset: int) -> LogSegment:
        with ExitStack() as opened:
            # First, since it may fail: a name that was made and removed again may come back after a power cut.
            directory_fd = open_directory(self.directory)
            opened.callback(os.close, directory_fd)
            segment = LogSegment.create(self.directory, start_offset, self._disk)
            try:
                self._disk.fsync(directory_fd)
            except BaseException:  # also when a greenlet is stopped while it waits: the next try must find no file
                segment.release()
                segment.path.unlink()
                self._disk.fsync(directory_fd)  # or the name may come back, when this log has gone on without it
                raise
        return segment

    def roll(self, end_offset: int, kept: tuple[LogSegment, ...]) -> None:
        """Begin a segment at the end of the log, after those that are kept."""
        old = self.list.active
        segment = self._create(end_offset)
        self.list = SegmentList.of((*kept, segment))
        old.release()

    def delete(self, segment: LogSegment, directory_fd: int) -> None:
        """Remove the file of a segment that has left the list."""
        self._disk.unlink(segment.path)
        # One by one: names that vanish out of order would leave a gap, and a log with a gap does not open.
        self._disk.fsync(directory_fd)

    def replace(self, segment: LogSegment, new: Path, directory_fd: int) -> None:
        """Put a file, which is on disk, in the place of a closed segment's; EBUSY while a parked slice needs that.

        The name is on disk when this returns. Slices that readers hold stay good, with the old bytes.
        """
        if not segment.prepare_deletion():
            raise OSError(errno.EBUSY, "it waits to be sent")
        segment.hold()  # or the rename would free its bytes, and everybody would wait for that
        try:
            new.replace(segment.path)
            fresh = LogSegment(segment.path, segment.start_offset, segment.size_bytes, self._disk)
            self.list = SegmentList.of(fresh if each is segment else each for each in self.list.segments)
            self._disk.fsync(directory_fd)
        finally:
            segment.release()

    # Cutting

    def forget_last(self, *, keeps: bool) -> LogSegment:
        """Take the last segment out of the list, and hold the one before it for appending; EBUSY while it is read.

        With `keeps` a copy of it stays beside the log.
        """
        *kept, last = self.list.segments
        if not last.prepare_deletion():
            raise OSError(errno.EBUSY, "it waits to be sent")
        # All that needs another file first: it may fail, and nothing has changed then.
        kept[-1].hold_for_append()
        try:
            if keeps:
                self.keep(last, last.start_offset)
        except BaseException:
            kept[-1].release()
            raise
        self.list = SegmentList.of(kept)
        return last

    def delete_last(self, segment: LogSegment, directory_fd: int) -> None:
        """Remove the file of what was the last segment."""
        try:
            self.delete(segment, directory_fd)
        finally:
            segment.release()

    def keep(self, segment: LogSegment, offset: int) -> None:
        """Keep a copy of what lies from an offset on beside the log, if the disk has room."""
        size_bytes = segment.end_offset - offset
        if not size_bytes:
            return
        fd = segment.hold()
        try:
            path = keep(fd, offset - segment.start_offset, segment.size_bytes, segment.path, offset, self._disk)
        finally:
            segment.release()
        fate = f"moved to {path}" if path else "dropped, since the disk has no room for a copy"
        logger.warning(
            "cut %s at offset %d, since another copy differs: %d bytes %s", segment.path, offset, size_bytes, fate
        )

    def move_to(self, offset: int, directory_fd: int) -> None:
        """Let the log, while it is one empty segment, start at an offset."""
        segment = self.list.active
        segment.rename(segment_path(self.directory, offset), offset)
        self._disk.fsync(directory_fd)
        self.list = SegmentList.of([segment])
