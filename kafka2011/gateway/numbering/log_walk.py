"""Numbers a log, between known places or behind the last one, and sees whether it is still the same log."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from kafka2011.gateway.numbering.boundaries import Boundary, Numbered, Seal
from kafka2011.gateway.numbering.counting import (
    DisagreementError,
    count_between,
    count_up,
    find_up_to_loss,
    stretches,
)
from kafka2011.gateway.records.errors import LostBoundaryError
from kafka2011.gateway.records.found import Kind, Piece
from kafka2011.message import runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafka2011.gateway.numbering.boundaries import Tail
    from kafka2011.gateway.numbering.stores import FindPieces, LogReader

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
        log ends before `stop`, or has a message across it.
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
                try:
                    self._find_pieces(data, start)
                except LostBoundaryError:
                    yield None
                    return
                raise DisagreementError(Boundary(start, 0), Boundary(end, 0))  # a message lies across the end

    def number_on(self, end: Boundary, data: bytes, ahead: Sequence[Boundary], behind_damage: int) -> list[Numbered]:
        """Return numbers for the pieces of data that begins where the numbering has come to, at `end`.

        Places ahead are known already. What lies behind a damaged piece, with no place ahead, has at least the number
        `behind_damage`. Raises DisagreementError, and what `find_pieces` raises if it loses the boundary at `end`.
        """
        known = [place for place in ahead if place.position <= end.position + len(data)]
        numbered: list[Numbered] = []
        for start, part, stop in stretches(end, data, known):
            pieces = self.pieces(part, start.position)
            if not pieces and not numbered:
                self._find_pieces(part, start.position)  # raises if the boundary is lost here
            if stop is None:
                numbered += self._count_on(pieces, start, ahead[len(known) :], behind_damage)
            else:
                numbered += count_between(pieces, start, stop)
        return numbered

    def _count_on(
        self, pieces: list[Piece], start: Boundary, ahead: Sequence[Boundary], behind_damage: int
    ) -> list[Numbered]:
        """Return numbers for pieces, up to the first damaged one if that does not take 128 numbers a byte.

        It takes what the messages up to the next known place leave.
        """
        numbered = count_up(pieces, start.number)
        damaged = next((index for index, piece in enumerate(pieces) if piece.kind is Kind.DAMAGED), None)
        if damaged is None:
            return numbered
        piece, number, _ = numbered[damaged]
        end = max(numbered[damaged].end.number, behind_damage)
        if ahead:
            place = self.number_before(piece.end, ahead[0])
            if place.position != piece.end or place.number <= number:
                raise DisagreementError(start, ahead[0])  # several damaged messages: what lies between has no number
            end = place.number
        if end == numbered[damaged].end.number:
            return numbered
        return [*numbered[:damaged], Numbered(piece._replace(numbers=end - number), number)]

    def number_again(self, start: Boundary, data: bytes, stop: Boundary | None, after: Boundary) -> list[Numbered]:
        """Return numbers for data between known places; without a `stop`, it goes on up to `after`."""
        pieces = self.pieces(data, start.position)
        if stop is None:
            if all(piece.kind is not Kind.DAMAGED for piece in pieces):
                return count_up(pieces, start.number)
            stop = after
            data += self.read(start.position + len(data), stop.position)
            pieces = self.pieces(data, start.position)
        try:
            return count_between(pieces, start, stop)
        except DisagreementError:
            numbers = stop.number - start.number
            return [Numbered(Piece(Kind.DAMAGED, start.position, stop.position, numbers), start.number)]

    def is_changed(self, tail: Tail) -> bool:
        """Say whether the log is another one than that which was numbered up to a tail, or is shorter now."""
        if self._log.latest() < tail.position:
            return True
        earliest = self._log.earliest()
        return any(self._is_other(seal) for seal in tail.seals if seal.start >= earliest)

    def _is_other(self, seal: Seal) -> bool:
        """Say whether other bytes are there now; those with damaged messages and all boundaries in place are none."""
        data = self.read(seal.start, seal.end)
        if zlib.crc32(data) == seal.checksum:
            return False
        pieces = self.pieces(data, seal.start)
        is_aligned = bool(pieces) and pieces[-1].end == seal.end
        return not is_aligned or all(piece.kind is not Kind.DAMAGED for piece in pieces)


def sealed(
    seals: Sequence[Seal], numbered: Iterable[Numbered], data: bytes, position: int, seal_bytes: int
) -> tuple[Seal, ...]:
    """Return the newest seals of a log, of some bytes each, after pieces of data that begins at a position.

    Damaged pieces get none: a replica may repair them.
    """
    newest = list(seals)
    first = position + len(data) - MOST_SEALS * seal_bytes
    view = memoryview(data)
    for piece in (each.piece for each in numbered):
        content = view[piece.start - position : piece.end - position]
        if piece.kind is Kind.DAMAGED or piece.end <= first:
            continue
        last = newest[-1] if newest else None
        if last is not None and last.end == piece.start and last.end - last.start < seal_bytes:
            newest[-1] = Seal(last.start, piece.end, zlib.crc32(content, last.checksum))
        else:
            newest.append(Seal(piece.start, piece.end, runs.chosen.crc32(content)))
    return tuple(newest[-MOST_SEALS:])
