"""Path patterns, which also find files created later."""

from __future__ import annotations

import glob
import os
from fnmatch import fnmatchcase

from kafka2011.collect.names import COMPRESSED

_SETTLED_NS = 2_000_000_000
"""After this long, a directory's modification time shows every change in it."""


def is_pattern(path: str) -> bool:
    """Whether a path has wildcards and is not itself the name of a file."""
    return glob.has_magic(path) and not os.path.lexists(path)


class PathPattern:
    """A path with the shell's wildcards, *, ? and [...]. It matches no names of compressed files; rotation does."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.is_waited_for = False
        """Whether it was logged that nothing matches yet."""
        self._parts = text.split("/")
        self._found: list[str] = []
        self._settled_ns = -1

    def find(self, now_ns: int) -> list[str]:
        """Return the paths that match now, directories too.

        If they are all in one directory, that is read only when it has changed.
        """
        directory = os.path.dirname(self.text)  # noqa: PTH120 (the path is text)
        changed_ns = -1
        if not glob.has_magic(directory):
            try:
                changed_ns = os.stat(directory).st_mtime_ns  # noqa: PTH116 (the path is text)
            except OSError:
                return []
            if changed_ns == self._settled_ns:
                return self._found
        paths = glob.glob(self.text)  # noqa: PTH207 (paths are text)
        self._found = sorted(path for path in paths if not path.endswith(COMPRESSED))
        self._settled_ns = changed_ns if now_ns - changed_ns > _SETTLED_NS else -1
        return self._found

    def matches(self, path: str) -> bool:
        """Whether a path matches, even if there is no such file."""
        parts = path.split("/")
        return len(parts) == len(self._parts) and all(map(fnmatchcase, parts, self._parts))
