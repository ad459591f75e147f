"""All logs of a broker: opening, making, upkeep, and the mark of a clean stop."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import threading
from typing import TYPE_CHECKING

import pytest

from kafka2011.errors import KafkaError, LogClosedError, LogError, WrongPartitionError
from kafka2011.log import flush_together, log_manager, recovery
from kafka2011.log.log import LogFailedError
from kafka2011.log.log_directory import CLEAN_SHUTDOWN_MARK
from kafka2011.log.log_limit import LogLimit, TooManyLogsError
from kafka2011.log.log_settings import LogSettings
from kafka2011.log.segment import segment_path
from kafka2011.message.message_set import encode
from kafka2011.message.topic import InvalidTopicError
from tests.support.clocks import ManualClock
from tests.support.disks import DiskWith
from tests.support.files import no_more_files
from tests.support.logs import new_log_manager

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from kafka2011.disk import Sync
    from kafka2011.log.log import BegunFlush, Log
    from kafka2011.log.log_manager import LogManager

GOOD = encode(b"good")
BAD_LUCK = encode(b"bad luck")
HOUR_MS = 3_600_000
LONG_AGO_S = 1.4e9


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(now_s=1000, wall_lead_s=1.6e9)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return tmp_path / "logs"


@pytest.fixture
def make_manager(log_dir: Path, clock: ManualClock) -> Iterator[Callable[..., LogManager]]:
    made: list[LogManager] = []

    def make(**options: object) -> LogManager:
        manager = new_log_manager(log_dir, **{"clock": clock, **options})
        made.append(manager)
        return manager

    yield make
    for manager in made:
        manager.close()


def has_mark(log_dir: Path) -> bool:
    return (log_dir / ".kafka_cleanshutdown").exists()


def write_log(log_dir: Path, name: str, data: bytes = GOOD) -> Path:
    directory = log_dir / name
    directory.mkdir(parents=True)
    segment_path(directory, 0).write_bytes(data)
    return directory


def count_open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 (Path.iterdir keeps the directory open meanwhile)


# Topics and partitions


def test_a_log_is_made_when_it_is_first_written_to(make_manager: Callable[..., LogManager], log_dir: Path) -> None:
    with make_manager(num_partitions=2) as manager:
        assert manager.get("views", 1) is None
        log = manager.get_or_create("views", 1)
        assert manager.get("views", 1) is log
        assert manager.get_or_create("views", 1) is log
        assert manager.get("views", 0) is None
        assert manager.logs() == [log]
        assert (log_dir / "views-1" / "00000000000000000000.kafka").read_bytes() == b""


def test_a_new_topic_is_refused_where_its_logs_would_be_too_many(
    make_manager: Callable[..., LogManager], log_dir: Path
) -> None:
    """All partitions of a topic count when it is made, so that it never lacks room; copies are made in any case.

    A refusal changes nothing, and the next start recovers nothing.
    """
    limit = LogLimit(5, "that is the limit")
    with make_manager(num_partitions=2, limit=limit) as manager:
        for topic in ("views", "clicks"):
            manager.get_or_create(topic, 0)
        with pytest.raises(TooManyLogsError, match=r"topic more cannot have 2 partitions here: .* have 6, .* have 5"):
            manager.get_or_create("more", 0)
        assert manager.room.refused == 1
        assert not (log_dir / "more-0").exists()
        for topic in ("views", "clicks"):
            manager.get_or_create(topic, 1)
        manager.room.check("views", 3, manager.topics())
        with pytest.raises(TooManyLogsError, match="that is the limit"):
            manager.room.check("views", 4, manager.topics())
        manager.get_or_create("more", 0, is_copy=True)
        manager.get_or_create("more", 1)
    assert has_mark(log_dir)
    with make_manager(num_partitions=2, limit=LogLimit(0, "")) as manager:
        assert len(manager.logs()) == 6


def test_new_directories_survive_a_power_cut(make_manager: Callable[..., LogManager], log_dir: Path) -> None:
    """Each name is on disk, in the directory that holds it, before anything is appended."""
    synced: list[int] = []
    with make_manager(disk=DiskWith(fsync=lambda fd: synced.append(os.fstat(fd).st_ino))) as manager:
        manager.get_or_create("views", 0)
        named = (log_dir.parent.parent, log_dir, log_dir.parent, log_dir, log_dir / "views-0")
        assert synced == [path.stat().st_ino for path in named]


def test_the_name_of_a_log_dir_without_logs_is_brought_to_disk_by_each_start(
    make_manager: Callable[..., LogManager], log_dir: Path
) -> None:
    """And the names in it: the process that made them may have ended before it did so."""
    log_dir.mkdir()
    synced: list[int] = []
    with make_manager(disk=DiskWith(fsync=lambda fd: synced.append(os.fstat(fd).st_ino))):
        assert synced == [path.stat().st_ino for path in (log_dir, log_dir.parent)]


def test_log_dir_may_be_made_by_another_meanwhile(make_manager: Callable[..., LogManager], log_dir: Path) -> None:
    """Two brokers that start at once must both come to the lock."""
    with make_manager(disk=DiskWith(fsync=lambda _fd: log_dir.mkdir(exist_ok=True))) as manager:
        assert manager.logs() == []


def test_a_disk_error_at_the_start_names_log_dir(make_manager: Callable[..., LogManager], log_dir: Path) -> None:
    write_log(log_dir, "views-0")

    def fsync(fd: int) -> None:
        raise OSError(5, "Input/output error")

    with pytest.raises(LogError, match=f"{log_dir}: Input/output error"):
        make_manager(disk=DiskWith(fsync=fsync)).open()


def test_partitions_outside_the_count_are_refused(make_manager: Callable[..., LogManager], log_dir: Path) -> None:
    with make_manager(num_partitions=2, partitions_by_topic={"clicks": 5}) as manager:
        assert (manager.num_partitions("clicks"), manager.num_partitions("views")) == (5, 2)
        manager.get_or_create("clicks", 4)
        for topic, partition in (("views", 2), ("clicks", 5), ("views", -1), ("views", 2**31 - 1)):
            for method in (manager.get, manager.get_or_create):
                with pytest.raises(WrongPartitionError, match=f"partition {partition} of {topic}"):
                    method(topic, partition)
    assert sorted(path.name for path in log_dir.iterdir()) == [CLEAN_SHUTDOWN_MARK, "clicks-4"]


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "../up", "nul\0", "é", "x" * 256, "x" * 254])
def test_bad_topic_names_are_refused(make_manager: Callable[..., LogManager], log_dir: Path, topic: str) -> None:
    with make_manager() as manager:
        for method in (manager.get, manager.get_or_create):
            with pytest.raises(InvalidTopicError):
                method(topic, 0)
        assert list(log_dir.iterdir()) == []


def test_a_topic_name_must_do_for_all_of_its_partitions(make_manager: Callable[..., LogManager]) -> None:
    with make_manager(num_partitions=11) as manager, pytest.raises(InvalidTopicError):
        manager.get_or_create("x" * 253, 0)  # "-10" would be too long
    with make_manager(num_partitions=10) as manager:
        assert manager.get_or_create("x" * 253, 0).end_offset == 0


def test_a_configured_limit_on_names_holds(make_manager: Callable[..., LogManager]) -> None:
    with make_manager(max_topic_name_length=5) as manager:
        manager.get_or_create("views", 0)
        with pytest.raises(InvalidTopicError):
            manager.get_or_create("clicks", 0)


def test_a_new_topic_is_told_once(make_manager: Callable[..., LogManager]) -> None:
    told: list[tuple[str, int]] = []

    def on_new_topic(topic: str, partitions: int) -> None:
        assert manager.topics() == {topic: partitions}, "it can be registered already"
        told.append((topic, partitions))

    with make_manager(num_partitions=3, on_new_topic=on_new_topic) as manager:
        manager.get_or_create("views", 2)
        manager.get_or_create("views", 0)
        assert told == [("views", 3)]
    with make_manager(num_partitions=3, on_new_topic=on_new_topic) as manager:
        manager.get_or_create("views", 1)
        assert manager.topics() == {"views": 3}
    assert told == [("views", 3)], "topics found on disk are not new"


def test_many_callers_get_one_log(make_manager: Callable[..., LogManager]) -> None:
    told: list[str] = []
    got: list[Log] = []
    with make_manager(on_new_topic=lambda topic, _: told.append(topic)) as manager:
        barrier = threading.Barrier(8)

        def create() -> None:
            barrier.wait(20)
            got.append(manager.get_or_create("views", 0))

        threads = [threading.Thread(target=create, daemon=True) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert len(got) == 8
        assert len(set(got)) == 1
        assert told == ["views"]


def test_a_partition_is_chosen_among_all(make_manager: Callable[..., LogManager]) -> None:
    manager = make_manager(num_partitions=4, partitions_by_topic={"single": 1})
    assert {manager.choose_partition("views") for _ in range(1000)} == {0, 1, 2, 3}
    assert {manager.choose_partition("single") for _ in range(100)} == {0}


def test_each_topic_has_its_settings(make_manager: Callable[..., LogManager]) -> None:
    settings = {"views": LogSettings(flush_interval=1), "clicks": LogSettings(flush_interval=100)}
    with make_manager(of=settings.__getitem__) as manager:
        for topic, end in (("views", len(GOOD)), ("clicks", 0)):
            log = manager.get_or_create(topic, 0)
            log.append(GOOD, 1)
            assert log.end_offset == end


# Opening


def test_logs_are_found_again(make_manager: Callable[..., LogManager]) -> None:
    with make_manager(num_partitions=2) as manager:
        for topic, partition in (("a-b", 0), ("a-b", 1), ("c", 1)):
            manager.get_or_create(topic, partition).append(GOOD, 1)
    with make_manager(num_partitions=2) as manager:
        assert manager.topics() == {"a-b": 2, "c": 2}
        assert [(log.topic, log.partition, log.end_offset) for log in manager.logs()] == [
            ("a-b", 0, 14),
            ("a-b", 1, 14),
            ("c", 1, 14),
        ]
        assert manager.recoveries == []


@pytest.mark.parametrize("name", ["notes", "lost+found", "views-", "-1", "views-01", "views-x", "views-+1"])
def test_strays_are_skipped_with_a_warning(
    make_manager: Callable[..., LogManager], log_dir: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    (log_dir / name).mkdir(parents=True)
    (log_dir / "file-0").touch()
    with make_manager(num_partitions=9) as manager:
        assert manager.logs() == []
    assert str(log_dir / name) in caplog.text
    assert str(log_dir / "file-0") in caplog.text


def test_logs_outside_the_settings_are_not_served(
    make_manager: Callable[..., LogManager], log_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_log(log_dir, "views-0")
    write_log(log_dir, "views-1")
    write_log(log_dir, "bad name-0")
    with make_manager() as manager:
        assert [(log.topic, log.partition) for log in manager.logs()] == [("views", 0)]
        with pytest.raises(WrongPartitionError):
            manager.get("views", 1)
    for name in ("views-1", "bad name-0"):
        assert f"{log_dir / name} is not served" in caplog.text


def test_two_brokers_cannot_share_a_directory(make_manager: Callable[..., LogManager], log_dir: Path) -> None:
    with make_manager() as manager:
        manager.get_or_create("views", 0)
        before = count_open_files()
        with pytest.raises(LogError, match=f"{log_dir} is in use"):
            make_manager().open()
        assert count_open_files() == before
        assert sorted(path.name for path in log_dir.iterdir()) == ["views-0"], "no lock file, no mark"
    with make_manager() as manager:
        assert len(manager.logs()) == 1


def test_a_directory_that_cannot_be_locked_is_not_left_open(
    make_manager: Callable[..., LogManager], log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(fd: int, operation: int) -> None:
        raise OSError(37, "No locks available")

    before = count_open_files()
    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(LogError, match=f"{log_dir}: No locks available"):
        make_manager().open()
    assert count_open_files() == before


def test_a_log_dir_that_is_a_file_is_named(make_manager: Callable[..., LogManager], log_dir: Path) -> None:
    log_dir.write_text("")
    with pytest.raises(LogError, match=str(log_dir)):
        make_manager().open()


def test_a_failed_open_leaves_nothing_open_and_no_mark(make_manager: Callable[..., LogManager], log_dir: Path) -> None:
    """0.7.2 leaves the mark here, and then skips recovery."""
    write_log(log_dir, "a-0")
    broken = write_log(log_dir, "b-0")
    segment_path(broken, 1000).touch()
    (log_dir / CLEAN_SHUTDOWN_MARK).touch()
    before = count_open_files()
    manager = make_manager()
    with pytest.raises(LogError, match=str(broken)):
        manager.open()
    assert count_open_files() == before
    manager.close()
    assert not has_mark(log_dir)
    segment_path(broken, 1000).unlink()
    manager.open()
    assert len(manager.recoveries) == 2
    assert len(manager.logs()) == 2


def test_too_many_open_files_say_so(make_manager: Callable[..., LogManager], log_dir: Path) -> None:
    for number in range(30):
        write_log(log_dir, f"t{number}-0")
    (log_dir / CLEAN_SHUTDOWN_MARK).touch()
    manager = make_manager()
    with no_more_files(but=10), pytest.raises(LogError, match=r"t\d+-0: Too many open files.*ulimit"):
        manager.open()
    manager.open()
    assert len(manager.logs()) == 30


# The mark of a clean stop, and recovery without it


def test_a_clean_stop_leaves_a_mark_that_the_next_start_removes(
    make_manager: Callable[..., LogManager], log_dir: Path
) -> None:
    manager = make_manager()
    manager.open()
    manager.open()
    assert not has_mark(log_dir)
    manager.get_or_create("views", 0).append(GOOD, 1)
    manager.close()
    manager.close()
    assert has_mark(log_dir)
    assert segment_path(log_dir / "views-0", 0).read_bytes() == GOOD
    assert (manager.logs(), manager.topics()) == ([], {}), "nothing of a log that is closed may be used"
    manager.open()
    assert not has_mark(log_dir)
    assert manager.get_or_create("views", 0).end_offset == len(GOOD)


def test_recoveries_are_those_of_the_last_start(make_manager: Callable[..., LogManager], log_dir: Path) -> None:
    write_log(log_dir, "views-0")
    manager = make_manager()
    manager.open()
    assert len(manager.recoveries) == 1
    manager.close()
    manager.open()
    assert manager.recoveries == []


def test_a_start_says_that_the_last_stop_was_not_clean_only_if_so(
    make_manager: Callable[..., LogManager], log_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with make_manager() as manager:
        assert "not clean" not in caplog.text, "the first start of all"
        manager.get_or_create("views", 0)
    with make_manager():
        assert "not clean" not in caplog.text
    (log_dir / CLEAN_SHUTDOWN_MARK).unlink()
    with make_manager():
        assert "not clean: recovering 1 logs" in caplog.text


def test_the_mark_is_gone_for_good_before_any_log_opens(make_manager: Callable[..., LogManager], log_dir: Path) -> None:
    """Else it could come back after a power cut, and hide a torn tail."""
    (log_dir).mkdir()
    (log_dir / CLEAN_SHUTDOWN_MARK).touch()
    synced: list[tuple[int, bool]] = []
    with make_manager(disk=DiskWith(fsync=lambda fd: synced.append((os.fstat(fd).st_ino, has_mark(log_dir))))):
        assert synced == [(log_dir.stat().st_ino, False)]


def test_with_the_mark_nothing_is_recovered(make_manager: Callable[..., LogManager], log_dir: Path) -> None:
    write_log(log_dir, "views-0", GOOD + b"torn")
    (log_dir / CLEAN_SHUTDOWN_MARK).touch()
    with make_manager() as manager:
        assert manager.recoveries == []
        assert manager.get_or_create("views", 0).end_offset == len(GOOD) + 4


def test_without_the_mark_every_log_is_recovered(make_manager: Callable[..., LogManager], log_dir: Path) -> None:
    """Those that are not served too: a later start may serve them, after a clean stop."""
    for name in ("views-0", "views-1", "clicks-0"):
        write_log(log_dir, name, GOOD * 3 + b"torn")
    (log_dir / "empty-0").mkdir()
    progress: list[tuple[int, int]] = []
    manager = make_manager()
    manager.open(lambda done, total: progress.append((done, total)))
    with manager:
        assert len(manager.recoveries) == 3
        assert {recovery.cut_bytes for recovery in manager.recoveries} == {4}
        assert manager.get_or_create("views", 0).end_offset == len(GOOD) * 3
    total = 3 * (len(GOOD) * 3 + 4)
    assert progress[-1] == (total, total)
    assert progress == sorted(progress)
    with make_manager(num_partitions=2) as manager:
        assert manager.get_or_create("views", 1).end_offset == len(GOOD) * 3


def test_a_directory_that_cannot_be_listed_is_named(
    make_manager: Callable[..., LogManager], log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_directory: Path) -> list[tuple[int, Path]]:
        raise OSError(5, "Input/output error")

    directory = write_log(log_dir, "views-0")
    monkeypatch.setattr(recovery, "find_segment_files", broken)
    with pytest.raises(LogError, match=f"{directory}: Input/output error"):
        make_manager().open(lambda _done, _total: None)


def test_unserved_directories_get_no_files(make_manager: Callable[..., LogManager], log_dir: Path) -> None:
    (log_dir / "views-7").mkdir(parents=True)
    with make_manager():
        assert list((log_dir / "views-7").iterdir()) == []


def test_no_mark_after_a_log_has_failed(make_manager: Callable[..., LogManager], log_dir: Path) -> None:
    def write(fd: int, data: bytes) -> int:
        if data == BAD_LUCK:
            raise OSError(5, "Input/output error")
        return os.write(fd, data)

    manager = make_manager(disk=DiskWith(write=write))
    manager.open()
    healthy = manager.get_or_create("clicks", 0)
    healthy.append(GOOD, 1)
    failing = manager.get_or_create("views", 0)
    with pytest.raises(LogFailedError):
        failing.append(BAD_LUCK, 1)
    manager.close()
    assert not has_mark(log_dir)
    assert segment_path(log_dir / "clicks-0", 0).read_bytes() == GOOD


def test_a_start_after_a_failure_may_end_with_the_mark(make_manager: Callable[..., LogManager], log_dir: Path) -> None:
    """It has recovered all logs."""
    manager = make_manager()
    manager.open()
    (log_dir / "views-0").touch()
    with pytest.raises(LogError, match="views-0"):
        manager.get_or_create("views", 0)
    manager.close()
    assert not has_mark(log_dir)
    (log_dir / "views-0").unlink()
    manager.open()
    manager.close()
    assert has_mark(log_dir)


def test_no_mark_when_a_log_does_not_close(make_manager: Callable[..., LogManager], log_dir: Path) -> None:
    """All others are closed nevertheless, and the error is raised."""
    broken: set[int] = set()

    def fsync(fd: int) -> None:
        if os.fstat(fd).st_ino in broken:
            raise OSError(5, "Input/output error")

    before = count_open_files()
    manager = make_manager(disk=DiskWith(fsync=fsync))
    manager.open()
    for topic in ("a", "b", "c"):
        manager.get_or_create(topic, 0).append(GOOD, 1)
    broken.add(segment_path(log_dir / "b-0", 0).stat().st_ino)
    with pytest.raises(LogFailedError, match="b-0"):
        manager.close()
    assert not has_mark(log_dir)
    assert count_open_files() == before


def test_the_first_of_several_logs_whose_files_do_not_close_is_told(
    make_manager: Callable[..., LogManager], log_dir: Path
) -> None:
    """All was flushed before, but some file systems say only then that they lost something."""

    def close(fd: int) -> None:
        os.close(fd)
        raise OSError(5, "Input/output error")

    manager = make_manager(disk=DiskWith(close=close))
    manager.open()
    for topic in ("a", "b", "c"):
        log = manager.get_or_create(topic, 0)
        if topic != "a":
            log.segments.active.prepare_deletion()
    with pytest.raises(LogFailedError, match="b-0"):
        manager.close()
    assert not has_mark(log_dir)


def test_the_mark_is_on_disk_when_the_logs_are_closed(make_manager: Callable[..., LogManager], log_dir: Path) -> None:
    synced: list[tuple[int, bool]] = []
    with make_manager(disk=DiskWith(fsync=lambda fd: synced.append((os.fstat(fd).st_ino, has_mark(log_dir))))):
        pass
    assert synced[-1] == (log_dir.stat().st_ino, True)
    assert not (log_dir / CLEAN_SHUTDOWN_MARK).stat().st_mode & 0o111, "nobody may run it"


def test_a_mark_that_cannot_be_left_is_an_error(make_manager: Callable[..., LogManager], log_dir: Path) -> None:
    """It may come or not, after a power cut; either is right, since all is flushed."""

    def fsync(_fd: int) -> None:
        if has_mark(log_dir):
            raise OSError(5, "Input/output error")

    manager = make_manager(disk=DiskWith(fsync=fsync))
    before = count_open_files()
    manager.open()
    with pytest.raises(LogError, match=f"cannot leave the mark of a clean stop {log_dir}.*: Input/output error"):
        manager.close()
    assert count_open_files() == before


def test_no_mark_after_a_log_could_not_be_made(make_manager: Callable[..., LogManager], log_dir: Path) -> None:
    with make_manager() as manager:
        (log_dir / "views-0").touch()
        with pytest.raises(LogError, match="views-0"):
            manager.get_or_create("views", 0)
        assert manager.topics() == {}
    assert not has_mark(log_dir)


def test_the_name_of_a_log_is_on_disk_even_if_it_was_made_in_two_tries(
    make_manager: Callable[..., LogManager], log_dir: Path
) -> None:
    """The first made the directory, and then there was no descriptor left to bring its name to disk."""
    synced: list[int] = []
    with make_manager(disk=DiskWith(fsync=lambda fd: synced.append(os.fstat(fd).st_ino))) as manager:
        with no_more_files(), pytest.raises(LogError, match="Too many open files"):
            manager.get_or_create("views", 0)
        assert (log_dir / "views-0").is_dir()
        synced.clear()
        manager.get_or_create("views", 0)
        assert log_dir.stat().st_ino in synced


def test_nothing_is_made_before_open_or_after_close(make_manager: Callable[..., LogManager], log_dir: Path) -> None:
    manager = make_manager()
    with pytest.raises(LogClosedError):
        manager.get_or_create("views", 0)
    assert not log_dir.exists()
    manager.open()
    manager.close()
    with pytest.raises(LogClosedError):
        manager.get_or_create("views", 0)


# Upkeep


def test_the_timer_flushes_what_has_waited_long_enough(
    make_manager: Callable[..., LogManager], clock: ManualClock
) -> None:
    settings = {"fast": LogSettings(flush_interval_ms=1000), "slow": LogSettings(flush_interval_ms=5000)}
    with make_manager(of=settings.__getitem__) as manager:
        fast, slow = manager.get_or_create("fast", 0), manager.get_or_create("slow", 0)
        for log in (fast, slow):
            log.append(GOOD, 1)
        clock.now_ms += 999
        clock.wall_lead_ms += 1e9
        manager.flush_due()
        assert manager.flushes == 0, "the wall clock says nothing about intervals"
        clock.now_ms += 1
        manager.flush_due()
        assert (fast.unflushed_messages, slow.unflushed_messages) == (0, 1)
        clock.now_ms += 4000
        manager.flush_due()
        assert slow.unflushed_messages == 0
        manager.flush_due()
        assert manager.flushes == 2


def test_a_retention_pass_covers_all_logs(
    make_manager: Callable[..., LogManager], clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    settings = {
        "short": LogSettings(max_segment_bytes=1, retention_ms=1000),
        "long": LogSettings(max_segment_bytes=1, retention_ms=1e15),
        "small": LogSettings(max_segment_bytes=1, retention_ms=1e15, retention_bytes=20),
    }
    with make_manager(of=settings.__getitem__) as manager:
        for topic in settings:
            for _ in range(3):
                manager.get_or_create(topic, 0).append(GOOD, 1)
            manager.get_or_create(topic, 0).flush()
        clock.now_ms += 1e12
        deleted = manager.clean_up()
        assert [(one.topic, one.start_offset) for one in deleted] == [
            ("short", 0),
            ("short", 14),
            ("short", 28),
            ("small", 0),
        ]
        assert manager.deleted_segments == 4
        assert str(deleted[0].path) in caplog.text
        assert deleted[0].reason in caplog.text


def test_names_are_brought_to_disk_again_after_an_unclean_stop(
    make_manager: Callable[..., LogManager], log_dir: Path
) -> None:
    """The stop may have come between the making of a log or segment and the fsync of its directory."""
    with make_manager() as manager:
        manager.get_or_create("views", 0)
    (log_dir / CLEAN_SHUTDOWN_MARK).unlink()
    synced: list[int] = []
    with make_manager(disk=DiskWith(fsync=lambda fd: synced.append(os.fstat(fd).st_ino))):
        assert {log_dir.stat().st_ino, (log_dir / "views-0").stat().st_ino} <= set(synced)


def test_a_stop_flushes_all_logs_even_if_one_fails(make_manager: Callable[..., LogManager], log_dir: Path) -> None:
    failing: list[int] = []

    def fsync(fd: int) -> None:
        if os.fstat(fd).st_ino in failing:
            raise OSError(5, "Input/output error")

    manager = make_manager(disk=DiskWith(fsync=fsync), num_partitions=2)
    manager.open()
    logs = [manager.get_or_create("views", partition) for partition in range(2)]
    for log in logs:
        log.append(GOOD, 1)
    failing.append(segment_path(logs[0].directory, 0).stat().st_ino)
    with pytest.raises(LogFailedError, match="views-0"):
        manager.close()
    assert logs[1].end_offset == len(GOOD)
    assert not (log_dir / CLEAN_SHUTDOWN_MARK).exists()


@pytest.mark.parametrize("jump_ms", [HOUR_MS + 1, -HOUR_MS - 1, 1e12])
def test_a_pass_after_a_clock_jump_deletes_nothing_and_says_so(
    make_manager: Callable[..., LogManager], clock: ManualClock, jump_ms: float, caplog: pytest.LogCaptureFixture
) -> None:
    with make_manager(of=lambda _: LogSettings(retention_ms=1000)) as manager:
        log = manager.get_or_create("views", 0)
        log.append(GOOD, 1)
        os.utime(segment_path(log.directory, 0), (LONG_AGO_S, LONG_AGO_S))
        clock.wall_lead_ms += jump_ms
        assert manager.clean_up() == []
        assert manager.clock_jumps == 1
        assert "deletes nothing" in caplog.text
        clock.now_ms += 10 * HOUR_MS
        assert manager.clean_up() == [], "nor does any later pass"
        clock.wall_lead_ms -= jump_ms
        assert len(manager.clean_up()) == 1, "the clock is back"


def test_the_size_limit_holds_whatever_the_clock_says(
    make_manager: Callable[..., LogManager], clock: ManualClock
) -> None:
    """Else a jump that nobody mends would fill the disk."""
    settings = LogSettings(max_segment_bytes=1, flush_interval=1, retention_ms=1000, retention_bytes=len(GOOD))
    with make_manager(of=lambda _: settings) as manager:
        log = manager.get_or_create("views", 0)
        for _ in range(3):
            log.append(GOOD, 1)
        clock.wall_lead_ms += 1e12
        assert [deleted.start_offset for deleted in manager.clean_up()] == [0, len(GOOD)]


@pytest.mark.parametrize("jump_ms", [HOUR_MS, -HOUR_MS, 0])
def test_a_small_clock_correction_does_not_stop_retention(
    make_manager: Callable[..., LogManager], clock: ManualClock, jump_ms: float
) -> None:
    with make_manager(of=lambda _: LogSettings(retention_ms=1000)) as manager:
        log = manager.get_or_create("views", 0)
        log.append(GOOD, 1)
        os.utime(segment_path(log.directory, 0), (LONG_AGO_S, LONG_AGO_S))
        clock.wall_lead_ms += jump_ms
        clock.now_ms += 1e9  # a steady clock that goes on while the machine sleeps is no jump
        assert len(manager.clean_up()) == 1


def test_small_clock_corrections_may_add_up(make_manager: Callable[..., LogManager], clock: ManualClock) -> None:
    with make_manager() as manager:
        for _ in range(5):
            clock.wall_lead_ms += 0.9 * HOUR_MS
            manager.clean_up()
        assert manager.clock_jumps == 0


def test_a_clock_that_was_set_before_the_start_is_no_jump(
    make_manager: Callable[..., LogManager], clock: ManualClock
) -> None:
    manager = make_manager()
    clock.wall_lead_ms += 1e12
    manager.open()
    manager.clean_up()
    assert manager.clock_jumps == 0


class DiskWithMany(DiskWith):
    """Brings many files to disk by a function of the test."""

    def __init__(self, fsync_all: Callable[[Sequence[Sync]], None]) -> None:
        super().__init__(make_lock=threading.Lock)  # as a broker's, not reentrant
        self.watched: list[Path | None] = []
        self._fsync_all = fsync_all

    def watch(self, directory: Path) -> None:
        self.watched.append(directory)

    def unwatch(self) -> None:
        self.watched.append(None)

    def fsync_all(self, syncs: Sequence[Sync]) -> None:
        self._fsync_all(syncs)


def written(manager: LogManager, count: int) -> list[Log]:
    logs = [manager.get_or_create("views", partition) for partition in range(count)]
    for log in logs:
        log.append(GOOD, 1)
    return logs


def test_logs_are_flushed_together(
    make_manager: Callable[..., LogManager], log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So many at a time; what is appended meanwhile is not covered, and those with nothing new are left out."""
    monkeypatch.setattr(flush_together, "FLUSHED_TOGETHER", 3)
    flushed: list[int] = []

    def fsync_all(syncs: Sequence[Sync]) -> None:
        flushed.append(len(syncs))
        for log in manager.logs():
            log.append(GOOD, 1)
        for sync in syncs:
            sync.end(None)

    disk = DiskWithMany(fsync_all)
    with make_manager(num_partitions=5, disk=disk) as manager:
        assert disk.watched == [log_dir]
        logs = written(manager, 5)
        manager.flush(logs[:4])
        assert flushed == [3, 1]
        assert [log.end_offset // len(GOOD) for log in logs] == [1, 1, 1, 2, 0]
        assert [log.unflushed_messages for log in logs] == [2, 2, 2, 1, 3]
        monkeypatch.setattr(disk, "_fsync_all", lambda syncs: flushed.extend(sync.fd for sync in syncs))
        flushed.clear()
        logs[0].flush()
        manager.flush(logs[:1])
        assert flushed == []
        monkeypatch.setattr(disk, "_fsync_all", fsync_all)
    assert disk.watched[1] is None


def test_one_log_that_fails_leaves_the_others_flushed(make_manager: Callable[..., LogManager]) -> None:
    """The first error is told; a log that has failed is not flushed again."""

    def fsync_all(syncs: Sequence[Sync]) -> None:
        for number, sync in enumerate(syncs):
            sync.end(OSError(5, "Input/output error") if number % 2 else None)

    manager = make_manager(num_partitions=4, disk=DiskWithMany(fsync_all))
    manager.open()
    logs = written(manager, 4)
    with pytest.raises(LogFailedError, match=r"could not flush the log in .*views-1: Input/output error"):
        manager.flush(logs)
    assert [log.unflushed_messages for log in logs] == [0, 1, 0, 1]
    assert [log.failure is not None for log in logs] == [False, True, False, True]
    with pytest.raises(LogFailedError, match="views-1 takes no more"):
        manager.flush(logs)
    with pytest.raises(LogFailedError, match="views-1 takes no more"):
        logs[1].append(GOOD, 1)
    manager.close()


def test_who_is_stopped_while_flushing_leaves_the_logs_usable(make_manager: Callable[..., LogManager]) -> None:
    """What was not brought to disk cannot be read, and is flushed next time."""

    class StoppedError(BaseException):
        pass

    def stop(syncs: Sequence[Sync]) -> None:
        syncs[0].end(None)
        raise StoppedError

    disk = DiskWithMany(stop)
    with make_manager(num_partitions=3, disk=disk) as manager:
        logs = written(manager, 3)
        with pytest.raises(StoppedError):
            manager.flush(logs)
        assert [log.unflushed_messages for log in logs] == [0, 1, 1]
        disk._fsync_all = super(DiskWithMany, disk).fsync_all
        manager.flush(logs)
        assert [log.unflushed_messages for log in logs] == [0, 0, 0]


def test_a_log_that_is_busy_is_flushed_after_the_others_if_it_relies_on_that(
    make_manager: Callable[..., LogManager],
) -> None:
    """Its own flush does not cover what was appended since, and no other is requested. The timer comes again anyway."""
    requested: list[Log] = []
    flushed: list[int] = []

    def fsync_all(syncs: Sequence[Sync]) -> None:
        flushed.append(len(syncs))
        for sync in syncs:
            sync.end(None)
        if busy is not None:
            busy.end(None)

    disk = DiskWithMany(fsync_all)
    settings = LogSettings(flush_interval=2)
    with make_manager(num_partitions=3, disk=disk, of=lambda _: settings, request_flush=requested.append) as manager:
        busy: BegunFlush | None = None
        logs = written(manager, 3)
        busy = logs[1].begin_flush()
        assert busy is not None
        assert logs[1].begin_flush() is None
        logs[1].append(GOOD, 1)
        logs[1].append(GOOD, 1)
        assert requested == [logs[1]]
        manager.flush(logs)
        assert flushed == [2]
        assert [log.unflushed_messages for log in logs] == [0, 0, 0]
        assert logs[1].begin_flush() is None
        logs[1].append(GOOD, 1)
        busy = logs[1].begin_flush()
        logs[1].append(GOOD, 1)
        manager.flush(logs)  # one message relies on nothing
        assert logs[1].unflushed_messages == 1


@pytest.mark.parametrize("logs", [log_manager.SYNCED_TOGETHER, log_manager.SYNCED_TOGETHER - 1])
def test_many_logs_are_brought_to_disk_together_before_they_are_recovered(
    make_manager: Callable[..., LogManager], log_dir: Path, logs: int
) -> None:
    """Two calls for each of ten thousand would take a minute."""
    for number in range(logs):
        write_log(log_dir, f"t{number}-0")
    calls: list[str] = []

    def sync_file_system() -> bool:
        calls.append("all")
        return True

    disk = DiskWith(
        sync_file_system=sync_file_system, covers=lambda _fd: True, fsync=lambda fd: calls.append(f"file {fd}")
    )
    with make_manager(disk=disk) as manager:
        assert len(manager.recoveries) == logs
        if logs < log_manager.SYNCED_TOGETHER:
            assert "all" not in calls
            assert len(calls) > 2 * logs
        else:
            assert calls.count("all") == 1
            assert len(calls) < logs


# What an operator asks for


def test_a_topic_grows_for_good(make_manager: Callable[..., LogManager], log_dir: Path) -> None:
    """More partitions are served at once and after a restart; logs of them that are there keep what they hold."""
    write_log(log_dir, "views-2")
    with make_manager() as manager:
        with pytest.raises(WrongPartitionError):
            manager.get("views", 2)
        manager.grow_topic("views", 3)
        manager.grow_topic("views", 2)
        log = manager.get("views", 2)
        assert log is not None
        assert log.end_offset == len(GOOD)
        assert manager.topics() == {"views": 3}
    with make_manager(partitions_by_topic={"views": 2}) as manager:
        assert manager.topics() == {"views": 3}, "settings do not take away what has grown"
        assert [(log.topic, log.partition) for log in manager.logs()] == [("views", 2)]
    with make_manager(partitions_by_topic={"views": 4}) as manager:
        assert manager.topics() == {"views": 4}
    with pytest.raises(LogClosedError):
        manager.grow_topic("views", 5)


@pytest.mark.parametrize("text", ["[]", '{"views": 0}', '{"views": true}', '{"views": "3"}', "{", ""])
@pytest.mark.parametrize("name", [".kafka2011_partitions", ".kafka2011_exact_partitions"])
def test_a_file_of_numbers_of_partitions_that_cannot_be_read(
    make_manager: Callable[..., LogManager], log_dir: Path, name: str, text: str
) -> None:
    """The broker does not start: it would leave out partitions that hold messages."""
    log_dir.mkdir()
    (log_dir / name).write_text(text)
    with pytest.raises(LogError, match=rf"\{name} does not hold topics"):
        make_manager().open()


@pytest.mark.parametrize("partitions", [1, 3, 4, 7])
def test_a_topic_is_created_with_an_exact_number(
    make_manager: Callable[..., LogManager], log_dir: Path, partitions: int
) -> None:
    """The broker's settings, also those of later starts, change nothing of it; an older release hides none of its logs.

    Growing works as for every topic, and a deletion leaves nothing of the number.
    """
    with make_manager(num_partitions=4) as manager:
        manager.create_topic("views", partitions)
        manager.create_topic("views", partitions)  # as after a crash
        assert manager.topics() == {"views": partitions}
        assert sorted(log.partition for log in manager.logs()) == list(range(partitions))
        with pytest.raises(WrongPartitionError):
            manager.get_or_create("views", partitions)
        manager.create_topic("kept", 2)
    with make_manager(partitions_by_topic={"views": 9}) as manager:
        assert manager.topics() == {"kept": 2, "views": partitions}
        manager.grow_topic("views", partitions)
        assert manager.num_partitions("views") == partitions
        manager.grow_topic("views", partitions + 1)
    with make_manager(num_partitions=20) as manager:
        assert manager.topics() == {"kept": 2, "views": partitions + 1}
        manager.delete_topic("views")
        assert manager.num_partitions("views") == 20
    (log_dir / ".kafka2011_exact_partitions").unlink()
    with make_manager() as manager:  # what an older release reads
        assert manager.topics() == {"kept": 2}


def test_an_exact_number_hides_no_log(make_manager: Callable[..., LogManager], log_dir: Path) -> None:
    """An older release serves as many partitions as its settings say, so it may have made more logs meanwhile.

    Nor does one stay of a topic that has no logs any more.
    """
    with make_manager(num_partitions=4) as manager:
        manager.create_topic("views", 2)
    write_log(log_dir, "views-2")
    with make_manager(num_partitions=4) as manager:
        manager.create_topic("gone", 2)
    for number in range(2):
        (log_dir / f"gone-{number}").rename(log_dir.parent / f"gone-{number}")
    for _ in range(2):
        with make_manager(num_partitions=4) as manager:
            assert manager.topics() == {"views": 3}
            assert manager.num_partitions("gone") == 4
            log = manager.get("views", 2)
            assert log is not None
            assert log.end_offset == len(GOOD)


def test_a_topic_that_has_logs_is_not_created(make_manager: Callable[..., LogManager], log_dir: Path) -> None:
    """That holds for a topic whose logs are not served, and for one with another exact number."""
    write_log(log_dir, "views-6")
    with make_manager() as manager:
        manager.get_or_create("clicks", 0)
        manager.create_topic("others", 2)
        for topic, partitions in (("views", 7), ("clicks", 1), ("others", 3)):
            with pytest.raises(KafkaError, match=f"has logs of topic {topic} already"):
                manager.create_topic(topic, partitions)
        assert manager.topics() == {"clicks": 1, "others": 2}
        assert manager.num_partitions("views") == 1


def test_a_topic_is_deleted_whole(make_manager: Callable[..., LogManager], log_dir: Path) -> None:
    """All its directories go, those that are not served too, with what it has grown; a reader's piece stays good."""
    kept = write_log(log_dir, "views-x-0")
    write_log(log_dir, "views-7")
    with make_manager() as manager:
        manager.grow_topic("views", 2)
        log = manager.get_or_create("views", 1)
        log.append(GOOD, 1)
        log.flush()
        before = count_open_files()
        piece = log.read(0, 1000)
        manager.delete_topic("views")
        names = sorted(path.name for path in log_dir.iterdir())
        assert names == [".kafka2011_deleted", ".kafka2011_partitions", kept.name]
        assert manager.topics() == {"views-x": 1}
        assert os.pread(piece.fd, piece.size, piece.position) == GOOD
        piece.release()
        assert count_open_files() == before - 1
        with pytest.raises(LogClosedError):
            log.append(GOOD, 1)
        assert manager.get_or_create("views", 0).end_offset == 0
        with pytest.raises(WrongPartitionError):
            manager.get_or_create("views", 1)
        manager.delete_topic("nothing-of-it-here")
    assert has_mark(log_dir)


def test_deleted_partitions_are_empty_for_a_minute(
    make_manager: Callable[..., LogManager], log_dir: Path, clock: ManualClock
) -> None:
    """Consumers of 0.7.2 end at an error, so there is none until they know, also after a restart or a new creation."""
    with make_manager() as manager:
        manager.grow_topic("views", 4)
        manager.get_or_create("views", 3).append(GOOD, 1)
        manager.delete_topic("views")
        manager.get_or_create("views", 0)
        assert manager.get("views", 3) is None
        with pytest.raises(WrongPartitionError):
            manager.get("views", 4)
        with pytest.raises(WrongPartitionError):
            manager.get_or_create("views", 3)
        clock.sleep(30)
        manager.delete_topic("views")
    with make_manager() as manager:
        assert manager.get("views", 3) is None
        clock.sleep(61)
        with pytest.raises(WrongPartitionError):
            manager.get("views", 3)
        manager.delete_topic("views")
    (log_dir / ".kafka2011_deleted").write_text('{"views": 4}')
    with make_manager() as manager, pytest.raises(WrongPartitionError):
        manager.get("views", 3)


def test_topics_with_the_longest_names_are_deleted(make_manager: Callable[..., LogManager], log_dir: Path) -> None:
    """A deleted log has a longer name for a moment, for which there may be no room; after a crash it goes, too."""
    names = ["x" * 253, "y" * 246]
    with make_manager() as manager:
        for topic in names:
            manager.get_or_create(topic, 0).append(GOOD, 1)
        for topic in names:
            manager.delete_topic(topic)
        assert list(log_dir.iterdir()) == []
        manager.get_or_create(names[0], 0)
        write_log(log_dir, "deleted-0.deleted")
        manager.delete_topic(names[0])
        assert [path.name for path in log_dir.iterdir()] == ["deleted-0.deleted"]
    with make_manager():
        assert list(log_dir.glob("*-*")) == []


def test_a_full_disk_does_not_keep_a_topic_from_being_deleted(
    make_manager: Callable[..., LogManager], caplog: pytest.LogCaptureFixture
) -> None:
    """Deleting is what frees it."""

    def write(_fd: int, _data: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    with make_manager(num_partitions=2, disk=DiskWith(write=write)) as manager:
        manager.get_or_create("views", 1)
        manager.delete_topic("views")
        assert manager.topics() == {}
    assert "cannot note deleted partitions" in caplog.text


def test_a_crash_while_a_topic_is_deleted(make_manager: Callable[..., LogManager], log_dir: Path) -> None:
    """What was renamed goes at the next start; the rest is whole, for another try. Others' files stay."""
    left = write_log(log_dir, "views-0.deleted")
    (left / "lost+found").mkdir()
    whole = write_log(log_dir, "views-1")
    (log_dir / "backup.deleted").mkdir()
    (log_dir / "views-3.deleted").touch()
    with make_manager(num_partitions=2) as manager:
        assert not left.exists()
        assert sorted(path.name for path in log_dir.iterdir()) == ["backup.deleted", whole.name, "views-3.deleted"]
        assert [log.end_offset for log in manager.logs()] == [len(GOOD)]


def test_a_topic_that_cannot_be_deleted(make_manager: Callable[..., LogManager], log_dir: Path) -> None:
    """An I/O error is the end of this start: there is no mark, so that the next one looks at what is there."""
    disk = DiskWith()
    manager = make_manager(disk=disk)
    manager.open()
    manager.get_or_create("views", 0)

    def fail(_path: object) -> None:
        raise OSError(5, "Input/output error")

    disk.replace(unlink=fail)
    with pytest.raises(LogFailedError, match="topic views"):
        manager.delete_topic("views")
    manager.close()
    assert not has_mark(log_dir)
