"""Interrupting the main thread, as Ctrl-C does, from another one, or by a clock."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_AGAIN_S = 0.05
_TICKS_S = 20.0


class StoppedError(Exception):
    """What the main thread is interrupted by."""


@contextmanager
def interruptible() -> Iterator[Callable[[], None]]:
    """Give a function that has the main thread raise StoppedError, and returns when it does.

    It signals more than once if need be: what falls between two system calls of C code shows when the second one ends.
    """
    noticed = threading.Event()

    def stop(*_: object) -> None:
        noticed.set()
        raise StoppedError

    def interrupt() -> None:
        while not noticed.is_set():
            os.kill(os.getpid(), signal.SIGUSR2)
            noticed.wait(_AGAIN_S)

    before = signal.signal(signal.SIGUSR2, stop)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGUSR2, before)


@contextmanager
def ticking() -> Iterator[None]:
    """Send a signal to this process every 20 ms, which does nothing for 20 s, and then raises StoppedError."""
    ends_s = time.monotonic() + _TICKS_S

    def tick(*_: object) -> None:
        if time.monotonic() > ends_s:
            raise StoppedError

    before = signal.signal(signal.SIGALRM, tick)
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
