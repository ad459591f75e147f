"""Slow calls of the operating system, in threads: in the event loop's own they would stop everybody."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import gevent
from gevent.pool import Pool

from kafka2011.broker.log import LogFailedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kafka2011.broker.log import Log

FLUSHES_AT_ONCE = 8
"""A disk brings several files to itself in little more time than one."""


def fsync_in_thread(fd: int) -> None:
    """Bring a file to disk."""
    _in_thread(os.fsync, fd)


def unlink_in_thread(path: Path) -> None:
    """Remove a name; the last one of a large file takes a third of a second for a gigabyte."""
    _in_thread(os.unlink, path)


def close_in_thread(fd: int) -> None:
    """Close a deleted file, whose bytes are freed only now, without waiting for it."""
    gevent.spawn(_in_thread, os.close, fd)  # the pool itself makes its callers wait when it is busy


def flush_in_threads(logs: Sequence[Log]) -> None:
    """Flush logs, a few at once; all of them, even if one fails. Raises the first LogFailedError."""
    failures = [error for error in Pool(FLUSHES_AT_ONCE).imap_unordered(_failure_of_flush, logs) if error]
    if failures:
        raise failures[0]


def _failure_of_flush(log: Log) -> LogFailedError | None:
    try:
        log.flush()
    except LogFailedError as error:
        return error
    return None


def _in_thread(call: Callable[..., None], *arguments: object) -> None:
    """Call in a thread, and let others run meanwhile.

    Awaited even by a greenlet that is being killed: its file must stay open, and its error must not get lost.
    """
    running = gevent.get_hub().threadpool.spawn(call, *arguments)
    try:
        running.get()
    except gevent.GreenletExit:
        running.get()
        raise
