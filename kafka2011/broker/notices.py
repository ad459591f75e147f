"""Lines of the log about what may happen very often: of each thing at most one a minute."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging
    from collections.abc import Hashable

    from zk.clock import Clock

INTERVAL_S = 60.0
_REMEMBERED = 10_000
"""So many things are remembered: who they are about may be anybody."""


class Notices:
    """Warns of each thing at most once a minute; what is in between is for the counts alone."""

    def __init__(self, logger: logging.Logger, clock: Clock) -> None:
        self._logger = logger
        self._clock = clock
        self._next_s: dict[Hashable, float] = {}

    def warn(self, of: Hashable, text: str, *details: object) -> None:
        """Log it, unless it was within the last minute; `text` and `details` are what a logger takes."""
        now_s = self._clock.monotonic_s()
        if now_s < self._next_s.get(of, now_s):
            return
        if len(self._next_s) >= _REMEMBERED:
            self._next_s.clear()
        self._next_s[of] = now_s + INTERVAL_S
        self._logger.warning(text, *details, stacklevel=2)
