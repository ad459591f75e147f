"""The pieces of a log that clients were given lately: what they commit then needs no question to the broker."""

from __future__ import annotations

from array import array
from collections import deque
from typing import TYPE_CHECKING

from kafka2011.gateway.records.found import Kind

if TYPE_CHECKING:
    from kafka2011.gateway.numbering.boundaries import Numbered
    from kafka2011.gateway.recent_bytes import NumberedBytes

KEPT_PIECES = 1000
KEPT_BYTES = 256 * 1024
"""How many bytes of small chunks are kept: within a run of plain messages, only they say where each message lies."""
_FIELDS = 5


class ServedPieces:
    """Where the messages of one log lie that clients were given lately."""

    def __init__(self) -> None:
        self._pieces = array("q")  # of each: first number, end number, start, end, and whether it is a wrapper
        self._chunks: deque[NumberedBytes] = deque()
        self._size = 0

    def note(self, chunk: NumberedBytes, served: list[Numbered]) -> None:
        """Keep where pieces of a chunk lie, and forget the oldest ones if that is too much."""
        newest = self._pieces[-_FIELDS] if self._pieces else -1
        for piece, first_number, _ in served:
            if first_number != newest:  # a large wrapper is given in parts
                end_number = first_number + piece.numbers
                self._pieces.extend((first_number, end_number, piece.start, piece.end, piece.kind is Kind.WRAPPER))
        if len(self._pieces) > 2 * KEPT_PIECES * _FIELDS:
            del self._pieces[: -KEPT_PIECES * _FIELDS]
        if len(chunk.data) > KEPT_BYTES or (self._chunks and self._chunks[-1] is chunk):
            return
        self._chunks.append(chunk)
        self._size += len(chunk.data)
        while self._size > KEPT_BYTES:
            self._size -= len(self._chunks.popleft().data)

    def chunk_of(self, number: int) -> NumberedBytes | None:
        """Return a chunk that is kept and has a number; None without one."""
        return next((each for each in reversed(self._chunks) if each.first_number <= number < each.end_number), None)

    def place_of(self, number: int) -> tuple[int, int] | None:
        """Return the position of the piece that has a number, and how many messages of a wrapper come before it.

        In a run of plain messages that is the run's start: no message is skipped there. None for a number that is in no
        piece, and behind none.
        """
        pieces = self._pieces
        for at in range(len(pieces) - _FIELDS, -1, -_FIELDS):
            first_number, end_number, start, end, is_wrapper = pieces[at : at + _FIELDS]
            if first_number <= number < end_number:
                return start, number - first_number if is_wrapper else 0
            if number == end_number:
                return end, 0
        return None
