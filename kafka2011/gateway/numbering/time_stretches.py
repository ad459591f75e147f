"""The largest timestamps in the stretches of a log: a search for a time reads only a stretch that has one so large."""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafka2011.gateway.records.batch_format import NO_TIMESTAMP
from kafka2011.gateway.records.found import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafka2011.gateway.numbering.boundaries import Numbered

MOST_STRETCHES: Final = 4096
"""The most stretches of a log, since they are kept in a file and some in ZooKeeper. Of more, neighbours are joined."""
UNKNOWN: Final = 2**63 - 1
"""The largest timestamp of what was not read, or is damaged and may be repaired: a search reads it."""
_NOTHING: Final = NO_TIMESTAMP - 1
_END = attrgetter("end")


class TimeStretch(NamedTuple):
    """A stretch of a log, from the end of the one before."""

    end: int
    newest: int
    """The largest timestamp; UNKNOWN, and below 0 where there is none."""
    undated_end: int
    """The end of its last messages of 0.7, which have no timestamp; 0 without any."""

    def joined(self, later: TimeStretch) -> TimeStretch:
        """Return this stretch and the one behind it as one."""
        return TimeStretch(later.end, max(self.newest, later.newest), max(self.undated_end, later.undated_end))


class TimeStretches:
    """The stretches of a log from a position on, of at least `stretch_bytes` where messages are small."""

    def __init__(self, start: int, stretch_bytes: int, stretches: Sequence[TimeStretch] = ()) -> None:
        self._start = start
        self._stretch_bytes = stretch_bytes
        self._stretches = [*stretches]

    @classmethod
    def of(cls, document: Any, start: int, end: int, stretch_bytes: int) -> TimeStretches:
        """Return what a document says of a range; all of that is unknown if an older gateway has written none."""
        stretches = [TimeStretch(*each) for each in document or ()]
        if (stretches[-1].end if stretches else start) != end:
            stretches = [TimeStretch(end, UNKNOWN, end)]
        return cls(start, stretch_bytes, stretches)

    def document(self, most: int = MOST_STRETCHES) -> list[list[int]]:
        """Return the stretches as lists for JSON, joined so that there are at most `most` of them."""
        return [list(stretch) for stretch in self._joined(most)]

    @property
    def newest(self) -> int:
        """The largest timestamp that is known; below 0 if there is none."""
        return max((each.newest for each in self._stretches if each.newest != UNKNOWN), default=NO_TIMESTAMP)

    def note(self, end: int, newest: int) -> None:
        """Take note of what lies up to a position: behind the last stretch, or at the start of an unknown one."""
        index = bisect_left(self._stretches, end, key=_END)
        behind = self._stretches[index] if index < len(self._stretches) else None
        if behind is not None and behind.newest != UNKNOWN:
            return  # another search has read it
        noted = TimeStretch(end, newest, end if newest in {NO_TIMESTAMP, UNKNOWN} else 0)
        self._stretches[index : index + (behind is not None and behind.end == end)] = [noted]
        is_alike = index > 0 and (self._stretches[index - 1].newest == UNKNOWN) == (newest == UNKNOWN)
        if is_alike and end - self._start_of(index - 1) <= self._stretch_bytes:
            self._stretches[index - 1 : index + 1] = [self._stretches[index - 1].joined(noted)]
        if len(self._stretches) > MOST_STRETCHES:
            self._stretches = self._joined(MOST_STRETCHES)

    def _start_of(self, index: int) -> int:
        return self._stretches[index - 1].end if index else self._start

    def _joined(self, most: int) -> list[TimeStretch]:
        """Return the stretches. Of more than `most`, neighbours are joined, which leaves about half as many."""
        if len(self._stretches) <= most:
            return self._stretches
        size = 2 * (self._stretches[-1].end - self._start) // most
        joined: list[TimeStretch] = []
        start = begin = self._start
        for stretch in self._stretches:
            if joined and stretch.end - start <= size:
                joined[-1] = joined[-1].joined(stretch)
            else:
                start = begin
                joined.append(stretch)
            begin = stretch.end
        return joined

    def drop_before(self, position: int) -> None:
        """Forget what lies below a position."""
        self._stretches = [stretch for stretch in self._stretches if stretch.end > position]
        self._start = max(self._start, position)

    def reaching(self, time_ms: int, position: int = 0) -> tuple[int, int] | None:
        """Return the first range from a position on that may have a timestamp which is not below a time, or None."""
        return self._first(position, lambda stretch: stretch.newest >= time_ms and stretch.end > position)

    def undated(self, position: int = 0) -> tuple[int, int] | None:
        """Return the first range from a position on that may have messages without timestamps, or None."""
        return self._first(position, lambda stretch: stretch.undated_end > position)

    def _first(self, position: int, is_wanted: Callable[[TimeStretch], bool]) -> tuple[int, int] | None:
        for index, stretch in enumerate(self._stretches):
            if is_wanted(stretch):
                return max(position, self._start_of(index)), stretch.end
        return None


def newest_of(numbered: Numbered, data: bytes, position: int, newest_in: Callable[[memoryview], int]) -> int:
    """Return the largest timestamp of a piece of data that lies at a position; NO_TIMESTAMP for messages of 0.7."""
    piece = numbered.piece
    if piece.kind is Kind.DAMAGED:
        return UNKNOWN
    if numbered.is_repeat or piece.kind is Kind.OVERFULL:
        return _NOTHING
    if piece.kind is Kind.PLAIN:
        return NO_TIMESTAMP
    return newest_in(memoryview(data)[piece.start - position : piece.end - position])
