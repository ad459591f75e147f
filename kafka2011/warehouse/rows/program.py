"""Compiles schemas into numbers for the C code that decodes events: `_columns.c` says what they mean.

A program reads the bytes of events of one schema, the writer's, and puts what another one, the reader's, wants of it
into slots. It follows Avro's resolution as `EventDecoder` does, and may leave out what is rare: an event that comes to
such a place is refused, and decoded by that one.

A slot is a column, or what lies within one: the items of an array, the entries of a map, the fields of a record.
"""

from __future__ import annotations

import struct
from contextlib import contextmanager
from enum import IntEnum, auto
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from kafka2011.events.schema_walk import RECORDS, named_types
from kafka2011.events.varint import write_varint
from kafka2011.warehouse.rows.columns import arrow_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafka2011.events.columns.column_types import Column


class Op(IntEnum):
    """What a program does next; `_columns.c` has the same list, with the operands."""

    ABSENT = 0
    REFUSE = auto()
    BOOLEAN = auto()
    LONG = auto()
    DATE = auto()
    TIME = auto()
    LONG_AS_FLOAT = auto()
    LONG_AS_DOUBLE = auto()
    FLOAT = auto()
    DOUBLE = auto()
    FLOAT_AS_DOUBLE = auto()
    BYTES = auto()
    TEXT = auto()
    FIXED = auto()
    ENUM = auto()
    ARRAY = auto()
    MAP = auto()
    RECORD = auto()
    UNION = auto()
    DEFAULT = auto()


class SlotKind(IntEnum):
    """How the values of a slot are kept; `_columns.c` has the same list."""

    NONE = 0
    BITS = auto()
    FOUR = auto()
    EIGHT = auto()
    TEXTS = auto()
    LIST = auto()
    STRUCT = auto()


class Slot(NamedTuple):
    """Where the values of one type go. The numbers of an enum stand for `symbols`."""

    number: int
    kind: SlotKind
    type: pa.DataType
    inner: tuple[Slot, ...] = ()
    symbols: pa.Array | None = None


class Program(NamedTuple):
    """How events of one schema are read, as the C code takes it, and the slot of each column."""

    ops: bytes
    slots: bytes
    literals: bytes
    columns: tuple[Slot, ...]


class _UnableError(Exception):
    """This is left to the decoder in Python."""


_NOWHERE = -1
_LOOKED_AT = {
    "boolean": Op.BOOLEAN,
    "int": Op.LONG,
    "long": Op.LONG,
    "float": Op.FLOAT,
    "double": Op.DOUBLE,
    "string": Op.TEXT,
    "bytes": Op.BYTES,
    "null": Op.ABSENT,
}
"""How a value that nobody wants is read."""
_READ = {
    ("null", "null"): Op.ABSENT,
    ("boolean", "boolean"): Op.BOOLEAN,
    ("int", "int"): Op.LONG,
    ("int", "long"): Op.LONG,
    ("long", "long"): Op.LONG,
    ("int", "float"): Op.LONG_AS_FLOAT,
    ("long", "float"): Op.LONG_AS_FLOAT,
    ("int", "double"): Op.LONG_AS_DOUBLE,
    ("long", "double"): Op.LONG_AS_DOUBLE,
    ("float", "float"): Op.FLOAT,
    ("float", "double"): Op.FLOAT_AS_DOUBLE,
    ("double", "double"): Op.DOUBLE,
    ("string", "string"): Op.TEXT,
    ("string", "bytes"): Op.TEXT,
    ("bytes", "string"): Op.TEXT,
    ("bytes", "bytes"): Op.BYTES,
}
"""How a value of the writer's type is read as one of the reader's."""


