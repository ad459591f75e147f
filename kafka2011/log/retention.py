"""Which segments to delete by age and size (paper, section 3.1: the broker cannot know who still reads them).

Pure arithmetic over ages and sizes; the log does the deleting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from zk.clock import Clock

NO_LIMIT = -1
MAX_CLOCK_JUMP_MS = 3_600_000
OLDEST_MS = 1_293_840_000_000
"""The beginning of 2011: no log is older. A clock that has lost its battery begins in 1970 or 2000."""


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


def is_impossible(modified_ms: float, now_ms: float) -> bool:
    """Say whether a file of a log cannot have been written at this time, when the clock is right now."""
    return not OLDEST_MS <= modified_ms <= now_ms + MAX_CLOCK_JUMP_MS


class DatedSegment(Protocol):
    """What is read of a segment to tell when it was written."""

    @property
    def path(self) -> Path:
        """Its file."""

    def modified_ms(self) -> float:
        """Return when the file was last written, as the file system has it, in ms since the epoch."""


class _SeenTime(NamedTuple):
    modified_ms: float
    written_ms: float


class SegmentTimes:
    """When segments count as last written. What their files say is believed unless it is known to be wrong.

    An impossible time counts as the moment when it was seen first: such a segment is kept too long rather than too
    short, and does not stop retention for ever. `believed_ms` may know better about a time; it returns None where it
    does not. `on_wrong` is called once for each file and time.
    """

    def __init__(
        self,
        believed_ms: Callable[[float], float | None] = lambda _modified_ms: None,
        on_wrong: Callable[[Path, float], object] = lambda _path, _modified_ms: None,
    ) -> None:
        self._believed_ms = believed_ms
        self._on_wrong = on_wrong
        self._seen_before: dict[Path, _SeenTime] = {}
        self._seen: dict[Path, _SeenTime] = {}

    @property
    def wrong(self) -> int:
        """How many segments had a wrong time in the last pass."""
        return len(self._seen)

    def begin_pass(self) -> None:
        """Forget the segments that the last pass has not met."""
        self._seen_before, self._seen = self._seen, {}

    def written_ms(self, segments: Sequence[DatedSegment], now_ms: float) -> Iterable[float]:
        """Return when segments of one log count as last written, in ms since the epoch, as far as they are asked for.

        Lets OSError through.
        """
        is_any_wrong = False
        for index, segment in enumerate(segments):
            modified_ms = segment.modified_ms()
            written_ms = self._written_ms(segment.path, modified_ms, now_ms)
            if written_ms != modified_ms and not is_any_wrong:
                is_any_wrong = True
                for later in segments[index + 1 :]:  # each waits from now on, and not for the one before it
                    self._written_ms(later.path, later.modified_ms(), now_ms)
            yield written_ms

    def _written_ms(self, path: Path, modified_ms: float, now_ms: float) -> float:
        before = self._seen.get(path) or self._seen_before.get(path)
        if before is not None and before.modified_ms == modified_ms:
            self._seen[path] = before
            return before.written_ms
        written_ms = self._believed_ms(modified_ms)
        if written_ms is None:
            if not is_impossible(modified_ms, now_ms):
                return modified_ms
            written_ms = now_ms
        self._seen[path] = _SeenTime(modified_ms, written_ms)
        self._on_wrong(path, modified_ms)
        return written_ms


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
