"""One open file, read from a position to its end, and again whenever it has grown."""

from __future__ import annotations

import hashlib
import logging
import os
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.errors import KafkaError
from kafka2011.pipeline.collect.placed import placed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka2011.pipeline.collect.counts import CollectCounts
    from kafka2011.pipeline.collect.lines import LineCutter
    from kafka2011.pipeline.collect.positions import FileKey, FilePosition

logger = logging.getLogger(__name__)

READ_BYTES = 256 * 1024
_FINGERPRINT_BYTES = 256
_SNIFFED_BYTES = 8192


class BinaryFileError(KafkaError):
    """A file holds a NUL byte, which no line of text has; the text names the path and the place."""


class Piece(NamedTuple):
    """Lines that were read together, and the place after the last of them, to be confirmed with them."""

    lines: list[bytes]
    position: int
    fingerprint: str
    generation: int


def fingerprint(fd: int, position: int) -> str | None:
    """Return what stands for a file's first bytes and its last ones before a position; None if it is shorter.

    Another file with the same inode has another one, and so has one that was truncated and written again.
    """
    size_bytes = min(position, _FINGERPRINT_BYTES)
    if not size_bytes:
        return ""
    head = os.pread(fd, size_bytes, 0)
    tail = os.pread(fd, size_bytes, position - size_bytes)
    if len(head) < size_bytes or len(tail) < size_bytes:
        return None
    return hashlib.blake2b(head + tail, digest_size=12).hexdigest()


class FileTail:
    """Reads one file, also after it was renamed, and notes in `saved` how far that was confirmed.

    It begins where `saved` says, or at the start if the bytes before that are others now. `fd` is its own from then on;
    `path` is what messages call it. With `places` lines know where they stand. Raises OSError.
    """

    def __init__(
        self,
        fd: int,
        path: str,
        saved: FilePosition,
        cutter: LineCutter,
        counts: CollectCounts,
        *,
        places: bool = False,
    ) -> None:
        self.path = path
        self.saved = saved
        self.is_rotated = False
        """Whether another file has taken its place."""
        self.quiet_since_s = 0.0
        """Since when a rotated file has not grown."""
        self.trouble = ""
        """What went wrong with it last."""
        self._cutter = cutter
        self._origin = f"{saved.key.device}:{saved.key.inode}" if places else ""
        self._counts = counts
        self._generation = 0  # of the file's content
        self._left: list[bytes] = []  # what was read of the content before
        self._fd = fd
        self.position = saved.position
        self._mark = (saved.position, saved.fingerprint)  # after the last whole line that was read
        sent_before = saved.sent_position
        self.look()
        self._tell_repeats(sent_before)

    @property
    def key(self) -> FileKey:
        """Which file it is."""
        return self.saved.key

    @property
    def is_deleted(self) -> bool:
        """Whether no name leads to it any more. Raises OSError."""
        return os.fstat(self._fd).st_nlink == 0

    @property
    def unread_bytes(self) -> int:
        """How much of what was last seen was not read."""
        return max(self.saved.size_bytes - self.position, 0)

    def look(self) -> bool:
        """See whether the file has changed, and say so. If it was truncated, it will be read from its start."""
        status = os.fstat(self._fd)
        saved = self.saved
        if (status.st_size, status.st_mtime_ns) == (saved.size_bytes, saved.modified_ns):
            return False
        if status.st_size < self.position or fingerprint(self._fd, self._mark[0]) != self._mark[1]:
            self._start_again()
        saved.size_bytes, saved.modified_ns = status.st_size, status.st_mtime_ns
        return True

    def read(self) -> Piece | None:
        """Return the next lines, none at all if only a part of one has come; None at the end of the file.

        Raises BinaryFileError, with the place before it for the next read, and OSError.
        """
        if self._left:
            left, self._left = self._left, []
            return Piece(left, 0, "", self._generation)
        chunk = os.pread(self._fd, READ_BYTES, self.position)
        if not chunk:
            return None
        nul = chunk.find(b"\0")
        if nul >= 0:
            text_bytes = chunk.rfind(b"\n", 0, nul) + 1
            if not text_bytes or (not self.position and nul < _SNIFFED_BYTES):
                raise BinaryFileError(
                    f"{self.path} holds a NUL byte at {self.position + nul}: a binary file, or one that was truncated"
                    " while its writer went on at the old place"
                )
            chunk = chunk[:text_bytes]
        too_long = self._cutter.too_long
        starts = self._cutter.starts(chunk) if self._origin else []
        lines = self._placed(self._cutter.feed(chunk), starts)
        self.position += len(chunk)
        self._tell_too_long(self._cutter.too_long - too_long)
        return self._piece(lines, self.position - self._cutter.held_bytes)

    def finish(self) -> Piece | None:
        """Return what stands after the last newline, to which nothing will be added any more."""
        rest_bytes = self._cutter.held_bytes
        if not rest_bytes:
            return None
        self._counts.lines_without_end += 1
        logger.warning("%s ends without a newline: its last %d bytes are sent as a line", self.path, rest_bytes)
        too_long = self._cutter.too_long
        lines = self._finished()
        self._tell_too_long(self._cutter.too_long - too_long)
        return self._piece(lines, self.position)

    def confirm(self, piece: Piece) -> None:
        """Note that a piece has arrived."""
        if piece.generation == self._generation and piece.position > self.saved.position:
            self.saved.position, self.saved.fingerprint = piece.position, piece.fingerprint

    def close(self) -> None:
        """Close the file; what was read may still be confirmed. May be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _finished(self) -> list[bytes]:
        """Return the line that has no end yet as it is; none if there is none."""
        rest_bytes = self._cutter.held_bytes
        lines = self._cutter.finish()
        return self._placed(lines, [-rest_bytes] * len(lines))

    def _placed(self, lines: list[bytes], starts: Sequence[int]) -> list[bytes]:
        """Tell lines where they stand, given where they start from the position on, if that is wanted."""
        if not self._origin:
            return lines
        return placed(lines, (self.position + start for start in starts), self._origin)

    def _piece(self, lines: list[bytes], position: int) -> Piece:
        # None if it was truncated just now; the next look finds that no content has this fingerprint.
        self._mark = (position, fingerprint(self._fd, position) or "")
        self.saved.sent_position = position
        return Piece(lines, *self._mark, self._generation)

    def _start_again(self) -> None:
        """Begin with new content."""
        saved = self.saved
        self._counts.truncations += 1
        where = f"{self.path} was truncated, or is another file, after {self.position} bytes of it were read"
        if self.unread_bytes:
            self._counts.losses += 1
            self._counts.bytes_lost += self.unread_bytes
            logger.error("%s: the next %d bytes, and whatever followed them, are lost", where, self.unread_bytes)
        else:
            logger.warning("%s: what was written between then and the truncation is lost, if anything was", where)
        self._left = self._finished()
        self._generation += 1
        self.position = saved.position = saved.sent_position = 0
        saved.fingerprint = ""
        self._mark = (0, "")

    def _tell_repeats(self, sent_position: int) -> None:
        repeated_bytes = min(sent_position, self.saved.size_bytes) - self.position
        if self.position and repeated_bytes > 0:
            self._counts.bytes_maybe_repeated += repeated_bytes
            logger.warning(
                "%s is read from byte %d on: the %d bytes after it were sent before, and may come again",
                *(self.path, self.position, repeated_bytes),
            )

    def _tell_too_long(self, count: int) -> None:
        if count:
            self._counts.lines_too_long += count
            logger.warning("%d lines before byte %d of %s are too long", count, self.position, self.path)
