"""Waiting for Ctrl-C or SIGTERM, in commands that run until then."""

from __future__ import annotations

import contextlib
import signal
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

_LOOK_INTERVAL_S = 0.5

given_stop: ContextVar[threading.Event | None] = ContextVar("given_stop", default=None)
"""What stops a command that runs in a thread, where there are no signals."""


def catch_interrupts() -> None:
    """Let Ctrl-C raise KeyboardInterrupt again, if it would end the process at once, as it does at its start."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextlib.contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """Turn the first SIGINT or SIGTERM in this block into an event; a second one interrupts whatever runs.

    A block that ended because of Ctrl-C raises KeyboardInterrupt in the end: every command's status tells of that.
    Where `given_stop` is set, it is that event.
    """
    given = given_stop.get()
    if given is not None:
        yield given
        return
    stop = threading.Event()
    interrupted = False

    def on_signal(number: int, _frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = interrupted or number == signal.SIGINT
        if stop.is_set():
            raise KeyboardInterrupt(signal.Signals(number).name)
        stop.set()

    numbers = (signal.SIGINT, signal.SIGTERM)
    former = [signal.signal(number, on_signal) for number in numbers]
    try:
        yield stop
    finally:
        for number, handler in zip(numbers, former, strict=True):
            signal.signal(number, handler)
    if interrupted:
        raise KeyboardInterrupt


@contextlib.contextmanager
def hangups() -> Iterator[threading.Event]:
    """Turn SIGHUP in this block into an event."""
    hangup = threading.Event()
    former = signal.signal(signal.SIGHUP, lambda *_: hangup.set())
    try:
        yield hangup
    finally:
        signal.signal(signal.SIGHUP, former)


def wait_for_stop(stop: threading.Event, look: Callable[[], None]) -> None:
    """Wait for the event, and call `look` now and then, which raises when a server is gone."""
    while not stop.wait(_LOOK_INTERVAL_S):
        look()
