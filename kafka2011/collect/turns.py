"""Whose turn it is to be read: files that may have something, one piece each, older ones of a path first."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka2011.collect.tail import FileTail


class Turns:
    """The files of each path, from the oldest to the newest, and those of all that may have something to read."""

    def __init__(self) -> None:
        self._families: defaultdict[str, list[FileTail]] = defaultdict(list)
        self._ready: deque[FileTail] = deque()

    def __len__(self) -> int:
        return len(self._ready)

    def family(self, path: str) -> list[FileTail]:
        """Return the files that have or had a path, as far as their content is there."""
        return [tail for tail in self._families.get(path, ()) if not tail.is_ended]

    def join(self, tail: FileTail) -> None:
        """Have one more, the newest of its path."""
        self._families[tail.saved.watched].append(tail)

    def leave(self, tail: FileTail) -> None:
        """Have it no more."""
        tail.is_left = True
        family = self._families[tail.saved.watched]
        family.remove(tail)
        if not family:
            del self._families[tail.saved.watched]

    def add(self, tail: FileTail) -> None:
        """Let a file have a turn."""
        if not tail.is_ready:
            tail.is_ready = True
            self._ready.append(tail)

    def __iter__(self) -> Iterator[FileTail]:
        """Give each file its turn, which is its last one unless it is added again."""
        for _ in range(len(self._ready)):
            tail = self._ready.popleft()
            if tail.is_left:
                continue
            if self._waits_for_older(tail):
                self._ready.append(tail)
                continue
            tail.is_ready = False
            yield tail

    def _waits_for_older(self, tail: FileTail) -> bool:
        """Whether a file that had the same name before has to be read first."""
        for other in self._families[tail.saved.watched]:
            if other is tail:
                return False
            if other.unread_bytes or other.is_ended:
                return True
        return False
