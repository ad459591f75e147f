"""Calls that wait for the disk, in threads beside the event loop."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

import gevent
import pytest

from kafka2011.broker.flushing import disk_threads
from kafka2011.broker.flushing.disk_threads import (
    FILES_AT_ONCE,
    FILES_FOR_ALL,
    FLUSHES_AT_ONCE,
    LARGE_WRITE_BYTES,
    SLOW_WRITE_S,
    DiskThreads,
    outcomes_of_fsync,
)
from kafka2011.broker.flushing.file_system import FileSystem
from tests.support.disks import Told

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kafka2011.message.header import AnyBytes

DEADLINE_S = 20
SLOW_FD = 7


class WholeFileSystem:
    """Stands in for a file system that has the files with numbers below 1000."""

    def __init__(self) -> None:
        self.synced = 0
        self.error: OSError | None = None
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.is_closed = False

    def holds(self, fd: int) -> bool:
        return fd < 1000

    def begin_sync(self) -> Callable[[], None]:
        def sync() -> None:
            assert self.goes_on.wait(DEADLINE_S)
            self.synced += 1
            if self.error is not None:
                error, self.error = self.error, None  # the kernel tells it once
                raise error

        return sync

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> WholeFileSystem:
    """Let syncing the whole file system be relied on."""
    whole = WholeFileSystem()
    monkeypatch.setattr(FileSystem, "of", lambda _directory: whole)
    return whole


@pytest.fixture
def fsynced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Give the files that were synced one by one; number 7 fails."""
    fsynced: list[int] = []

    def fsync(fd: int) -> None:
        fsynced.append(fd)
        if fd == 7:
            raise IO_ERROR

    monkeypatch.setattr(os, "fsync", fsync)
    return fsynced


IO_ERROR = OSError(5, "Input/output error")


