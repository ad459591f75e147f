"""Reports about defaults of logical types: a field that is added to a running table."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from fastavro.read import LOGICAL_READERS

from kafka2011.events.columns.default_texts import default_texts
from kafka2011.events.columns.evolution import evolution_of
from kafka2011.warehouse import open_table
from kafka2011.warehouse.table.table_checkup import TextsOfBytes, count_texts, examine_tables
from tests.support.schema_life import TOPIC, SchemaLife, field, thing

if TYPE_CHECKING:
    from pathlib import Path


def decimal(precision: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": 2}


def fee(precision: int) -> dict[str, Any]:
    return field("fee", decimal(precision), default="\u0001")


LINE = {"type": "record", "name": "Line", "fields": [fee(9)]}
ADDED: dict[str, tuple[dict[str, Any], Any]] = {
    "a decimal": (fee(9), Decimal("0.01")),
    "a decimal of more digits than columns have": (fee(40), "0.01"),
    "a decimal that may be null": (field("fee", [decimal(9), "null"], default="\u0001"), Decimal("0.01")),
    "a fixed decimal": (
        field("fee", {**decimal(9), "type": "fixed", "name": "F", "size": 4}, default="\0\0\0\u0001"),
        Decimal("0.01"),
    ),
    "an array": (field("fee", {"type": "array", "items": decimal(9)}, default=["\u0001"]), [Decimal("0.01")]),
    "a record": (field("fee", LINE, default={}), {"fee": Decimal("0.01")}),
    "a union of a record and text": (field("fee", [LINE, "string"], default={}), '{"fee": "0.01"}'),
}


FIXED = {**decimal(2), "type": "fixed", "name": "F", "size": 1}


@pytest.fixture
def life(tmp_path: Path) -> SchemaLife:
    """Give a topic without schemas, and a warehouse without tables."""
    evolution_of.cache_clear()
    return SchemaLife(tmp_path)


@pytest.mark.parametrize("what", ADDED)
def test_events_of_older_producers_get_the_default_of_a_new_decimal(what: str, life: SchemaLife) -> None:
    """Report fastavro #814: a default of bytes is returned as bytes for a decimal; such events are no rows of a table.

    The older producers go on after the schema that adds the field: each of their events must become a row.
    """
    added, value = ADDED[what]
    first = life.register(thing(field("item", "string")))
    life.send(first, {"item": "pen"})
    life.load()
    second = life.register(thing(field("item", "string"), added))
    life.send(second, {"item": "ink"})
    life.send(first, {"item": "late"})
    assert life.load() == []
    assert life.rows() == [
        {"fee": None, "item": "pen"},
        {"fee": value, "item": "ink"},
        {"fee": value, "item": "late"},
    ]


def test_what_lies_in_quarantine_for_a_decimal_becomes_rows(life: SchemaLife) -> None:
    """Report fastavro #814: redrive takes what an earlier release put into quarantine."""
    first = life.register(thing(field("item", "string")))
    life.register(thing(field("item", "string"), fee(9)))
    life.send(first, {"item": "late"})
    evolution_of.cache_clear()
    with mock.patch.dict(LOGICAL_READERS, {"bytes-decimal": lambda data, *_: data}):
        [why] = life.load()
    assert "int or Decimal object expected, got bytes" in why
    evolution_of.cache_clear()
    assert life.redrive() == 1
    assert life.rows() == [{"fee": Decimal("0.01"), "item": "late"}]


def test_a_default_of_bytes_stays_bytes_where_the_column_was_text_before(life: SchemaLife) -> None:
    """Report fastavro #814: a text field became a union, and JSON writes texts and bytes alike."""
    first = life.register(thing(field("item", "string"), field("fee", "string")))
    middle = life.register(thing(field("item", "string")))
    life.register(thing(field("item", "string"), field("fee", [FIXED, "string"], default="\u0001")))
    life.send(first, {"item": "pen", "fee": "free"})
    life.send(middle, {"item": "late"})
    assert life.load() == []
    assert life.rows() == [{"fee": '"free"', "item": "pen"}, {"fee": '"0.01"', "item": "late"}]


BYTES = str(b"\x01")
TEXTS: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "a decimal of many digits": (fee(40), BYTES, "0.01"),
    "an array of such": (field("fee", {"type": "array", "items": decimal(40)}, default=["\u0001"]), [BYTES], ["0.01"]),
    "a record of such": (
        field("fee", {"type": "record", "name": "Line", "fields": [fee(40)]}, default={}),
        {"fee": BYTES},
        {"fee": "0.01"},
    ),
    "JSON text": (field("fee", [LINE, "string"], default={}), '{"fee": "AQ=="}', '{"fee": "0.01"}'),
}


@pytest.mark.parametrize("what", TEXTS)
def test_tables_that_hold_the_text_of_bytes_are_named(what: str, life: SchemaLife) -> None:
    """Report fastavro #814: a column of text took the bytes of a default; such a table needs to be rebuilt."""
    added, wrong, right = TEXTS[what]
    first = life.register(thing(field("item", "string")))
    second = life.register(thing(field("item", "string"), added))
    life.send(first, {"item": "b'\\x02' AQ=="}, {"item": "late"})
    with mock.patch.dict(LOGICAL_READERS, {"bytes-decimal": lambda data, *_: data}):
        assert life.load() == []
    schemas = {TOPIC: [first, second], "others": [second]}
    found = list(examine_tables(str(life.warehouse), schemas))
    assert [row["fee"] for row in life.rows()] == [wrong, wrong]
    assert found == [TextsOfBytes(TOPIC, life.table.path, "fee", 2)]
    evolution_of.cache_clear()
    again = life.rebuilt()
    assert [row["fee"] for row in again.rows()] == [right, right]
    assert count_texts(open_table(life.warehouse, f"{TOPIC}-again"), default_texts(schemas[TOPIC])) == {}
