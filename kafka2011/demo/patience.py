"""How long the demo waits: as long as something moves, since nobody knows how slow a machine is."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

STILL_S = 120.0
"""So long nothing has moved when the demo gives up. The start of Spark on a busy machine is shorter."""


class Patience:
    """Says when nothing has moved for long. `position` is anything that differs when something has."""

    def __init__(
        self,
        position: Callable[[], object],
        still_s: float = STILL_S,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._position = position
        self.still_s = still_s
        self._clock_s = clock_s
        self._seen = position()
        self._moved_s = clock_s()

    def is_over(self) -> bool:
        """Look again, and say whether the position has been the same for too long."""
        position, now_s = self._position(), self._clock_s()
        if position != self._seen:
            self._seen, self._moved_s = position, now_s
        return now_s - self._moved_s > self.still_s


def how_busy() -> str:
    """Say how busy the machine is, for whoever wonders why something takes long."""
    processors = os.cpu_count() or 1
    return f"{os.getloadavg()[0]:.1f} processes wanted to run in the last minute, on {processors} processors"


def is_busy() -> bool:
    """Say whether more processes want to run than there are processors."""
    return os.getloadavg()[0] > (os.cpu_count() or 1)
