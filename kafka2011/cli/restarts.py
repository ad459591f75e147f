"""When a process that ended by itself is started again: soon, then after longer and longer pauses, and not for ever."""

from __future__ import annotations

FIRST_PAUSE_S = 0.5
MOST_RESTARTS = 3
WITHIN_S = 60.0
"""Whatever has run for so long may end again as if for the first time."""


class Restarts:
    """Knows, by name, what has ended and is to be started again. Times are of a steady clock. Pure."""

    def __init__(self) -> None:
        self._ends_s: dict[str, list[float]] = {}
        self._due_s: dict[str, float] = {}

    def ended(self, name: str, now_s: float) -> float | None:
        """Note that a process does not run. Return in how many seconds to start it; None if it ended too often."""
        if name not in self._due_s:
            recent = [ended_s for ended_s in self._ends_s.get(name, []) if now_s - ended_s < WITHIN_S]
            if len(recent) == MOST_RESTARTS:
                return None
            self._ends_s[name] = [*recent, now_s]
            self._due_s[name] = now_s + FIRST_PAUSE_S * 2 ** len(recent)
        return max(0.0, self._due_s[name] - now_s)

    def started(self, name: str) -> None:
        """Note that it was started again."""
        del self._due_s[name]
