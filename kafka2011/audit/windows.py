"""Windows of `published_at`: which one counts an event, and when a window can be judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DEFAULT_WINDOW_MS = 10_000
DEFAULT_GRACE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of one length, back to back since 1970; a window is named by its first ms and excludes the next one's.

    An event is in the window of its own `published_at`, whichever tier counts it and whenever. `grace_ms` is how long
    after its end a window stays open for counts still on their way.
    """

    length_ms: int = DEFAULT_WINDOW_MS
    grace_ms: int = DEFAULT_GRACE_MS

    def __post_init__(self) -> None:
        if self.length_ms < 1 or self.grace_ms < 0:
            raise ValueError(f"a window of {self.length_ms} ms with {self.grace_ms} ms of grace")

    def starts_ms(self, published_at_us: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the window of each time, given in microseconds since 1970."""
        return published_at_us // (self.length_ms * 1000) * self.length_ms

    def is_closed(self, start_ms: int, now_ms: float) -> bool:
        """Say whether a window and its grace are over."""
        return now_ms >= start_ms + self.length_ms + self.grace_ms