def test_several_files_are_brought_to_disk_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One after another, each would wait for its own turn of the disk."""
    all_at_once = threading.Barrier(FLUSHES_AT_ONCE)
    monkeypatch.setattr(os, "fsync", lambda _fd: all_at_once.wait(DEADLINE_S))
    told = [Told(fd) for fd in range(2 * FLUSHES_AT_ONCE)]
    DiskThreads().fsync_all(told)
    assert [each.told for each in told] == [[None]] * len(told)


def test_one_that_fails_does_not_keep_the_others_from_the_disk(fsynced: list[int]) -> None:
    """Each is told once, what came of it."""
    told = [Told(fd) for fd in range(10)]
    DiskThreads().fsync_all(told)
    assert sorted(fsynced) == list(range(10))
    assert [each.told for each in told] == [[IO_ERROR if fd == 7 else None] for fd in range(10)]
    DiskThreads().fsync_all([])


def test_many_files_take_few_threads(fsynced: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread for each costs as much as the call itself; but those that are done are told before all are."""
    parts: list[int] = []
    outcomes_of_fsync = disk_threads.outcomes_of_fsync

    def counted(fds: list[int], _note_progress: Callable[[], None]) -> list[OSError | None]:
        parts.append(len(fds))
        return outcomes_of_fsync(fds)

    monkeypatch.setattr(disk_threads, "outcomes_of_fsync", counted)
    DiskThreads().fsync_all([Told(fd) for fd in range(1000)])
    assert sorted(parts) == [1000 % FILES_AT_ONCE, *[FILES_AT_ONCE] * (1000 // FILES_AT_ONCE)]
    parts.clear()
    DiskThreads().fsync_all([Told(fd) for fd in range(20)])
    assert sorted(parts) == [2, *[3] * 6]
    assert len(fsynced) == 1020


def test_very_many_are_brought_to_disk_with_their_file_system(
    whole: WholeFileSystem, fsynced: list[int], tmp_path: Path
) -> None:
    """Where that can be relied on; those on another one by themselves, and all if they are few."""
    disk = DiskThreads()
    disk.watch(tmp_path)
    told = [Told(fd) for fd in (*range(FILES_FOR_ALL), 1000)]
    disk.fsync_all(told)
    assert (whole.synced, fsynced) == (1, [1000])
    assert [each.told for each in told] == [[None]] * len(told)
    for few in (range(FILES_FOR_ALL - 1), range(1001 - FILES_FOR_ALL, 1001)):
        fsynced.clear()
        disk.fsync_all([Told(fd) for fd in few])
        assert (whole.synced, sorted(fsynced)) == (1, list(few))
    disk.unwatch()
    assert whole.is_closed
    disk.unwatch()
    disk.fsync_all(told)
    assert whole.synced == 1


def test_an_error_of_the_file_system_is_that_of_every_file_for_good(
    whole: WholeFileSystem, fsynced: list[int], tmp_path: Path
) -> None:
    """The kernel tells it only once, to one of those who ask."""
    disk = DiskThreads()
    disk.watch(tmp_path)
    whole.error = IO_ERROR
    for _ in range(2):
        told = [Told(fd) for fd in range(FILES_FOR_ALL)]
        disk.fsync_all(told)
        assert [each.told for each in told] == [[IO_ERROR]] * len(told)
    assert fsynced == []


def test_who_waits_for_strangers_does_not_wait_long(
    whole: WholeFileSystem, fsynced: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then files are synced, now and for a while; an error that comes late counts all the same."""
    monkeypatch.setattr(disk_threads, "ALL_PATIENCE_S", 0.01)
    disk = DiskThreads()
    disk.watch(tmp_path)
    whole.goes_on.clear()
    whole.error = IO_ERROR
    for times in (1, 2):
        told = [Told(fd) for fd in range(10, 10 + FILES_FOR_ALL)]
        disk.fsync_all(told)
        assert (whole.synced, len(fsynced)) == (0, times * FILES_FOR_ALL)
        assert [each.told for each in told] == [[None]] * len(told)
    whole.goes_on.set()
    with gevent.Timeout(DEADLINE_S):
        while disk.file_system_error is None:
            gevent.sleep(0.001)
    assert disk.turn.acquire(blocking=False), "nobody else could sync it again"
    told = [Told(10)]
    disk.fsync_all(told)
    assert told[0].told == [IO_ERROR]


def test_it_is_tried_again_later(
    whole: WholeFileSystem, fsynced: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the call that took so long is over."""
    monkeypatch.setattr(disk_threads, "ALL_PATIENCE_S", 0.01)
    monkeypatch.setattr(disk_threads, "ALL_PAUSE_S", 0.0)
    disk = DiskThreads()
    disk.watch(tmp_path)
    whole.goes_on.clear()
    told = [Told(fd) for fd in range(10, 10 + FILES_FOR_ALL)]
    disk.fsync_all(told)
    disk.fsync_all(told)  # the first call is still under way
    assert (whole.synced, len(fsynced)) == (0, 2 * FILES_FOR_ALL)
    whole.goes_on.set()
    monkeypatch.setattr(disk_threads, "ALL_PATIENCE_S", DEADLINE_S)
    disk.fsync_all(told)
    assert (whole.synced, len(fsynced)) == (2, 2 * FILES_FOR_ALL)


def test_without_descriptors_files_are_synced(
    whole: WholeFileSystem, fsynced: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be tried is no error of the disk."""

    def begin_sync() -> Callable[[], None]:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(whole, "begin_sync", begin_sync)
    disk = DiskThreads()
    disk.watch(tmp_path)
    for times in (1, 2):
        disk.fsync_all([Told(fd) for fd in range(FILES_FOR_ALL)])
        assert len(fsynced) == times * FILES_FOR_ALL


def test_who_is_stopped_while_files_are_synced_waits_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """They must stay open until then."""
    begun, goes_on = threading.Event(), threading.Event()

    def fsync(_fd: int) -> None:
        begun.set()
        assert goes_on.wait(DEADLINE_S)

    monkeypatch.setattr(os, "fsync", fsync)
    told = [Told(fd) for fd in range(3)]
    flushing = gevent.spawn(DiskThreads().fsync_all, told)
    with gevent.Timeout(DEADLINE_S):
        while not begun.is_set():
            gevent.sleep(0.001)
        flushing.kill(block=False)
        gevent.sleep(0.01)
        assert not flushing.ready()
        goes_on.set()
        flushing.join()
    assert [each.told for each in told] == [[None]] * 3


class SlowableDisk:
    """Stands in for os.write: notes in which thread each write happens, and takes its time when told to."""

    def __init__(self) -> None:
        self.takes_s = 0.0
        self.threads: list[bool] = []

    def __call__(self, fd: int, data: AnyBytes) -> int:
        self.threads.append(threading.current_thread() is threading.main_thread())
        time.sleep(self.takes_s)
        return len(data)

    @property
    def in_event_loop(self) -> bool:
        """Where the last write happened."""
        return self.threads[-1]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> SlowableDisk:
    disk = SlowableDisk()
    monkeypatch.setattr(os, "write", disk)
    return disk


def test_only_large_sets_are_written_in_a_thread(disk: SlowableDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread costs more than a small write, unless the disk is slow."""
    monkeypatch.setattr(disk_threads, "SLOW_WRITE_S", 1000.0)  # whatever else this machine does
    write = DiskThreads().write
    assert write(1, b"small") == 5
    assert disk.in_event_loop
    large = memoryview(bytes(LARGE_WRITE_BYTES))
    assert write(1, large) == LARGE_WRITE_BYTES
    assert not disk.in_event_loop
    write(1, b"small")
    assert disk.in_event_loop


def test_while_the_disk_is_slow_everything_is_written_in_threads(
    disk: SlowableDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One small write that waits for the disk is enough, and each further one renews it."""
    monkeypatch.setattr(disk_threads, "SLOW_FOR_S", 1000.0)
    write = DiskThreads().write
    disk.takes_s = 2 * SLOW_WRITE_S
    write(1, b"small")
    disk.takes_s = 0
    write(1, b"small")
    assert not disk.in_event_loop
    monkeypatch.setattr(disk_threads, "SLOW_FOR_S", 0.0)
    disk.takes_s = 2 * SLOW_WRITE_S
    write(1, b"small")
    disk.takes_s = 0
    write(1, b"small")
    assert disk.in_event_loop


def test_an_error_is_raised_and_not_printed(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """A full disk is one line of the broker's log, not a traceback of somebody else's beside it."""

    def full(fd: int, data: AnyBytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        DiskThreads().write(1, bytes(LARGE_WRITE_BYTES))
    assert capfd.readouterr().err == ""


def test_a_call_that_runs_is_awaited_even_by_who_is_stopped(tmp_path: Path) -> None:
    """A file must stay open until its fsync is over, and what the fsync found must not get lost."""
    entered, let_go = threading.Event(), threading.Event()

    def fsync(fd: int) -> None:
        entered.set()
        assert let_go.wait(DEADLINE_S)
        raise OSError(5, "Input/output error")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        flushing = gevent.spawn(DiskThreads().fsync, 1)
        while not entered.is_set():
            gevent.sleep(0.001)
        flushing.kill(block=False)
        gevent.sleep(0.01)
        assert not flushing.dead
        let_go.set()
        with pytest.raises(OSError, match="Input/output"), gevent.Timeout(DEADLINE_S):
            flushing.get()


def test_closing_a_file_does_not_wait(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    DiskThreads().close(fd)
    assert os.fstat(fd)
    with gevent.Timeout(DEADLINE_S):
        while os.path.exists(f"/proc/self/fd/{fd}"):  # noqa: PTH110 (a link to a directory)
            gevent.sleep(0.001)


def test_all_is_brought_to_disk_before_logs_are_opened(
    whole: WholeFileSystem, fsynced: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error is raised; False where it takes too long, or cannot be relied on."""
    disk = DiskThreads()
    assert not disk.sync_file_system()
    assert not disk.covers(1)
    disk.watch(tmp_path)
    assert disk.sync_file_system()
    assert (whole.synced, fsynced) == (1, [])
    assert disk.covers(999)
    assert not disk.covers(1000)
    whole.error = IO_ERROR
    with pytest.raises(OSError, match="Input/output error"):
        disk.sync_file_system()
    monkeypatch.setattr(disk_threads, "START_PATIENCE_S", 0.01)
    whole.error = None
    disk.watch(tmp_path)
    whole.goes_on.clear()
    assert not disk.sync_file_system()
    whole.goes_on.set()


def test_a_flush_that_gets_nowhere_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others that end meanwhile do not matter; of many files, each that is done counts as progress."""
    hangs, marks = threading.Event(), list[int]()

    def fsync(fd: int) -> None:
        if fd == SLOW_FD:
            assert hangs.wait(DEADLINE_S)

    monkeypatch.setattr(os, "fsync", fsync)
    disk = DiskThreads()
    assert disk.waits_s() == 0
    slow = gevent.spawn(disk.fsync, SLOW_FD)
    gevent.sleep()
    disk.fsync(SLOW_FD + 1)
    waited_s = disk.waits_s()
    assert waited_s > 0
    disk.fsync(SLOW_FD + 1)
    assert disk.waits_s() > waited_s
    hangs.set()
    slow.get(timeout=DEADLINE_S)
    assert disk.waits_s() == 0
    outcomes_of_fsync([SLOW_FD + 1, SLOW_FD + 2], lambda: marks.append(1))
    assert len(marks) == 2
