"""The columns of a table: a topic's fields, then our own.

Avro's types become Arrow's: int becomes long, a union with null a column that may be null, times UTC in microseconds,
an enum text. What Arrow has no type for (a union of several types, a record within itself) is kept as JSON text.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from kafka2011.events.schema_walk import named_types, walk
from kafka2011.warehouse.errors import WarehouseError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.events.schemas import EventSchema

PREFIX = "kafka2011_"
BROKER_ID, PARTITION, OFFSET = f"{PREFIX}broker_id", f"{PREFIX}partition", f"{PREFIX}offset"
NEXT_OFFSET, INDEX_IN_SET = f"{PREFIX}next_offset", f"{PREFIX}index_in_set"
LOAD_ID, SCHEMA = f"{PREFIX}load_id", f"{PREFIX}schema"

OWN = pa.schema(
    [
        pa.field(BROKER_ID, pa.int32(), nullable=False),
        pa.field(PARTITION, pa.int32(), nullable=False),
        pa.field(OFFSET, pa.int64(), nullable=False),
        pa.field(NEXT_OFFSET, pa.int64(), nullable=False),
        pa.field(INDEX_IN_SET, pa.int32(), nullable=False),
        pa.field(LOAD_ID, pa.int64(), nullable=False),
        pa.field(SCHEMA, pa.string(), nullable=False),
    ]
)
"""Where a row comes from. The first five but the fourth identify it within its topic."""

DIRECTORIES = frozenset({"load_id", "date", "hour"})
"""What readers make columns of, from the names of a table's directories. A field of such a name gets a `_` after it."""

MICROS = pa.timestamp("us", tz="UTC")
_MAX_DECIMAL_DIGITS = 38
_PRIMITIVES = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "fixed": pa.binary(),
    "enum": pa.string(),
}


class ColumnError(WarehouseError):
    """A schema has fields that cannot be columns of one table."""


class ColumnType(NamedTuple):
    """How a type of Avro's is kept: as which of Arrow's, and what turns a decoded value into one that Arrow takes."""

    type: pa.DataType
    convert: Callable[[Any], Any] | None = None
    nullable: bool = False


@dataclass(frozen=True)
class Column:
    """One field in the table; `field` is its name in decoded events."""

    field: str
    name: str
    column_type: ColumnType

    @property
    def arrow(self) -> pa.Field:
        """The column as Arrow has it. All may be null: a table has rows from before a field was there."""
        return pa.field(self.name, self.column_type.type)


def table_columns(schema: EventSchema, topic: str) -> list[Column]:
    """Return the columns for the fields of a topic's schema alone, in their order. Raises ColumnError."""
    columns: list[Column] = []
    taken: set[str] = set()
    named = named_types(schema.writer)
    for field in schema.writer["fields"]:
        name = field["name"]
        if name.lower().startswith(PREFIX):
            raise ColumnError(f"topic {topic}: field {name} of {schema.name}: names that begin so are the table's own")
        column = column_name(name)
        if column.lower() in taken:
            raise ColumnError(
                f"topic {topic}: column {column} of {schema.name} is there twice, as readers that ignore case see it"
            )
        taken.add(column.lower())
        columns.append(Column(name, column, column_type_of(field["type"], named)))
    return columns


def column_name(field: str) -> str:
    """Return the name of a field's column."""
    return f"{field}_" if field.lower() in DIRECTORIES else field


def table_schema(columns: list[Column]) -> pa.Schema:
    """Return the schema of the table: the columns, then our own."""
    return pa.schema([*(column.arrow for column in columns), *OWN])


def column_type_of(schema: Any, named: dict[str, Any]) -> ColumnType:  # noqa: PLR0911  (one for each kind of type)
    """Return how values of a parsed Avro type are kept."""
    if isinstance(schema, list):
        return _union(schema, named)
    if isinstance(schema, str):
        return column_type_of(named[schema], named) if schema in named else ColumnType(_PRIMITIVES[schema])
    kind = schema["type"]
    if logical := _logical(schema):
        return logical
    if kind == "record":
        return _record(schema, named)
    if kind == "array":
        return _array(column_type_of(schema["items"], named))
    if kind == "map":
        return _map(column_type_of(schema["values"], named))
    return ColumnType(_PRIMITIVES[kind])


def _union(schema: list[Any], named: dict[str, Any]) -> ColumnType:
    rest = [branch for branch in schema if branch != "null"]
    is_nullable = len(rest) < len(schema)
    if not rest:
        return ColumnType(pa.null(), None, nullable=True)
    if len(rest) == 1:
        kind = column_type_of(rest[0], named)
        return ColumnType(kind.type, _unless_none(kind.convert), nullable=is_nullable)
    if set(map(str, rest)) <= {"int", "long"}:
        return ColumnType(pa.int64(), None, nullable=is_nullable)
    return ColumnType(pa.string(), _unless_none(as_json), nullable=is_nullable)


def _logical(schema: dict[str, Any]) -> ColumnType | None:
    """Return how values of a logical type are kept; None for a type that is none, or none that columns know."""
    logical, kind = schema.get("logicalType"), schema["type"]
    if logical == "decimal" and kind in {"bytes", "fixed"}:
        precision, scale = schema["precision"], schema.get("scale", 0)
        return (
            ColumnType(pa.decimal128(precision, scale))
            if precision <= _MAX_DECIMAL_DIGITS
            else ColumnType(pa.string(), str)
        )
    return _LOGICAL.get((logical, kind))


def _record(schema: dict[str, Any], named: dict[str, Any]) -> ColumnType:
    if not schema["fields"] or schema["name"] in walk(schema, named):  # the latter lies within itself
        return ColumnType(pa.string(), as_json)
    kinds = {field["name"]: column_type_of(field["type"], named) for field in schema["fields"]}
    converted = {field: kind.convert for field, kind in kinds.items() if kind.convert is not None}

    def convert(value: dict[str, Any]) -> dict[str, Any]:
        return value | {field: change(value[field]) for field, change in converted.items()}

    fields = [pa.field(field, kind.type) for field, kind in kinds.items()]
    return ColumnType(pa.struct(fields), convert if converted else None)


def _array(item: ColumnType) -> ColumnType:
    change = item.convert
    return ColumnType(
        pa.list_(item.type), None if change is None else lambda values: [change(value) for value in values]
    )


def _map(item: ColumnType) -> ColumnType:
    change = item.convert
    if change is None:
        return ColumnType(pa.map_(pa.string(), item.type), lambda values: list(values.items()))
    return ColumnType(
        pa.map_(pa.string(), item.type), lambda values: [(key, change(value)) for key, value in values.items()]
    )


def _thousandfold(value: int) -> int:
    return value * 1000


_LOGICAL: dict[tuple[Any, Any], ColumnType] = {
    ("timestamp-micros", "long"): ColumnType(MICROS),
    ("timestamp-millis", "long"): ColumnType(MICROS, _thousandfold),
    ("local-timestamp-micros", "long"): ColumnType(pa.timestamp("us")),
    ("local-timestamp-millis", "long"): ColumnType(pa.timestamp("us"), _thousandfold),
    ("date", "int"): ColumnType(pa.date32()),
}


def _unless_none(change: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    return None if change is None else lambda value: None if value is None else change(value)


def as_json(value: Any) -> str:
    """Return a decoded value as JSON text; bytes are base64, decimals text."""
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"{value!r} has no form in JSON")
