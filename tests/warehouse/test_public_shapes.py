"""Schemas in the shapes of public ones go the whole way: from a file to the rows of a table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from kafka2011.events.codec import EventDecoder, EventEncoder
from kafka2011.events.columns.evolution import evolution_of
from kafka2011.events.schemas import EventSchema, KnownSchemas, why_unreadable
from tests.support.public_shapes import SHAPES, schema_of
from tests.support.schema_life import TOPIC, SchemaLife
from tests.support.schema_pairs import covering

if TYPE_CHECKING:
    from pathlib import Path


def unnamed(value: Any) -> Any:
    """Return a value without the names of branches that the encoder takes."""
    if isinstance(value, tuple):
        return unnamed(value[1])
    if isinstance(value, dict):
        return {name: unnamed(inner) for name, inner in value.items()}
    return [unnamed(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("shape", SHAPES)
def test_a_schema_is_registered_and_its_events_come_back(shape: str) -> None:
    """Each branch, symbol and field occurs in an event, and is read as it was written."""
    schema = schema_of(shape)
    events = covering(schema)
    assert events
    known = KnownSchemas({TOPIC: schema})
    payloads = EventEncoder(known).encode_all(TOPIC, events)
    assert [EventDecoder(known).decode_payload(payload).fields for payload in payloads] == unnamed(events)
    assert why_unreadable(schema, schema) is None


@pytest.mark.parametrize("shape", SHAPES)
def test_its_events_become_rows_also_after_a_field_is_added(shape: str, tmp_path: Path) -> None:
    """The registry takes it and the next one at its strictest level; no event of either is refused."""
    evolution_of.cache_clear()
    life = SchemaLife(tmp_path)
    first = life.registry.register(TOPIC, schema_of(shape)).schema
    events = covering(first)
    life.send(first, *events)
    assert life.load() == []
    added = {"name": "added", "type": "string", "default": "new"}
    document = {**first.document, "fields": [*first.document["fields"], added]}
    second = life.registry.register(TOPIC, EventSchema(json.dumps(document))).schema
    life.send(second, *({**event, "added": "given"} for event in events))
    life.send(first, *events)
    assert life.load() == []
    count = len(events)
    assert [row["added"] for row in life.rows()] == [None] * count + ["given"] * count + ["new"] * count
