"""The files that are read: those with a watched path, and those that had one, each from where it was left.

They are only opened and read when they have changed. Of many, those that were not read for longest are closed, and
opened again when they change.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from kafka2011.collect.content import ContentStatus, MovedError, OpenFiles, PlainFile, fingerprint, open_content
from kafka2011.collect.positions import CountedBytes, FileKey, FilePosition
from kafka2011.collect.recognize import SNIFFED_BYTES, why_no_text
from kafka2011.collect.refused import CompressedNowError, RefusedFileError
from kafka2011.collect.rotation import holds
from kafka2011.collect.tail import FileTail
from kafka2011.collect.turns import Turns
from kafka2011.collect.unpack import UnpackError

if TYPE_CHECKING:
    import os

    from kafka2011.collect.content import Content
    from kafka2011.collect.counts import CollectCounts
    from kafka2011.collect.positions import Positions
    from kafka2011.collect.rotation import Unread
    from kafka2011.collect.tail import TailPiece
    from kafka2011.collect.watches import Watches
    from zk.clock import Clock

logger = logging.getLogger(__name__)

ROTATED_WAIT_S = 5.0
"""How long a rotated file must not have grown until it is left: its writer may not have noticed yet."""
OPEN_FILES = 500
"""How many files are kept open, besides those whose names are gone."""

NewTail = Callable[["Content", FilePosition], FileTail]
FindFormer = Callable[[str, FileKey | None, FileKey | None], None]
"""Finds what was rotated away from a path, given the file that has it now, and one that has other content now."""
FindKnown = Callable[["Content", str], FilePosition | None]
"""Finds the position of a new file's content, if another file had it, given the path that it was found for."""


