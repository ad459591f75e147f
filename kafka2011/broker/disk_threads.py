"""Slow system calls, in threads: in the event loop's own they would stop everything."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, TypeVar, cast

import gevent
from gevent.lock import Semaphore
from gevent.pool import Pool
from gevent.threadpool import ThreadPool

from kafka2011.disk import Disk, failure_of
from zk.errors import raise_first

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from kafka2011.disk import Lock
    from kafka2011.message.header import AnyBytes

_Result = TypeVar("_Result")

LARGE_WRITE_BYTES = 1024 * 1024
WRITES_AT_ONCE = 4
SLOW_WRITE_S = 0.05
"""A small write that takes longer than this has waited for the disk, not just for the processor."""
SLOW_FOR_S = 1.0
"""How long small writes go to a thread after one that was slow. A thread costs more than the write itself."""

FLUSHES_AT_ONCE = 8
"""A disk syncs several files in little more time than one."""


class DiskThreads(Disk):
    """Disk access through threads: other greenlets run while one waits.

    A write goes into the page cache, which takes microseconds, until the kernel makes writers wait for the disk. So
    small sets are written at once, large ones in a thread, and all in threads while the disk is slow.
    """

    def __init__(self) -> None:
        # A pool of its own: the other one may be busy waiting for a slow disk.
        self._writers = ThreadPool(WRITES_AT_ONCE)
        self._slow_until_s = 0.0

    def write(self, fd: int, data: AnyBytes) -> int:
        """Do as os.write does."""
        started_s = time.monotonic()
        if len(data) < LARGE_WRITE_BYTES and started_s >= self._slow_until_s:
            written = os.write(fd, data)
            took_s = time.monotonic() - started_s
        else:
            written, took_s = _in_pool(self._writers, _timed_write, fd, data)
        if took_s > SLOW_WRITE_S and written < LARGE_WRITE_BYTES:
            self._slow_until_s = time.monotonic() + SLOW_FOR_S
        return written

    def fsync(self, fd: int) -> None:
        """Bring a file to disk."""
        _in_thread(os.fsync, fd)

    def unlink(self, path: Path) -> None:
        """Remove a name."""
        _in_thread(os.unlink, path)

    def close(self, fd: int) -> None:
        """Close a deleted file without waiting."""
        gevent.spawn(_in_thread, os.close, fd)  # the pool itself makes its callers wait when it is busy

    def flush_all(self, flushes: Iterable[Callable[[], None]]) -> None:
        """Call all of these, a few at once, even if one fails. Raises the first LogError."""
        raise_first(list(Pool(FLUSHES_AT_ONCE).imap_unordered(failure_of, flushes)))

    def make_lock(self) -> Lock:
        """Make a lock for greenlets; it is not reentrant."""
        return Semaphore()  # of one holder; a third of the cost of gevent's RLock


def _timed_write(fd: int, data: AnyBytes) -> tuple[int, float]:
    started_s = time.monotonic()
    return os.write(fd, data), time.monotonic() - started_s


def _in_thread(call: Callable[..., None], *arguments: object) -> None:
    _in_pool(gevent.get_hub().threadpool, call, *arguments)


def _in_pool(pool: ThreadPool, call: Callable[..., _Result], *arguments: object) -> _Result:
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
