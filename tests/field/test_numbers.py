"""Reports about numbers that are printed as what strict readers of JSON do not take."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import polars
import pytest

from kafka2011.cli.decoding import Decoding
from kafka2011.events.codec import EventDecoder, EventEncoder
from kafka2011.events.columns.evolution import evolution_of
from kafka2011.events.errors import InvalidSchemaError
from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.events.schemas import KnownSchemas, event_schema
from kafka2011.message.message_set import Message
from tests.support.schema_life import SchemaLife, field, thing
from tests.support.zk_in_memory import ZkClientInMemory

if TYPE_CHECKING:
    from pathlib import Path

OWN = {"time": 1, "published_at": 2, "server": "web-1", "id": "0"}
NUMBERS = {math.nan: '"NaN"', math.inf: '"Infinity"', -math.inf: '"-Infinity"'}


def refused(constant: str) -> None:
    raise ValueError(constant)


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize("number", NUMBERS)
def test_decoded_events_are_printed_as_strict_json(number: float, as_json: bool) -> None:
    """Report simdjson, on NaN in lines of JSON: a bare NaN ends readers such as jq and simdjson at that line."""
    schema = event_schema(
        "Reading", {"name": "d", "type": "double"}, {"name": "u", "type": ["null", "float", "string"]}
    )
    known = KnownSchemas({"readings": schema})
    payload = EventEncoder(known).encode("readings", {**OWN, "d": number, "u": number})
    message = Message("readings", 0, 0, 0, 1, 0, payload)
    decoding = Decoding(EventDecoder(known))
    printed = (decoding.as_json(b"\n") if as_json else decoding.within(lambda each: bytes(each.payload)))(message)
    document = json.loads(printed[printed.index(b"{") :], parse_constant=refused)
    event = document["event"] if as_json else document
    assert json.dumps(event["d"]) == json.dumps(event["u"]) == NUMBERS[number]


@pytest.mark.parametrize("is_widened", [True, False])
def test_columns_of_json_text_are_strict_json(is_widened: bool, tmp_path: Path) -> None:
    """Report fluent-bit, on NaN in JSON: a column that was JSON from the start, and one that became it later."""
    evolution_of.cache_clear()
    life = SchemaLife(tmp_path)
    union = ["double", "string"]
    schema = life.register(thing(field("x", "double" if is_widened else union)))
    life.send(schema, *({"x": number} for number in NUMBERS))
    life.load()
    if is_widened:
        life.send(life.register(thing(field("x", union))), {"x": "text"})
        life.load()
    texts = [row["x"] for row in life.rows()]
    assert texts[:3] == list(NUMBERS.values())
    polars.Series(texts).str.json_decode(polars.String)


def test_a_schema_with_such_a_number_is_refused_with_its_place() -> None:
    """Report jq, on NaN in documents: Java's library does not parse such a schema."""
    registry = SchemaRegistry(ZkClientInMemory())  # type: ignore[arg-type]
    schema = event_schema("Reading", {"name": "d", "type": "double", "default": math.nan})
    with pytest.raises(InvalidSchemaError, match=r"fields\[4\].default is NaN, which is no number in JSON"):
        registry.register("readings", schema)
