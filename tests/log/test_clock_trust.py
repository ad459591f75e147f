"""When the wall clock decides what is old, and when segments count as written; each rule has a defect that shows here.

Those that tests/planted/clocks.toml names take nothing but a directory: they also run with a defect planted.
"""

from __future__ import annotations

import json
import logging
import os
from contextlib import ExitStack
from inspect import signature
from typing import TYPE_CHECKING, Any

import pytest

from kafka2011.broker.replication.replica_log import ReplicaLogs
from kafka2011.errors import LogError
from kafka2011.log.clock_file import FILE_NAME, ClockNotes, is_clock_file, load_clock_notes
from kafka2011.log.clock_trust import (
    DAY_MS,
    DIFFERS,
    JUMPED,
    MAX_DIFFERENCE_MS,
    MOST_PERIODS,
    MOVED,
    NOT_COMPARED,
    ClockTrust,
    NotedClock,
    WrongPeriod,
    moved_while_down_ms,
)
from kafka2011.log.log_settings import LogSettings
from kafka2011.log.replicated_log import ReplicatedLog
from kafka2011.log.retention import OLDEST_MS, SegmentTimes, is_impossible
from kafka2011.log.retention_clock import WARNED_OF
from kafka2011.log.segment import segment_path
from kafka2011.message.message_set import encode
from tests.planted.patches import Defect, read_defects
from tests.planted.planting import planted
from tests.support.clocks import ManualClock
from tests.support.disks import DiskWith
from tests.support.logs import new_log, new_log_manager

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kafka2011.log.log_manager import LogManager

HOUR_MS = 3_600_000
WEEK_MS = 7 * DAY_MS
YEAR_MS = 365 * DAY_MS
GOOD = encode(b"good")


_opened = ExitStack()
"""What is left open where a check fails, as it does with a defect."""


@pytest.fixture(autouse=True)
def closed_logs() -> Iterator[None]:
    yield
    _opened.close()


def new_clock() -> ManualClock:
    return ManualClock(now_s=1000, wall_lead_s=1.7e9)


def wall_ms(clock: ManualClock) -> float:
    return clock.wall_s() * 1000


def kind(trust: ClockTrust) -> str | None:
    obstacle = trust.obstacle()
    return None if obstacle is None else obstacle.kind


def compared(clock: ManualClock, ahead_ms: float = 0) -> ClockTrust:
    """Return the trust in a clock that is so far ahead of ZooKeeper's."""
    trust = ClockTrust(clock, is_compared=True)
    trust.compare(wall_ms(clock) - ahead_ms)
    return trust


def open_manager(directory: Path, clock: ManualClock, **options: Any) -> LogManager:
    """Open a broker's logs, of which everything is deleted after a week, as one with ZooKeeper does by default."""
    settings = LogSettings(max_segment_bytes=1, retention_ms=WEEK_MS)
    options = {"is_clock_compared": True, "of": lambda _: settings} | options
    manager = new_log_manager(directory / "logs", clock=clock, **options)
    manager.open()
    _opened.callback(manager.close)
    return manager


def write(manager: LogManager, at_ms: float) -> Path:
    """Write a segment that bears a time; return its file."""
    log = manager.get_or_create("views", 0)
    start = log.append(GOOD, 1)
    log.flush()
    path = segment_path(log.directory, start)
    os.utime(path, ns=(int(at_ms) * 1_000_000,) * 2)
    return path


# D1: ZooKeeper's clock


def test_a_clock_that_differs_from_zookeepers_deletes_nothing_by_age() -> None:
    clock = new_clock()
    for ahead_ms in (MAX_DIFFERENCE_MS + 1, -MAX_DIFFERENCE_MS - 1, YEAR_MS):
        trust = compared(clock, ahead_ms)
        assert (kind(trust), trust.is_known_wrong) == (DIFFERS, True)
        assert f"{abs(ahead_ms) / 1000:.0f} s {'ahead of' if ahead_ms > 0 else 'behind'}" in str(trust.obstacle())
    for ahead_ms in (MAX_DIFFERENCE_MS, -MAX_DIFFERENCE_MS, 0):
        trust = compared(clock, ahead_ms)
        assert (kind(trust), trust.is_known_wrong, trust.difference_ms) == (None, False, ahead_ms)


