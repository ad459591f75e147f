"""What 0.2.0 wrote into columns in place of the decimals that defaults stand for.

It took a decimal's default for bytes. Columns with decimals refused them, and their events went to quarantine. Columns
of text took them: those of decimals with more digits than columns have, and those of JSON text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kafka2011.events.columns.column_types import as_json
from kafka2011.events.columns.kinds import MAX_DECIMAL_DIGITS
from kafka2011.events.logical_types import logical_type
from kafka2011.events.schema_walk import RECORDS, named_types, records
from kafka2011.json_document import json_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafka2011.events.schemas import EventSchema


class DefaultTexts(NamedTuple):
    """Texts that stand for a decimal's default: whole values, and parts of JSON."""

    whole: frozenset[str]
    parts: frozenset[str]


def default_texts(schemas: Iterable[EventSchema]) -> DefaultTexts:
    """Return the texts that columns of a topic with these schemas may have in place of decimals."""
    whole: set[str] = set()
    parts: set[str] = set()
    for schema in schemas:
        named = named_types(schema.writer)
        for record in records(schema.writer):
            for field in record["fields"]:
                decimals = [*_decimals(field["type"], field["default"], named)] if "default" in field else []
                whole.update(str(data) for part, data in decimals if part["precision"] > MAX_DECIMAL_DIGITS)
                if decimals:
                    text = as_json(field["default"])
                    whole.add(text)
                    parts.add(f"{json_text(field['name'])}: {text}")
    return DefaultTexts(frozenset(whole), frozenset(parts))


def _decimals(part: Any, value: Any, named: Mapping[str, Any]) -> Iterator[tuple[Any, bytes]]:
    """Yield the decimals within a default of a parsed schema, as bytes, each after its type."""
    part = named.get(part, part) if isinstance(part, str) else part
    if isinstance(part, list):
        for branch in part:
            yield from _decimals(branch, value, named)
    elif isinstance(value, bytes) and logical_type(part) == "decimal":
        yield part, value
    elif isinstance(value, list) and _kind(part) == "array":
        for item in value:
            yield from _decimals(part["items"], item, named)
    elif isinstance(value, dict) and _kind(part) == "map":
        for item in value.values():
            yield from _decimals(part["values"], item, named)
    elif isinstance(value, dict) and _kind(part) in RECORDS:
        for field in part["fields"]:
            yield from _decimals(field["type"], value.get(field["name"]), named)


def _kind(part: Any) -> str:
    return str(part["type"]) if isinstance(part, dict) else str(part)
