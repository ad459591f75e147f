"""Finds the first message in which a follower's log differs from its leader's, by comparing bytes.

No labels say which leader wrote what, so none can be wrong: a log that an older release wrote is compared as any other,
and a disk that has rotted is noticed. A part that differs is divided until one byte is left; up to there the logs are
the same, so the message that this byte belongs to is the first that differs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.replica.exchange import Range

if TYPE_CHECKING:
    from kafka2011.replica.exchange import CopiedLog

RANGE_BYTES = 4 << 20
RANGES = 16
"""So many ranges are asked for at once: a leader reads 64 MiB for one request at most."""


class Comparison:
    """Compares a follower's log with its leader's between two offsets; `cut` is the result, None until it is known.

    `cut` is where the first message starts that the leader does not have as it is, or in another segment; the end of
    the log if there is none.
    """

    def __init__(self, log: CopiedLog, start: int, *, range_bytes: int = RANGE_BYTES) -> None:
        self._log = log
        self._range_bytes = range_bytes
        self._end = log.appended_end_offset
        self.start = self._from = min(max(start, log.start_offset), self._end)
        self._until = self._end
        self._asked: tuple[Range, ...] = ()
        self.cut: int | None = self._end if self._from == self._end else None

    def question(self) -> tuple[Range, ...]:
        """Return the ranges to compare next."""
        width = min(self._range_bytes, -((self._from - self._until) // RANGES))
        starts = range(self._from, self._until, width)[:RANGES]
        ranges = ((start, min(start + width, self._until)) for start in starts)
        self._asked = tuple(Range(start, end, self._log.digest(start, end) or b"") for start, end in ranges)
        return self._asked

    def answered(self, equal: int) -> None:
        """Note how many of the ranges, from the first on, are the same at the leader."""
        if equal < len(self._asked):
            differing = self._asked[max(equal, 0)]
            self._from, self._until = differing.start, differing.end
            if differing.end == differing.start + 1:
                self.cut = self._log.message_start(differing.start)
            return
        self._from, self._until = self._asked[-1].end, self._end
        if self._from == self._end:
            self.cut = self._end


def count_equal(log: CopiedLog | None, ranges: tuple[Range, ...]) -> int:
    """Return how many ranges, from the first on, are the same in a leader's log."""
    for count, each in enumerate(ranges):
        if log is None or not each.digest or log.digest(each.start, each.end) != each.digest:
            return count
    return len(ranges)
