"""Reads stretches of a log that were numbered before: to count their messages, and to see whether they are the same."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from kafka2011.gateway.numbering.boundaries import Boundary, Numbered, Seal
from kafka2011.gateway.numbering.counting import DisagreementError, find_up_to_loss
from kafka2011.gateway.records.found import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafka2011.gateway.numbering.boundaries import Tail
    from kafka2011.gateway.numbering.stores import FindPieces, LogReader
    from kafka2011.gateway.records.found import Piece

READ_BYTES = 1024 * 1024
MOST_SEALS = 4


class LogWalk:
    """Walks a log between known places. Errors of the log pass through."""

    def __init__(self, log: LogReader, find_pieces: FindPieces, read_bytes: int = READ_BYTES) -> None:
        self._log = log
        self._find_pieces = find_pieces
        self._read_bytes = read_bytes

    def pieces(self, data: bytes, position: int) -> list[Piece]:
        """Return the pieces of data, up to where a boundary is lost."""
        return find_up_to_loss(self._find_pieces, data, position)

    def read(self, start: int, end: int) -> bytes:
        """Return all bytes of a range. Raises DisagreementError if the log ends before."""
        data = b""
        while len(data) < end - start:
            more = self._log.read(start + len(data), end - start - len(data))
            if not more:
                raise DisagreementError(Boundary(start, 0), Boundary(end, 0))
            data += more[: end - start - len(data)]
        return data

    def number_before(self, position: int, stop: Boundary) -> Boundary:
        """Return the first place from a position on whose number is known from what lies behind it.

        It is at the position itself, or behind the last damaged message before `stop`. Raises DisagreementError if the
        log ends before `stop`.
        """
        place, count = position, 0
        for piece in self._walk(position, stop.position):
            if piece is None:
                return stop
            count += piece.numbers
            if piece.kind is Kind.DAMAGED:
                place, count = piece.end, 0
        return Boundary(place, stop.number - count)

    def _walk(self, start: int, end: int) -> Iterator[Piece | None]:
        """Give the pieces of a range; None where no boundary can be told any more."""
        most = self._read_bytes
        while start < end:
            data = self.read(start, min(start + most, end))
            pieces = self.pieces(data, start)
            yield from pieces
            if pieces:
                start = pieces[-1].end
            elif start + len(data) < end:
                most *= 2  # a large message
            else:
                yield None
                return

    def is_changed(self, tail: Tail) -> bool:
        """Say whether the log is another one than that which was numbered up to a tail, or is shorter now."""
        if self._log.latest() < tail.position:
            return True
        earliest = self._log.earliest()
        states = [self._is_same(seal) for seal in tail.seals if seal.start >= earliest]
        return False in states or (bool(states) and True not in states)

    def _is_same(self, seal: Seal) -> bool | None:
        """Say whether sealed bytes are the same; None if some of them are damaged, and all boundaries are in place."""
        data = self.read(seal.start, seal.end)
        if zlib.crc32(data) == seal.checksum:
            return True
        pieces = self.pieces(data, seal.start)
        is_aligned = bool(pieces) and pieces[-1].end == seal.end
        return None if is_aligned and any(piece.kind is Kind.DAMAGED for piece in pieces) else False


def sealed(
    seals: Sequence[Seal], numbered: Iterable[Numbered], data: bytes, position: int, seal_bytes: int
) -> tuple[Seal, ...]:
    """Return the newest seals of a log, of some bytes each, after pieces of data that begins at a position.

    Damaged pieces get none: a replica may repair them.
    """
    newest = list(seals)
    first = position + len(data) - MOST_SEALS * seal_bytes
    for piece in (each.piece for each in numbered):
        content = data[piece.start - position : piece.end - position]
        if piece.kind is Kind.DAMAGED or piece.end <= first:
            continue
        last = newest[-1] if newest else None
        if last is not None and last.end == piece.start and last.end - last.start < seal_bytes:
            newest[-1] = Seal(last.start, piece.end, zlib.crc32(content, last.checksum))
        else:
            newest.append(Seal(piece.start, piece.end, zlib.crc32(content)))
    return tuple(newest[-MOST_SEALS:])
