"""Checks closed segments in the background, in a thread of its own and at a bounded rate."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, NamedTuple

from gevent.threadpool import ThreadPool

from kafka2011.errors import KafkaError, LogError
from kafka2011.log.scrub import Scrub, ScrubPace, ScrubStoppedError, all_segments, check_segment, closed_segments
from kafka2011.outages import Outages
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable

    from gevent.event import Event

    from kafka2011.log.log_manager import LogManager
    from kafka2011.log.scrub import ClosedSegment
    from kafka2011.log.scrub_record import DamagedRange, DifferingRange, ScrubFile

    Compare = Callable[[ClosedSegment, Callable[[int], None]], DifferingRange | None]
    """Returns the first range of a segment that differs, and is told whom to tell of bytes before it reads them.

    Raises NotComparedError.
    """

logger = logging.getLogger(__name__)

HOUR_S = 3600
LOOK_S = 5.0
"""How often it is looked whether a pass is due, and at most how often it is noted how far one has come."""
COMPARING_PATIENCE_S = 60.0
COMPARING_LOOK_S = 0.5
STOP_LOOK_S = 0.1
"""How often a thread that waits looks whether the broker stops."""


class NotComparedError(KafkaError):
    """There is nobody to compare a segment with, or that replica does not answer."""


class Scrubber:
    """Checks the segments of `logs`, whose record is in `file`, until `stopping` is set."""

    def __init__(self, logs: LogManager, file: ScrubFile, stopping: Event, bytes_per_s: int, interval_h: float) -> None:
        self._logs = logs
        self._file = file
        self._stopping = stopping
        self._bytes_per_s = bytes_per_s
        self._interval_s = interval_h * HOUR_S
        self._outages = Outages(logger)
        self._stored_s = self._forgot_s = 0.0
        self.on_damage: Callable[[], object] = lambda: None
        """Called when damage has been found that was not known."""
        self.compare: Compare | None = None
        """Compares a good segment with another replica's; in the scrub's thread."""
        self.can_compare: Callable[[], bool] = lambda: True
        """Says whether that can be done now: the first pass waits for it a while."""

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
        self._await_comparing()
        thread = ThreadPool(1)
        try:
            while not self._stopping.is_set():
                self._go_on(scrub, pace, thread)
        finally:
            thread.kill()

    def _await_comparing(self) -> None:
        """Wait until segments can be compared, but not for long: one that stays out of sync is to be checked too."""
        until_s = time.monotonic() + COMPARING_PATIENCE_S
        while not self.can_compare() and time.monotonic() < until_s:
            if self._stopping.wait(COMPARING_LOOK_S):
                return

    def _go_on(self, scrub: Scrub, pace: ScrubPace, thread: ThreadPool) -> None:
        self._forget_deleted()
        finished_s = self._logs.scrubbed.finished_s
        segment = thread.apply(scrub.next, (SYSTEM_CLOCK.wall_s(),))  # there may be very many
        if segment is None:
            if self._logs.scrubbed.finished_s != finished_s:
                self.store()
            self._stopping.wait(LOOK_S)
            return
        outcome = thread.apply(_check, (segment, pace, self.compare))
        if isinstance(outcome, ScrubStoppedError):
            self.store()
            return
        if isinstance(outcome, KafkaError):
            self._outages.failed("a segment was not checked, and will be with the next pass: %s", outcome, of="check")
            self._stopping.wait(LOOK_S)
            return
        self._outages.over("check")
        found = scrub.checked(segment, outcome.damage)
        if outcome.is_compared and self._logs.scrubbed.note_compared(segment.key, outcome.differing):
            logger.error("differs: %s", outcome.differing)
        if found or time.monotonic() - self._stored_s >= LOOK_S:
            self.store()
        if found:
            self.on_damage()

    def _forget_deleted(self) -> None:
        """Forget damage of segments that retention, or an operator, has deleted."""
        if self._logs.scrubbed.damage() and time.monotonic() - self._forgot_s >= LOOK_S:
            self._forgot_s = time.monotonic()
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


class _Outcome(NamedTuple):
    damage: list[DamagedRange] | None
    is_compared: bool = False
    differing: DifferingRange | None = None


def _check(segment: ClosedSegment, pace: ScrubPace, compare: Compare | None) -> _Outcome | KafkaError:
    """Check a segment, in a thread: what it raises is returned, since a pool prints what leaves it."""
    try:
        damage = check_segment(segment, pace.spend)
        if damage != [] or compare is None:
            return _Outcome(damage)
        try:
            return _Outcome(damage, is_compared=True, differing=compare(segment, pace.spend))
        except NotComparedError as error:
            logger.debug("%s was not compared: %s", segment.path, error)
            return _Outcome(damage)
    except KafkaError as error:
        return error