class FollowedFiles:
    """The files that are read, in turns. Where nothing is followed, each is read once.

    `find_former` is called when a file has other content than before.
    """

    def __init__(
        self,
        watches: Watches,
        positions: Positions,
        counts: CollectCounts,
        new_tail: NewTail,
        find_former: FindFormer,
        find_known: FindKnown,
        clock: Clock,
        *,
        follow: bool,
    ) -> None:
        self._watches = watches
        self._positions = positions
        self._counts = counts
        self._new_tail = new_tail
        self._find_former = find_former
        self._find_known = find_known
        self._clock = clock
        self._follow = follow
        self.open_files = OpenFiles(OPEN_FILES)
        self._tails: dict[FileKey, FileTail] = {}
        self._turns = Turns()
        self._apart: dict[FileKey, FileTail] = {}  # what no look at a path sees
        self._refused: dict[FileKey, int | None] = {}  # where the NUL byte is, if that is why
        self._unpacked: dict[FileKey, int] = {}  # compressed files that need no more reading, and their times
        self._deleted: list[FilePosition] = []  # whose files are gone, but not all of them is confirmed

    @property
    def are_done(self) -> bool:
        """Whether there is nothing to read, now or later, but what grows."""
        return not self._tails and not self._turns

    @property
    def ready(self) -> int:
        """How many files may have something to read."""
        return len(self._turns)

    def __contains__(self, key: FileKey) -> bool:
        return key in self._tails

    def read(self) -> tuple[FileTail, TailPiece] | None:
        """Return what comes next of the file whose turn it is; None if none has anything for now.

        A file that had the same name before another one is read first.
        """
        for tail in self._turns:
            piece = self._read(tail)
            if piece is not None:
                if not tail.is_left:
                    self._turns.add(tail)
                return tail, piece
        return None

    def close(self) -> None:
        """Close all files. May be called twice."""
        for tail in self._tails.values():
            tail.close()
        self._tails.clear()
        self._apart.clear()
        self._turns = Turns()

    def _read(self, tail: FileTail) -> TailPiece | None:
        """Read on; at a file's end, once it needs no more looks, give its rest, and close it."""
        if tail.is_ended:
            self._turns.leave(tail)
            return tail.finish()
        try:
            piece = tail.read()
        except CompressedNowError:
            self._leave(tail)
            self._positions.remove(tail.key)  # the next look at its path opens it again
            return None
        except RefusedFileError as error:
            self._counts.add(files_refused=1)
            logger.error("not collected: %s", error)  # noqa: TRY400
            self._refused[tail.key] = error.nul_position
            self._leave(tail)
            return None
        except OSError as error:
            self._failed(tail, error)
            return None
        if piece is None and not tail.unread_bytes and self._is_finished(tail):
            piece = tail.finish()
            self._leave(tail)
        return piece

    def _is_finished(self, tail: FileTail) -> bool:
        if not self._follow or (tail.content.counted is CountedBytes.UNPACKED and not tail.is_rotated):
            return True
        return tail.is_rotated and self._clock.monotonic_s() - tail.quiet_since_s >= ROTATED_WAIT_S

    # Looking -----------------------------------------------------------------------------------------------------

    def look_again(self, path: str, key: FileKey, status: os.stat_result) -> bool:
        """Look at the file that still has a path, and say whether it has changed."""
        tail = self._tails[key]
        if self._follow and key in self._apart:  # it was away for a while
            del self._apart[key]
            tail.is_rotated = False
            tail.content.path = path
        seen = tail.content.seen(status)
        if tail.is_as_seen(seen.size_bytes, seen.modified_ns):
            if tail.unread_bytes:
                self._turns.add(tail)
            return False
        self._see(tail, seen)
        return True

    def look_apart(self) -> None:
        """Look at the files whose names may be any by now."""
        now_s = self._clock.monotonic_s()
        for tail in list(self._apart.values()):
            self._look_apart(tail, now_s)

    def set_apart(self, key: FileKey | None) -> None:
        """Look at a file, if it is read, although no look at a path sees it."""
        if key is not None and key in self._tails:
            self._apart[key] = self._tails[key]

    def _look_apart(self, tail: FileTail, now_s: float) -> None:
        try:
            status = tail.content.status()
        except OSError as error:
            self._failed(tail, error)
            return
        has_changed = not tail.is_as_seen(status.size_bytes, status.modified_ns)
        if has_changed and not self._see(tail, status):
            return
        if has_changed or not tail.is_rotated:
            tail.quiet_since_s = now_s
        tail.is_deleted = status.is_deleted
        tail.is_rotated = status.is_deleted or not self._watches.is_named(tail.key)
        if tail.unread_bytes or self._is_finished(tail):
            self._turns.add(tail)

    def _see(self, tail: FileTail, status: ContentStatus) -> bool:
        """Take in what a file is now; False if it has other content, or cannot be read."""
        try:
            if not tail.position and not tail.content.is_held:
                self._find_former(tail.saved.watched, tail.key, None)  # it may be another, and others came between
                if tail.is_ended:
                    return False
            if tail.see(status):
                self._turns.add(tail)
                return True
            path, key, watched = tail.path, tail.key, tail.saved.watched
            self._find_former(watched, key, key)
        except OSError as error:
            self._failed(tail, error)
            return False
        try:
            self.open(open_content(path, key, self.open_files), watched)
        except MovedError:
            pass  # a look at the path finds out
        except UnpackError as error:
            self._counts.add(failed_reads=1)
            logger.error("cannot read %s: %s", path, error)  # noqa: TRY400
        except OSError as error:
            self._counts.add(failed_reads=1)
            logger.error("cannot read %s: %s", path, error.strerror)  # noqa: TRY400
        return False

    # What is read ------------------------------------------------------------------------------------------------

    def family(self, path: str) -> dict[FileKey, FileTail]:
        """Return the files that have or had a path, as far as their content is there."""
        return {tail.key: tail for tail in self._turns.family(path)}

    def open(self, content: Content, watched: str) -> None:
        """Read a file, which is ours to close. Raises OSError."""
        key = content.key
        try:
            content.hold()
            status = content.status()
            if key in self._tails and self._is_open(content, status, self._tails[key]):
                self._tails[key].content.path = content.path
                content.close()
                return
            saved = self._positions.files.get(key)
            if saved is not None and content.counted is CountedBytes.UNPACKED:
                self._take_for_read_if_sent_packed(content, saved)
            if saved is not None and not _is_same(content, status, saved, watched):
                self._find_former(saved.watched, key if saved.watched == watched else None, key)
                saved = None
            saved = saved or self._find_known(content, watched)
            tail = self._new_tail(content, saved or self._positions.add(FilePosition(key, watched)))
            if not (tail.is_as_seen(status.size_bytes, status.modified_ns) or tail.see(status)):
                raise MovedError(content.path)  # noqa: TRY301 (it was truncated just now)
        except BaseException:
            content.close()
            raise
        tail.tell_repeats()
        self._turns.join(tail)
        self._add(tail)

    def go_on(self, path: str, unread: Unread, tail: FileTail | None) -> None:
        """Read a file that had a watched path, or goes on with what such a one held: that which `tail` has read."""
        file, content = unread.file, unread.content
        is_held = file.key in self._tails and self._tails[file.key].content.is_held
        if is_held or self.is_refused(file.path, file.key) or self.is_unpacked(file.key, file.modified_ns):
            content.close()
            return
        logger.info("%s was %s, and is read first", file.path, path)
        if tail is None:
            self.open(content, path)
            return
        tail.move(content)
        self._add(tail)
        tail.see(content.status())
        self._turns.add(tail)

    def tail_of(self, key: FileKey) -> FileTail | None:
        """Return a file that is read; None if it is not."""
        return self._tails.get(key)

    def take_out(self, key: FileKey) -> FileTail | None:
        """Let a file go whose content is elsewhere, and return it."""
        self._apart.pop(key, None)
        return self._tails.pop(key, None)

    def put_back(self, tail: FileTail | None) -> None:
        """Have a file again that was taken out."""
        if tail is not None:
            self._tails[tail.key] = self._apart[tail.key] = tail

    def end(self, tail: FileTail, key: FileKey) -> None:
        """Read no more of a file's content, which is gone, but for the rest that is in memory."""
        tail.is_ended = True
        tail.close()
        self.take_out(key)
        self._turns.add(tail)

    def is_refused(self, path: str, key: FileKey) -> bool:
        """Whether a file was refused, and is still what it was refused for. Raises OSError."""
        if key not in self._refused:
            return False
        nul_position = self._refused[key]
        content = PlainFile(path, key, self.open_files)
        try:
            if nul_position is None:
                if why_no_text(content.pread(SNIFFED_BYTES, 0)) is not None:
                    return True
            elif content.pread(1, nul_position) == b"\0":
                return True
        finally:
            content.close()
        del self._refused[key]
        return False

    def is_unpacked(self, key: FileKey, modified_ns: int) -> bool:
        """Whether a file is a compressed one that was read to its end, now or before, and has not changed since."""
        if self._unpacked.get(key) == modified_ns:
            return True
        saved = self._positions.files.get(key)
        if saved is None or saved.counted is not CountedBytes.UNPACKED or key in self._tails:
            return False
        return 0 < saved.position == saved.size_bytes and saved.modified_ns == modified_ns

    def forget_deleted(self) -> None:
        """Forget files that were deleted, with their paths, once all they held is confirmed."""
        kept = []
        for saved in self._deleted:
            if saved.position < saved.size_bytes:
                kept.append(saved)
            elif self._positions.files.get(saved.key) is saved:
                self._positions.remove(saved.key)
        self._deleted = kept

    def _is_open(self, content: Content, status: ContentStatus, tail: FileTail) -> bool:
        """Whether it is a file that is read already; what had its inode before is looked for if it is another one."""
        if tail.content.is_held or _is_same(content, status, tail.known, tail.saved.watched):
            return True
        self._find_former(tail.saved.watched, None, tail.key)
        return False

    def _take_for_read_if_sent_packed(self, content: Content, saved: FilePosition) -> None:
        """Take a compressed file for read if 0.2.0 has sent its bytes as they are: then its place is none of a line."""
        if saved.counted is not CountedBytes.UNKNOWN or not saved.position:
            return
        plain = PlainFile(content.path, saved.key, self.open_files)
        try:
            if fingerprint(plain, saved.position) != saved.fingerprint:
                return
        finally:
            plain.close()
        logger.warning(
            "%s was sent as it is, compressed, by an earlier version, and is not sent again: to send its lines, collect"
            " it with another --state",
            content.path,
        )
        size_bytes, modified_ns, _ = content.status()
        saved.position = saved.sent_position = saved.size_bytes = size_bytes
        saved.fingerprint, saved.modified_ns = fingerprint(content, size_bytes) or "", modified_ns
        saved.counted = CountedBytes.UNPACKED
        self._positions.note(saved)

    def _add(self, tail: FileTail) -> None:
        """Read a file from now on."""
        self._tails[tail.key] = tail
        tail.quiet_since_s = self._clock.monotonic_s()
        self._apart[tail.key] = tail  # until a look at a path finds it
        if tail.unread_bytes or self._is_finished(tail):
            self._turns.add(tail)

    def _leave(self, tail: FileTail) -> None:
        if tail.content.counted is CountedBytes.UNPACKED:
            self._unpacked[tail.key] = tail.saved.modified_ns
        tail.close()
        self.take_out(tail.key)
        self._turns.leave(tail)
        if tail.is_deleted and tail.saved.watched not in self._watches:
            self._deleted.append(tail.saved)

    def _failed(self, tail: FileTail, error: OSError) -> None:
        """Tell once that a file cannot be read; it is tried again, unless nothing is followed."""
        if isinstance(error, MovedError):
            try:
                self._find_former(tail.saved.watched, None, None)
            except OSError as another:
                error = another
            else:
                if not tail.is_ended:
                    self._turns.add(tail)
                return
        text = f"reading {tail.path} at byte {tail.position} failed: {error.strerror}"
        if text != tail.trouble:
            tail.trouble = text
            self._counts.add(failed_reads=1)
            logger.error("%s", text)
        if not self._follow:
            self._leave(tail)


def _is_same(content: Content, status: ContentStatus, saved: FilePosition, path: str) -> bool:
    """Whether a file, found for a path, still has what is known of it."""
    if (status.size_bytes, status.modified_ns) == (saved.size_bytes, saved.modified_ns):
        return True
    if not saved.position and saved.watched != path:
        return False  # nothing but the inode would tell
    return holds(content, status.size_bytes, saved)
