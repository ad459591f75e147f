"""Decodes many events of one schema at once, in C where it was built (`_columns.c`), else not at all.

What is not decoded here, whoever asked decodes one by one: that is the judge of what is good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from kafka2011 import c_code
from kafka2011.events.codec import MARK
from kafka2011.warehouse.rows.program import SlotKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from kafka2011.message.header import AnyBytes
    from kafka2011.warehouse.rows.program import Program, Slot

    Buffers = tuple[int, bytes | None, bytes | None, bytes | None]
    """The number of values in a slot; which are there (None: all), the values or offsets, and the text."""


class ColumnCode(Protocol):
    """What the C code does."""

    def decode(
        self,
        program: bytes,
        slots: bytes,
        literals: bytes,
        head: bytes,
        offsets: AnyBytes,
        data: AnyBytes,
        first: int,
        rows: int,
        /,
    ) -> tuple[list[Buffers], bytes]:
        """Return what is in the slots, and the numbers of the rows that are not (int32)."""


compiled: ColumnCode | None = c_code.load("warehouse.rows._columns")


class BatchReader:
    """Decodes events of one schema into columns. Make one with `batch_reader`."""

    def __init__(self, code: ColumnCode, fingerprint: str, program: Program) -> None:
        self._code = code
        self._head = MARK + bytes.fromhex(fingerprint)
        self._program = program

    def decode(self, payloads: pa.Array) -> tuple[list[pa.Array], NDArray[np.int32]]:
        """Return the columns for the payloads that are good, and the numbers of those that may not be."""
        _, offsets, data = payloads.buffers()
        program = self._program
        where = offsets, data or b"", payloads.offset, len(payloads)
        buffers, refused = self._code.decode(program.ops, program.slots, program.literals, self._head, *where)
        return [_array(slot, buffers) for slot in program.columns], np.frombuffer(refused, np.int32)


def batch_reader(fingerprint: str, compile_it: Callable[[], Program | None]) -> BatchReader | None:
    """Return what decodes the events of a fingerprint by their program; None where that is left to Python."""
    program = None if compiled is None else compile_it()
    return None if compiled is None or program is None else BatchReader(compiled, fingerprint, program)


def _array(slot: Slot, decoded: list[Buffers]) -> pa.Array:
    length, valid, values, text = decoded[slot.number]
    if slot.kind is SlotKind.NONE:
        return pa.nulls(length)
    kept = [buffer for buffer in (values, text) if buffer is not None]
    buffers = [None if valid is None else pa.py_buffer(valid), *map(pa.py_buffer, kept)]
    kind = slot.type if slot.symbols is None else pa.int32()
    array = pa.Array.from_buffers(kind, length, buffers, children=[_array(field, decoded) for field in slot.inner])
    return array if slot.symbols is None else slot.symbols.take(array)
