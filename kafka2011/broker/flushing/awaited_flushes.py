"""AwaitedFlushes: which logs to flush because a reader waits for what they got, and when; no event loop here.

What was not flushed cannot be read. So the first message after a pause is flushed at once where somebody waits for it.
The next flush of that log for such a reason comes only a while after any other, and not before as much time has passed
as such flushes take: what comes meanwhile is flushed together.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafka2011.log.log import Log

SOON_S = 0.006
"""Readers wait so long after the last flush where a log gets its flush_interval by then: it is flushed for that."""
MOST_SHARE = 0.5
"""Of the time, at most, such flushes are under way, however many logs wait for one."""
_NEWEST_SHARE = 1 / 8
"""Of the newest flush in how long they take: readers would wait for a single slow one twice."""


class AwaitedFlushes:
    """Logs with something that a reader waits for, and the time before which none is flushed again for it."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._logs: set[Log] = set()
        # When each may be flushed at the earliest, so that one costs little however many there are. A flush for another
        # reason makes that later, which is found when the time has come.
        self._due: list[tuple[float, int, Log]] = []
        self._added = 0
        self._not_before_s = 0.0
        self._usual_s: float | None = None

    def add(self, log: Log) -> bool:
        """Note a log; say whether that is new."""
        if log in self._logs:
            return False
        self._logs.add(log)
        self._push(log, self._interval_s)
        return True

    def _push(self, log: Log, after_s: float) -> None:
        self._added += 1  # logs have no order of their own
        heapq.heappush(self._due, (log.last_flush_s + after_s, self._added, log))

    def take_due(self, now_s: float) -> list[Log]:
        """Take the logs that may be flushed now."""
        if now_s < self._not_before_s:
            return []
        due: list[Log] = []
        while self._due and self._due[0][0] <= now_s:
            _, _, log = heapq.heappop(self._due)
            if log.last_flush_s + self._interval_s > now_s:
                self._push(log, self._interval_s)
                continue
            if self._interval_s < SOON_S and _is_full_soon(log, now_s - log.last_flush_s):
                self._push(log, SOON_S)
                continue
            self._logs.discard(log)
            due.append(log)
        return due

    def flushed(self, began_s: float, ended_s: float) -> None:
        """Note how long the flushes of those that were taken have lasted."""
        lasted_s = ended_s - began_s
        usual_s = lasted_s if self._usual_s is None else self._usual_s
        self._usual_s = usual_s + (lasted_s - usual_s) * _NEWEST_SHARE
        self._not_before_s = ended_s + self._usual_s * (1 / MOST_SHARE - 1)

    def next_s(self) -> float | None:
        """When to look again, or somewhat earlier; None while there is nothing."""
        if not self._due:
            return None
        return max(self._not_before_s, self._due[0][0])


def _is_full_soon(log: Log, since_s: float) -> bool:
    """Say whether a log gets enough for a flush of its own within SOON_S, if it goes on as since the last one."""
    return since_s < SOON_S and log.unflushed_messages * SOON_S >= log.settings.flush_interval * since_s
