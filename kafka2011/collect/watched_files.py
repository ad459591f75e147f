"""The files that are collected: watched paths, through rotations, and those that had such a path.

A look at a path costs one stat(2), and files are only opened and read when they have changed. Of many, those that were
not read for longest are closed, and opened again when they change.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kafka2011.collect.content import MovedError, OpenFiles, PlainFile, Status
from kafka2011.collect.lines import LineCutter
from kafka2011.collect.positions import FileKey, FilePosition
from kafka2011.collect.rotation import Listing, find_former, holds
from kafka2011.collect.tail import BinaryFileError, FileTail
from kafka2011.collect.turns import Turns
from kafka2011.collect.watches import Watches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka2011.collect.content import Content
    from kafka2011.collect.counts import CollectCounts
    from kafka2011.collect.positions import Positions
    from kafka2011.collect.rotation import Former, FoundFile, Unread
    from kafka2011.collect.tail import TailPiece
    from kafka2011.collect.watches import Watch
    from zk.clock import Clock

logger = logging.getLogger(__name__)

ROTATED_WAIT_S = 5.0
"""How long a rotated file must not have grown until it is left: its writer may not have noticed yet."""
OPEN_FILES = 500
"""How many files are kept open, besides those whose names are gone."""
MISSES = 20
"""How often in a row a path may change while it is looked at until that is told."""

NewCutter = Callable[[], LineCutter]


@dataclass
class WatchedFiles:
    """The watched paths and all open files, through rotations. Where nothing is followed, each file is read once.

    Paths may be patterns. With `places` lines know where they stand; with `refuses_nul` a NUL byte ends a file.
    """

    paths: Sequence[str]
    positions: Positions
    counts: CollectCounts
    new_cutter: NewCutter
    clock: Clock
    follow: bool = True
    places: bool = False
    refuses_nul: bool = False
    tails: dict[FileKey, FileTail] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        now_s = self.clock.monotonic_s()
        self.watches = Watches(self.paths, self.positions.paths, self.counts, now_s, follow=self.follow)
        self._turns = Turns()
        self._apart: dict[FileKey, FileTail] = {}  # what no look at a path sees
        self._refused: dict[FileKey, int] = {}  # where the NUL byte is
        self._open_files = OpenFiles(OPEN_FILES)
        self._listings: dict[Path, Listing] = {}  # of one look
        self._is_nested = False  # whether a second path is taken to where its files are now, before the first one
        self._deleted: list[FilePosition] = []  # whose files are gone, but not all of them is confirmed

    @property
    def are_done(self) -> bool:
        """Whether all is read that will be, because nothing is followed."""
        return not self.tails and not self._turns and self.watches.are_done

    @property
    def ready(self) -> int:
        """How many files may have something to read."""
        return len(self._turns)

    def look(self) -> None:
        """Look at paths and rotated files: what is new, has grown, was rotated or truncated."""
        now_s = self.clock.monotonic_s()
        self._listings.clear()
        if self.watches.find(now_s, self.clock.wall_s()):
            self._forget_deleted()
        for watch in self.watches.due(now_s):
            if self._look_at(watch):
                self.watches.has_changed(watch, now_s)
        for tail in list(self._apart.values()):
            self._look_apart(tail, now_s)

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
        for tail in self.tails.values():
            tail.close()
        self.tails.clear()
        self._apart.clear()
        self._turns = Turns()

    # Reading -----------------------------------------------------------------------------------------------------

    def _read(self, tail: FileTail) -> TailPiece | None:
        """Read on; at a file's end, once it needs no more looks, give its rest, and close it."""
        if tail.is_ended:
            self._turns.leave(tail)
            return tail.finish()
        try:
            piece = tail.read()
        except BinaryFileError as error:
            self.counts.add(files_refused=1)
            logger.error("not collected: %s", error)  # noqa: TRY400
            self._refused[tail.key] = error.position
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
        if not self.follow:
            return True
        return tail.is_rotated and self.clock.monotonic_s() - tail.quiet_since_s >= ROTATED_WAIT_S

    # Looking -----------------------------------------------------------------------------------------------------

    def _forget_deleted(self) -> None:
        """Forget files that were deleted, with their paths, once all they held is confirmed."""
        kept = []
        for saved in self._deleted:
            if saved.position < saved.size_bytes:
                kept.append(saved)
            elif self.positions.files.get(saved.key) is saved:
                self.positions.remove(saved.key)
        self._deleted = kept

    def _look_at(self, watch: Watch) -> bool:
        """Look at a path, and say whether anything has changed."""
        try:
            status = os.stat(watch.path)  # noqa: PTH116 (often, and the path is text)
        except FileNotFoundError:
            self._absent(watch)
            return False
        except OSError as error:
            self._trouble(watch, f"cannot read {watch.path}: {error.strerror}")
            return False
        key = FileKey.of(status)
        tail = self.tails.get(key)
        if tail is not None and key == watch.key:
            return self._look_again(watch, tail, status)
        if not stat.S_ISREG(status.st_mode):
            self._trouble(watch, f"{watch.path} is no regular file: give - and have it as standard input")
            return False
        try:
            self._take(watch, key)
        except MovedError as error:  # while we looked: the next look finds out
            watch.misses += 1
            if watch.misses == MISSES:
                self._trouble(watch, f"cannot read {watch.path}: {error.strerror}, each time")
        except OSError as error:
            self._trouble(watch, f"cannot read {watch.path}: {error.strerror}")
        return True

    def _take(self, watch: Watch, key: FileKey) -> None:
        """Read the file that has a path by now, after all that had it before. Raises OSError."""
        if key in self._refused and self._is_still_refused(watch.path, key):
            self._name(watch, key)
            watch.is_done = not self.follow
            return
        if watch.key not in {None, key}:
            self.counts.add(rotations=1)
            logger.info("%s is another file now", watch.path)
        self._find_former(watch.path, key)
        self._open(PlainFile(watch.path, key, self._open_files), watch.path)
        if watch.trouble and self.follow:
            logger.warning("%s can be read now", watch.path)
        self._name(watch, key)
        watch.former_are_known = True
        watch.trouble, watch.misses, watch.is_done = "", 0, not self.follow

    def _look_again(self, watch: Watch, tail: FileTail, status: os.stat_result) -> bool:
        """Look at the file that a path had before too."""
        if self.follow and tail.key in self._apart:  # it was away for a while
            del self._apart[tail.key]
            tail.is_rotated = False
            tail.content.path = watch.path
        if tail.is_as_seen(status.st_size, status.st_mtime_ns):
            if tail.unread_bytes:
                self._turns.add(tail)
            return False
        self._see(tail, Status.of(status))
        return True

    def _look_apart(self, tail: FileTail, now_s: float) -> None:
        """Look at a file whose name may be any by now."""
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
        tail.is_rotated = status.is_deleted or not self.watches.is_named(tail.key)
        if tail.unread_bytes or self._is_finished(tail):
            self._turns.add(tail)

    def _see(self, tail: FileTail, status: Status) -> bool:
        """Take in what a file is now; False if it has other content, or cannot be read."""
        try:
            if tail.see(status):
                self._turns.add(tail)
                return True
            path, key, watched = tail.path, tail.key, tail.saved.watched
            self._find_former(watched, key, replaced=key)
        except OSError as error:
            self._failed(tail, error)
            return False
        try:
            self._open(PlainFile(path, key, self._open_files), watched)
        except MovedError:
            pass  # a look at the path finds out
        except OSError as error:
            self.counts.add(failed_reads=1)
            logger.error("cannot read %s: %s", path, error.strerror)  # noqa: TRY400
        return False

    def _absent(self, watch: Watch) -> None:
        if not watch.former_are_known:  # of a file that was rotated away before, and has no successor yet
            try:
                self._find_former(watch.path, None)
            except OSError:  # nor is there a directory
                if watch.pattern is None:
                    return
            watch.former_are_known = True
        if watch.pattern is not None:
            self._name(watch, None)
            self.watches.forget(watch)
        elif watch.key is not None and watch.key in self.tails:
            self._apart[watch.key] = self.tails[watch.key]
        elif not self.follow:
            self._trouble(watch, f"{watch.path} does not exist")
        elif not watch.trouble and watch.key is None:
            watch.trouble = f"{watch.path} does not exist yet"
            logger.warning("%s: waiting for it", watch.trouble)

    def _name(self, watch: Watch, key: FileKey | None) -> None:
        """Note which file a path leads to."""
        if key == watch.key:
            return
        former = self.watches.name(watch, key)
        if former is not None and former in self.tails:
            self._apart[former] = self.tails[former]

    # Rotation ----------------------------------------------------------------------------------------------------

    def _find_former(self, path: str, current: FileKey | None, *, replaced: FileKey | None = None) -> None:
        """Open what was rotated away and is not read yet, and tell of what cannot be read any more.

        `replaced` is a file that has other content now. Raises OSError.
        """
        if self.positions.of(path).keys() <= ({current} if replaced is None else set()):
            return
        family = {tail.key: tail for tail in self._turns.family(path)}
        former = self._look_around(path, family, replaced)
        elsewhere = {*former.gone, *(key for key, _ in former.read), *(each.continues for each in former.unread)}
        if current is not None and current in elsewhere:
            self.counts.add(truncations=1)
        for file in former.there:
            if file.key in family and not family[file.key].content.is_held:
                family[file.key].content.path = file.path
        self._move(path, current, former, family)
        for file, why in former.broken:
            self._broken(path, file, why)
        for unread in former.unread:
            if unread.file.key != current:
                self._go_on(path, unread, family.get(unread.continues) if unread.continues is not None else None)

    def _move(self, path: str, current: FileKey | None, former: Former, family: dict[FileKey, FileTail]) -> None:
        """Take known files to where their content is now, and leave those that are gone."""
        moves = [*former.read, *((each.continues, each.file) for each in former.unread if each.continues is not None)]
        for _, file in moves:
            other = self.positions.files.get(file.key)
            if other is not None and other.watched != path:  # a file of another path that is gone, and had this inode
                if self._is_nested:
                    raise MovedError(file.path)
                self._is_nested = True
                try:
                    self._find_former(other.watched, None, replaced=file.key)
                finally:
                    self._is_nested = False
        # All are taken out before any gets its new key, which may be the former one of another.
        taken = [self._take_out(key) for key, _ in moves]
        for key in former.gone:
            self._gone(path, key, family.get(key), is_current=key == current)
        for saved, (_, file) in zip(taken, moves, strict=True):
            self.positions.move(saved, file.key)
        for key, file in former.read:
            logger.info("%s was %s, and was read", file.path, path)
            if key in family:
                self._end(family[key], key)

    def _look_around(self, path: str, family: dict[FileKey, FileTail], replaced: FileKey | None) -> Former:
        """Look for all files that had a path. Raises OSError."""
        known = self.positions.of(path)
        since_ns = max(each.modified_ns for each in known.values())
        for key, tail in family.items():
            if tail.content.is_held and key != replaced:
                status = tail.content.status()
                if not tail.is_as_seen(status.size_bytes, status.modified_ns):
                    tail.see(status)
            known[key] = tail.known
        held = {key for key, tail in family.items() if tail.content.is_held and key != replaced}
        directory = Path(path).resolve().parent
        find = partial(find_former, path, known, since_ns, self._open_files, held=held, replaced=replaced)
        if directory in self._listings:
            former = find(self._listings[directory])
            if not former.gone:
                return former
            former.close()  # they may have another name since
        self._listings[directory] = Listing(directory)
        return find(self._listings[directory])

    def _take_out(self, key: FileKey) -> FilePosition:
        """Let a file go that is gone, while what it held is elsewhere."""
        saved = self.positions.files[key]
        self.positions.remove(key)
        self.tails.pop(key, None)
        self._apart.pop(key, None)
        return saved

    def _go_on(self, path: str, unread: Unread, tail: FileTail | None) -> None:
        """Read a file that had a watched path, or goes on with what such a one held: that which `tail` has read."""
        file, content = unread.file, unread.content
        is_refused = file.key in self._refused and self._is_still_refused(file.path, file.key)
        if is_refused or (file.key in self.tails and self.tails[file.key].content.is_held):
            content.close()
            return
        logger.info("%s was %s, and is read first", file.path, path)
        if tail is None:
            self._open(content, path)
            return
        tail.move(content)
        self._add(tail)
        tail.see(content.status())
        self._turns.add(tail)

    def _broken(self, path: str, file: FoundFile, why: str) -> None:
        """Tell of a compressed file that cannot be read, once."""
        self.counts.add(losses=1)
        logger.error("%s was %s, but was compressed before it was read: it is lost (%s)", file.path, path, why)
        known = FilePosition(file.key, path, file.size_bytes, size_bytes=file.size_bytes, modified_ns=file.modified_ns)
        self.positions.add(known)

    def _gone(self, path: str, key: FileKey, tail: FileTail | None, *, is_current: bool) -> None:
        """Tell what is lost with a file that is nowhere any more, or has other content."""
        saved = self.positions.files[key]
        self.positions.remove(key)
        position = saved.position if tail is None else tail.position
        lost_bytes = max(saved.size_bytes - position, 0)
        if lost_bytes:
            self.counts.add(losses=1, bytes_lost=lost_bytes)
        if is_current:
            where = f"{path} was truncated, or is another file, after {position} bytes of it were read"
            if lost_bytes:
                logger.error("%s: the next %d bytes, and whatever followed them, are lost", where, lost_bytes)
            else:
                logger.warning("%s: what was written between then and the truncation is lost, if anything was", where)
        elif lost_bytes:
            logger.error(
                "a file that was %s is no longer in its directory: its %d bytes from %d on, and whatever followed"
                " them, are lost",
                *(path, lost_bytes, position),
            )
        if tail is not None:
            self._end(tail, key)

    def _end(self, tail: FileTail, key: FileKey) -> None:
        """Read no more of a file's content, which is gone, but for the rest that is in memory."""
        tail.is_ended = True
        tail.close()
        self.tails.pop(key, None)
        self._apart.pop(key, None)
        self._turns.add(tail)

    def _is_still_refused(self, path: str, key: FileKey) -> bool:
        """Whether a file still has the NUL byte for which it was refused."""
        content = PlainFile(path, key, self._open_files)
        try:
            if content.pread(1, self._refused[key]) == b"\0":
                return True
        finally:
            content.close()
        del self._refused[key]
        return False

    # Files -------------------------------------------------------------------------------------------------------

    def _open(self, content: Content, watched: str) -> None:
        """Read a file, which is ours to close."""
        key = content.key
        try:
            content.hold()
            status = content.status()
            if key in self.tails and self._is_open(content, status, self.tails[key]):
                self.tails[key].content.path = content.path
                content.close()
                return
            saved = self.positions.files.get(key)
            if saved is not None and not _is_same(content, status, saved, watched):
                self._find_former(saved.watched, key if saved.watched == watched else None, replaced=key)
                saved = None
            tail = FileTail(
                content,
                saved or self.positions.add(FilePosition(key, watched)),
                self.new_cutter(),
                self.counts,
                places=self.places,
                refuses_nul=self.refuses_nul,
                note=self.positions.note,
            )
            if not (tail.is_as_seen(status.size_bytes, status.modified_ns) or tail.see(status)):
                raise MovedError(content.path)  # noqa: TRY301 (it was truncated just now)
        except BaseException:
            content.close()
            raise
        tail.tell_repeats()
        self._turns.join(tail)
        self._add(tail)

    def _is_open(self, content: Content, status: Status, tail: FileTail) -> bool:
        """Whether it is a file that is read already; what had its inode before is looked for if it is another one."""
        if tail.content.is_held or _is_same(content, status, tail.known, tail.saved.watched):
            return True
        self._find_former(tail.saved.watched, None, replaced=tail.key)
        return False

    def _add(self, tail: FileTail) -> None:
        """Read a file from now on."""
        self.tails[tail.key] = tail
        tail.quiet_since_s = self.clock.monotonic_s()
        self._apart[tail.key] = tail  # until a look at a path finds it
        if tail.unread_bytes or self._is_finished(tail):
            self._turns.add(tail)

    def _leave(self, tail: FileTail) -> None:
        tail.close()
        del self.tails[tail.key]
        self._apart.pop(tail.key, None)
        self._turns.leave(tail)
        if tail.is_deleted and tail.saved.watched not in self.watches:
            self._deleted.append(tail.saved)

    def _failed(self, tail: FileTail, error: OSError) -> None:
        """Tell once that a file cannot be read; it is tried again, unless nothing is followed."""
        if isinstance(error, MovedError):
            try:
                self._find_former(tail.saved.watched, None)
            except OSError as another:
                error = another
            else:
                if not tail.is_ended:
                    self._turns.add(tail)
                return
        text = f"reading {tail.path} at byte {tail.position} failed: {error.strerror}"
        if text != tail.trouble:
            tail.trouble = text
            self.counts.add(failed_reads=1)
            logger.error("%s", text)
        if not self.follow:
            self._leave(tail)

    def _trouble(self, watch: Watch, text: str) -> None:
        if text != watch.trouble:
            watch.trouble = text
            self.counts.add(failed_reads=1)
            logger.error("%s", text)
        watch.is_done = not self.follow


def _is_same(content: Content, status: Status, saved: FilePosition, path: str) -> bool:
    """Whether a file, found for a path, still has what is known of it."""
    if (status.size_bytes, status.modified_ns) == (saved.size_bytes, saved.modified_ns):
        return True
    if not saved.position and saved.watched != path:
        return False  # nothing but the inode would tell
    return holds(content, status.size_bytes, saved)
