"""A log of which there are copies: what may be read is told from outside, and its end may have to go.

A leader appends as to any log, and lets clients read what all copies have on disk. A follower appends where the leader
has the bytes, in segments that start where the leader's do, and first cuts off what the leader does not have.

    start ──── readable ≤ flushed ≤ appended
                  │          └ on this disk: moves with each fsync, and back with a cut
                  └ let_read: moves on only; nothing below it can be cut
"""

from __future__ import annotations

import hashlib
import logging
import os
import struct
from typing import TYPE_CHECKING

from kafka2011.errors import LogError
from kafka2011.log.recovery import walk_messages
from kafka2011.log.segment import os_error_text
from kafka2011.message.header import LENGTH, LENGTH_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.log.log import Log, Place
    from kafka2011.log.segment import LogSlice
    from kafka2011.message.header import AnyBytes
    from zk.clock import Clock

logger = logging.getLogger(__name__)

_CHUNK_BYTES = 1024 * 1024
_PIECE = struct.Struct(">qq")
"""In a digest before the bytes of each segment: where it starts, and how many bytes of it follow."""

_ABOUT_NOW_MS = 60_000
"""Times that are no further apart are the same: retention and offsets by time are no more exact."""


class ReplicatedLog:
    """What replication does with a log that is one of several copies. Opened, nothing of such a log can be read."""

    def __init__(self, log: Log, clock: Clock) -> None:
        self.log = log
        self._clock = clock

    def read_appended(self, offset: int, max_bytes: int) -> tuple[int, LogSlice]:
        """Return bytes from an offset on, readable or not, and where their segment starts; none at the end.

        At least the first message whole, however large it is. Raises like `Log.read`.
        """
        log = self.log
        end = log.appended_end_offset
        piece = log.read(offset, max_bytes, end)
        segments = log.segments
        if piece.size:
            try:
                length = os.pread(piece.fd, LENGTH_BYTES, piece.position)
            except OSError as error:
                piece.release()
                raise LogError(os_error_text("cannot read", log.directory, error)) from error
            message_bytes = LENGTH_BYTES + LENGTH.unpack(length)[0] if len(length) == LENGTH_BYTES else 0
            if message_bytes > piece.size:
                piece.release()
                piece = log.read(offset, message_bytes, end)
        return segments.find(offset).start_offset, piece

    # Appending what another copy has

    def append_at(self, place: Place, data: AnyBytes, messages: int) -> None:
        """Append whole, validated messages at an offset, in the segment that starts at `place.segment`.

        That one is begun if it starts there; no other is. Raises LogError if that is not where the log goes on, and
        when no file can be opened for now; else like `Log.append`.
        """
        self.log.append(data, messages, place)

    def modified_ms(self, offset: int) -> int:
        """Say when the segment with an offset was last written, in wall clock ms since the epoch; 0 if it is gone.

        Raises LogError.
        """
        segment = self.log.segments.find(offset)
        try:
            return segment.modified_ms()
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise LogError(os_error_text("cannot read", segment.path, error)) from error

    def note_modified(self, modified_ms: int) -> None:
        """Note when what was appended last was written elsewhere, in ms since the epoch; 0 if that is unknown.

        Retention goes by that where it is not about now: it was long ago, or the clock here is wrong. Raises
        LogFailedError.
        """
        if modified_ms > 0 and abs(modified_ms - self._clock.wall_s() * 1000) > _ABOUT_NOW_MS:
            self.log.note_modified(modified_ms)

    # Comparing

    def digest(self, start: int, end: int) -> bytes | None:
        """Return a strong checksum of bytes, and of where the segments start that they are in; None if any is absent.

        Raises LogError.
        """
        if not self.log.start_offset <= start < end <= self.log.appended_end_offset:
            return None
        digest = hashlib.sha256()
        at = start
        while at < end:
            with self.log.read(at, end - at, end) as piece:
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
                raise LogError(os_error_text("cannot read the log in", self.log.directory, error)) from error
            if not chunk:
                raise LogError(f"{self.log} became shorter while it was read: a segment lacks position {position}")
            add(chunk)
            position += len(chunk)

    def is_good_at(self, offset: int) -> bool:
        """Say whether the message that starts at an offset is whole, and its checksum is right. Raises LogError."""
        _, piece = self.read_appended(offset, 1)
        with piece:
            try:
                end = walk_messages(piece.fd, piece.position, piece.position + piece.size).end if piece.size else 0
            except OSError as error:
                raise LogError(os_error_text("cannot read the log in", self.log.directory, error)) from error
            return end > piece.position

    def are_good(self, start: int, end: int) -> bool:
        """Say whether good messages stand from one offset up to another, in one segment. Raises LogError."""
        if not self.log.start_offset <= start < end <= self.log.appended_end_offset:
            return False
        with self.log.read(start, end - start, end) as piece:
            try:
                walk = walk_messages(piece.fd, piece.position, piece.position + piece.size)
            except OSError as error:
                raise LogError(os_error_text("cannot read the log in", self.log.directory, error)) from error
            return start + walk.end - piece.position == end

    def message_start(self, offset: int) -> int:
        """Return where the message starts that a byte belongs to, or the first damaged one of its segment before it.

        An outer message: those in a compressed one are not looked at. Raises OffsetOutOfRangeError, and LogError.
        """
        with self.log.read(offset, 1, self.log.appended_end_offset) as piece:
            if not piece.size:  # at the end
                return offset
            try:
                return offset - piece.position + walk_messages(piece.fd, 0, piece.position).end
            except OSError as error:
                raise LogError(os_error_text("cannot read the log in", self.log.directory, error)) from error

    # Closing the last segment

    def roll(self) -> None:
        """Begin a segment at the end, so that the one before is closed; on disk when this returns.

        Raises LogError if no file can be opened for now, LogFailedError after an I/O error.
        """
        end = self.log.appended_end_offset
        with self.log.rewinding(f"roll {self._name} at offset {end}", lambda: None) as rewind:
            if self.log.segments.active.size_bytes:
                rewind.roll()

    # Cutting

    def cut(self, offset: int) -> None:
        """Remove all bytes from an offset on, and the segments that start there or later, but never the first one.

        On disk when this returns; a crash leaves a log that ends between the offset and where it ended. What is cut is
        kept beside it, as recovery does. Nobody may be reading it. Raises LogError, and nothing has changed but the
        end, if clients may have read it, no message starts there, a reader is not done yet, or no file can be opened
        for now; LogFailedError after an I/O error.
        """
        doing = f"cut {self._name} at offset {offset}"
        with self.log.rewinding(doing, lambda: self._check_cut(offset)) as rewind:
            rewind.cut_back_to(offset, keeps=True)

    def begin_at(self, offset: int) -> None:
        """Remove everything, and begin empty at an offset; on disk when this returns.

        A crash leaves a log that has lost some of its end, or is empty. What is removed is not kept. Raises like `cut`.
        """
        doing = f"begin {self._name} at offset {offset}"
        with self.log.rewinding(doing, lambda: self._check_beginning(offset)) as rewind:
            start = self.log.start_offset
            rewind.cut_back_to(start, keeps=False)
            if offset != start:
                rewind.move_to(offset)

    @property
    def _name(self) -> str:
        return f"{self.log.topic}-{self.log.partition}"

    def _check_cut(self, offset: int) -> None:
        log = self.log
        if not log.start_offset <= offset <= log.appended_end_offset:
            raise LogError(
                f"{self._name} cannot be cut at offset {offset}: it has {log.start_offset} to {log.appended_end_offset}"
            )
        if offset < log.end_offset:
            raise self._cut_refusal(offset)
        if self.message_start(offset) != offset:
            raise LogError(f"{self._name} cannot be cut at offset {offset}: no message starts there")

    def _check_beginning(self, offset: int) -> None:
        start, end = self.log.start_offset, self.log.appended_end_offset
        if offset < 0:
            raise LogError(f"{self._name} cannot begin at offset {offset}")
        if self.log.end_offset > start:
            raise self._cut_refusal(start)
        if end > start:
            logger.warning("%s starts over at offset %d: removing offsets %d to %d", self._name, offset, start, end)

    def _cut_refusal(self, offset: int) -> LogError:
        return LogError(
            f"{self._name} cannot be cut at offset {offset}: clients may read it up to offset {self.log.end_offset}"
        )
