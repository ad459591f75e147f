"""When a broker's logs are flushed: because they ask for it, because a reader waits, and because time has passed.

| reason | asked by | when |
|---|---|---|
| requested | a log with `flush_interval` messages, a barrier | at once, together with what is requested meanwhile |
| awaited | an append to a log whose end a reader waits at | `log.flush.awaited.ms` after the log's last flush |
| timed | the timer | when a log's `flush_interval_ms` has passed |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gevent.event import Event

from kafka2011.broker.flushing.awaited_flushes import AwaitedFlushes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafka2011.broker.background import BackgroundTasks
    from kafka2011.log.log import Log
    from zk.clock import Clock

FLUSHERS = 2
"""How many greenlets flush the logs that ask for it: the second takes what would wait for a first one's slow disk."""


class FlushScheduler:
    """Has logs flushed by `flush`, in `tasks`. Nothing here waits but the tasks.

    `is_read` says whether a reader waits for what a log gets; a negative `awaited_ms` means that none is flushed for.
    """

    def __init__(
        self,
        flush: Callable[[Sequence[Log]], None],
        is_read: Callable[[Log], bool],
        awaited_ms: float,
        tasks: BackgroundTasks,
        clock: Clock,
    ) -> None:
        self._flush = flush
        self._is_read = is_read
        self._flushes_for_readers = awaited_ms >= 0
        self._tasks = tasks
        self._clock = clock
        self._requested: list[Log] = []
        self._flushers = 0  # those that look again whether there is more to flush
        self._awaited = AwaitedFlushes(awaited_ms / 1000)
        self._is_awaited = Event()

    def start(self, interval_s: float, flush_due: Callable[[], None]) -> None:
        """Begin to flush what readers wait for and, at an interval, what is due by time."""
        self._tasks.every(interval_s, flush_due)
        self._tasks.spawn(self._flush_awaited)

    def wake(self) -> None:
        """Have the tasks notice that they are to stop."""
        self._is_awaited.set()

    def request(self, log: Log) -> None:
        """Flush a log soon."""
        self._requested.append(log)
        if self._flushers < FLUSHERS:
            self._flushers += 1
            self._tasks.spawn(self._flush_requested)

    def note_appended(self, log: Log) -> bool:
        """Flush a log soon if a reader waits for what was appended; say whether one does."""
        if not self._flushes_for_readers or not self._is_read(log):
            return False
        if self._awaited.add(log):
            self._is_awaited.set()
        return True

    def _flush_requested(self) -> None:
        """Flush what was requested, and then together what was requested meanwhile."""
        try:
            while self._requested:
                logs, self._requested = self._requested, []
                self._flush(logs)
        finally:
            self._flushers -= 1

    def _flush_awaited(self) -> None:
        while not self._tasks.stopping.is_set():
            next_s = self._awaited.next_s()
            now_s = self._clock.monotonic_s()
            if next_s is None or next_s > now_s:
                self._is_awaited.clear()
                self._is_awaited.wait(None if next_s is None else next_s - now_s)
                continue
            due = self._awaited.take_due(now_s)
            for log in due:  # or one that is being flushed, or rolled, would be passed over
                log.is_flush_requested = True
            self._flush(due)
            self._awaited.flushed(now_s, self._clock.monotonic_s())
