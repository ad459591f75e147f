"""Slow calls of the operating system, in threads: in the event loop's own they would stop everybody."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import gevent

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def fsync_in_thread(fd: int) -> None:
    """Bring a file to disk."""
    _in_thread(os.fsync, fd)


def unlink_in_thread(path: Path) -> None:
    """Remove a name; the last one of a large file takes a third of a second for a gigabyte."""
    _in_thread(os.unlink, path)


def close_in_thread(fd: int) -> None:
    """Close a deleted file, whose bytes are freed only now, without waiting for it."""
    gevent.spawn(_in_thread, os.close, fd)  # the pool itself makes its callers wait when it is busy


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