def test_a_clock_that_was_not_compared_yet_deletes_nothing_by_age() -> None:
    """For a day; then a disk that fills up is the greater danger, and its own steps judge the clock."""
    clock = new_clock()
    trust = ClockTrust(clock, is_compared=True)
    assert (kind(trust), trust.difference_ms) == (NOT_COMPARED, None)
    clock.now_ms += DAY_MS
    assert (kind(trust), trust.is_alone) == (NOT_COMPARED, False)
    clock.now_ms += 1
    assert (kind(trust), trust.is_alone) == (None, True)


def test_an_agreement_counts_on_by_the_steady_clock() -> None:
    """While ZooKeeper is away: what the wall clock jumps since then counts as a difference."""
    clock = new_clock()
    trust = compared(clock, HOUR_MS / 2)
    clock.now_ms += DAY_MS
    assert kind(trust) is None
    clock.wall_lead_ms += HOUR_MS / 2 + 1
    assert kind(trust) == DIFFERS
    clock.wall_lead_ms -= HOUR_MS
    assert kind(trust) is None


def test_after_a_day_without_zookeeper_jumps_are_looked_for() -> None:
    clock = new_clock()
    trust = compared(clock)
    clock.now_ms += DAY_MS + 1
    assert (kind(trust), trust.is_alone) == (None, True)
    clock.wall_lead_ms -= 2 * HOUR_MS
    assert kind(trust) is not None
    trust = ClockTrust(clock, is_compared=False)
    clock.wall_lead_ms -= 2 * HOUR_MS
    assert kind(trust) == JUMPED


def test_a_clock_that_is_known_to_be_wrong_stays_so_without_zookeeper() -> None:
    """Until ZooKeeper says otherwise, or it is set right by as much."""
    clock = new_clock()
    trust = compared(clock, YEAR_MS)
    clock.now_ms += 30 * DAY_MS
    assert kind(trust) == DIFFERS
    clock.wall_lead_ms -= YEAR_MS
    trust.compare(wall_ms(clock))
    assert kind(trust) is None


def test_zookeepers_word_ends_a_jump() -> None:
    """A clock that was wrong at the start and is set right needs no restart."""
    clock = new_clock()
    trust = compared(clock, YEAR_MS)
    clock.wall_lead_ms -= YEAR_MS
    trust.compare(wall_ms(clock))
    clock.now_ms += 2 * DAY_MS
    assert (kind(trust), trust.is_alone) == (None, True)


# D2: what happened while the broker was down


@pytest.mark.parametrize(
    ("wall", "steady", "boot", "moved"),
    [
        (DAY_MS, 0, "other", 0),
        (DAY_MS + 1, 0, "other", DAY_MS + 1),
        (-DAY_MS - 1, 0, "other", -DAY_MS - 1),
        (DAY_MS + 1, DAY_MS + 1, "", DAY_MS + 1),
        (30 * DAY_MS, 30 * DAY_MS, "same", 0),  # it was down for so long
        (30 * DAY_MS + HOUR_MS, 30 * DAY_MS, "same", 0),
        (30 * DAY_MS + HOUR_MS + 1, 30 * DAY_MS, "same", HOUR_MS + 1),
        (0, HOUR_MS + 1, "same", -HOUR_MS - 1),
        (DAY_MS, -1, "same", 0),  # no such thing in one boot: as if in another
    ],
)
def test_how_far_the_clock_has_moved(wall: float, steady: float, boot: str, moved: float) -> None:
    noted = NotedClock(1.7e12, 1e6, "same" if boot else "")
    assert moved_while_down_ms(noted, NotedClock(1.7e12 + wall, 1e6 + steady, boot)) == moved


