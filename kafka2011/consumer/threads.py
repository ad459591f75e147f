"""Threads: tasks that are repeated in threads of their own, and questions, so that who hangs holds up nobody else."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

T = TypeVar("T")


class ThreadEvent(Protocol):
    """What one thread sets and another waits for."""

    def set(self) -> None:
        """Wake those who wait."""

    def clear(self) -> None:
        """Let those who come from now on wait."""

    def is_set(self) -> bool:
        """Say whether it is set."""

    def wait(self, timeout_s: float, /) -> bool:
        """Wait until it is set; False if that takes longer."""


class RunningThread(Protocol):
    """What runs beside others until it ends by itself."""

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end, `timeout` seconds at most."""

    def is_alive(self) -> bool:
        """Say whether it has not ended."""


class Threads(Protocol):
    """Starts threads, in a process of threads or one of greenlets."""

    def new_event(self) -> ThreadEvent:
        """Return an event that is not set."""

    def new_lock(self) -> AbstractContextManager[object]:
        """Return a lock, which its holder may not take again."""

    def start(self, run: Callable[[], None], name: str) -> RunningThread:
        """Run something beside the caller; the end of the process does not wait for it."""

    def is_this(self, thread: RunningThread) -> bool:
        """Say whether the caller is that thread."""


class PlainThreads:
    """Starts threads of Python."""

    def new_event(self) -> ThreadEvent:
        """Return an event that is not set."""
        return threading.Event()

    def new_lock(self) -> AbstractContextManager[object]:
        """Return a lock, which its holder may not take again."""
        return threading.Lock()

    def start(self, run: Callable[[], None], name: str) -> RunningThread:
        """Run something beside the caller; the end of the process does not wait for it."""
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread

    def is_this(self, thread: RunningThread) -> bool:
        """Say whether the caller is that thread."""
        return thread is threading.current_thread()


def in_thread(ask: Callable[[], T]) -> Future[T]:
    """Ask in a thread of its own, for which the end of the process does not wait."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(ask())
        except BaseException as error:  # noqa: BLE001 (taking the result raises it)
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future
