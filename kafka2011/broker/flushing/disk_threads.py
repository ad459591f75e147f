"""Slow system calls, in threads: in the event loop's own they would stop everything."""

from __future__ import annotations

import logging
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar, cast

import gevent
from gevent.lock import Semaphore
from gevent.pool import Pool
from gevent.threadpool import ThreadPool

from kafka2011.broker.flushing.file_system import FileSystem
from kafka2011.disk import Disk, error_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from gevent.event import AsyncResult

    from kafka2011.disk import Lock, Sync
    from kafka2011.message.header import AnyBytes

logger = logging.getLogger(__name__)

_Result = TypeVar("_Result")

LARGE_WRITE_BYTES = 1024 * 1024
WRITES_AT_ONCE = 4
SLOW_WRITE_S = 0.05
"""A small write that takes longer than this has waited for the disk, not just for the processor."""
SLOW_FOR_S = 1.0
"""How long small writes go to a thread after one that was slow. A thread costs more than the write itself."""

FLUSHES_AT_ONCE = 8
"""A disk syncs several files in little more time than one."""
FILES_AT_ONCE = 32
"""How many files one thread brings to disk before those who wait for them are told."""
FILES_FOR_ALL = 16
"""From so many on, the whole file system is brought to disk, where that can be relied on."""
ALL_PATIENCE_S = 1.0
"""How long that may take, since it brings the bytes of strangers to disk as well; then the files are synced."""
START_PATIENCE_S = 30.0
"""The same before logs are recovered, when nobody is kept waiting by it for longer than by the files."""
ALL_PAUSE_S = 10.0
"""How long it is not tried again after that."""