def test_a_clock_that_moved_while_the_broker_was_down_deletes_nothing_for_a_day(directory: Path) -> None:
    """Even if ZooKeeper's, which may run on the same machine, has moved as far. A restart does not end the wait."""
    clock = new_clock()
    manager = open_manager(directory, clock)
    manager.retention_clock.compare(wall_ms(clock))
    path = write(manager, wall_ms(clock))
    manager.clean_up()
    manager.close()
    clock.wall_lead_ms += YEAR_MS
    for _ in range(2):
        manager = open_manager(directory, clock)
        for _ in range(3):
            manager.retention_clock.compare(wall_ms(clock))
            assert manager.clean_up() == []
            obstacle = manager.retention_clock.obstacle
            assert obstacle is not None
            assert (obstacle.kind, manager.clock_jumps > 0) == (MOVED, True)
            clock.now_ms += DAY_MS / 4
        manager.close()
    manager = open_manager(directory, clock)
    clock.now_ms += DAY_MS
    manager.retention_clock.compare(wall_ms(clock))
    assert [item.path for item in manager.clean_up()] == [path]
    manager.close()
    assert (clock.now_ms - open_manager_noted(directory).steady_ms) < HOUR_MS


def open_manager_noted(directory: Path) -> NotedClock:
    notes = load_clock_notes(directory / "logs")
    assert notes is not None
    return notes.clock


def test_a_clock_that_was_known_to_be_wrong_may_move(directory: Path) -> None:
    """Somebody has set it right while the broker was down, and ZooKeeper, which knew better, agrees."""
    clock = new_clock()
    clock.wall_lead_ms += YEAR_MS
    manager = open_manager(directory, clock)
    manager.retention_clock.compare(wall_ms(clock) - YEAR_MS)
    manager.close()
    clock.wall_lead_ms -= YEAR_MS
    manager = open_manager(directory, clock)
    manager.retention_clock.compare(wall_ms(clock))
    assert manager.retention_clock.obstacle is None
    manager.close()


def test_a_wait_ends_when_zookeepers_clock_has_differed_and_agrees(directory: Path) -> None:
    """It is another clock, then. While it differs, that is what is said."""
    clock = new_clock()
    manager = open_manager(directory, clock)
    manager.clean_up()
    manager.close()
    clock.wall_lead_ms += YEAR_MS
    manager = open_manager(directory, clock)
    manager.retention_clock.compare(wall_ms(clock) - YEAR_MS)
    obstacle = manager.retention_clock.obstacle
    assert obstacle is not None
    assert obstacle.kind == DIFFERS
    clock.wall_lead_ms -= YEAR_MS
    clock.now_ms += HOUR_MS
    manager.retention_clock.compare(wall_ms(clock))
    assert manager.retention_clock.obstacle is None
    manager.clean_up()
    assert open_manager_noted(directory).wall_ms == wall_ms(clock)
    manager.close()


