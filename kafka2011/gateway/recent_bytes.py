"""The newest bytes of a log, kept so that those who wait at its end are answered without a fetch of their own."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kafka2011.gateway.numbering.boundaries import Numbered

RECENT_BYTES = 1024 * 1024
"""How much of the end of a log is kept."""


class NumberedBytes(NamedTuple):
    """What one fetch has given: bytes from a position on, and their pieces with numbers, one at least."""

    position: int
    data: bytes
    pieces: list[Numbered]

    @property
    def end(self) -> int:
        """The position behind its last piece; bytes behind that are no whole message."""
        return self.pieces[-1].piece.end

    @property
    def end_number(self) -> int:
        """The number after its last message."""
        last = self.pieces[-1]
        return last.first_number + last.piece.numbers


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
        for chunk in self._chunks:
            if chunk.pieces[0].first_number <= number < chunk.end_number:
                return chunk
        return None

    def range(self, position: int, size: int) -> bytes | None:
        """Return a range of the log, if all of it is kept in one chunk."""
        for chunk in self._chunks:
            if chunk.position <= position and position + size <= chunk.end:
                return chunk.data[position - chunk.position :][:size]
        return None
