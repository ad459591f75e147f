"""Types of columns that become wider: which of them can, and how values follow, each exactly."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping

LARGEST_EXACT = 2**53
"""A double holds each whole number up to this one, and down to its negative."""

JSON_MARK = b"kafka2011.json"
"""In the metadata of a column of text that was rewritten as JSON."""


class Widening(NamedTuple):
    """What a column becomes: a type, or JSON text."""

    type: pa.DataType
    is_json: bool = False


class HeldColumns(NamedTuple):
    """The columns of a table as a load finds them.

    `schema_number` is that of the schema that was the newest at the newest commit. `json` are the columns that were
    rewritten as JSON text, and `fixed` those that cannot be rewritten as what schemas want: not all their values would
    stay as they are. `beside` are those of the topic's own table, while one beside it that is rebuilt has none yet.
    """

    schema: pa.Schema
    schema_number: int = 0
    json: frozenset[str] = frozenset()
    fixed: frozenset[str] = frozenset()
    beside: pa.Schema | None = None

    def find(self, name: str) -> pa.Field | None:
        """Return the column of a name, for readers that ignore case."""
        return _find(self.schema, name)

    def find_beside(self, name: str) -> pa.Field | None:
        """Return the column of a name of the topic's own table; None where that does not matter."""
        return None if self.beside is None else _find(self.beside, name)


def _find(schema: pa.Schema, name: str) -> pa.Field | None:
    return next((field for field in schema if field.name.lower() == name.lower()), None)


def takes(before: pa.DataType, now: pa.DataType, *, grown: bool = False) -> bool:
    """Say whether values of one type fit into a column of another; with `grown`, once records have more fields."""
    if pa.types.is_struct(before) and pa.types.is_struct(now):
        fields = {field.name: field.type for field in before}
        return all(takes(fields[f.name], f.type, grown=grown) if f.name in fields else grown for f in now)
    if pa.types.is_list(before) and pa.types.is_list(now):
        return takes(before.value_type, now.value_type, grown=grown)
    if pa.types.is_map(before) and pa.types.is_map(now):
        return takes(before.key_type, now.key_type) and takes(before.item_type, now.item_type, grown=grown)
    return bool(before == now)


def widens(before: pa.DataType, after: pa.DataType) -> bool:
    """Say whether a column can be rewritten with another type that holds more.

    A long fits into a double only as far as 2^53, which `widened` checks.
    """
    if pa.types.is_struct(before) and pa.types.is_struct(after):
        fields = {field.name: field.type for field in after}
        return all(field.name in fields and widens(field.type, fields[field.name]) for field in before)
    if pa.types.is_list(before) and pa.types.is_list(after):
        return widens(before.value_type, after.value_type)
    if pa.types.is_map(before) and pa.types.is_map(after):
        return before.key_type == after.key_type and widens(before.item_type, after.item_type)
    if pa.types.is_decimal128(before) and pa.types.is_decimal128(after):
        return bool(before.scale == after.scale and before.precision <= after.precision)
    numbers = (pa.types.is_int64(before) or pa.types.is_float32(before)) and pa.types.is_float64(after)
    return bool(numbers or before == after)


def becomes_json(before: pa.DataType) -> bool:
    """Say whether a column can be rewritten as JSON text, as a union of its type and others is kept."""
    kinds = pa.types
    return bool(
        kinds.is_int64(before)
        or kinds.is_float32(before)
        or kinds.is_float64(before)
        or kinds.is_boolean(before)
        or kinds.is_string(before)
        or kinds.is_binary(before)
    )


def is_json(column: pa.Field) -> bool:
    """Say whether a column was rewritten as JSON text."""
    return JSON_MARK in (column.metadata or {})


def widened(values: pa.ChunkedArray, to: Widening) -> pa.ChunkedArray:
    """Return the values of a column as it becomes. Raises pa.ArrowInvalid where one of them would be another one."""
    if not to.is_json:
        return values.cast(to.type, safe=True)
    texts = [None if value is None else _text(value) for value in values.to_pylist()]
    return pa.chunked_array([pa.array(texts, pa.string())])


def widened_schema(schema: pa.Schema, wider: Mapping[str, Widening]) -> pa.Schema:
    """Return the columns of a table after some were rewritten."""
    return pa.schema([_widened_field(field, wider.get(field.name)) for field in schema])


def _widened_field(field: pa.Field, to: Widening | None) -> pa.Field:
    if to is None:
        return field
    metadata = {**(field.metadata or {}), JSON_MARK: b"true"} if to.is_json else field.metadata
    return pa.field(field.name, to.type, field.nullable, metadata)


def _text(value: Any) -> str:
    """Return a value as `as_json` of a decoded one does."""
    kept = base64.b64encode(value).decode() if isinstance(value, bytes) else value
    return json.dumps(kept, ensure_ascii=False)
