"""The columns of a topic's fields: their names and types, and how decoded values become theirs.

Avro's int becomes long, a union with null a column that may be null, times UTC in microseconds, an enum text. What no
type of columns holds (a union of several types, a record within itself) is kept as JSON text.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka2011.events.columns.kinds import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INSTANT,
    LOCAL_TIME,
    LONG,
    MAX_DECIMAL_DIGITS,
    NULL,
    TEXT,
    Decimals,
    Kind,
    Lists,
    Maps,
    Structs,
    why_too_deep,
)
from kafka2011.events.errors import ColumnError
from kafka2011.events.schema_walk import RECORDS, named_types, walk
from kafka2011.json_document import json_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafka2011.events.schemas import EventSchema

PREFIX = "kafka2011_"
"""How the names of the table's own columns begin."""

DIRECTORIES = frozenset({"load_id", "date", "hour"})
"""What readers make columns of, from the names of a table's directories. A field of such a name gets a `_` after it."""

JSON_MARK = "kafka2011-json"
"""An attribute of a record in a schema that reads events: its values are kept as JSON text."""

_PLAIN: dict[str, Kind] = {
    "null": NULL,
    "boolean": BOOLEAN,
    "int": LONG,
    "long": LONG,
    "float": FLOAT,
    "double": DOUBLE,
    "bytes": BINARY,
    "string": TEXT,
    "fixed": BINARY,
    "enum": TEXT,
}


class ColumnType(NamedTuple):
    """How a type of Avro's is kept: the type of the column, and what turns a decoded value into one of the column's."""

    type: Kind
    convert: Callable[[Any], Any] | None = None
    nullable: bool = False


@dataclass(frozen=True)
class Column:
    """One field in the table; `field` is its name in decoded events."""

    field: str
    name: str
    column_type: ColumnType


def table_columns(schema: EventSchema, topic: str) -> list[Column]:
    """Return the columns for the fields of a topic's schema alone, in their order. Raises ColumnError."""
    columns: list[Column] = []
    taken: dict[str, str] = {}
    named = named_types(schema.writer)
    for field in schema.writer["fields"]:
        name = field["name"]
        if name.lower().startswith(PREFIX):
            raise ColumnError(
                f"topic {topic}: field {name} of {schema.name}: names that begin with {PREFIX} are the table's own."
                " Give the field another name"
            )
        column = column_name(name)
        other = taken.setdefault(column.lower(), name)
        if other != name:
            raise ColumnError(
                f"topic {topic}: field {name} of {schema.name}: its column {column} and that of field {other} are one"
                " to readers that ignore case. Give one of them another name"
            )
        try:
            columns.append(column_of(field, named))
        except ColumnError as error:
            raise ColumnError(f"topic {topic}: {schema.name}: {error}") from None
        except Exception as error:  # whatever nobody has thought of costs the events of this schema, and no others
            why = f"no type of columns is known for it ({type(error).__name__}: {error})"
            raise ColumnError(f"topic {topic}: {schema.name}: field {name}: {why}") from error
    return columns


def column_of(field: dict[str, Any], named: dict[str, Any]) -> Column:
    """Return the column of a field of a parsed record. Raises ColumnError, which names the field."""
    name = field["name"]
    column = Column(name, column_name(name), column_type_of(field["type"], named, name))
    if why := why_too_deep(column.column_type.type):
        raise ColumnError(f"field {name}: {why}")
    return column


def column_name(field: str) -> str:
    """Return the name of a field's column."""
    return f"{field}_" if field.lower() in DIRECTORIES else field


def column_type_of(schema: Any, named: dict[str, Any], path: str) -> ColumnType:  # noqa: PLR0911  (one for each kind of type)
    """Return how values of a parsed Avro type are kept, which is that of the field at a path. Raises ColumnError."""
    if isinstance(schema, list):
        return _union(schema, named, path)
    if isinstance(schema, str):
        return column_type_of(named[schema], named, path) if schema in named else ColumnType(_PLAIN[schema])
    kind = schema["type"]
    if logical := _logical(schema):
        return logical
    if kind in RECORDS:
        return _record(schema, named, path)
    if kind == "array":
        return _array(column_type_of(schema["items"], named, f"{path}[]"))
    if kind == "map":
        return _map(column_type_of(schema["values"], named, f"{path}{{}}"))
    return ColumnType(_PLAIN[kind])


