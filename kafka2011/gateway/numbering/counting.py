"""Counts the messages of a log's bytes between places whose numbers are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.gateway.numbering.boundaries import Boundary, Numbered
from kafka2011.gateway.records.errors import LostBoundaryError
from kafka2011.gateway.records.found import Kind, Piece
from zk.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafka2011.gateway.numbering.stores import FindPieces


class DisagreementError(KafkaError):
    """Means that the log does not hold what was numbered: between two places are more messages than numbers."""

    def __init__(self, start: Boundary, stop: Boundary) -> None:
        super().__init__(f"more messages lie between {tuple(start)} and {tuple(stop)} than were numbered")


def find_up_to_loss(find_pieces: FindPieces, data: bytes, position: int) -> list[Piece]:
    """Return the pieces of data from a position of the log on, up to where a boundary is lost."""
    try:
        return find_pieces(data, position)[0]
    except LostBoundaryError as error:
        return find_pieces(data[: error.position - position], position)[0]


def stretches(
    start: Boundary, data: bytes, known: Iterable[Boundary]
) -> Iterator[tuple[Boundary, bytes, Boundary | None]]:
    """Divide data that begins at a place at the known places in it; the last stretch may have no known end."""
    begin = start
    for stop in known:
        yield begin, data[begin.position - start.position : stop.position - start.position], stop
        begin = stop
    rest = data[begin.position - start.position :]
    if rest:
        yield begin, rest, None


def count_up(pieces: Iterable[Piece], number: int) -> list[Numbered]:
    """Return numbers for pieces that follow each other."""
    numbered = []
    for piece in pieces:
        numbered.append(Numbered(piece, number))
        number += piece.numbers
    return numbered


def count_between(pieces: list[Piece], start: Boundary, stop: Boundary) -> list[Numbered]:
    """Return numbers for the pieces from one known place to another. Raises DisagreementError.

    Damaged pieces take what the others leave: nobody knows their messages, and what lies behind them must not move.
    With several, what lies between the first and the last of them counts as damaged too: it has no known numbers.
    """
    end = pieces[-1].end if pieces else start.position
    if end < stop.position:
        pieces = [*pieces, Piece(Kind.DAMAGED, end, stop.position, 1)]
    damaged = [index for index, piece in enumerate(pieces) if piece.kind is Kind.DAMAGED]
    if not damaged:
        numbered = count_up(pieces, start.number)
        if numbered[-1].end.number > stop.number:
            raise DisagreementError(start, stop)
        return numbered
    front, back = pieces[: damaged[0]], pieces[damaged[-1] + 1 :]
    region_start = front[-1].end if front else start.position
    region_end = back[0].start if back else stop.position
    numbers = stop.number - start.number - sum(piece.numbers for piece in (*front, *back))
    if numbers < 1:
        raise DisagreementError(start, stop)
    return count_up([*front, Piece(Kind.DAMAGED, region_start, region_end, numbers), *back], start.number)
