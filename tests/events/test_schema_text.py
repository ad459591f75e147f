"""What a new schema's text may not say."""

from __future__ import annotations

import json

import pytest

from kafka2011.events.codec import EventDecoder, EventEncoder
from kafka2011.events.errors import InvalidSchemaError
from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.events.schema_text import check_text
from kafka2011.events.schemas import EventSchema, KnownSchemas
from tests.support.schema_texts import REFUSED, TAKEN, with_field
from tests.support.zk_in_memory import ZkClientInMemory
from zk.schemas import SchemaNodes


@pytest.mark.parametrize("case", REFUSED)
def test_a_text_that_other_libraries_do_not_take_is_refused_with_its_place(case: str) -> None:
    field, why = REFUSED[case]
    schema = EventSchema(json.dumps(with_field(field)))
    with pytest.raises(InvalidSchemaError, match=f"record shop.Order: .*{why}"):
        check_text(schema)


@pytest.mark.parametrize("case", TAKEN)
def test_a_text_that_is_right_is_taken(case: str) -> None:
    check_text(EventSchema(json.dumps(with_field(TAKEN[case][0]))))


def test_a_field_of_the_record_itself_is_named_without_a_path() -> None:
    """The same holds of the schema's own aliases."""
    schema = EventSchema(json.dumps({**with_field({"name": "f", "type": "int"}), "aliases": ["a b"]}))
    with pytest.raises(InvalidSchemaError, match='the alias "a b" of the type at the top is no name'):
        check_text(schema)


@pytest.mark.parametrize("case", ["a hyphen in a name", "an int beyond 32 bits", "not a number"])
def test_a_schema_that_is_registered_already_stays_readable_and_keeps_its_number(case: str) -> None:
    """Its events are decoded, and a program may register it again; as a new schema it is refused, also by force."""
    client = ZkClientInMemory()
    field, _ = REFUSED[case]
    schema = EventSchema(json.dumps(with_field({**field, "default": field.get("default", 1)})))
    registry = SchemaRegistry(client)  # type: ignore[arg-type]
    for force in (False, True):
        with pytest.raises(InvalidSchemaError, match=r"record shop.Order: "):
            registry.register("orders", schema, force=force)
    with pytest.raises(InvalidSchemaError, match=r"record shop.Order: "):
        registry.check("orders", schema)
    nodes = SchemaNodes(client)  # type: ignore[arg-type]
    nodes.keep(schema.fingerprint, schema.text)
    nodes.add("orders", 1, schema.text)
    assert registry.check("orders", schema) == registry.register("orders", schema) == (1, schema)
    event = {"time": 1, "published_at": 2, "server": "web-1", "id": "0", field["name"]: 7}
    payload = EventEncoder(KnownSchemas({"orders": schema})).encode("orders", event)
    assert EventDecoder(registry).decode_payload(payload).fields == event