def _union(schema: list[Any], named: dict[str, Any], path: str) -> ColumnType:
    rest = [branch for branch in schema if branch != "null"]
    is_nullable = len(rest) < len(schema)
    if not rest:
        return ColumnType(NULL, None, nullable=True)
    if len(rest) == 1:
        kind = column_type_of(rest[0], named, path)
        return ColumnType(kind.type, _unless_none(kind.convert), nullable=is_nullable)
    if set(map(str, rest)) <= {"int", "long"}:
        return ColumnType(LONG, None, nullable=is_nullable)
    return ColumnType(TEXT, _unless_none(as_json), nullable=is_nullable)


def _logical(schema: dict[str, Any]) -> ColumnType | None:
    """Return how values of a logical type are kept; None for a type that is none, or none that columns know."""
    logical, kind = schema.get("logicalType"), schema["type"]
    if logical == "decimal" and kind in {"bytes", "fixed"}:
        precision, scale = schema["precision"], schema.get("scale", 0)
        is_small = precision <= MAX_DECIMAL_DIGITS
        return ColumnType(Decimals(precision, scale)) if is_small else ColumnType(TEXT, str)
    return _LOGICAL.get((logical, kind)) if isinstance(logical, str) else None


def _record(schema: dict[str, Any], named: dict[str, Any], path: str) -> ColumnType:
    is_within_itself = schema["name"] in walk(schema, named)
    if not schema["fields"] or is_within_itself or JSON_MARK in schema:
        return ColumnType(TEXT, as_json)
    if twins := names_that_differ_in_case(field["name"] for field in schema["fields"]):
        raise ColumnError(f"field {path}: its fields {twins[0]} and {twins[1]} are one to readers that ignore case")
    kinds = {
        field["name"]: column_type_of(field["type"], named, f"{path}.{field['name']}") for field in schema["fields"]
    }
    converted = {field: kind.convert for field, kind in kinds.items() if kind.convert is not None}

    def convert(value: dict[str, Any]) -> dict[str, Any]:
        return value | {field: change(value[field]) for field, change in converted.items()}

    fields = tuple((field, kind.type) for field, kind in kinds.items())
    return ColumnType(Structs(fields), convert if converted else None)


def names_that_differ_in_case(names: Iterable[str]) -> tuple[str, str] | None:
    """Return two names that are one to readers that ignore case; None if there are none."""
    known: dict[str, str] = {}
    for name in names:
        other = known.setdefault(name.lower(), name)
        if other != name:
            return other, name
    return None


def _array(item: ColumnType) -> ColumnType:
    change = item.convert
    return ColumnType(Lists(item.type), None if change is None else lambda values: [change(value) for value in values])


def _map(item: ColumnType) -> ColumnType:
    change = item.convert
    if change is None:
        return ColumnType(Maps(item.type), lambda values: list(values.items()))
    return ColumnType(Maps(item.type), lambda values: [(key, change(value)) for key, value in values.items()])


def _thousandfold(value: int) -> int:
    return value * 1000


_LOGICAL: dict[tuple[str, Any], ColumnType] = {
    ("timestamp-micros", "long"): ColumnType(INSTANT),
    ("timestamp-millis", "long"): ColumnType(INSTANT, _thousandfold),
    ("local-timestamp-micros", "long"): ColumnType(LOCAL_TIME),
    ("local-timestamp-millis", "long"): ColumnType(LOCAL_TIME, _thousandfold),
    ("date", "int"): ColumnType(DATE),
}


def _unless_none(change: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    return None if change is None else lambda value: None if value is None else change(value)


def as_json(value: Any) -> str:
    """Return a decoded value as JSON text; bytes are base64, decimals and floats that are not finite text."""
    return json_text(value, _as_plain)


def _as_plain(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"{value!r} has no form in JSON")
