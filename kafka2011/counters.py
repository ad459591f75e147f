"""Numbers of what was done so far, which several threads add to."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, fields


@dataclass(slots=True)
class Counters:
    """Numbers that only grow, one field of a subclass for each. Change them with `add` alone, which holds a lock."""

    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)

    def add(self, **numbers: int) -> None:
        """Add to some of the numbers. Raises AttributeError for a name that does not exist."""
        with self._lock:
            for name, number in numbers.items():
                setattr(self, name, getattr(self, name) + number)

    def as_dict(self) -> dict[str, int]:
        """Return all numbers by name."""
        with self._lock:
            return {item.name: getattr(self, item.name) for item in fields(self) if item.init}

    def __call__(self) -> dict[str, int]:
        """Return the same as `as_dict`: applications call `producer.counts()` as they call `consumer.counts()`."""
        return self.as_dict()
