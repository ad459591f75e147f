"""Walks through schemas."""

from __future__ import annotations

from typing import Any

import pytest

from kafka2011.events.schema_walk import named_types, records, walk

INNER = {"type": "error", "name": "a.Inner", "fields": [{"name": "kind", "type": "a.Kind"}]}
KIND = {"type": "enum", "name": "a.Kind", "symbols": ["A"]}
HASH = {"type": "fixed", "name": "a.Hash", "size": 2}
OUTER: dict[str, Any] = {
    "type": "record",
    "name": "a.Outer",
    "fields": [
        {"name": "kind", "type": KIND, "default": {"type": "record", "name": "no", "fields": []}},
        {"name": "rows", "type": {"type": "array", "items": ["null", INNER]}},
        {"name": "hashes", "type": {"type": "map", "values": HASH}},
        {"name": "again", "type": ["null", "a.Outer"]},
    ],
    "items": "not an array's",
}


def test_every_type_is_met_outer_ones_first() -> None:
    """Those of fields, items, values and branches, in their order; no default, and no property of another type."""
    rows, hashes, again = (field["type"] for field in OUTER["fields"][1:])
    assert list(walk(OUTER)) == [
        OUTER, KIND, rows, ["null", INNER], "null", INNER, "a.Kind", hashes, HASH, again, "null", "a.Outer",
    ]  # fmt: skip


def test_records_and_names() -> None:
    """They are found at any depth; an error is a record too."""
    assert list(records(OUTER)) == [OUTER, INNER]
    assert named_types(OUTER) == {"a.Outer": OUTER, "a.Kind": KIND, "a.Inner": INNER, "a.Hash": HASH}


def test_names_are_followed_once() -> None:
    """So a walk ends although a record lies within itself."""
    assert list(walk(INNER, named_types(OUTER))) == [INNER, "a.Kind", KIND]
    assert list(walk("unknown", named_types(OUTER))) == ["unknown"]
    found = list(walk(["a.Outer"], named_types(OUTER)))
    assert found.count("a.Outer") == 2
    assert found.count(OUTER) == 1


@pytest.mark.parametrize("levels", [10, 100_000])
def test_no_nesting_is_too_deep(levels: int) -> None:
    """A walk does not end in a RecursionError."""
    schema: Any = "null"
    for _ in range(levels):
        schema = [schema]
    assert sum(1 for _ in walk(schema)) == levels + 1
    while schema != "null":
        (schema,) = schema  # freed level by level
