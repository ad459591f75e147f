"""The files that are collected: watched paths, through rotations, and what is open of them."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafka2011.pipeline.collect.lines import LineCutter
from kafka2011.pipeline.collect.positions import FileKey, FilePosition
from kafka2011.pipeline.collect.rotation import find_former
from kafka2011.pipeline.collect.tail import BinaryFileError, FileTail

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka2011.pipeline.collect.counts import CollectCounts
    from kafka2011.pipeline.collect.positions import Positions
    from kafka2011.pipeline.collect.tail import Piece
    from zk.clock import Clock

logger = logging.getLogger(__name__)

ROTATED_WAIT_S = 5.0
"""How long a rotated file must not have grown until it is left: its writer may not have noticed yet."""

NewCutter = Callable[[], LineCutter]


@dataclass
class Watch:
    """A path, and which file has it now."""

    path: str
    key: FileKey | None = None
    trouble: str = ""
    """What is wrong with it, so that it is logged once."""
    is_done: bool = False
    """Whether it needs no look any more, since nothing is followed."""
    former_are_known: bool = False


@dataclass
class Files:
    """The watched paths and all open files, through rotations. Where nothing is followed, each file is read once.

    With `places` lines know where they stand.
    """

    paths: Sequence[str]
    positions: Positions
    counts: CollectCounts
    new_cutter: NewCutter
    clock: Clock
    follow: bool = True
    places: bool = False
    tails: dict[FileKey, FileTail] = field(default_factory=dict, init=False)
    """From the oldest to the newest, as far as they had the same name."""

    def __post_init__(self) -> None:
        self.watches = [Watch(path) for path in dict.fromkeys(map(os.path.abspath, self.paths))]
        self._refused: set[FileKey] = set()

    @property
    def are_done(self) -> bool:
        """Whether all is read that will be, because nothing is followed."""
        return not self.tails and all(watch.is_done for watch in self.watches)

    def look(self) -> None:
        """Look at every path and every open file: what is new, has grown, was rotated or truncated."""
        now_s = self.clock.monotonic_s()
        for watch in self.watches:
            if not watch.is_done:
                self._look_at(watch)
        current = {watch.key for watch in self.watches}
        for tail in list(self.tails.values()):
            try:
                if tail.look() or not tail.is_rotated:
                    tail.quiet_since_s = now_s
                tail.is_rotated = tail.key not in current or tail.is_deleted
            except OSError as error:
                self._failed(tail, error)

    def read(self, tail: FileTail) -> Piece | None:
        """Return what comes next of a file; at its end, once it needs no more looks, its rest, and close it."""
        try:
            piece = tail.read()
        except BinaryFileError as error:
            self.counts.files_refused += 1
            logger.error("not collected: %s", error)  # noqa: TRY400
            self._refused.add(tail.key)
            self._leave(tail)
            return None
        except OSError as error:
            self._failed(tail, error)
            return None
        if piece is None and not tail.unread_bytes and self._is_finished(tail):
            piece = tail.finish()
            self._leave(tail)
        return piece

    def waits_for_older(self, tail: FileTail) -> bool:
        """Whether a file that had the same name before has to be read first."""
        for other in self.tails.values():
            if other is tail:
                return False
            if other.saved.watched == tail.saved.watched and other.unread_bytes:
                return True
        return False

    def close(self) -> None:
        """Close all files. May be called twice."""
        for tail in self.tails.values():
            tail.close()
        self.tails.clear()

    def _is_finished(self, tail: FileTail) -> bool:
        if not self.follow:
            return True
        return tail.is_rotated and self.clock.monotonic_s() - tail.quiet_since_s >= ROTATED_WAIT_S

    def _look_at(self, watch: Watch) -> None:
        try:
            status = os.stat(watch.path)  # noqa: PTH116 (often, and the path is text)
        except FileNotFoundError:
            self._absent(watch)
            return
        except OSError as error:
            self._trouble(watch, f"cannot read {watch.path}: {error.strerror}")
            return
        key = FileKey.of(status)
        if key == watch.key and key in self.tails:
            return
        if not stat.S_ISREG(status.st_mode):
            self._trouble(watch, f"{watch.path} is no regular file: give - and have it as standard input")
            return
        if key in self._refused:
            watch.key, watch.is_done = key, not self.follow
            return
        if watch.key not in {None, key}:
            self.counts.rotations += 1
            logger.info("%s is another file now", watch.path)
        try:
            self._find_former(watch, key)
            self._open(watch.path, key, watch.path)
        except OSError as error:
            self._trouble(watch, f"cannot read {watch.path}: {error.strerror}")
            return
        if watch.trouble and self.follow:
            logger.warning("%s can be read now", watch.path)
        watch.key, watch.trouble, watch.is_done = key, "", not self.follow

    def _absent(self, watch: Watch) -> None:
        if not watch.former_are_known:  # of a file that was rotated away before, and has no successor yet
            try:
                self._find_former(watch, None)
            except OSError:
                return  # nor is there a directory
        if not self.follow:
            self._trouble(watch, f"{watch.path} does not exist")
        elif not watch.trouble and watch.key is None:
            watch.trouble = f"{watch.path} does not exist yet"
            logger.warning("%s: waiting for it", watch.trouble)

    def _find_former(self, watch: Watch, current: FileKey | None) -> None:
        """Open what was rotated away and is not read yet, and tell of what cannot be read any more."""
        watch.former_are_known = True
        saved = self.positions.files
        known = {key: each for key, each in saved.items() if each.watched == watch.path}
        if not known or known.keys() == {current}:
            return
        former = find_former(watch.path, known)
        for found in former.readable:
            if found.key != current and found.key not in self.tails and found.key not in self._refused:
                logger.info("%s was %s, and is read first", found.path, watch.path)
                self._open(found.path, found.key, watch.path)
        for found in former.compressed:
            self.counts.losses += 1
            logger.error("%s was %s, but was compressed before it was read: it is lost", found.path, watch.path)
            saved[found.key] = FilePosition(found.key, watch.path, found.size_bytes, size_bytes=found.size_bytes)
        for each in former.gone:
            if each.key in self.tails:
                continue
            lost_bytes = max(each.size_bytes - each.position, 0)
            del saved[each.key]
            if lost_bytes:
                self.counts.losses += 1
                self.counts.bytes_lost += lost_bytes
                logger.error(
                    "a file that was %s is no longer in its directory: its %d bytes from %d on, and whatever followed"
                    " them, are lost",
                    *(watch.path, lost_bytes, each.position),
                )

    def _open(self, path: str, key: FileKey, watched: str) -> None:
        if key in self.tails:
            self.tails[key].path = path
            return
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            opened_key = FileKey.of(os.fstat(fd))
            saved = self.positions.files.setdefault(opened_key, FilePosition(opened_key, watched))
            tail = FileTail(fd, path, saved, self.new_cutter(), self.counts, places=self.places)
        except BaseException:
            os.close(fd)
            raise
        tail.quiet_since_s = self.clock.monotonic_s()
        self.tails[opened_key] = tail

    def _leave(self, tail: FileTail) -> None:
        tail.close()
        del self.tails[tail.key]

    def _failed(self, tail: FileTail, error: OSError) -> None:
        """Tell once that a file cannot be read; it is tried again, unless nothing is followed."""
        text = f"reading {tail.path} at byte {tail.position} failed: {error.strerror}"
        if text != tail.trouble:
            tail.trouble = text
            self.counts.failed_reads += 1
            logger.error("%s", text)
        if not self.follow:
            self._leave(tail)

    def _trouble(self, watch: Watch, text: str) -> None:
        if text != watch.trouble:
            watch.trouble = text
            self.counts.failed_reads += 1
            logger.error("%s", text)
        watch.is_done = not self.follow
