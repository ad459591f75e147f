"""Questions in threads of their own: whoever hangs holds up nobody else."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


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
