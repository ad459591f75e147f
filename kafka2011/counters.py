"""Numbers of what was done so far, which several threads add to."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, fields


@dataclass(frozen=True, slots=True)
class Counters:
    """Numbers that only grow, one field of a subclass for each. Frozen: only `add` changes them, under a lock.

    Calling it gives all of them, so that `counts()` works alike everywhere.
    """

    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)

    def add(self, **numbers: int) -> None:
        """Add to some of the numbers."""
        with self._lock:
            for name, number in numbers.items():
                object.__setattr__(self, name, getattr(self, name) + number)

    def __call__(self) -> dict[str, int]:
        """Return all numbers by name."""
        with self._lock:
            return {item.name: getattr(self, item.name) for item in fields(self) if item.init}
