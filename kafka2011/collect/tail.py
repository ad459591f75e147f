"""One file, read from a position to its end, and again whenever it has grown."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.collect.content import fingerprint
from kafka2011.collect.encoded_lines import EncodedCutter
from kafka2011.collect.placed import placed
from kafka2011.collect.positions import CountedBytes
from kafka2011.collect.recognize import SNIFFED_BYTES, encoding_of, packing_of, why_no_text
from kafka2011.collect.refused import CompressedNowError, NoTextError, NulByteError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafka2011.collect.content import Content, ContentStatus
    from kafka2011.collect.counts import CollectCounts
    from kafka2011.collect.lines import LineCutter
    from kafka2011.collect.positions import FileKey, FilePosition

logger = logging.getLogger(__name__)

READ_BYTES = 256 * 1024
_MARK_BYTES = 4
"""The longest byte order mark."""


class TailPiece(NamedTuple):
    """Lines that were read together, and the place after the last of them, to be confirmed with them."""

    lines: list[bytes]
    position: int
    fingerprint: str


class FileTail:
    """Reads one file's content, also when that is found in another file, and notes in `saved` how far it was confirmed.

    It begins where `saved` says, and calls `note` with that whenever it changes. With `places` lines know where they
    stand; with `refuses_nul` a NUL byte ends the file. Text with a byte order mark becomes UTF-8 without one.
    """

    def __init__(
        self,
        content: Content,
        saved: FilePosition,
        cutter: LineCutter,
        counts: CollectCounts,
        *,
        places: bool = False,
        refuses_nul: bool = False,
        note: Callable[[FilePosition], object] = lambda _saved: None,
    ) -> None:
        self.content = content
        self.saved = saved
        self.is_rotated = False
        """Whether another file has taken its place."""
        self.is_deleted = False
        """Whether no name leads to it any more."""
        self.is_ended = False
        """Whether the content is gone, but for what was read of its last line."""
        self.is_left = False
        """Whether nothing of it will be read any more."""
        self.is_ready = False
        """Whether it is among those that are read in turn."""
        self.quiet_since_s = 0.0
        """Since when a rotated file has not grown."""
        self.trouble = ""
        """What went wrong with it last."""
        self._cutter: LineCutter | EncodedCutter = cutter
        self._is_encoded: bool | None = None
        """Whether it has units of several bytes; None until its first bytes were read."""
        self._places = places
        self._refuses_nul = refuses_nul
        self._counts = counts
        self._note = note
        self._has_told_nul = False
        self.position = saved.position
        self._mark = (saved.position, saved.fingerprint)  # after the last whole line that was read
        self._sent_before = saved.sent_position
        saved.counted = content.counted

    @property
    def key(self) -> FileKey:
        """Which file it is."""
        return self.saved.key

    @property
    def path(self) -> str:
        """What messages call it."""
        return self.content.path

    @property
    def known(self) -> FilePosition:
        """What is known of the file, as if all that was read were confirmed."""
        position, mark = self._mark
        return replace(self.saved, position=position, fingerprint=mark)

    @property
    def unread_bytes(self) -> int:
        """How much of what was last seen was not read."""
        return 0 if self.is_ended else max(self.saved.size_bytes - self.position, 0)

    def is_as_seen(self, size_bytes: int, modified_ns: int) -> bool:
        """Whether this is what was seen of the file last."""
        return size_bytes == self.saved.size_bytes and modified_ns == self.saved.modified_ns

    def see(self, status: ContentStatus) -> bool:
        """Take in that the file has changed; False if it has other content now, truncated for example.

        Raises OSError.
        """
        position, mark = self._mark
        if status.size_bytes < self.position or fingerprint(self.content, position) != mark:
            return False
        self.saved.size_bytes, self.saved.modified_ns = status.size_bytes, status.modified_ns
        self._note(self.saved)
        return True

    def read(self) -> TailPiece | None:
        """Return the next lines, none at all if only a part of one has come; None at the end of the file.

        Raises CompressedNowError, NoTextError, NulByteError, with the place before it for the next read, and OSError.
        """
        chunk = self.content.pread(READ_BYTES, self.position)
        if not chunk:
            return None
        if self._is_encoded is None:
            chunk = self._recognize(chunk)
        if self._refuses_nul and not self._is_encoded:
            chunk = self._before_nul(chunk)
        too_long, nul_bytes = self._cutter.too_long, self._cutter.nul_bytes
        starts = self._cutter.starts(chunk) if self._places else []
        lines = self._placed(self._cutter.feed(chunk), starts)
        self.position += len(chunk)
        self._tell_too_long(self._cutter.too_long - too_long)
        self._tell_nul(self._cutter.nul_bytes - nul_bytes)
        return self._piece(lines, self.position - self._cutter.held_bytes)

    def _recognize(self, chunk: bytes) -> bytes:
        """Take in what the file's first bytes say of it, and return the text of a chunk.

        Raises CompressedNowError, NoTextError and OSError.
        """
        if not self.position:
            if self.content.counted is CountedBytes.FILE and packing_of(chunk) is not None:
                raise CompressedNowError(self.path)
            if (what := why_no_text(chunk)) is not None:
                raise NoTextError(self.path, what)
        encoding = encoding_of(self.content.pread(_MARK_BYTES, 0) if self.position else chunk)
        self._is_encoded = encoding is not None and encoding.unit_bytes > 1
        if encoding is None:
            return chunk
        if self._is_encoded:
            assert not isinstance(self._cutter, EncodedCutter), "it is recognized once"
            self._cutter = EncodedCutter(self._cutter, encoding)
        # 0.2.0 cut lines at the byte of a newline, within its unit.
        skipped_bytes = -self.position % encoding.unit_bytes if self.position else len(encoding.mark)
        self.position += skipped_bytes
        return chunk[skipped_bytes:]

    def _before_nul(self, chunk: bytes) -> bytes:
        """Return the whole lines of a chunk before its first NUL byte. Raises NulByteError."""
        nul = chunk.find(b"\0")
        if nul < 0:
            return chunk
        text_bytes = chunk.rfind(b"\n", 0, nul) + 1
        if not text_bytes or (not self.position and nul < SNIFFED_BYTES):
            raise NulByteError(self.path, self.position + nul)
        return chunk[:text_bytes]

    def finish(self) -> TailPiece | None:
        """Return what stands after the last newline, to which nothing will be added any more."""
        rest_bytes = self._cutter.held_bytes
        if not rest_bytes:
            return None
        self._counts.add(lines_without_end=1)
        logger.warning("%s ends without a newline: its last %d bytes are sent as a line", self.path, rest_bytes)
        too_long = self._cutter.too_long
        lines = self._cutter.finish()
        lines = self._placed(lines, [-rest_bytes] * len(lines))
        self._tell_too_long(self._cutter.too_long - too_long)
        return self._piece(lines, self.position)

    def confirm(self, piece: TailPiece) -> None:
        """Note that a piece has arrived."""
        if piece.position > self.saved.position:
            self.saved.position, self.saved.fingerprint = piece.position, piece.fingerprint
            self._note(self.saved)

    def move(self, content: Content) -> None:
        """Go on in another file, which holds the same; `saved` must have its key by now."""
        self.content.close()
        self.content = content
        self.saved.counted = content.counted

    def tell_repeats(self) -> None:
        """Tell how much will be read that was sent before, if nothing was read yet."""
        repeated_bytes = min(self._sent_before, self.saved.size_bytes) - self.position
        if self.position and repeated_bytes > 0:
            self._counts.add(bytes_maybe_repeated=repeated_bytes)
            logger.warning(
                "%s is read from byte %d on: the %d bytes after it were sent before, and may be sent again",
                *(self.path, self.position, repeated_bytes),
            )

    def close(self) -> None:
        """Close the file; what was read may still be confirmed. May be called twice."""
        self.content.close()

    def _placed(self, lines: list[bytes], starts: Sequence[int]) -> list[bytes]:
        """Tell lines where they stand, given where they start from the position on, if that is wanted."""
        if not self._places:
            return lines
        return placed(lines, (self.position + start for start in starts), self.saved.origin or str(self.key))

    def _piece(self, lines: list[bytes], position: int) -> TailPiece:
        # None if it was truncated just now; the next look finds that no content has this fingerprint.
        self._mark = (position, ("" if self.is_ended else fingerprint(self.content, position)) or "")
        self.saved.sent_position = position
        self._note(self.saved)
        return TailPiece(lines, *self._mark)

    def _tell_too_long(self, count: int) -> None:
        if count:
            self._counts.add(lines_too_long=count)
            logger.warning("%d lines before byte %d of %s are too long", count, self.position, self.path)

    def _tell_nul(self, count: int) -> None:
        if not count:
            return
        self._counts.add(nul_bytes_skipped=count)
        if not self._has_told_nul:
            self._has_told_nul = True
            logger.warning("%s holds NUL bytes before byte %d: they are left out", self.path, self.position)