class DiskThreads(Disk):
    """Disk access through threads: other greenlets run while one waits.

    A write goes into the page cache, which takes microseconds, until the kernel makes writers wait for the disk. So
    small sets are written at once, large ones in a thread, and all in threads while the disk is slow.
    """

    def __init__(self) -> None:
        # A pool of its own: the other one may be busy waiting for a slow disk.
        self._writers = ThreadPool(WRITES_AT_ONCE)
        self._slow_until_s = 0.0
        self._file_system: FileSystem | None = None
        self.turn = Semaphore()  # to sync all of it: an error is told to one call, and no other may miss it
        self.file_system_error: OSError | None = None  # for good: the kernel tells it only once
        self._no_file_system_until_s = 0.0
        self._begun_s: dict[object, float] = {}  # when each flush that is under way was begun, or got on

    def waits_s(self) -> float:
        """Return for how long no file was brought to disk by a flush that is under way; 0 if there is none."""
        begun_s = min(self._begun_s.values(), default=None)
        return 0.0 if begun_s is None else time.monotonic() - begun_s

    def write(self, fd: int, data: AnyBytes) -> int:
        """Do as os.write does."""
        started_s = time.monotonic()
        if len(data) < LARGE_WRITE_BYTES and started_s >= self._slow_until_s:
            written = os.write(fd, data)
            took_s = time.monotonic() - started_s
        else:
            written, took_s = in_pool(self._writers, _timed_write, fd, data)
        if took_s > SLOW_WRITE_S and written < LARGE_WRITE_BYTES:
            self._slow_until_s = time.monotonic() + SLOW_FOR_S
        return written

    def fsync(self, fd: int) -> None:
        """Bring a file to disk."""
        with self._flushing():
            _in_thread(os.fsync, fd)

    def unlink(self, path: Path) -> None:
        """Remove a name."""
        _in_thread(os.unlink, path)

    def close(self, fd: int) -> None:
        """Close a deleted file without waiting."""
        gevent.spawn(_in_thread, os.close, fd)  # the pool itself makes its callers wait when it is busy

    def watch(self, directory: Path) -> None:
        """Have the file system tell of errors from now on."""
        self._file_system = FileSystem.of(directory)
        self.file_system_error = None

    def unwatch(self) -> None:
        """Close what was opened for that."""
        file_system, self._file_system = self._file_system, None
        if file_system is not None:
            file_system.close()

    def sync_file_system(self) -> bool:
        """Bring all of it to disk, before logs are opened: two calls for each of thousands would take minutes."""
        if self._file_system is None or not self._sync_file_system(self._file_system, START_PATIENCE_S):
            return False
        if self.file_system_error is not None:
            raise self.file_system_error
        return True

    def covers(self, fd: int) -> bool:
        """Say whether a file is on it."""
        return self._file_system is not None and self._file_system.holds(fd)

    def fsync_all(self, syncs: Sequence[Sync]) -> None:
        """Bring many files to disk: with the whole file system if that soon helps, else several at once."""
        alone = list(syncs)
        if self.file_system_error is not None:
            for sync in alone:
                sync.end(self.file_system_error)
            return
        if len(alone) >= FILES_FOR_ALL and self._file_system is not None:
            alone = self._fsync_together(self._file_system, alone)
        if len(alone) < 2:
            if alone:
                self._fsync_each(alone)
            return
        size = min(FILES_AT_ONCE, -(-len(alone) // FLUSHES_AT_ONCE))
        pool = Pool(FLUSHES_AT_ONCE)
        try:
            for start in range(0, len(alone), size):
                pool.spawn(self._fsync_each, alone[start : start + size])
            pool.join()
        finally:  # also of who is being stopped: the files must stay open
            pool.join()

    def _fsync_together(self, file_system: FileSystem, syncs: list[Sync]) -> list[Sync]:
        """Bring the whole file system to disk, and tell those who wait for that; return the others."""
        together = [sync for sync in syncs if file_system.holds(sync.fd)]
        if len(together) < FILES_FOR_ALL or not self._sync_file_system(file_system):
            return syncs
        for sync in together:
            sync.end(self.file_system_error)
        return [sync for sync in syncs if sync not in together] if len(together) < len(syncs) else []

    def _sync_file_system(self, file_system: FileSystem, patience_s: float = ALL_PATIENCE_S) -> bool:
        """Bring all of it to disk, or learn why not; False if it takes too long, or cannot be tried."""
        if time.monotonic() < self._no_file_system_until_s or not self.turn.acquire(timeout=patience_s):
            return False
        try:
            running = gevent.get_hub().threadpool.spawn(error_of, file_system.begin_sync())
        except BaseException as error:
            self.turn.release()
            if isinstance(error, OSError):  # no more files can be opened
                return False
            raise
        running.rawlink(self._file_system_synced)
        if running.wait(patience_s) is None and not running.ready():
            self._no_file_system_until_s = time.monotonic() + ALL_PAUSE_S
            logger.info("syncing the whole file system takes longer than %g s: syncing files instead", patience_s)
            return False
        self._note_outcome(running)
        return True

    def _file_system_synced(self, running: AsyncResult[OSError | None]) -> None:
        self._note_outcome(running)
        self.turn.release()

    def _note_outcome(self, running: AsyncResult[OSError | None]) -> None:
        self.file_system_error = self.file_system_error or running.get()

    def _fsync_each(self, syncs: Sequence[Sync]) -> None:
        """Bring files to disk in one thread, one after the other."""
        with self._flushing() as note_progress:
            fds = [sync.fd for sync in syncs]
            running = gevent.get_hub().threadpool.spawn(outcomes_of_fsync, fds, note_progress)
            try:
                running.get()
            finally:  # also of who is being stopped, as in in_pool
                for sync, error in zip(syncs, cast("list[OSError | None]", running.get()), strict=True):
                    sync.end(error)

    @contextmanager
    def _flushing(self) -> Iterator[Callable[[], None]]:
        """Note that a flush is under way; gives what notes, in any thread, that it has got on."""
        flush = object()

        def note_progress() -> None:
            self._begun_s[flush] = time.monotonic()

        note_progress()
        try:
            yield note_progress
        finally:
            del self._begun_s[flush]

    def make_lock(self) -> Lock:
        """Make a lock for greenlets; it is not reentrant."""
        return Semaphore()  # of one holder; a third of the cost of gevent's RLock


def outcomes_of_fsync(fds: list[int], note_progress: Callable[[], None] = lambda: None) -> list[OSError | None]:
    """Bring files to disk one after the other, and return the error of each, or None."""
    outcomes = []
    for fd in fds:
        outcomes.append(error_of(os.fsync, fd))
        note_progress()
    return outcomes


def _timed_write(fd: int, data: AnyBytes) -> tuple[int, float]:
    started_s = time.monotonic()
    return os.write(fd, data), time.monotonic() - started_s


def _in_thread(call: Callable[..., None], *arguments: object) -> None:
    in_pool(gevent.get_hub().threadpool, call, *arguments)


def in_pool(pool: ThreadPool, call: Callable[..., _Result], *arguments: object) -> _Result:
    """Call in a thread, and let others run meanwhile.

    Even a greenlet that is being killed waits for it: its file must stay open, and its error must not get lost.
    """
    running = pool.spawn(_outcome, call, *arguments)
    try:
        outcome = running.get()
    except gevent.GreenletExit:
        _result_of(running.get())
        raise
    return cast("_Result", _result_of(outcome))


def _result_of(outcome: tuple[_Result | None, OSError | None] | None) -> _Result | None:
    assert outcome is not None
    result, error = outcome
    if error is not None:
        raise error
    return result


def _outcome(call: Callable[..., _Result], *arguments: object) -> tuple[_Result | None, OSError | None]:
    """Return what a call returns or raises: an error that leaves a pool's thread is printed with its traceback."""
    try:
        return call(*arguments), None
    except OSError as error:
        return None, error
