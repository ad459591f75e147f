"""The clock that a broker's retention goes by: whether it is believed, what it notes in log.dir, and what it logs."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kafka2011.errors import LogError
from kafka2011.log.clock_file import ClockNotes, load_clock_notes, store_clock_notes
from kafka2011.log.clock_trust import (
    MAX_DIFFERENCE_MS,
    NOT_COMPARED,
    ClockTrust,
    NotedClock,
    Obstacle,
    moved_while_down_ms,
)
from kafka2011.log.retention import SegmentTimes
from kafka2011.outages import Outages

if TYPE_CHECKING:
    from kafka2011.disk import Disk
    from zk.clock import Clock

logger = logging.getLogger(__name__)

NOTE_MS = 600_000
"""How often the clock is noted at least; while it is wrong, and at passes of retention, that is every minute."""
NOTE_SOON_MS = 60_000
WARNED_OF = 5
"""How many segments with wrong times the log names."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Return what names this boot of the machine; nothing where it does not say."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


class RetentionClock:
    """Judges the wall clock for the retention of the logs in `log_dir`, from `open` on.

    If it `is_compared`, somebody tells it by `compare` what ZooKeeper's clock says. `boot` names the machine's boot.
    """

    def __init__(self, log_dir: Path, clock: Clock, disk: Disk, *, is_compared: bool, boot: str) -> None:
        self._log_dir = log_dir
        self._clock = clock
        self._disk = disk
        self._is_compared = is_compared
        self._boot = boot
        self._trust = ClockTrust(clock, is_compared=is_compared)
        self._copied_ms = 0.0
        self._kept: NotedClock | None = None
        self._noted_ms: float | None = None
        self._logged: Obstacle | None = None
        self._was_alone = False
        self._outages = Outages(logger)
        self.times = self._new_times()

    def _new_times(self) -> SegmentTimes:
        return SegmentTimes(self._trust.believed_ms, _WrongTimesLog())

    def open(self) -> None:
        """Begin to judge the clock: read what was noted of it before the broker stopped. Raises OSError."""
        self._noted_ms = self._logged = self._kept = None
        self._was_alone = False
        try:
            notes = load_clock_notes(self._log_dir)
        except LogError as error:
            self._trust = ClockTrust(self._clock, is_compared=self._is_compared)
            self._trust.wait(f"what was noted of the clock cannot be read ({error})")
            self.times = self._new_times()
            return
        periods = () if notes is None else notes.periods
        self._trust = ClockTrust(self._clock, is_compared=self._is_compared, periods=periods)
        self.times = self._new_times()
        if notes is None:
            return
        self._copied_ms = notes.copied_ms
        if notes.copied_ms:
            logger.warning(
                "%s was copied without the times of its files at %s: retention counts its segments as written then",
                *(self._log_dir, _date(notes.copied_ms)),
            )
        moved_ms = moved_while_down_ms(notes.clock, self._now())
        if moved_ms:
            self._kept = notes.clock  # a restart finds the same
            self._trust.wait(f"the wall clock has moved by {moved_ms / 3_600_000:.1f} h while the broker was down")

    # What it is told

    def compare(self, other_ms: float) -> None:
        """Note what ZooKeeper's clock says now, in ms since the epoch."""
        was_wrong = self._trust.is_period_open
        self._trust.compare(other_ms)
        is_wrong = self._trust.is_period_open
        self._note(0 if is_wrong != was_wrong else NOTE_SOON_MS if is_wrong else NOTE_MS)
        if is_wrong:
            self._log(self._trust.obstacle())

    def check(self) -> Obstacle | None:
        """Begin a pass of retention: return why nothing may be deleted by age; None if the wall clock is believed.

        What has changed since the last pass is logged, and the clock is noted in log.dir.
        """
        obstacle = self._trust.obstacle()
        self._log(obstacle)
        if obstacle is None:
            self.times.begin_pass()
        self.note()
        return obstacle

    def note(self) -> None:
        """Note the clocks in log.dir, at most once a minute. A disk that does not take it is logged only."""
        self._note(NOTE_SOON_MS)

    def _note(self, interval_ms: float) -> None:
        now = self._now()
        if self._noted_ms is not None and now.steady_ms - self._noted_ms < interval_ms:
            return
        if not self._trust.is_waiting:
            self._kept = None
        elif self._kept is None:  # a damaged file stays: a restart finds it so
            return
        notes = ClockNotes(self._kept or now, tuple(self._trust.periods), self._copied_ms)
        try:
            store_clock_notes(self._log_dir, notes, self._disk)
        except OSError as error:  # retention may be what makes room there
            self._outages.failed("the clock was not noted in %s: %s", self._log_dir, error.strerror)
        else:
            self._outages.over()
            self._noted_ms = now.steady_ms

    # What it says

    @property
    def obstacle(self) -> Obstacle | None:
        """Why nothing may be deleted by age now; None if the wall clock is believed."""
        return self._trust.obstacle()

    @property
    def difference_ms(self) -> float | None:
        """How far the wall clock is ahead of ZooKeeper's (negative: behind); None before they were compared."""
        return self._trust.difference_ms

    @property
    def is_known_wrong(self) -> bool:
        """Whether the wall clock is further from ZooKeeper's than is allowed: so are the times of what is written."""
        return self._trust.is_known_wrong

    def _now(self) -> NotedClock:
        return NotedClock(self._clock.wall_s() * 1000, self._clock.monotonic_s() * 1000, self._boot)

    def _log(self, obstacle: Obstacle | None) -> None:
        before, self._logged = self._logged, obstacle
        if obstacle is None:
            if before is not None:
                level = _level_of(before)
                logger.log(min(level, logging.WARNING), "the wall clock is right again: retention deletes by age")
            is_alone = self._trust.is_alone
            if is_alone and not self._was_alone:
                why = "ZooKeeper has not answered for 24 h" if self._is_compared else "there is no ZooKeeper"
                logger.log(
                    logging.WARNING if self._is_compared else logging.INFO,
                    "%s: retention can check the wall clock only for jumps",
                    why,
                )
            self._was_alone = is_alone
            return
        if before is not None and before.kind == obstacle.kind and _is_close(before, obstacle):
            self._logged = before  # or a clock that drifts slowly would never be logged again
            return
        logger.log(_level_of(obstacle), "retention deletes nothing by age: %s", obstacle.text)


def _level_of(obstacle: Obstacle) -> int:
    """Return how loudly to tell of it: a comparison that is yet to come is nothing unusual."""
    return logging.INFO if obstacle.kind == NOT_COMPARED else logging.ERROR


def _is_close(before: Obstacle, now: Obstacle) -> bool:
    return abs(before.off_ms - now.off_ms) <= MAX_DIFFERENCE_MS


class _WrongTimesLog:
    """Warns of the first segments whose times are wrong: there may be very many."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, path: Path, modified_ms: float) -> None:
        self._count += 1
        if self._count <= WARNED_OF:
            logger.warning(
                "%s has a wrong modification time (%s): retention uses a later one; see `kafka2011 doctor`",
                *(path, _date(modified_ms)),
            )
        elif self._count == WARNED_OF + 1:
            logger.warning("more segments have wrong times: kafka2011_broker_segments_with_wrong_times counts them")


def _date(time_ms: float) -> str:
    try:
        return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, OSError, ValueError):
        return f"{time_ms:.0f} ms since 1970"
