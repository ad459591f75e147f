"""The columns of a table: the fields of the topic's newest schema, then our own.

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

from kafka2011.warehouse.errors import WarehouseError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka2011.pipeline.schemas import EventSchema

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


class Kind(NamedTuple):
    """How a type of Avro's is kept: as which of Arrow's, and what turns a decoded value into one that Arrow takes."""

    type: pa.DataType
    convert: Callable[[Any], Any] | None = None
    nullable: bool = False


@dataclass(frozen=True)
class Column:
    """One field of the newest schema in the table."""

    field: str
    name: str
    kind: Kind

    @property
    def arrow(self) -> pa.Field:
        """The column as Arrow has it. All may be null: a table has rows from before a field was there."""
        return pa.field(self.name, self.kind.type)


def columns_of(schema: EventSchema, topic: str) -> list[Column]:
    """Return the columns for the fields of a topic's newest schema, in their order. Raises ColumnError."""
    found: list[Column] = []
    taken: set[str] = set()
    for field in schema.writer["fields"]:
        name = field["name"]
        if name.lower().startswith(PREFIX):
            raise ColumnError(f"topic {topic}: field {name} of {schema.name}: names that begin so are the table's own")
        column = f"{name}_" if name.lower() in DIRECTORIES else name
        if column.lower() in taken:
            raise ColumnError(
                f"topic {topic}: column {column} of {schema.name} is there twice, as readers that ignore case see it"
            )
        taken.add(column.lower())
        found.append(Column(name, column, kind_of(field["type"], _named(schema.writer))))
    return found


def arrow_schema(columns: list[Column]) -> pa.Schema:
    """Return the schema of the table: the columns, then our own."""
    return pa.schema([*(column.arrow for column in columns), *OWN])


def kind_of(  # noqa: PLR0911  (one for each kind of type)
    schema: Any, named: dict[str, Any], within: tuple[str, ...] = ()
) -> Kind:
    """Return how values of a parsed Avro type are kept."""
    if isinstance(schema, list):
        return _union(schema, named, within)
    if isinstance(schema, str):
        return kind_of(named[schema], named, within) if schema in named else Kind(_PRIMITIVES[schema])
    kind = schema["type"]
    if isinstance(kind, dict | list):
        return kind_of(kind, named, within)
    if logical := _logical(schema):
        return logical
    if kind == "record":
        return _record(schema, named, within)
    if kind == "array":
        return _array(kind_of(schema["items"], named, within))
    if kind == "map":
        return _map(kind_of(schema["values"], named, within))
    return kind_of(kind, named, within) if kind in named else Kind(_PRIMITIVES[kind])


def _union(schema: list[Any], named: dict[str, Any], within: tuple[str, ...]) -> Kind:
    rest = [each for each in schema if each != "null"]
    is_nullable = len(rest) < len(schema)
    if not rest:
        return Kind(pa.null(), None, nullable=True)
    if len(rest) == 1:
        kind = kind_of(rest[0], named, within)
        return Kind(kind.type, _unless_none(kind.convert), nullable=is_nullable)
    if set(map(str, rest)) <= {"int", "long"}:
        return Kind(pa.int64(), None, nullable=is_nullable)
    return Kind(pa.string(), _unless_none(as_json), nullable=is_nullable)


def _logical(schema: dict[str, Any]) -> Kind | None:
    """Return how values of a logical type are kept; None for a type that is none, or none that columns know."""
    logical, kind = schema.get("logicalType"), schema["type"]
    if logical == "decimal" and kind in {"bytes", "fixed"}:
        precision, scale = schema["precision"], schema.get("scale", 0)
        return Kind(pa.decimal128(precision, scale)) if precision <= _MAX_DECIMAL_DIGITS else Kind(pa.string(), str)
    return _LOGICAL.get((logical, kind))


def _record(schema: dict[str, Any], named: dict[str, Any], within: tuple[str, ...]) -> Kind:
    name = schema["name"]
    if name in within or _contains(schema, name, named):
        return Kind(pa.string(), as_json)
    kinds = {field["name"]: kind_of(field["type"], named, (*within, name)) for field in schema["fields"]}
    if not kinds:
        return Kind(pa.string(), as_json)
    converted = {field: kind.convert for field, kind in kinds.items() if kind.convert is not None}

    def convert(value: dict[str, Any]) -> dict[str, Any]:
        return value | {field: change(value[field]) for field, change in converted.items()}

    fields = [pa.field(field, kind.type) for field, kind in kinds.items()]
    return Kind(pa.struct(fields), convert if converted else None)


def _array(item: Kind) -> Kind:
    change = item.convert
    return Kind(pa.list_(item.type), None if change is None else lambda values: [change(each) for each in values])


def _map(item: Kind) -> Kind:
    change = item.convert
    if change is None:
        return Kind(pa.map_(pa.string(), item.type), lambda values: list(values.items()))
    return Kind(pa.map_(pa.string(), item.type), lambda values: [(key, change(each)) for key, each in values.items()])


def _thousandfold(value: int) -> int:
    return value * 1000


_LOGICAL: dict[tuple[Any, Any], Kind] = {
    ("timestamp-micros", "long"): Kind(MICROS),
    ("timestamp-millis", "long"): Kind(MICROS, _thousandfold),
    ("local-timestamp-micros", "long"): Kind(pa.timestamp("us")),
    ("local-timestamp-millis", "long"): Kind(pa.timestamp("us"), _thousandfold),
    ("date", "int"): Kind(pa.date32()),
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


def _named(schema: Any) -> dict[str, Any]:
    return {part["name"]: part for part in _parts(schema) if "name" in part and "type" in part and _is_type(part)}


def _is_type(part: dict[str, Any]) -> bool:
    return part["type"] in {"record", "error", "enum", "fixed"}


def _parts(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, list):
        for each in schema:
            yield from _parts(each)
    elif isinstance(schema, dict):
        yield schema
        for part in ("type", "items", "values"):
            if isinstance(schema.get(part), list | dict):
                yield from _parts(schema[part])
        for field in schema.get("fields", ()):
            yield from _parts(field["type"])


def _contains(schema: Any, name: str, named: dict[str, Any], seen: frozenset[str] = frozenset()) -> bool:
    """Say whether a record has itself somewhere within."""
    if isinstance(schema, list):
        return any(_contains(each, name, named, seen) for each in schema)
    if isinstance(schema, str):
        if schema == name:
            return True
        return schema in named and schema not in seen and _contains(named[schema], name, named, seen | {schema})
    parts = [schema[part] for part in ("items", "values") if part in schema]
    parts += [field["type"] for field in schema.get("fields", ())]
    if isinstance(schema["type"], dict | list):
        parts.append(schema["type"])
    return any(_contains(each, name, named, seen) for each in parts)
