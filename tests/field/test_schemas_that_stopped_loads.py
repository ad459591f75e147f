"""Reports about schemas that are valid in Avro, and that stopped loads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafka2011.events.columns.evolution import evolution_of
from kafka2011.events.errors import ColumnError
from tests.support.schema_life import SchemaLife, field, thing

if TYPE_CHECKING:
    from pathlib import Path

FAILURE = {"type": "error", "name": "Failure", "fields": [field("text", "string")]}


@pytest.fixture
def life(tmp_path: Path) -> SchemaLife:
    evolution_of.cache_clear()
    return SchemaLife(tmp_path)


def test_an_error_within_a_record_is_a_struct(life: SchemaLife) -> None:
    """apache/avro, schema.avsc and simple.avdl of its own tests: Avro says that an error is a record."""
    schema = life.registry.register("things", thing(field("failure", ["null", FAILURE], default=None))).schema
    life.send(schema, {"failure": None}, {"failure": {"text": "x"}})
    assert life.load() == []
    assert life.rows() == [{"failure": None}, {"failure": {"text": "x"}}]


def test_one_schema_costs_only_its_own_events(life: SchemaLife) -> None:
    """LinkedIn/camus and apache/gobblin: one bad schema must not stop a topic, and a corrected one goes on."""
    good = thing(field("a", "int", default=0))
    twins = {"type": "record", "name": "T", "fields": [field("b", "int"), field("B", "int")]}
    bad = thing(field("a", "int", default=0), field("x", ["null", twins], default=None))
    life.register(good)
    life.send(good, {"a": 1})
    life.load()
    life.register_unchecked(bad)
    life.send(bad, {"a": 2})
    life.send(good, {"a": 3})
    [why] = life.load()
    assert "schema 2 cannot become columns: topic things: kafka2011.Thing: field x: its fields b and B are one" in why
    with pytest.raises(ColumnError):
        life.registry.register("things", thing(*bad.document["fields"][4:], field("c", "int", default=0)))
    mended = thing(field("a", "int", default=0), field("y", "int", default=0))
    life.registry.register("things", mended)
    life.send(mended, {"a": 4, "y": 5})
    assert life.load() == []
    assert [row["a"] for row in life.rows()] == [1, 3, 4]