def compile_program(writer: Any, reader: Any, columns: Sequence[Column]) -> Program | None:
    """Return how events of a writer's parsed schema become the columns of another one's; None if Python does that.

    The writer's is without logical types, but for the marks of `resolved`; the reader's has them.
    """
    try:
        slots = _Slots(reader)
        written = tuple(
            slots.add(field["type"], arrow_of(column.column_type.type))
            for field, column in zip(reader["fields"], columns, strict=True)
        )
        compiler = _Compiler(reader)
        ops = compiler.record(_Written(writer, named_types(writer)), reader, _NOWHERE, written)
    except _UnableError:
        return None
    return Program(_packed(ops), _packed(slots.found), bytes(compiler.literals), written)


def _packed(numbers: list[int]) -> bytes:
    return np.array(numbers, np.int32).tobytes()


def _kind(part: Any) -> str:
    kind: str = part["type"] if isinstance(part, dict) else part
    return "record" if kind in RECORDS else kind


def _logical(part: Any) -> str:
    return str(part.get("logicalType", "")) if isinstance(part, dict) else ""


class _Slots:
    """Makes slots for types of the reader's schema, from their columns' types."""

    def __init__(self, reader: Any) -> None:
        self._named = named_types(reader)
        self.found: list[int] = []

    def add(self, part: Any, arrow: pa.DataType) -> Slot:
        """Return the slot for a type. Raises _UnableError for what columns keep as text that Python makes."""
        is_nullable = False
        if isinstance(part, list):
            is_nullable = "null" in part
            rest = [branch for branch in part if branch != "null"]
            if len(rest) > 1 and not set(map(str, rest)) <= {"int", "long"}:
                raise _UnableError
            part = rest[0] if rest else "null"
        part = self._named.get(part, part) if isinstance(part, str) else part
        kind = _kind(part)
        slot_kind = _slot_kind(kind, arrow)
        if isinstance(part, dict) and part.get("logicalType") == "decimal":
            raise _UnableError
        number = self._begin(slot_kind, is_nullable)
        inner: tuple[Slot, ...] = ()
        if kind == "array":
            inner = (self.add(part["items"], arrow.value_type),)
        elif kind == "map":
            entry = self._begin(SlotKind.STRUCT, is_nullable=False)
            parts = self.add("string", pa.string()), self.add(part["values"], arrow.item_type)
            self._end(entry)
            inner = (Slot(entry, SlotKind.STRUCT, pa.struct([arrow.key_field, arrow.item_field]), parts),)
        elif kind == "record":
            inner = tuple(self.add(field["type"], arrow.field(field["name"]).type) for field in part["fields"])
        self._end(number)
        symbols = pa.array(part["symbols"], pa.string()) if kind == "enum" else None
        return Slot(number, slot_kind, arrow, inner, symbols)

    def _begin(self, kind: SlotKind, is_nullable: bool) -> int:
        self.found += (kind, 0, int(is_nullable))
        return len(self.found) // 3 - 1

    def _end(self, number: int) -> None:
        self.found[3 * number + 1] = len(self.found) // 3


def _slot_kind(kind: str, arrow: pa.DataType) -> SlotKind:
    """Return how values of a kind are kept in a column. Raises _UnableError."""
    if kind == "null":
        return SlotKind.NONE
    if kind == "record":
        if not pa.types.is_struct(arrow):  # it is JSON
            raise _UnableError
        return SlotKind.STRUCT
    if kind in {"array", "map"}:
        return SlotKind.LIST
    if kind == "enum":
        return SlotKind.FOUR
    if kind in {"string", "bytes", "fixed"}:
        return SlotKind.TEXTS
    return {1: SlotKind.BITS, 32: SlotKind.FOUR, 64: SlotKind.EIGHT}[arrow.bit_width]


class _Written(NamedTuple):
    """A type of the writer's, and the types that it may name."""

    part: Any
    named: Mapping[str, Any]

    def at(self, part: Any) -> _Written:
        """Return another type of the same schema, a name as what it stands for."""
        return _Written(self.named.get(part, part) if isinstance(part, str) else part, self.named)

    @property
    def fields(self) -> list[dict[str, Any]]:
        """The fields of a record."""
        fields: list[dict[str, Any]] = self.part["fields"]
        return fields


