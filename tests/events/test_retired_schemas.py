"""Retired schemas in the registry: they are left out, keep their numbers, and come back."""

from __future__ import annotations

from typing import Any

import pytest

from kafka2011.events.codec import EventDecoder, EventEncoder
from kafka2011.events.errors import IncompatibleSchemaError, RetiredSchemaError, UnknownSchemaError
from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.events.schemas import EventSchema, KnownSchemas, event_schema
from kafka2011.message.topic import InvalidTopicError
from tests.support.zk_in_memory import ZkClientInMemory
from zk.errors import MalformedNode
from zk.nodes import Nodes


def view(*fields: dict[str, Any], url: str = "string") -> EventSchema:
    return event_schema("View", {"name": "url", "type": url}, *fields)


V1 = view()
V2 = view({"name": "status", "type": ["null", "int"], "default": None})
V3 = view({"name": "status", "type": ["null", "string"], "default": None})
V4 = view({"name": "member", "type": "long", "default": -1})


@pytest.fixture
def client() -> Any:
    client: Any = ZkClientInMemory()
    registry = SchemaRegistry(client)
    for schema in (V1, V2):
        registry.register("views", schema)
    return client


def test_the_newest_schema_in_use_is_the_newest(client: Any) -> None:
    """The mark is read at each lookup, by registries that have asked before too."""
    reading, changing = SchemaRegistry(client), SchemaRegistry(client)
    assert reading.newest("views") == V2
    assert changing.retire("views", 2)
    assert not changing.retire("views", 2)
    assert reading.newest("views") == V1
    assert reading.retired("views") == {2}
    assert reading.schemas("views") == [(1, V1), (2, V2)]
    assert changing.restore("views", 2)
    assert not changing.restore("views", 2)
    assert reading.newest("views") == V2


def test_a_new_schema_need_not_be_compatible_with_a_retired_one(client: Any) -> None:
    registry = SchemaRegistry(client)
    with pytest.raises(IncompatibleSchemaError):
        registry.register("views", V3)
    registry.retire("views", 2)
    assert registry.register("views", V3).number == 3


def test_numbers_are_never_used_again(client: Any) -> None:
    """Also where the newest schemas are all retired, and registering ends."""
    registry = SchemaRegistry(client)
    registry.retire("views", 2)
    registry.retire("views", 1)
    assert registry.register("views", V4).number == 3
    registry.retire("views", 3)
    assert registry.register("views", V3).number == 4


def test_a_retired_schema_is_not_registered_again(client: Any) -> None:
    registry = SchemaRegistry(client)
    registry.retire("views", 2)
    for force in (False, True):
        with pytest.raises(RetiredSchemaError, match=r"schema 2, which is retired.* schemas retire views 2 --undo"):
            registry.register("views", V2, force=force)
    with pytest.raises(RetiredSchemaError):
        registry.check("views", V2)
    registry.restore("views", 2)
    assert registry.register("views", V2).number == 2


def test_consumers_decode_events_of_a_retired_schema(client: Any) -> None:
    SchemaRegistry(client).retire("views", 2)
    event = {"time": 1, "published_at": 2, "server": "w", "id": "0", "url": "/", "status": 200}
    payload = EventEncoder(KnownSchemas({"views": V2})).encode("views", event)
    assert EventDecoder(SchemaRegistry(client)).decode_payload(payload).fields == event


def test_a_topic_whose_schemas_are_all_retired_says_so(client: Any) -> None:
    registry = SchemaRegistry(client)
    for number in (1, 2):
        registry.retire("views", number)
    with pytest.raises(UnknownSchemaError, match="topic views has retired schemas only"):
        registry.newest("views")


def test_only_schemas_that_exist_are_retired(client: Any) -> None:
    registry = SchemaRegistry(client)
    for change in (registry.retire, registry.restore):
        with pytest.raises(UnknownSchemaError, match="no schema 3: its schemas have the numbers 1 to 2"):
            change("views", 3)
        with pytest.raises(UnknownSchemaError, match="topic clicks has no schema 1: it has no schemas"):
            change("clicks", 1)
        with pytest.raises(InvalidTopicError):
            change("a/b", 1)


def test_a_mark_that_is_no_number_is_an_error(client: Any) -> None:
    Nodes(client).create_with_parents("/schemas/retired/views/two", None)
    with pytest.raises(MalformedNode, match="/schemas/retired/views/two"):
        SchemaRegistry(client).newest("views")


def test_an_earlier_release_ignores_the_mark(client: Any) -> None:
    """Its list of schemas holds nothing but numbers and texts, as before."""
    before = {path: node.data for path, node in client.tree.items() if path.startswith("/schemas/topics")}
    SchemaRegistry(client).retire("views", 2)
    assert {path: node.data for path, node in client.tree.items() if path.startswith("/schemas/topics")} == before
