"""Columns that become wider: how their values follow, each exactly."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kafka2011.json_document import json_text
from kafka2011.warehouse.rows.columns import arrow_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka2011.events.columns.held_columns import Widening

JSON_MARK = b"kafka2011.json"
"""In the metadata of a column of text that was rewritten as JSON."""


def is_json(column: pa.Field) -> bool:
    """Say whether a column was rewritten as JSON text."""
    return JSON_MARK in (column.metadata or {})


def widened(values: pa.ChunkedArray, to: Widening) -> pa.ChunkedArray:
    """Return the values of a column as it becomes. Raises pa.ArrowInvalid where one of them would be another one."""
    if not to.is_json:
        return values.cast(arrow_of(to.type), safe=True)
    texts = [None if value is None else _text(value) for value in values.to_pylist()]
    return pa.chunked_array([pa.array(texts, pa.string())])


def widened_schema(schema: pa.Schema, wider: Mapping[str, Widening]) -> pa.Schema:
    """Return the columns of a table after some were rewritten."""
    return pa.schema([_widened_field(field, wider.get(field.name)) for field in schema])


def _widened_field(field: pa.Field, to: Widening | None) -> pa.Field:
    if to is None:
        return field
    metadata = {**(field.metadata or {}), JSON_MARK: b"true"} if to.is_json else field.metadata
    return pa.field(field.name, arrow_of(to.type), field.nullable, metadata)


def _text(value: Any) -> str:
    """Return a value as `as_json` of a decoded one does."""
    kept = base64.b64encode(value).decode() if isinstance(value, bytes) else value
    return json_text(kept)
