"""How connections share a process: one that never has to wait lets others run every few milliseconds."""

from __future__ import annotations

import time

import gevent

TURN_S = 0.005
"""How long one connection may keep the others waiting when its socket never makes it wait."""
_LOOP_ROUND_S = 1e-6
"""gevent looks at no socket between greenlets that sleep for 0 seconds, but before any timer."""


def let_others_run() -> None:
    """Yield to everything that is ready to run, sockets and signals included."""
    gevent.sleep(_LOOP_ROUND_S)


class Turn:
    """One connection's turn, which begins with the first `pause` after the last one was over."""

    __slots__ = ("_ends_s",)

    def __init__(self) -> None:
        self._ends_s = 0.0

    def pause(self) -> None:
        """Let others run if the turn is over."""
        now_s = time.monotonic()
        if now_s >= self._ends_s:
            if self._ends_s:
                let_others_run()
                now_s = time.monotonic()
            self._ends_s = now_s + TURN_S

    def end(self) -> None:
        """Note that others have run: the connection had to wait."""
        self._ends_s = 0.0
