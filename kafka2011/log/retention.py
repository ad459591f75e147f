"""Which segments to delete by age and size (paper, section 3.1: the broker cannot know who still reads them).

Pure arithmetic over ages and sizes; the log does the deleting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from zk.clock import Clock

NO_LIMIT = -1
MAX_CLOCK_JUMP_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class DeletedSegment:
    """What retention took away, and why."""

    topic: str
    partition: int
    start_offset: int
    size_bytes: int
    path: Path
    reason: str


def count_expired(modified_ms: Iterable[float], now_ms: float, retention_ms: float) -> int:
    """Count the oldest segments last written strictly longer ago than allowed, stopping at the first younger one."""
    count = 0
    for modified in modified_ms:
        if now_ms - modified <= retention_ms:
            break
        count += 1
    return count


def count_excess(sizes_bytes: Iterable[int], total_bytes: int, retention_bytes: int) -> int:
    """Count the oldest segments that can go while what remains is still at least `retention_bytes`; -1 keeps all."""
    if retention_bytes == NO_LIMIT:
        return 0
    count = 0
    remaining = total_bytes
    for size in sizes_bytes:
        remaining -= size
        if remaining < retention_bytes:
            break
        count += 1
    return count


def most_deletable(segment_offsets: Sequence[int], readable: int) -> int:
    """Return how many segments, from the oldest on, retention may delete of a log of which there are copies.

    All that is deleted must be readable, and so must the first message of the segment that is then the oldest: until
    then another replica may lead whose segment does not start there, and a log would begin in the midst of one.
    """
    return sum(1 for start in segment_offsets[1:] if start < readable)


class ClockJumpGuard:
    """Measures how far the wall clock is off since a jump, that is, since it last moved unlike the steady clock.

    Ages are differences of wall clock times: after a jump they are wrong, and deleting by them destroys data.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lead_ms = self._read_lead_ms()

    def jump_ms(self) -> float:
        """Return how far the wall clock is off (negative: slow) from when it was last right, or from the start.

        It is right while that is at most MAX_CLOCK_JUMP_MS. After a larger jump it must return first.
        """
        lead_ms = self._read_lead_ms()
        jump_ms = lead_ms - self._lead_ms
        if abs(jump_ms) <= MAX_CLOCK_JUMP_MS:
            self._lead_ms = lead_ms  # small corrections may add up over months
        return jump_ms

    def _read_lead_ms(self) -> float:
        return (self._clock.wall_s() - self._clock.monotonic_s()) * 1000
