"""The files that are collected: looks at the watched paths find which files have them, and what was there before.

A look at a path costs one stat(2).
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka2011.collect.content import MovedError, open_content
from kafka2011.collect.followed_files import FollowedFiles
from kafka2011.collect.former_files import FormerFiles
from kafka2011.collect.lines import LineCutter
from kafka2011.collect.names import without_compression
from kafka2011.collect.positions import FileKey
from kafka2011.collect.tail import FileTail
from kafka2011.collect.unpack import UnpackError
from kafka2011.collect.watches import Watches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka2011.collect.content import Content
    from kafka2011.collect.counts import CollectCounts
    from kafka2011.collect.positions import FilePosition, Positions
    from kafka2011.collect.tail import TailPiece
    from kafka2011.collect.watches import Watch
    from zk.clock import Clock

logger = logging.getLogger(__name__)

COMPRESSING_S = 60.0
"""How long after its last change a followed file that is compressed may be unfinished until that is told."""
MISSES = 20
"""How often in a row a path may change while it is looked at until that is told."""

NewCutter = Callable[[], LineCutter]


@dataclass
class WatchedFiles:
    """The watched paths and all files that are read, through rotations. Where nothing is followed, each is read once.

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

    def __post_init__(self) -> None:
        now_s = self.clock.monotonic_s()
        self.watches = Watches(self.paths, self.positions.paths, self.counts, now_s, follow=self.follow)
        self._followed = FollowedFiles(
            self.watches,
            self.positions,
            self.counts,
            self._new_tail,
            self._find_former,
            self._find_known,
            self.clock,
            follow=self.follow,
        )
        self._former = FormerFiles(self._followed, self.positions, self.counts)

    @property
    def are_done(self) -> bool:
        """Whether all is read that will be, because nothing is followed."""
        return self._followed.are_done and self.watches.are_done

    @property
    def ready(self) -> int:
        """How many files may have something to read."""
        return self._followed.ready

    def look(self) -> None:
        """Look at paths and rotated files: what is new, has grown, was rotated or truncated."""
        now_s = self.clock.monotonic_s()
        self._former.begin_look()
        if self.watches.find(now_s, self.clock.wall_s()):
            self._followed.forget_deleted()
        for watch in self.watches.due(now_s):
            if self._look_at(watch):
                self.watches.has_changed(watch, now_s)
        self._followed.look_apart()

    def read(self) -> tuple[FileTail, TailPiece] | None:
        """Return what comes next of the file whose turn it is; None if none has anything for now.

        A file that had the same name before another one is read first.
        """
        return self._followed.read()

    def close(self) -> None:
        """Close all files. May be called twice."""
        self._followed.close()

    def _new_tail(self, content: Content, saved: FilePosition) -> FileTail:
        return FileTail(
            content,
            saved,
            self.new_cutter(),
            self.counts,
            places=self.places,
            refuses_nul=self.refuses_nul,
            note=self.positions.note,
        )

    def _find_former(self, path: str, current: FileKey | None, replaced: FileKey | None) -> None:
        self._former.find(path, current, replaced)

    def _find_known(self, content: Content, watched: str) -> FilePosition | None:
        return self._former.find_known(content, watched)

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
        if key == watch.key and key in self._followed:
            return self._followed.look_again(watch.path, key, status)
        if not stat.S_ISREG(status.st_mode):
            self._trouble(watch, f"{watch.path} is no regular file: give - and have it as standard input")
            return False
        if watch.broken == (key, status.st_size, status.st_mtime_ns):
            self._tell_broken(watch, status)
            return False
        try:
            self._take(watch, key, status)
        except UnpackError as error:
            watch.broken = (key, status.st_size, status.st_mtime_ns)
            watch.why_broken = str(error)
            self._tell_broken(watch, status)
        except MovedError as error:  # while we looked: the next look finds out
            watch.misses += 1
            if watch.misses == MISSES:
                self._trouble(watch, f"cannot read {watch.path}: {error.strerror}, each time")
        except OSError as error:
            self._trouble(watch, f"cannot read {watch.path}: {error.strerror}")
        return True

    def _take(self, watch: Watch, key: FileKey, status: os.stat_result) -> None:
        """Read the file that has a path by now, after all that had it before. Raises OSError, UnpackError."""
        if self._followed.is_refused(watch.path, key):
            self._name(watch, key)
            watch.is_done = not self.follow
            return
        if watch.key not in {None, key}:
            self.counts.add(rotations=1)
            logger.info("%s is another file now", watch.path)
        self._former.find(watch.path, key)
        if not self._followed.is_unpacked(key, status.st_mtime_ns):
            self._followed.open(open_content(watch.path, key, self._followed.open_files), watch.path)
        if watch.trouble and self.follow:
            logger.warning("%s can be read now", watch.path)
        self._name(watch, key)
        watch.former_are_known = True
        watch.trouble, watch.misses, watch.is_done = "", 0, not self.follow

    def _tell_broken(self, watch: Watch, status: os.stat_result) -> None:
        """Tell of a compressed file that cannot be read, unless it is still being written or its source is read."""
        source = without_compression(watch.path)
        if source != watch.path and source in self.watches and os.path.isfile(source):  # noqa: PTH113 (it is text)
            watch.is_done = not self.follow
        elif not self.follow or self.clock.wall_s() - status.st_mtime > COMPRESSING_S:
            self._trouble(watch, f"cannot read {watch.path}: {watch.why_broken}")

    def _absent(self, watch: Watch) -> None:
        if not watch.former_are_known:  # of a file that was rotated away before, and has no successor yet
            try:
                self._former.find(watch.path, None)
            except OSError:  # nor is there a directory
                if watch.pattern is None:
                    return
            watch.former_are_known = True
        if watch.pattern is not None:
            self._name(watch, None)
            self.watches.forget(watch)
        elif watch.key is not None and watch.key in self._followed:
            self._followed.set_apart(watch.key)
        elif not self.follow:
            self._trouble(watch, f"{watch.path} does not exist")
        elif not watch.trouble and watch.key is None:
            watch.trouble = f"{watch.path} does not exist yet"
            logger.warning("%s: waiting for it", watch.trouble)

    def _name(self, watch: Watch, key: FileKey | None) -> None:
        """Note which file a path leads to."""
        if key != watch.key:
            self._followed.set_apart(self.watches.name(watch, key))

    def _trouble(self, watch: Watch, text: str) -> None:
        if text != watch.trouble:
            watch.trouble = text
            self.counts.add(failed_reads=1)
            logger.error("%s", text)
        watch.is_done = not self.follow
