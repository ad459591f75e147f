"""The sparse list of places of one partition: 16 bytes for each 64 KiB of the log."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from kafka2011.gateway.numbering.boundaries import Boundary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Entries:
    """Places in the order of the log. Positions and numbers rise."""

    def __init__(self, places: Iterable[Boundary] = ()) -> None:
        self.positions = array("q")
        self.numbers = array("q")
        self.dropped = 0
        """How many were dropped from the front: the files of an index go by that."""
        for place in places:
            self.add(place)

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, index: int) -> Boundary:
        return Boundary(self.positions[index], self.numbers[index])

    def add(self, place: Boundary) -> None:
        """Add a place behind the others; one that is there already is ignored."""
        if not self.positions or place.position > self.positions[-1]:
            self.positions.append(place.position)
            self.numbers.append(place.number)

    def drop_before(self, position: int) -> None:
        """Drop the places below a position of the log."""
        count = bisect_left(self.positions, position)
        del self.positions[:count]
        del self.numbers[:count]
        self.dropped += count

    def of_number(self, number: int) -> Boundary | None:
        """Return the last place whose number is at most this one."""
        index = bisect_right(self.numbers, number)
        return self[index - 1] if index else None

    def between(self, start: int, end: int) -> Iterator[Boundary]:
        """Give the places above one position and up to another."""
        for index in range(bisect_right(self.positions, start), bisect_right(self.positions, end)):
            yield self[index]

    @property
    def last(self) -> Boundary | None:
        """The last place, or None."""
        return self[len(self) - 1] if self.positions else None

    def before(self, position: int) -> Boundary | None:
        """Return the last place up to a position, or None."""
        index = bisect_right(self.positions, position)
        return self[index - 1] if index else None

    def after(self, position: int) -> Boundary | None:
        """Return the first place above a position, or None."""
        index = bisect_right(self.positions, position)
        return self[index] if index < len(self) else None
