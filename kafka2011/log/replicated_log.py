"""A log of which there are copies: what may be read is told from outside, and its end may have to go.

A leader appends as to any log, and lets clients read what all copies have on disk. A follower appends where the leader
has the bytes, in segments that start where the leader's do, and first cuts off what the leader does not have.

    start ──── readable ≤ flushed ≤ appended
                  │          └ on this disk: moves with each fsync, and back with a cut
                  └ let_read: moves on only; nothing below it can be cut
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kafka2011.disk import open_directory
from kafka2011.errors import LogError
from kafka2011.log.log import Log, LogFailedError, Place
from kafka2011.log.recovery import keep, walk_messages
from kafka2011.log.retention import most_deletable
from kafka2011.log.segment import NO_FILES_ERRORS, SegmentList, os_error_text, segment_path
from kafka2011.message.header import LENGTH, LENGTH_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka2011.log.log import End
    from kafka2011.log.retention import DeletedSegment
    from kafka2011.log.segment import LogSegment, LogSlice
    from kafka2011.message.header import AnyBytes

logger = logging.getLogger(__name__)

_CHUNK_BYTES = 1024 * 1024
_PIECE = struct.Struct(">qq")
"""In a digest before the bytes of each segment: where it starts, and how many bytes of it follow."""

_LONG_AGO_MS = 60_000
"""What was written later than this is new: retention and offsets by time are no more exact."""

_FOR_NOW = NO_FILES_ERRORS | {errno.EBUSY}


class ReplicatedLog(Log):
    """A log that is one of several copies. Opened, nothing of it can be read.

    `on_flushed` is called when `flushed_end_offset` has moved on, and must not wait; the rest is as for Log.
    """

    def __init__(self, *arguments: Any, on_flushed: Callable[[ReplicatedLog], None], **options: Any) -> None:
        self._on_flushed = on_flushed
        super().__init__(*arguments, **options)

    def _first_readable_end(self) -> int:
        return self.start_offset

    def _end_sync(self, end: End) -> None:
        self._flushed = end
        self.flushes += 1
        self._on_flushed(self)

    # What may be read

    @property
    def flushed_end_offset(self) -> int:
        """Offset after the last byte that is on this disk for certain."""
        return self._flushed.offset

    def let_read(self, end_offset: int) -> None:
        """Let clients read up to an offset from now on, if they may not read further. Does not wait.

        Raises LogError if that is not on this disk.
        """
        if end_offset > self._flushed.offset:
            raise LogError(
                f"{self} cannot be read up to offset {end_offset}: this disk has it up to {self._flushed.offset}"
            )
        if end_offset > self._readable:
            self._readable = end_offset
            self._on_readable(self)

    def let_nobody_read(self) -> None:
        """Let clients read nothing, once none of them is connected: what they have read does not bind this copy."""
        self._readable = self.start_offset

    def read_appended(self, offset: int, max_bytes: int) -> tuple[int, LogSlice]:
        """Return bytes from an offset on, readable or not, and where their segment starts; none at the end.

        At least the first message whole, however large it is. Raises like `read`.
        """
        end = self._appended.offset
        piece = self.read(offset, max_bytes, end)
        segments = self._segments
        if piece.size:
            try:
                length = os.pread(piece.fd, LENGTH_BYTES, piece.position)
            except OSError as error:
                piece.release()
                raise LogError(os_error_text("cannot read", self.directory, error)) from error
            message_bytes = LENGTH_BYTES + LENGTH.unpack(length)[0] if len(length) == LENGTH_BYTES else 0
            if message_bytes > piece.size:
                piece.release()
                piece = self.read(offset, message_bytes, end)
        return segments.find(offset).start_offset, piece

    # Appending what another copy has

    def append_at(self, place: Place, data: AnyBytes, messages: int) -> None:
        """Append whole, validated messages at an offset, in the segment that starts at `place.segment`.

        That one is begun if it starts there; no other is. Raises LogError if that is not where the log goes on, and
        when no file can be opened for now; else like `append`.
        """
        self.append(data, messages, place)

    def modified_ms(self, offset: int) -> int:
        """Say when the segment with an offset was last written, in wall clock ms since the epoch; 0 if it is gone.

        Raises LogError.
        """
        segment = self._segments.find(offset)
        try:
            return segment.modified_ms()
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise LogError(os_error_text("cannot read", segment.path, error)) from error

    def note_modified(self, modified_ms: int) -> None:
        """Note that what was appended last was written so long ago elsewhere: retention goes by that, if it is long.

        Raises LogFailedError.
        """
        if 0 < modified_ms < self._clock.wall_s() * 1000 - _LONG_AGO_MS:
            try:
                self._segments.active.note_modified(modified_ms)
            except OSError as error:
                self._fail("note when it was written in", error)

    def delete_before(self, offset: int) -> list[DeletedSegment]:
        """Delete, oldest first, the segments that end at an offset or before, but never the last. As for retention."""
        return self._delete_oldest(lambda: self._choose_before(offset))

    def _choose_before(self, offset: int) -> tuple[tuple[LogSegment, ...], Callable[[int], str]]:
        doomed = tuple(segment for segment in self._segments.segments[:-1] if segment.end_offset <= offset)
        if doomed:  # no end of a log lies before its start
            self._readable = max(self._readable, doomed[-1].end_offset)
        return doomed, lambda _: f"the leader's log starts at offset {offset}"

    def _choose_old_segments(self, *, by_age: bool) -> tuple[tuple[LogSegment, ...], Callable[[int], str]]:
        doomed, reason = super()._choose_old_segments(by_age=by_age)
        return doomed[: most_deletable(self._segments.starts, self._readable)], reason

    # Comparing

    def digest(self, start: int, end: int) -> bytes | None:
        """Return a strong checksum of bytes, and of where the segments start that they are in; None if any is absent.

        Raises LogError.
        """
        if not self.start_offset <= start < end <= self._appended.offset:
            return None
        digest = hashlib.sha256()
        at = start
        while at < end:
            with self.read(at, end - at, end) as piece:
                digest.update(_PIECE.pack(at - piece.position, piece.size))
                self._add(piece, digest.update)
                at += piece.size
        return digest.digest()

    def _add(self, piece: LogSlice, add: Callable[[bytes], object]) -> None:
        position, end = piece.position, piece.position + piece.size
        while position < end:
            try:
                chunk = os.pread(piece.fd, min(_CHUNK_BYTES, end - position), position)
            except OSError as error:
                raise LogError(os_error_text("cannot read the log in", self.directory, error)) from error
            if not chunk:
                raise LogError(f"{self} became shorter while it was read: a segment lacks position {position}")
            add(chunk)
            position += len(chunk)

    def message_start(self, offset: int) -> int:
        """Return where the message starts that a byte belongs to, or the first damaged one of its segment before it.

        An outer message: those in a compressed one are not looked at. Raises OffsetOutOfRangeError, and LogError.
        """
        with self.read(offset, 1, self._appended.offset) as piece:
            if not piece.size:  # at the end
                return offset
            try:
                return offset - piece.position + walk_messages(piece.fd, 0, piece.position).end
            except OSError as error:
                raise LogError(os_error_text("cannot read the log in", self.directory, error)) from error

    # Cutting

    def cut(self, offset: int) -> None:
        """Remove all bytes from an offset on, and the segments that start there or later, but never the first one.

        On disk when this returns; a crash leaves a log that ends between the offset and where it ended. What is cut is
        kept beside it, as recovery does. Nobody may be reading it. Raises LogError, and nothing has changed but the
        end, if clients may have read it, no message starts there, a reader is not done yet, or no file can be opened
        for now; LogFailedError after an I/O error.
        """
        with self._append_lock, self._flush_lock:
            self._check_open()
            self._check_cut(offset)
            with self._changing_files(f"cut {self.topic}-{self.partition} at offset {offset}") as directory_fd:
                self._cut_back_to(offset, directory_fd, keeps=True)

    def begin_at(self, offset: int) -> None:
        """Remove everything, and begin empty at an offset; on disk when this returns.

        A crash leaves a log that has lost some of its end, or is empty. What is removed is not kept. Raises like `cut`.
        """
        with self._append_lock, self._flush_lock:
            self._check_open()
            start, end = self.start_offset, self._appended.offset
            if offset < 0:
                raise LogError(f"{self.topic}-{self.partition} cannot begin at offset {offset}")
            if self._readable > start:
                raise self._cut_refusal(start)
            if end > start:
                logger.warning(
                    "%s-%d begins anew at offset %d: removing offsets %d to %d",
                    *(self.topic, self.partition, offset, start, end),
                )
            with self._changing_files(f"begin {self.topic}-{self.partition} at offset {offset}") as directory_fd:
                self._cut_back_to(start, directory_fd, keeps=False)
                if offset != start:
                    self._move_to(offset, directory_fd)

    def _check_cut(self, offset: int) -> None:
        if not self.start_offset <= offset <= self._appended.offset:
            raise LogError(
                f"{self.topic}-{self.partition} cannot be cut at offset {offset}:"
                f" it has {self.start_offset} to {self._appended.offset}"
            )
        if offset < self._readable:
            raise self._cut_refusal(offset)
        if self.message_start(offset) != offset:
            raise LogError(f"{self.topic}-{self.partition} cannot be cut at offset {offset}: no message starts there")

    def _cut_refusal(self, offset: int) -> LogError:
        return LogError(
            f"{self.topic}-{self.partition} cannot be cut at offset {offset}: clients may read it up to offset"
            f" {self._readable}"
        )

    @contextmanager
    def _changing_files(self, doing: str) -> Iterator[int]:
        """Open the directory, and fail if the block does not succeed, unless it can be tried again."""
        try:
            directory_fd = open_directory(self.directory)
            try:
                yield directory_fd
            finally:
                os.close(directory_fd)
        except OSError as error:
            if error.errno in _FOR_NOW:
                self._refuse_for_now(doing, error)
            self._fail("cut", error)
        except BaseException:  # a greenlet that is stopped while it waits: only recovery finds out how far it came
            self.failure = self.failure or LogFailedError(f"could not {doing}: it was stopped meanwhile")
            raise

    def _cut_back_to(self, offset: int, directory_fd: int, *, keeps: bool) -> None:
        """Cut step by step from the end: after each one, the files are a log. Needs both locks."""
        while len(self._segments.starts) > 1 and self._segments.starts[-1] >= offset:
            self._drop_last(directory_fd, keeps=keeps)
        self._cut_last(offset, keeps=keeps)

    def _drop_last(self, directory_fd: int, *, keeps: bool) -> None:
        *kept, last = self._segments.segments
        if not last.prepare_deletion():
            raise OSError(errno.EBUSY, "it waits to be sent")
        # All that needs another file first: it may fail, and nothing has changed then.
        kept[-1].hold_for_append()
        try:
            if keeps:
                self._keep(last, last.start_offset)
        except BaseException:
            kept[-1].release()
            raise
        self._segments = SegmentList.of(kept)
        self._go_back_to(last.start_offset)
        self._first_append_s = None
        try:
            self._disk.unlink(last.path)
            # One by one: names that vanish out of order would leave a gap, and a log with a gap does not open.
            self._disk.fsync(directory_fd)
        finally:
            last.release()

    def _cut_last(self, offset: int, *, keeps: bool) -> None:
        last = self._segments.active
        if offset == last.end_offset:
            return
        if keeps:
            self._keep(last, offset)
        self._go_back_to(offset)
        last.cut(offset - last.start_offset)
        self._flushed = self._flushing = self._appended

    def _keep(self, segment: LogSegment, offset: int) -> None:
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

    def _go_back_to(self, end_offset: int) -> None:
        """Move the ends back; `appended_bytes` goes on counting what was appended."""
        appended = self._appended
        self._opened_at -= appended.offset - end_offset
        self._appended = appended._replace(offset=end_offset)
        if self._flushed.offset >= end_offset:
            self._flushed = self._flushing = self._appended

    def _move_to(self, offset: int, directory_fd: int) -> None:
        """Let the log start at an offset, while it is one empty segment."""
        segment = self._segments.active
        segment.rename(segment_path(self.directory, offset), offset)
        self._disk.fsync(directory_fd)
        self._segments = SegmentList.of([segment])
        self._opened_at += offset - self._appended.offset
        self._appended = self._flushed = self._flushing = self._appended._replace(offset=offset)
        self._readable = offset
