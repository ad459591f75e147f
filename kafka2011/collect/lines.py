"""Cuts a stream of bytes into lines, in bounded memory."""

from __future__ import annotations

from enum import StrEnum
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MIN_LINE_BYTES = 100
"""A shorter limit would leave no room for the mark on a cut line."""


class Nul(StrEnum):
    """How NUL bytes in a file are treated: kept, left out, or the file is refused from there on."""

    KEEP = "keep"
    SKIP = "skip"
    REFUSE = "refuse"


def cut_line(start: bytes, size_bytes: int, max_line_bytes: int) -> bytes:
    """Return the beginning of a line of `size_bytes` with a mark that says how much is missing, within the limit."""
    mark_bytes = len(_mark(size_bytes))
    kept = start[: max_line_bytes - mark_bytes]
    return kept + _mark(size_bytes - len(kept))


def _mark(missing_bytes: int) -> bytes:
    return b" [cut: %d bytes more]" % missing_bytes


class LineCutter:
    """Takes bytes as they come and returns whole lines, without their newlines.

    A line longer than `max_line_bytes` (at least MIN_LINE_BYTES) is never wholly in memory: its beginning is returned
    with a mark at the end or, with `refuse`, it is left out. Both count in `too_long`. With `skips_nul`, NUL bytes are
    removed from lines, and count in `nul_bytes`.
    """

    def __init__(self, max_line_bytes: int, *, refuse: bool = False, skips_nul: bool = False) -> None:
        self._max_line_bytes = max_line_bytes
        self._refuse = refuse
        self._skips_nul = skips_nul
        self.held = bytearray()
        self._line_bytes = 0  # how long the line would be if it ended now
        self.held_bytes = 0
        """How much of what was fed belongs to the unfinished line."""
        self.too_long = 0
        self.nul_bytes = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that end in the chunk; what follows the last newline waits."""
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines:
            held: list[bytes] = []
            if self.held_bytes:
                self._hold(lines.pop(0))
                held = self.finish()
            if self._skips_nul and b"\0" in chunk:
                lines = list(map(self._without_nul, lines))
            if max(map(len, lines), default=0) > self._max_line_bytes:
                lines = list(self._fitting(lines))
            lines[:0] = held
        self._hold(rest)
        return lines

    def starts(self, chunk: bytes) -> list[int]:
        """Return where the lines begin that `feed` would return for a chunk, counted from the chunk's first byte on."""
        pieces = chunk.split(b"\n")[:-1]
        starts = list(accumulate((len(piece) + 1 for piece in pieces), initial=0))[:-1]
        if starts:
            starts[0] -= self.held_bytes
        if not (starts and self._refuse):
            return starts
        sizes = [len(piece) - (piece.count(b"\0") if self._skips_nul else 0) for piece in pieces]
        sizes[0] += self._line_bytes
        return [start for start, size in zip(starts, sizes, strict=True) if size <= self._max_line_bytes]

    def finish(self) -> list[bytes]:
        """Return the unfinished line as it is, or nothing if there is none."""
        held, held_bytes, size_bytes = bytes(self.held), self.held_bytes, self._line_bytes
        self.held.clear()
        self.held_bytes = self._line_bytes = 0
        if not held_bytes:
            return []
        return [held] if size_bytes <= self._max_line_bytes else self._too_long(held, size_bytes)

    def _hold(self, piece: bytes) -> None:
        self.held_bytes += len(piece)
        if self._skips_nul:
            piece = self._without_nul(piece)
        self.held += piece[: self._max_line_bytes - len(self.held)]
        self._line_bytes += len(piece)

    def _without_nul(self, piece: bytes) -> bytes:
        rest = piece.replace(b"\0", b"")
        self.nul_bytes += len(piece) - len(rest)
        return rest

    def _fitting(self, lines: list[bytes]) -> Iterator[bytes]:
        for line in lines:
            if len(line) <= self._max_line_bytes:
                yield line
            else:
                yield from self._too_long(line, len(line))

    def _too_long(self, start: bytes, size_bytes: int) -> list[bytes]:
        self.too_long += 1
        return [] if self._refuse else [cut_line(start, size_bytes, self._max_line_bytes)]