def test_a_wrong_clock_is_noted_and_logged_without_a_pass(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    """At once, then every minute; a right one every ten minutes. Also during a wait, which a restart finds again."""
    clock = new_clock()
    manager = open_manager(directory, clock)
    manager.retention_clock.note()
    manager.close()
    clock.wall_lead_ms += YEAR_MS
    manager = open_manager(directory, clock)

    def periods() -> tuple[WrongPeriod, ...]:
        notes = load_clock_notes(directory / "logs")
        assert notes is not None
        return notes.periods

    def shown_until(after_ms: float, ahead_ms: float = YEAR_MS) -> tuple[float, float]:
        """Return what is noted of the wrong clock once it was compared after some time, from when it was wrong."""
        clock.now_ms += after_ms
        manager.retention_clock.compare(wall_ms(clock) - ahead_ms)
        [period] = periods()
        return period.to_ms - period.from_ms, period.right_ms

    assert shown_until(0) == (0, 0)
    assert "31536000 s ahead" in caplog.text
    assert shown_until(59_999) == (0, 0)
    assert shown_until(1) == (60_000, 0)
    manager.close()
    manager = open_manager(directory, clock)
    assert shown_until(0) == (60_000, 0)
    clock.wall_lead_ms -= YEAR_MS
    assert shown_until(30_000, 0) == (90_000, wall_ms(clock))
    noted_ms = open_manager_noted(directory).wall_ms
    for after_ms in (599_999, 1):
        assert open_manager_noted(directory).wall_ms == noted_ms
        clock.now_ms += after_ms
        manager.retention_clock.compare(wall_ms(clock))
    assert open_manager_noted(directory).wall_ms == noted_ms + 600_000
    manager.close()


def test_a_wait_is_found_again_though_the_clock_was_noted_as_wrong_meanwhile(directory: Path) -> None:
    clock = new_clock()
    manager = open_manager(directory, clock)
    manager.retention_clock.note()
    manager.close()
    noted = open_manager_noted(directory)
    clock.wall_lead_ms += YEAR_MS
    for _ in range(2):
        manager = open_manager(directory, clock)
        manager.retention_clock.compare(wall_ms(clock) - 2 * YEAR_MS)
        assert open_manager_noted(directory) == noted
        clock.now_ms += 2 * DAY_MS / 3
        manager.close()


def test_a_quick_restart_changes_nothing(directory: Path) -> None:
    clock = new_clock()
    for _ in range(2):
        manager = open_manager(directory, clock)
        manager.retention_clock.compare(wall_ms(clock))
        clock.now_ms += DAY_MS / 2
        manager.clean_up()
        assert manager.clock_jumps == 0
        manager.close()


def test_a_damaged_note_counts_as_moved_until_a_day_has_passed(directory: Path) -> None:
    """And it stays, so that a restart finds it; afterwards it is replaced."""
    (directory / "logs").mkdir()
    damaged = directory / "logs" / FILE_NAME
    damaged.write_text("{}")
    clock = new_clock()
    manager = open_manager(directory, clock)
    manager.retention_clock.compare(wall_ms(clock))
    manager.clean_up()
    assert "cannot be read" in str(manager.retention_clock.obstacle)
    assert damaged.read_text() == "{}"
    clock.now_ms += DAY_MS
    manager.clean_up()
    assert manager.retention_clock.obstacle is None
    assert open_manager_noted(directory).wall_ms == wall_ms(clock)
    manager.close()


def test_a_disk_that_takes_no_note_does_not_stop_retention(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It may be what makes room there."""

    class FullDisk(DiskWith):
        def replacing(self, path: Path, new: Path | None = None) -> Any:
            raise OSError(28, "No space left on device")

    clock = new_clock()
    manager = open_manager(directory, clock, disk=FullDisk())
    manager.retention_clock.compare(wall_ms(clock))
    path = write(manager, wall_ms(clock) - WEEK_MS - 1)
    assert [item.path for item in manager.clean_up()] == [path]
    assert "No space left on device" in caplog.text
    manager.close()


def test_the_note_is_no_log_and_its_time_is_its_own(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    """No start warns of it, and it is written at most once a minute."""
    clock = new_clock()
    manager = open_manager(directory, clock)
    manager.retention_clock.note()
    noted = open_manager_noted(directory)
    clock.now_ms += 59_999
    manager.retention_clock.note()
    assert open_manager_noted(directory) == noted
    manager.close()
    manager = open_manager(directory, clock)
    manager.close()
    assert is_clock_file(FILE_NAME)
    assert not is_clock_file("clock-0")
    assert "skipped" not in caplog.text
    assert "copied" not in caplog.text


@pytest.mark.parametrize(
    "change",
    [{"wall_ms": "1"}, {"wall_ms": True}, {"boot": 1}, {"wrong": [[1]]}, {"wrong": [[1, 2, 3, 4]]}, {"wrong": 1}],
)
def test_notes_of_another_kind_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    good = json.loads(ClockNotes(NotedClock(1.7e12, 1, "b"), (WrongPeriod(1, 2),)).text)
    assert ClockNotes.of(json.dumps(good).encode()).periods == (WrongPeriod(1, 2),)
    (tmp_path / FILE_NAME).write_text(json.dumps(good | change))
    with pytest.raises(LogError, match=FILE_NAME):
        load_clock_notes(tmp_path)


def test_a_copy_without_times_is_seen(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    """By the file's own time, and later by what it says, until the copy is old."""
    clock = new_clock()
    manager = open_manager(directory, clock)
    manager.clean_up()
    manager.close()
    copied_s = clock.wall_s() + 600
    os.utime(directory / "logs" / FILE_NAME, (copied_s, copied_s))
    clock.now_ms += 900_000
    manager = open_manager(directory, clock)
    assert "was copied without the times of its files" in caplog.text
    manager.clean_up()
    manager.close()
    notes = load_clock_notes(directory / "logs")
    assert notes is not None
    assert notes.copied_ms == int(copied_s * 1000)


# D3: the times of segments


@pytest.mark.parametrize("age_ms", [WEEK_MS + 1, 0])
def test_impossible_times(age_ms: float) -> None:
    now_ms = 1.7e12
    assert not is_impossible(now_ms - age_ms, now_ms)
    assert not is_impossible(OLDEST_MS, now_ms)
    assert is_impossible(OLDEST_MS - 1, now_ms)
    assert not is_impossible(now_ms + HOUR_MS, now_ms)
    assert is_impossible(now_ms + HOUR_MS + 1, now_ms)


def test_a_segment_of_1970_or_of_the_future_is_kept_from_when_it_is_seen(directory: Path) -> None:
    """For the time that all are kept; then it goes, so that it does not stop retention for ever."""
    clock = new_clock()
    manager = open_manager(directory, clock)
    manager.retention_clock.compare(wall_ms(clock))
    paths = [write(manager, at_ms) for at_ms in (wall_ms(clock) + YEAR_MS, 0, wall_ms(clock) + YEAR_MS, wall_ms(clock))]
    assert manager.clean_up() == []
    assert manager.retention_clock.times.wrong == 3
    clock.now_ms += WEEK_MS
    manager.retention_clock.compare(wall_ms(clock))
    assert manager.clean_up() == []
    clock.now_ms += 1
    assert [item.path for item in manager.clean_up()] == paths, "none waits for the one before it"
    manager.close()


def test_a_time_that_an_operator_sets_counts_at_once(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A wrong one is told of once."""
    clock = new_clock()
    manager = open_manager(directory, clock)
    manager.retention_clock.compare(wall_ms(clock))
    path = write(manager, 0)
    for _ in range(2):
        assert manager.clean_up() == []
    assert caplog.text.count("has a wrong modification time (1970-01-01 00:00:00 UTC)") == 1
    right_ns = int(wall_ms(clock) - WEEK_MS - 1) * 1_000_000
    os.utime(path, ns=(right_ns, right_ns))
    assert [item.path for item in manager.clean_up()] == [path]
    manager.close()


def test_passes_that_delete_nothing_by_age_do_not_forget_what_they_have_seen(directory: Path) -> None:
    """Else a clock that is off now and then would keep wrong times for ever."""
    clock = new_clock()
    manager = open_manager(directory, clock)
    path = write(manager, 0)
    for ahead_ms in (0, YEAR_MS, YEAR_MS, YEAR_MS):
        manager.retention_clock.compare(wall_ms(clock) - ahead_ms)
        assert manager.clean_up() == []
        clock.now_ms += DAY_MS
    clock.now_ms += WEEK_MS
    manager.retention_clock.compare(wall_ms(clock))
    assert [item.path for item in manager.clean_up()] == [path]
    manager.close()


def test_a_segment_that_was_deleted_is_forgotten(directory: Path) -> None:
    clock = new_clock()
    manager = open_manager(directory, clock, is_clock_compared=False)
    write(manager, 0)
    manager.clean_up()
    assert manager.retention_clock.times.wrong == 1
    manager.delete_topic("views")
    manager.clean_up()
    assert manager.retention_clock.times.wrong == 0
    manager.close()


def test_only_the_first_wrong_times_are_logged(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = new_clock()
    manager = open_manager(directory, clock)
    manager.retention_clock.compare(wall_ms(clock))
    for _ in range(WARNED_OF + 3):
        write(manager, 0)
    manager.clean_up()
    assert caplog.text.count("has a wrong modification time") == WARNED_OF
    assert caplog.text.count("more segments have wrong times") == 1
    assert manager.retention_clock.times.wrong == WARNED_OF + 3
    manager.close()


def test_the_times_of_files_are_never_changed(directory: Path) -> None:
    clock = new_clock()
    manager = open_manager(directory, clock)
    manager.retention_clock.compare(wall_ms(clock))
    path = write(manager, 0)
    manager.clean_up()
    assert path.stat().st_mtime == 0
    manager.close()


def test_a_young_segment_keeps_those_after_it(directory: Path) -> None:
    """A segment is as old as the youngest of itself and those before it."""
    clock = new_clock()
    manager = open_manager(directory, clock)
    manager.retention_clock.compare(wall_ms(clock))
    ages_ms = (2 * WEEK_MS, DAY_MS, 2 * WEEK_MS)
    paths = [write(manager, wall_ms(clock) - age_ms) for age_ms in ages_ms]
    assert [item.path for item in manager.clean_up()] == paths[:1]
    manager.close()


def test_what_a_wrong_clock_has_written_is_as_old_as_its_correction(directory: Path) -> None:
    """A clock that was 400 days behind, or ahead, is set right: what was written meanwhile is new. Over restarts."""
    for ahead_ms in (-400 * DAY_MS, 400 * DAY_MS):
        clock = new_clock()
        clock.wall_lead_ms += ahead_ms
        manager = open_manager(directory / str(ahead_ms), clock)
        clock.now_ms += 600_000
        path = write(manager, wall_ms(clock) - 300_000)
        manager.retention_clock.compare(wall_ms(clock) - ahead_ms)
        manager.clean_up()
        clock.now_ms += 600_000
        manager.close()
        manager = open_manager(directory / str(ahead_ms), clock)
        clock.wall_lead_ms -= ahead_ms
        clock.now_ms += 30_000
        manager.retention_clock.compare(wall_ms(clock))
        assert manager.clean_up() == []
        clock.now_ms += WEEK_MS
        manager.retention_clock.compare(wall_ms(clock))
        assert manager.clean_up() == []
        clock.now_ms += 60_001
        assert [item.path for item in manager.clean_up()] == [path]
        manager.close()


def test_a_clock_that_jumps_while_it_is_wrong_has_one_period() -> None:
    """From the first time that it has shown since it was known to be right, to the last."""
    clock = new_clock()
    trust = compared(clock)
    clock.now_ms += 60_000
    clock.wall_lead_ms += YEAR_MS
    ahead_ms = wall_ms(clock)
    trust.compare(wall_ms(clock) - YEAR_MS)
    clock.wall_lead_ms -= 3 * YEAR_MS
    clock.now_ms += 60_000
    behind_ms = wall_ms(clock)
    trust.compare(wall_ms(clock) + 2 * YEAR_MS)
    [period] = trust.periods
    assert period == WrongPeriod(behind_ms - 60_000, ahead_ms)
    clock.wall_lead_ms += 2 * YEAR_MS
    clock.now_ms += 60_000
    assert trust.believed_ms(behind_ms) == wall_ms(clock), "now, while it is not known to be right"
    trust.compare(wall_ms(clock))
    right_ms = wall_ms(clock)
    clock.now_ms += DAY_MS
    assert trust.believed_ms(behind_ms) == trust.believed_ms(ahead_ms) == right_ms
    for edge_ms, outwards in ((period.from_ms, -1), (ahead_ms + 60_000, 1)):
        assert trust.believed_ms(edge_ms + outwards * HOUR_MS) == right_ms
        assert trust.believed_ms(edge_ms + outwards * (HOUR_MS + 1)) is None


def test_only_the_newest_wrong_periods_are_kept() -> None:
    clock = new_clock()
    trust = compared(clock)
    for _ in range(MOST_PERIODS + 1):
        for ahead_ms in (YEAR_MS, 0):
            clock.now_ms += HOUR_MS
            trust.compare(wall_ms(clock) - ahead_ms)
    assert len(trust.periods) == MOST_PERIODS
    assert trust.periods[-1].right_ms == wall_ms(clock)


def test_without_an_opinion_only_impossible_times_are_wrong() -> None:
    """The spool of a collector, and whoever opens a single log."""

    class Segment:
        path: Any = "a"

        def modified_ms(self) -> float:
            return 5.0

    times = SegmentTimes()
    assert list(times.written_ms([Segment()], 1.7e12)) == [1.7e12]


# Followers


def test_a_follower_keeps_its_leaders_time_whichever_is_later(directory: Path) -> None:
    """One whose clock is behind would delete what is new, once that clock is right and it leads."""
    clock = new_clock()
    log = new_log(directory / "views-0", LogSettings(), clock=clock, on_flushed=lambda _: None)
    _opened.callback(log.close)
    log.append(GOOD, 1)
    copy = ReplicatedLog(log, clock)
    for about_ms, is_noted in ((-YEAR_MS, True), (YEAR_MS, True), (59_000, False), (-59_000, False)):
        os.utime(segment_path(log.directory, 0), (1.6e9, 1.6e9))
        copy.note_modified(int(wall_ms(clock) + about_ms))
        assert (copy.modified_ms(0) == wall_ms(clock) + about_ms) == is_noted


def test_a_leader_whose_clock_is_wrong_tells_no_times(directory: Path) -> None:
    """Its followers take their own; they would delete by the leader's once they lead."""
    clock = new_clock()
    manager = open_manager(directory, clock, on_flushed=lambda _: None)
    write(manager, 1.6e12)
    logs = ReplicaLogs(manager, 3)
    [(_, log)] = logs.all()
    for ahead_ms, told_ms in ((0, 1.6e12), (YEAR_MS, 0), (-YEAR_MS, 0), (0, 1.6e12)):
        manager.retention_clock.compare(wall_ms(clock) - ahead_ms)
        _, modified_ms, piece = log.read(0, 100)
        piece.release()
        assert modified_ms == told_ms
    os.utime(manager.logs()[0].directory / f"{0:020}.kafka", (-5, -5))
    _, modified_ms, piece = log.read(0, 100)
    piece.release()
    assert modified_ms == 0, "followers refuse a time before 1970"
    manager.close()


# What is said of it


def test_each_change_is_logged_once(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock = new_clock()
    manager = open_manager(directory, clock)

    def logged(ahead_ms: float) -> list[tuple[str, str]]:
        caplog.clear()
        clock.now_ms += 60_000
        manager.retention_clock.compare(wall_ms(clock) - ahead_ms)
        manager.clean_up()
        records = [record for record in caplog.records if record.name == "kafka2011.log.retention_clock"]
        return [(record.levelname, record.getMessage()) for record in records]

    manager.clean_up()
    assert "has not been compared" in caplog.text
    assert [level for level, _ in logged(0)] == ["INFO"]
    assert logged(0) == []
    [(level, text)] = logged(YEAR_MS)
    assert level == "ERROR"
    assert "31536000 s ahead of ZooKeeper's" in text
    assert logged(YEAR_MS + HOUR_MS) == []
    [(level, text)] = logged(YEAR_MS + HOUR_MS + 60_000)
    assert level == "ERROR"
    [(level, text)] = logged(0)
    assert (level, "is right again" in text) == ("WARNING", True)
    caplog.clear()
    clock.now_ms += DAY_MS + 1
    for _ in range(2):
        manager.clean_up()
    assert caplog.text.count("ZooKeeper has not answered for 24 h") == 1
    manager.close()


def test_a_broker_without_zookeeper_says_what_judges_its_clock(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    clock = new_clock()
    manager = open_manager(directory, clock, is_clock_compared=False)
    path = write(manager, wall_ms(clock) - WEEK_MS - 1)
    assert [item.path for item in manager.clean_up()] == [path]
    manager.clean_up()
    assert caplog.text.count("there is no ZooKeeper: retention can check the wall clock") == 1
    manager.close()


# Defects


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path


@pytest.mark.parametrize("defect", read_defects("clocks").values(), ids=lambda defect: defect.name)
def test_each_defect_is_noticed(defect: Defect, tmp_path: Path) -> None:
    """By the check that it names."""
    check: Callable[..., None] = globals()[defect.shows["noticed_by"]]
    arguments = {"directory": tmp_path} if "directory" in signature(check).parameters else {}
    with planted(defect), pytest.raises(AssertionError):
        check(**arguments)
