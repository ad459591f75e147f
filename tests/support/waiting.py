"""Waiting for what other threads and processes do."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

TIMEOUT_S = 60.0
MAX_PAUSE_S = 0.05


def eventually(
    condition: Callable[[], object],
    timeout_s: float = TIMEOUT_S,
    *,
    what: str = "the condition",
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Poll a condition until it holds, first often and then less so; fail when it does not within the deadline."""
    deadline_s = time.monotonic() + timeout_s
    pause_s = 0.001
    while not condition():
        assert time.monotonic() < deadline_s, f"{what} did not come true within {timeout_s:g} s"
        sleep(pause_s)
        pause_s = min(pause_s * 1.5, MAX_PAUSE_S)


def is_waiting(thread: threading.Thread) -> bool:
    """Whether a thread waits for an event, a condition or another thread."""
    frame = sys._current_frames().get(thread.ident or 0)
    return frame is not None and frame.f_code.co_filename == threading.__file__
