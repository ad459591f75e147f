"""Calls that wait for the disk, in threads beside the event loop."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import gevent
import pytest
from gevent.lock import Semaphore

from kafka2011.broker import disk_threads
from kafka2011.broker.disk_threads import (
    FLUSHES_AT_ONCE,
    LARGE_WRITE_BYTES,
    SLOW_WRITE_S,
    DiskThreads,
)
from kafka2011.log.log import Log, LogFailedError
from kafka2011.log.log_settings import LogSettings
from kafka2011.message.message_set import encode
from tests.support.disks import DiskWith
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.message.header import AnyBytes

DEADLINE_S = 20


def dirty_logs(directory: Path, count: int, on_fsync: Callable[[int], object]) -> list[Log]:
    """Make logs in which something waits for a flush; `on_fsync` is called in threads from then on."""
    started = threading.Event()

    def fsync(fd: int) -> None:
        if started.is_set():
            gevent.get_hub().threadpool.apply(on_fsync, (fd,))

    settings = LogSettings(flush_interval=1000)
    disk = DiskWith(fsync=fsync, make_lock=Semaphore)
    logs = [
        Log(directory / f"t-{number}", "t", number, settings, clock=SYSTEM_CLOCK, disk=disk) for number in range(count)
    ]
    for log in logs:
        log.append(encode(b"one"), 1)
    started.set()
    return logs


def test_several_logs_are_flushed_at_once(tmp_path: Path) -> None:
    """One after another, each would wait for its own turn of the disk."""
    all_at_once = threading.Barrier(FLUSHES_AT_ONCE)
    logs = dirty_logs(tmp_path, 2 * FLUSHES_AT_ONCE, lambda _: all_at_once.wait(DEADLINE_S))
    DiskThreads().flush_all([log.flush for log in logs])
    assert [log.unflushed_messages for log in logs] == [0] * len(logs)


def test_one_that_fails_does_not_keep_the_others_from_being_flushed(tmp_path: Path) -> None:
    def on_fsync(fd: int) -> None:
        if Path(f"/proc/self/fd/{fd}").readlink().parent.name == "t-1":
            raise OSError(5, "Input/output error")

    logs = dirty_logs(tmp_path, 3, on_fsync)
    with pytest.raises(LogFailedError, match="t-1"):
        DiskThreads().flush_all([log.flush for log in logs])
    assert [log.unflushed_messages for log in logs] == [0, 1, 0]


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
