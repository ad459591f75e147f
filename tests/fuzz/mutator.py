"""Makes hostile bytes of good ones, by a seed: a case takes some microseconds, so that millions are made."""

from __future__ import annotations

import struct
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MOST_CHANGES = 6
_LONGEST_INSERTED = 24
_EDGES = (0, 1, 2, 4, 5, 9, 10, 63, 127, 128, 255, 256, 32767, 32768, 65535, 2**31 - 1, 2**31, 2**32 - 1)
_NUMBERS = (
    *(bytes([each & 255]) for each in _EDGES),
    *(struct.pack(">H", each & 0xFFFF) for each in _EDGES),
    *(struct.pack(">I", each) for each in _EDGES),
    *(struct.pack(">q", each) for each in (0, 1, -1, -2, 2**31, 2**53, 2**63 - 1, -(2**63))),
    *(b"\xff" * size + b"\x01" for size in (3, 4, 8, 9, 10)),  # numbers of Avro
    *(b"\xfe" * size + b"\x0f" for size in (3, 4, 8)),
)


class Mutator:
    """Draws cases from a pool of inputs, which may grow meanwhile; `tokens` are words of the format.

    Most cases have few changes, and some have none. None is longer than `max_bytes`.
    """

    def __init__(self, seed: int, pool: Sequence[bytes], tokens: Sequence[bytes] = (), max_bytes: int = 4096) -> None:
        self._draw = Random(seed)
        self._random = self._draw.random
        self._pool = pool
        self._words = (*_NUMBERS, *tokens, *tokens)  # a format's own words are few
        self._max_bytes = max_bytes
        change: tuple[Callable[[bytearray], object], ...] = (
            *(self._set_byte, self._flip_bit, self._cut, self._remove, self._insert_random),
            *(self._write_word, self._write_word, self._insert_word, self._repeat, self._splice),
        )
        self._changes = change

    def case(self) -> bytes:
        """Return the next case."""
        random, changes = self._random, self._changes
        data = bytearray(self._pool[int(random() * len(self._pool))])
        for _ in range(int(random() * random() * (MOST_CHANGES + 1))):
            changes[int(random() * len(changes))](data)
        del data[self._max_bytes :]
        return bytes(data)

    def _at(self, data: bytearray) -> int:
        return int(self._random() * len(data))

    def _set_byte(self, data: bytearray) -> None:
        if data:
            data[self._at(data)] = int(self._random() * 256)

    def _flip_bit(self, data: bytearray) -> None:
        if data:
            data[self._at(data)] ^= 1 << int(self._random() * 8)

    def _cut(self, data: bytearray) -> None:
        del data[self._at(data) :]

    def _remove(self, data: bytearray) -> None:
        at = self._at(data)
        del data[at : at + 1 + int(self._random() * 8)]

    def _insert_random(self, data: bytearray) -> None:
        at = self._at(data)
        data[at:at] = self._draw.randbytes(1 + int(self._random() * _LONGEST_INSERTED))

    def _write_word(self, data: bytearray) -> None:
        word = self._words[int(self._random() * len(self._words))]
        at = self._at(data)
        data[at : at + len(word)] = word

    def _insert_word(self, data: bytearray) -> None:
        at = self._at(data)
        data[at:at] = self._words[int(self._random() * len(self._words))]

    def _repeat(self, data: bytearray) -> None:
        at = self._at(data)
        part = data[at : at + 1 + int(self._random() * 64)]
        data[at:at] = part * (1 + int(self._random() * self._random() * 40))

    def _splice(self, data: bytearray) -> None:
        other = self._pool[int(self._random() * len(self._pool))]
        data[self._at(data) :] = other[int(self._random() * len(other)) :]
