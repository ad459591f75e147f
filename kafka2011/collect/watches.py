"""The paths that are watched, those that patterns find among them, and which of them are looked at next."""

from __future__ import annotations

import logging
import os
from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka2011.collect.patterns import PathPattern, is_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafka2011.collect.counts import CollectCounts
    from kafka2011.collect.positions import FileKey

logger = logging.getLogger(__name__)

BUSY_S = 10.0
"""How long after its last change a file is looked at each time."""
LOOKS = 1000
"""How many paths may be looked at each time; of more, a quarter."""
FIND_S = 1.0
"""How often patterns are tried again."""


@dataclass(eq=False)
class Watch:
    """A path, and which file has it now."""

    path: str
    pattern: PathPattern | None = None
    """What has found it: the path is forgotten with its file."""
    key: FileKey | None = None
    trouble: str = ""
    """What is wrong with it, so that it is logged once."""
    is_done: bool = False
    """Whether it needs no look any more, since nothing is followed."""
    former_are_known: bool = False
    broken: tuple[FileKey, int, int] | None = None
    """The compressed file that could not be read, with its size and time."""
    why_broken: str = ""
    misses: int = 0
    """How often in a row another file had the path when it was opened."""


class Watches:
    """All watched paths. Where nothing is followed, patterns are tried once.

    `known` are paths that files were found at before: where a pattern matches one, it may have left something.
    """

    def __init__(
        self, paths: Iterable[str], known: Iterable[str], counts: CollectCounts, now_s: float, *, follow: bool
    ) -> None:
        paths = dict.fromkeys(map(os.path.abspath, paths))
        self._counts = counts
        self._follow = follow
        self._patterns = [PathPattern(path) for path in paths if is_pattern(path)]
        self._watches = deque(Watch(path) for path in paths if not is_pattern(path))
        self._paths = {watch.path for watch in self._watches}
        self._busy: dict[Watch, float] = {}  # those that changed lately, and when
        self._named: Counter[FileKey] = Counter()  # how many paths lead to a file
        self._find_at_s = now_s
        for path in known:
            for pattern in self._patterns:
                if pattern.matches(path):
                    self._add(path, pattern)

    def __iter__(self) -> Iterator[Watch]:
        return iter(self._watches)

    def __contains__(self, path: str) -> bool:
        return path in self._paths

    @property
    def are_done(self) -> bool:
        """Whether no path needs a look any more."""
        return all(watch.is_done for watch in self._watches)

    def find(self, now_s: float, wall_s: float) -> bool:
        """Watch what patterns match by now, if it is time again; say whether it was."""
        if now_s < self._find_at_s:
            return False
        self._find_at_s = now_s + FIND_S
        for pattern in self._patterns:
            paths = pattern.find(int(wall_s * 1e9))
            for path in paths:
                if path not in self._paths and os.path.isfile(path):  # noqa: PTH113 (often, and the path is text)
                    self._add(path, pattern)
            if not paths and not pattern.is_waited_for:
                pattern.is_waited_for = True
                if self._follow:
                    logger.warning("no file matches %s yet: waiting for one", pattern.text)
                else:
                    self._counts.add(failed_reads=1)
                    logger.error("no file matches %s", pattern.text)
        if not self._follow:
            self._patterns.clear()
        return True

    def due(self, now_s: float) -> list[Watch]:
        """Return those to look at this time."""
        for watch, changed_s in list(self._busy.items()):
            if now_s - changed_s > BUSY_S:
                del self._busy[watch]
        if not self._follow or len(self._watches) <= LOOKS:
            return [watch for watch in self._watches if not watch.is_done]
        due = list(self._busy)
        for _ in range(max(LOOKS, len(self._watches) // 4)):
            if self._watches[0] not in self._busy:
                due.append(self._watches[0])
            self._watches.rotate(-1)
        return due

    def has_changed(self, watch: Watch, now_s: float) -> None:
        """Note that the file at a path has changed."""
        self._busy[watch] = now_s

    def forget(self, watch: Watch) -> None:
        """Watch a path no more."""
        self._watches.remove(watch)
        self._paths.discard(watch.path)
        self._busy.pop(watch, None)

    def is_named(self, key: FileKey) -> bool:
        """Whether a path leads to a file."""
        return key in self._named

    def name(self, watch: Watch, key: FileKey | None) -> FileKey | None:
        """Note which file a path leads to; return the one that has no path any more, if it has none now."""
        former, watch.key = watch.key, key
        if key is not None:
            self._named[key] += 1
        if former is None:
            return None
        self._named[former] -= 1
        if self._named[former]:
            return None
        del self._named[former]
        return former

    def _add(self, path: str, pattern: PathPattern) -> None:
        if path not in self._paths:
            self._paths.add(path)
            self._watches.append(Watch(path, pattern))
