"""Copying schemas to the target, over znodes in memory."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.events.schemas import EventSchema, event_schema
from kafka2011.events.types import PAGE_VIEW
from kafka2011.mirror import schema_copy
from kafka2011.mirror.schema_copy import SchemaCopy
from tests.support.zk_in_memory import ZkClientInMemory
from zk.schemas import SchemaNodes

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


@pytest.mark.parametrize("data", [b"{not a schema", b"\xff"])
def test_a_znode_that_is_no_schema_does_not_stop_its_topic(
    data: bytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is forwarded, and the log says what is not copied; other topics have their schemas copied."""
    clients: dict[str, Any] = {"source": ZkClientInMemory(), "target": ZkClientInMemory()}

    def connect(zk_connect: str) -> AbstractContextManager[Any]:
        return nullcontext(clients[zk_connect])

    monkeypatch.setattr(schema_copy, "connect", connect)
    for topic in ("bad", "views"):
        SchemaRegistry(clients["source"]).register(topic, PAGE_VIEW)
    clients["source"].tree["/schemas/topics/bad/1"].data = data
    stop = threading.Event()
    ended = threading.Timer(10, stop.set)  # or a copy that goes on trying would wait for ever
    ended.start()
    with SchemaCopy("target", stop) as copy:
        for topic in ("bad", "views"):
            copy.on_topic("source", topic)
        assert not stop.is_set()
    ended.cancel()
    assert SchemaRegistry(clients["target"]).newest("views") == PAGE_VIEW
    assert "schemas of bad at source are not copied" in caplog.text


TWINS = {"type": "record", "name": "T", "fields": [{"name": "a", "type": "int"}, {"name": "A", "type": "int"}]}


def view(*fields: dict[str, Any]) -> EventSchema:
    return event_schema("View", {"name": "url", "type": "string"}, *fields)


def test_a_schema_that_the_target_refuses_is_left_out_and_later_ones_are_copied(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One that tables have no columns for, a znode that is none, and one that is retired at the target."""
    clients: dict[str, Any] = {"source": ZkClientInMemory(), "target": ZkClientInMemory()}
    monkeypatch.setattr(schema_copy, "connect", lambda zk_connect: nullcontext(clients[zk_connect]))
    schemas = [view({"name": name, "type": "int", "default": 0}) for name in "abcd"]
    schemas[1] = view({"name": "b", "type": ["null", TWINS], "default": None})
    nodes = SchemaNodes(clients["source"])
    for number, schema in enumerate(schemas, 1):
        nodes.keep(schema.fingerprint, schema.text)
        nodes.add("views", number, schema.text)
    nodes.add("views", 5, "{not a schema")
    nodes.add("views", 6, view().text)
    target = SchemaRegistry(clients["target"])
    target.register("views", schemas[2])
    target.retire("views", 1)
    stop = threading.Event()
    with SchemaCopy("target", stop) as copy:
        for _ in range(2):
            copy.on_topic("source", "views")
    assert [schema for _, schema in target.schemas("views")] == [schemas[2], schemas[0], schemas[3], view()]
    refusals = [record.getMessage() for record in caplog.records if "is not copied" in record.getMessage()]
    assert [refusal.partition(":")[0] for refusal in refusals] == [
        "schema 2 of views at source is not copied",
        "schema 3 of views at source is not copied",
    ]
    assert "fields a and A are one" in refusals[0]
    assert "schema 5 of topic views cannot be used" in caplog.text
