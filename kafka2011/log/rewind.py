"""Changes the files of a log of which there are copies, step by step: after each one, the files are a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from kafka2011.log.ends import LogEnds
    from kafka2011.log.segment import LogSegment
    from kafka2011.log.segment_files import SegmentFiles


class Rewind:
    """What may be done to a log while its locks are held and nobody reads it. Lets OSError through."""

    def __init__(self, files: SegmentFiles, ends: LogEnds, directory_fd: int) -> None:
        self._files = files
        self._ends = ends
        self._directory_fd = directory_fd
        self.has_new_active_segment = False
        """Whether another segment is appended to now."""

    def cut_back_to(self, offset: int, *, keeps: bool) -> None:
        """Remove all bytes from an offset on, and the segments that start there or later, but never the first one.

        With `keeps`, copies of what is cut stay beside the log.
        """
        while len(self._files.list.starts) > 1 and self._files.list.starts[-1] >= offset:
            self._drop_last(keeps=keeps)
        self._cut_last(offset, keeps=keeps)

    def move_to(self, offset: int) -> None:
        """Let the log start at an offset, while it is one empty segment."""
        self._files.move_to(offset, self._directory_fd)
        self._ends.move_to(offset)

    def roll(self) -> None:
        """Bring all to disk, and begin a segment at the end: what was appended last is closed then."""
        end = self._ends.appended
        self._files.list.active.sync()
        self._ends.flushed = self._ends.flushing = end
        self._files.roll(end.offset, self._files.list.segments)
        self.has_new_active_segment = True

    def replace(self, segment: LogSegment, new: Path) -> None:
        """Put a file, which is on disk, in the place of a closed segment. Whoever reads that keeps the old one."""
        self._files.replace(segment, new, self._directory_fd)

    def _drop_last(self, *, keeps: bool) -> None:
        last = self._files.forget_last(keeps=keeps)
        self._ends.go_back_to(last.start_offset)
        self.has_new_active_segment = True
        self._files.delete_last(last, self._directory_fd)

    def _cut_last(self, offset: int, *, keeps: bool) -> None:
        last = self._files.list.active
        if offset == last.end_offset:
            return
        if keeps:
            self._files.keep(last, offset)
        self._ends.go_back_to(offset)
        last.cut(offset - last.start_offset)
        self._ends.flushed = self._ends.flushing = self._ends.appended
