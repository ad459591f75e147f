"""What a producer has done so far, in numbers."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, fields


@dataclass(slots=True)
class Counts:
    """Numbers that only grow.

    Sets are what is sent to one partition in one request. `sets_resent` counts every sending of a set after its first;
    `sets_moved` those without a key that went to another broker because theirs was gone; `broken_connections` those
    that we did not close ourselves. Without confirm=true `messages_sent` were handed to the operating system; with it
    they were confirmed. Calling it gives all of them, so that `counts()` works alike in both clients.
    """

    messages_sent: int = 0
    messages_failed: int = 0
    sets_sent: int = 0
    sets_resent: int = 0
    sets_moved: int = 0
    sets_refused: int = 0
    broken_connections: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def add(self, **numbers: int) -> None:
        """Add to some of the numbers."""
        with self._lock:
            for name, number in numbers.items():
                setattr(self, name, getattr(self, name) + number)

    def __call__(self) -> dict[str, int]:
        """Return all numbers by name, as a consumer's `counts()` does."""
        with self._lock:
            return {item.name: getattr(self, item.name) for item in fields(self) if item.init and item.repr}
