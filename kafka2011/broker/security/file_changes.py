"""Notices that files have changed, at the cost of a look each second, so that they can be read again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from zk.clock import Clock

LOOK_INTERVAL_S = 1.0


class FileChanges:
    """Looks at some files, now and whenever it is asked, but not more often than each second."""

    def __init__(self, paths: Iterable[Path], clock: Clock) -> None:
        self.paths = tuple(paths)
        self._clock = clock
        self._seen = self._look()
        self._next_look_s = clock.monotonic_s() + LOOK_INTERVAL_S

    def come(self) -> bool:
        """Say whether there is something new since the last time."""
        now_s = self._clock.monotonic_s()
        if now_s < self._next_look_s:
            return False
        self._next_look_s = now_s + LOOK_INTERVAL_S
        seen, self._seen = self._seen, self._look()
        return seen != self._seen

    def _look(self) -> list[tuple[int, int, int]]:
        identities = []
        for path in self.paths:
            try:
                status = path.stat()
            except OSError:
                identities.append((0, 0, 0))
            else:
                identities.append((status.st_mtime_ns, status.st_size, status.st_ino))
        return identities
