"""Boundaries between messages with their numbers, and how far a log was numbered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from kafka2011.gateway.records.found import Piece


class Boundary(NamedTuple):
    """A boundary between messages: its position in the log, and the number of the first message behind it."""

    position: int
    number: int


class Numbered(NamedTuple):
    """A piece of a log, the number of its first message, and whether it repeats an earlier one."""

    piece: Piece
    first_number: int
    is_repeat: bool = False

    @property
    def end(self) -> Boundary:
        """The place behind it, unless messages behind it are known to have higher numbers."""
        return Boundary(self.piece.end, self.first_number + self.piece.numbers)


class Seal(NamedTuple):
    """The CRC-32 of a range of the log, which tells whether it is still the same log."""

    start: int
    end: int
    checksum: int


class Tail(NamedTuple):
    """How far a log was numbered, and the seals of the last undamaged bytes before that, the newest last."""

    position: int
    number: int
    seals: tuple[Seal, ...] = ()

    @property
    def place(self) -> Boundary:
        """The place where the log goes on."""
        return Boundary(self.position, self.number)

    def document(self) -> list[Any]:
        """Return what JSON can hold of it."""
        return [self.position, self.number, [list(seal) for seal in self.seals]]

    @classmethod
    def of(cls, document: list[Any]) -> Tail:
        """Return the tail of a document. Raises ValueError or TypeError."""
        position, number, seals = document
        return cls(int(position), int(number), tuple(Seal(*map(int, seal)) for seal in seals))
