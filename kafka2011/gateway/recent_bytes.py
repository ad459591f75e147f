"""The newest bytes of a log, kept so that those who wait at its end are answered without a fetch of their own."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafka2011.gateway.numbering.boundaries import Numbered

RECENT_BYTES = 1024 * 1024
"""How much of the end of a log is kept."""
_FIRST_NUMBER = attrgetter("first_number")


class NumberedBytes:
    """What one fetch has given: bytes from a position on, and their pieces with numbers, one at least.

    `end` is the position behind the last piece: bytes behind that are no whole message. `end_number` is the number
    after its last message.
    """

    __slots__ = ("data", "end", "end_number", "first_number", "pieces", "position")

    def __init__(self, position: int, data: bytes, pieces: list[Numbered]) -> None:
        self.position = position
        self.data = data
        self.pieces = pieces
        self.first_number = pieces[0].first_number
        self.end, self.end_number = pieces[-1].end


class RecentBytes:
    """Chunks that follow each other up to the end of what is indexed."""

    def __init__(self) -> None:
        self._chunks: deque[NumberedBytes] = deque()
        self._size = 0

    def add(self, chunk: NumberedBytes) -> None:
        """Keep a chunk that follows the last one, and drop the first ones if that is too much."""
        self._chunks.append(chunk)
        self._size += len(chunk.data)
        while len(self._chunks) > 1 and self._size > RECENT_BYTES:
            self._size -= len(self._chunks.popleft().data)

    def clear(self) -> None:
        """Drop all."""
        self._chunks.clear()
        self._size = 0

    def holding(self, number: int) -> NumberedBytes | None:
        """Return the chunk with a number; None if it is not kept."""
        newest = self._chunks[-1] if self._chunks else None
        if newest is None or number >= newest.first_number:  # as nearly all ask
            chunk = newest
        else:
            index = bisect_right(self._chunks, number, key=_FIRST_NUMBER) - 1
            chunk = self._chunks[index] if index >= 0 else None
        return chunk if chunk is not None and number < chunk.end_number else None

    def range(self, position: int, size: int) -> bytes | None:
        """Return a range of the log, if all of it is kept in one chunk."""
        for chunk in self._chunks:
            if chunk.position <= position and position + size <= chunk.end:
                return chunk.data[position - chunk.position :][:size]
        return None