class _Compiler:
    """Makes operations; raises _UnableError where none are known."""

    def __init__(self, reader: Any) -> None:
        self._named = named_types(reader)
        self._within: list[int] = []
        self.literals = bytearray()

    def record(self, written: _Written, reader: Any, number: int, slots: Sequence[Slot]) -> list[int]:
        """Return what reads a record into the slots of the reader's fields."""
        waiting = {field["name"]: (field, slot) for field, slot in zip(reader["fields"], slots, strict=True)}
        aliases = {alias: field["name"] for field in reader["fields"] for alias in field.get("aliases", ())}
        ops: list[int] = []
        for field in written.fields:
            name = field["name"]
            theirs = written.at(field["type"])
            name = aliases.get(name, name) if name not in waiting else name
            if name not in waiting:
                if any(other["name"] == name for other in reader["fields"]):  # two names of one field
                    raise _UnableError
                ops += self._skipped(theirs)
                continue
            ours, slot = waiting.pop(name)
            if any(alias in {other["name"] for other in written.fields} for alias in ours.get("aliases", ())) and (
                name != field["name"] or len(ours["aliases"]) > 1
            ):
                raise _UnableError
            ops += self._read(theirs, ours["type"], slot)
        for ours, slot in waiting.values():
            ops += self._default(ours, slot)
        return [Op.RECORD, number, len(written.fields) + len(waiting), *ops]

    def _default(self, field: Mapping[str, Any], slot: Slot) -> list[int]:
        if "default" not in field:
            raise _UnableError
        literal = self._literal(field["type"], field["default"])
        at = len(self.literals)
        self.literals += literal
        own = _Written(None, self._named).at(field["type"])
        return [Op.DEFAULT, at, len(literal), *self._read(own, field["type"], slot)]

    def _read(self, theirs: _Written, reader: Any, slot: Slot) -> list[int]:
        """Return what reads a value of a writer's type as one of the reader's type."""
        if isinstance(theirs.part, list):
            return _union([self._branch(theirs.at(branch), reader, slot) for branch in theirs.part])
        for branch in reader if isinstance(reader, list) else [reader]:
            ours = self._named.get(branch, branch) if isinstance(branch, str) else branch
            if _matches(theirs.part, ours):
                return self._value(theirs, ours, slot)
        raise _UnableError

    def _branch(self, theirs: _Written, reader: Any, slot: Slot) -> list[int]:
        try:
            return self._read(theirs, reader, slot)
        except _UnableError:
            return [Op.REFUSE]

    def _value(self, theirs: _Written, ours: Any, slot: Slot) -> list[int]:
        part, number, kind = theirs.part, slot.number, _kind(theirs.part)
        if isinstance(part, dict) and part.get("logicalType") == "decimal":
            raise _UnableError
        if kind == "fixed":
            return [Op.FIXED, number, part["size"]]
        if kind == "enum":
            return [Op.ENUM, number, len(part["symbols"]), *_symbols(part, ours)]
        if kind in {"array", "map"}:
            held = "items" if kind == "array" else "values"
            inner = slot.inner[0] if kind == "array" else slot.inner[0].inner[1]
            ops = self._read(theirs.at(part[held]), ours[held], inner)
            return [Op.ARRAY if kind == "array" else Op.MAP, number, len(ops), *ops]
        if kind == "record":
            return self.record(theirs, ours, number, slot.inner)
        op = _READ[kind, _kind(ours)]
        if op is Op.LONG and pa.types.is_timestamp(slot.type):
            units = {_logical(part), _logical(ours)}
            return [Op.TIME, number, 1000 if any(unit.endswith("millis") for unit in units) else 1]
        return [Op.DATE if op is Op.LONG and pa.types.is_date32(slot.type) else op, number]

    def _skipped(self, theirs: _Written) -> list[int]:
        """Return what reads a value that the reader does not have."""
        part = theirs.part
        with self._inside(part):
            if isinstance(part, list):
                return _union([self._skipped_branch(theirs.at(branch)) for branch in part])
            kind = _kind(part)
            if kind == "fixed":
                return [Op.FIXED, _NOWHERE, part["size"]]
            if kind == "enum":
                return [Op.ENUM, _NOWHERE, len(part["symbols"]), *range(len(part["symbols"]))]
            if kind in {"array", "map"}:
                ops = self._skipped(theirs.at(part["items" if kind == "array" else "values"]))
                return [Op.ARRAY if kind == "array" else Op.MAP, _NOWHERE, len(ops), *ops]
            if kind == "record":
                fields = [self._skipped(theirs.at(field["type"])) for field in theirs.fields]
                return [Op.RECORD, _NOWHERE, len(fields), *(op for field in fields for op in field)]
            return [_LOOKED_AT[kind], _NOWHERE]

    def _skipped_branch(self, theirs: _Written) -> list[int]:
        try:
            return self._skipped(theirs)
        except _UnableError:
            return [Op.REFUSE]

    @contextmanager
    def _inside(self, part: Any) -> Iterator[None]:
        """Refuse a type that lies within itself."""
        if not isinstance(part, str) and id(part) in self._within:
            raise _UnableError
        self._within.append(id(part))
        try:
            yield
        finally:
            self._within.pop()

    def _literal(self, part: Any, value: Any) -> bytes:  # noqa: PLR0911 (one for each kind of type)
        """Return a default as Avro has it."""
        part = self._named.get(part, part) if isinstance(part, str) else part
        if isinstance(part, list):
            branch = (
                part.index("null")
                if value is None
                else next(n for n, alternative in enumerate(part) if alternative != "null")
            )
            return write_varint(branch) + self._literal(part[branch], value)
        kind = _kind(part)
        if kind in {"int", "long"}:
            return write_varint(value)
        if kind == "boolean":
            return bytes([value])
        if kind in {"float", "double"}:
            return struct.pack("<f" if kind == "float" else "<d", value)
        if kind in {"string", "bytes"}:
            data = value.encode() if isinstance(value, str) else value
            return write_varint(len(data)) + bytes(data)
        if kind == "enum":
            return write_varint(part["symbols"].index(value))
        if kind == "record":
            return b"".join(self._literal(field["type"], value[field["name"]]) for field in part["fields"])
        if kind == "array":
            items = [self._literal(part["items"], item) for item in value]
        elif kind == "map":
            items = [self._literal("string", key) + self._literal(part["values"], item) for key, item in value.items()]
        else:
            return bytes(value or b"")
        return (write_varint(len(items)) + b"".join(items) if items else b"") + b"\0"


def _union(branches: list[list[int]]) -> list[int]:
    begins, at = [], 3 + len(branches)
    for branch in branches:
        begins.append(at)
        at += len(branch)
    return [Op.UNION, at - 2, len(branches), *begins, *(op for branch in branches for op in branch)]


def _matches(theirs: Any, ours: Any) -> bool:
    """Say whether a value of the writer's type may be one of the reader's, going by the outermost types."""
    kind, wanted = _kind(theirs), _kind(ours)
    if kind in {"record", "enum", "fixed"} and kind == wanted:
        names = (part["name"].rpartition(".")[2] for part in (theirs, ours))
        return len({*names}) == 1 and theirs.get("size") == ours.get("size")
    return (kind, wanted) in _READ or (kind == wanted and kind in {"array", "map"})


def _symbols(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> Iterator[int]:
    """Yield the number of each of the writer's symbols among the reader's; -1 where there is none."""
    known = {symbol: number for number, symbol in enumerate(ours["symbols"])}
    other = known.get(ours.get("default"), _NOWHERE)
    for symbol in theirs["symbols"]:
        yield known.get(symbol, other)
