"""Failures of operations that are retried: only the first in a row is logged loudly; and a limit on repeated lines."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable


class Outages:
    """Logs the first failure in a row at one level, and those that follow it at a lower one.

    If several things may fail, `of` says which. Each of them is for one thread.
    """

    def __init__(self, logger: logging.Logger, first: int = logging.WARNING, later: int = logging.INFO) -> None:
        self._logger = logger
        self._first = first
        self._later = later
        self._failing: set[Hashable] = set()

    def failed(self, text: str, *details: object, of: Hashable = None) -> None:
        """Log a failure; `text` and `details` are what a logger takes."""
        level = self._later if of in self._failing else self._first
        self._logger.log(level, text, *details, stacklevel=2)
        self._failing.add(of)

    def over(self, of: Hashable = None) -> None:
        """Note a success: the next failure is the first in a row again."""
        self._failing.discard(of)


class RepeatLimit(logging.Filter):
    """A filter for handlers that passes at most `most` records of one statement in a minute.

    The statement is told by its file and line. The next record that passes says how many were left out.
    """

    MINUTE_S = 60.0

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._most = most
        self._clock = clock
        self._counts: dict[tuple[str, int], tuple[float, int]] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record may pass."""
        statement, now_s = (record.pathname, record.lineno), self._clock()
        with self._lock:
            since_s, count = self._counts.get(statement, (now_s, 0))
            left_out = 0
            if now_s - since_s >= self.MINUTE_S:
                since_s, count, left_out = now_s, 0, max(count - self._most, 0)
            self._counts[statement] = since_s, count + 1
        if count >= self._most:
            return False
        if left_out:
            record.msg = f"{record.getMessage()} ({left_out} more lines like this were left out)"
            record.args = ()
        return True
