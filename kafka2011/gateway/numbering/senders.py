"""Tells repeats of wrappers from first copies, by their producers' sequences and by marks."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from kafka2011.gateway.numbering.producers import ProducerStates

if TYPE_CHECKING:
    from kafka2011.gateway.records.found import Origin

MOST_MARKS = 1024
MOST_REPEATS = 100_000
"""Of more, the oldest are read as messages again."""


class Senders:
    """The senders of one partition's wrappers, and the positions of the wrappers that are repeats."""

    def __init__(self) -> None:
        self.producers = ProducerStates()
        self._marks: dict[bytes, None] = {}
        self._repeats = array("q")

    def found(self, origin: Origin, position: int, number: int) -> bool:
        """Take note of a wrapper at a position, in the log's order; say whether it is a repeat."""
        is_repeat = self.producers.found(origin, number) or origin.mark in self._marks
        self._marks[origin.mark] = None
        if len(self._marks) > MOST_MARKS:
            del self._marks[next(iter(self._marks))]
        if is_repeat:
            self._repeats.append(position)
            del self._repeats[:-MOST_REPEATS]
        return is_repeat

    def is_repeat(self, position: int) -> bool:
        """Say whether a repeat begins at a position."""
        index = bisect_left(self._repeats, position)
        return index < len(self._repeats) and self._repeats[index] == position

    def drop_before(self, position: int) -> None:
        """Forget the repeats below a position."""
        del self._repeats[: bisect_left(self._repeats, position)]

    def forget(self) -> None:
        """Forget everything that was found in the log."""
        self.producers.forget()
        self._marks.clear()
        del self._repeats[:]

    def document(self) -> dict[str, Any]:
        """Return what JSON can hold of it."""
        marks = [mark.hex() for mark in self._marks]
        return {"producers": self.producers.document(), "marks": marks, "repeats": self._repeats.tolist()}

    def load(self, document: dict[str, Any]) -> None:
        """Know what a document says. Raises KeyError, ValueError or TypeError."""
        self.producers.load(document["producers"])
        self._marks = dict.fromkeys(map(bytes.fromhex, document["marks"]))
        self._repeats = array("q", document["repeats"])
