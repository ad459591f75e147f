"""Cuts a stream of bytes into lines, in bounded memory."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MIN_LINE_BYTES = 100
"""A shorter limit would leave no room for the mark on a cut line."""


def cut_line(start: bytes, size_bytes: int, max_line_bytes: int) -> bytes:
    """Return the beginning of a line of `size_bytes` with a mark that says how much is missing, within the limit."""
    mark_bytes = len(_mark(size_bytes))
    kept = start[: max_line_bytes - mark_bytes]
    return kept + _mark(size_bytes - len(kept))


def _mark(missing_bytes: int) -> bytes:
    return b" [cut: %d bytes more]" % missing_bytes


class LineCutter:
    """Takes bytes as they come and gives whole lines, without their newlines.

    A line longer than `max_line_bytes` (at least MIN_LINE_BYTES) is never in memory as a whole: of it the beginning is
    given with a mark at its end, or with `refuse` nothing. Both count in `too_long`.
    """

    def __init__(self, max_line_bytes: int, *, refuse: bool = False) -> None:
        self._max_line_bytes = max_line_bytes
        self._refuse = refuse
        self._held = bytearray()
        self.held_bytes = 0
        """How long the line is that has no end yet."""
        self.too_long = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that end in the chunk; what follows the last newline waits."""
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines:
            if self.held_bytes:
                self._hold(lines[0])
                lines[:1] = self.finish()
            if max(map(len, lines), default=0) > self._max_line_bytes:
                lines = list(self._fitting(lines))
        self._hold(rest)
        return lines

    def starts(self, chunk: bytes) -> list[int]:
        """Return where the lines begin that `feed` would return for a chunk, counted from the chunk's first byte on."""
        sizes = list(map(len, chunk.split(b"\n")[:-1]))
        starts = list(accumulate((size + 1 for size in sizes), initial=0))[:-1]
        if sizes:
            starts[0] -= self.held_bytes
            sizes[0] += self.held_bytes
        if not self._refuse:
            return starts
        return [start for start, size in zip(starts, sizes, strict=True) if size <= self._max_line_bytes]

    def finish(self) -> list[bytes]:
        """Return the line that has no end yet as it is; none if there is none."""
        held, size_bytes = bytes(self._held), self.held_bytes
        self.forget()
        if not size_bytes:
            return []
        return [held] if size_bytes <= self._max_line_bytes else self._too_long(held, size_bytes)

    def forget(self) -> None:
        """Drop the line that has no end yet."""
        self._held.clear()
        self.held_bytes = 0

    def _hold(self, piece: bytes) -> None:
        self._held += piece[: self._max_line_bytes - len(self._held)]
        self.held_bytes += len(piece)

    def _fitting(self, lines: list[bytes]) -> Iterator[bytes]:
        for line in lines:
            if len(line) <= self._max_line_bytes:
                yield line
            else:
                yield from self._too_long(line, len(line))

    def _too_long(self, start: bytes, size_bytes: int) -> list[bytes]:
        self.too_long += 1
        return [] if self._refuse else [cut_line(start, size_bytes, self._max_line_bytes)]
