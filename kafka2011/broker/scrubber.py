"""Checks closed segments in the background, in a thread of its own and at a bounded rate."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from gevent.threadpool import ThreadPool

from kafka2011.errors import LogError
from kafka2011.log.scrub import Scrub, ScrubPace, ScrubStoppedError, all_segments, check_segment, closed_segments
from kafka2011.outages import Outages
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable

    from gevent.event import Event

    from kafka2011.log.log_manager import LogManager
    from kafka2011.log.scrub import ClosedSegment
    from kafka2011.log.scrub_record import DamagedRange, ScrubFile

logger = logging.getLogger(__name__)

HOUR_S = 3600
LOOK_S = 5.0
"""How often it is looked whether a pass is due, and at most how often it is noted how far one has come."""
STOP_LOOK_S = 0.1
"""How often a thread that waits looks whether the broker stops."""


class Scrubber:
    """Checks the segments of `logs`, whose record is in `file`, until `stopping` is set."""

    def __init__(self, logs: LogManager, file: ScrubFile, stopping: Event, bytes_per_s: int, interval_h: float) -> None:
        self._logs = logs
        self._file = file
        self._stopping = stopping
        self._bytes_per_s = bytes_per_s
        self._interval_s = interval_h * HOUR_S
        self._outages = Outages(logger)
        self._stored_s = 0.0
        self.on_damage: Callable[[], object] = lambda: None
        """Called when damage has been found that was not known."""

    def load(self) -> None:
        """Read what was found before the last stop."""
        try:
            record = self._file.load()
        except LogError as error:
            logger.warning("the scrub begins from the start: %s", error)
            return
        if record is not None:
            self._logs.scrubbed.replace(record)

    def run(self) -> None:
        """Check segments, pass after pass; returns when the broker stops."""
        while not self._bytes_per_s and not self._stopping.wait(LOOK_S):
            self._forget_deleted()
        scrub = Scrub(self._logs.scrubbed, lambda: closed_segments(self._logs.logs()), self._interval_s)
        pace = ScrubPace(max(1, self._bytes_per_s), time.monotonic, self._wait_in_thread)
        thread = ThreadPool(1)
        try:
            while not self._stopping.is_set():
                self._go_on(scrub, pace, thread)
        finally:
            thread.kill()

    def _go_on(self, scrub: Scrub, pace: ScrubPace, thread: ThreadPool) -> None:
        self._forget_deleted()
        finished_s = self._logs.scrubbed.finished_s
        segment = scrub.next(SYSTEM_CLOCK.wall_s())
        if segment is None:
            if self._logs.scrubbed.finished_s != finished_s:
                self.store()
            self._stopping.wait(LOOK_S)
            return
        outcome = thread.apply(_check, (segment, pace))
        if isinstance(outcome, ScrubStoppedError):
            self.store()
            return
        found = scrub.checked(segment, outcome)
        if found or time.monotonic() - self._stored_s >= LOOK_S:
            self.store()
        if found:
            self.on_damage()

    def _forget_deleted(self) -> None:
        """Forget damage of segments that retention, or an operator, has deleted."""
        if self._logs.scrubbed.damage():
            self._logs.scrubbed.keep_only(all_segments(self._logs.logs()))

    def store(self) -> None:
        """Note on disk what was found; what cannot be noted now is noted later."""
        self._stored_s = time.monotonic()
        try:
            self._file.store(self._logs.scrubbed)
            self._outages.over()
        except LogError as error:
            self._outages.failed("what the scrub found is not noted: %s", error)

    def _wait_in_thread(self, seconds: float) -> bool:
        until_s = time.monotonic() + seconds
        while not self._stopping.is_set() and (left_s := until_s - time.monotonic()) > 0:
            time.sleep(min(left_s, STOP_LOOK_S))
        return self._stopping.is_set()


def _check(segment: ClosedSegment, pace: ScrubPace) -> list[DamagedRange] | ScrubStoppedError | None:
    """Check a segment, in a thread: what it raises is returned, since a pool prints what leaves it."""
    try:
        return check_segment(segment, pace.spend)
    except ScrubStoppedError as error:
        return error
