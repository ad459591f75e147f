"""Which logical types count, and what is said of the others."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kafka2011.events.logical_types import NUMBERS_AND_TEXTS, ignored_logical_types, logical_type
from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.events.schemas import event_schema
from tests.support.zk_in_memory import ZkClientInMemory


def of(kind: str, logical: Any, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical, **more}


def decimal(kind: str = "bytes", **more: Any) -> dict[str, Any]:
    return of(kind, "decimal", **more)


COUNTING = [
    *(of(kind, name) for name, kind in NUMBERS_AND_TEXTS.items()),
    decimal(precision=1),
    decimal(precision=40, scale=40),
    decimal("fixed", name="F", size=4, precision=9, scale=0),
]
IGNORED: list[tuple[dict[str, Any], str]] = [
    (of("long", "timestamp-nanos"), "timestamp-nanos is unknown, so values are of type long"),
    (of("string", "url"), "url is unknown, so values are of type string"),
    (of("fixed", "duration", name="D", size=12), "duration is unknown, so values are of type fixed"),
    (of("int", 5), "5 is unknown"),
    (of("string", "date"), "date needs type int and has string"),
    (of("int", "timestamp-millis"), "timestamp-millis needs type long and has int"),
    (of("fixed", "uuid", name="U", size=16), "uuid needs type string and has fixed"),
    (decimal(), "decimal needs a precision above 0 and has None"),
    (decimal(precision=0), "has 0"),
    (decimal(precision="9"), "has 9"),
    (decimal(precision=True), "has True"),
    (decimal(precision=2, scale=3), "decimal needs a scale of 0 to 2 and has 3"),
    (decimal(precision=2, scale=-1), "has -1"),
    (decimal("string", precision=2), "decimal needs type bytes or fixed and has string"),
    (decimal("fixed", name="F", size=4, precision=10), "a decimal of precision 10 does not fit into 4 bytes"),
    (decimal("fixed", name="F", size=0, precision=1), "does not fit into 0 bytes"),
]


@pytest.mark.parametrize("kind", COUNTING, ids=str)
def test_logical_types_that_are_known_and_valid_count(kind: dict[str, Any]) -> None:
    assert logical_type(kind) == kind["logicalType"]
    assert ignored_logical_types(event_schema("Event", {"name": "f", "type": kind}).document) == []


@pytest.mark.parametrize(("kind", "why"), IGNORED, ids=str)
def test_others_are_ignored_as_avro_says_with_the_field_and_the_reason(kind: dict[str, Any], why: str) -> None:
    assert logical_type(kind) is None
    [line] = ignored_logical_types(event_schema("Event", {"name": "f", "type": ["null", kind]}).document)
    assert line.startswith("f: the logical type is ignored: ")
    assert why in line


def test_types_without_one_have_none() -> None:
    for kind in ("long", {"type": "long"}, ["null", "long"]):
        assert logical_type(kind) is None


def test_a_topic_that_gets_such_a_schema_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """Checks and the registration say it; a program that registers it again, and loads, say it at debug level."""
    registry = SchemaRegistry(ZkClientInMemory())  # type: ignore[arg-type]
    schema = event_schema("Event", {"name": "f", "type": {"type": "array", "items": of("long", "timestamp-nanos")}})
    for act in (registry.check, registry.register):
        caplog.clear()
        act("views", schema)
        [record] = [record for record in caplog.records if record.levelno >= logging.WARNING]
        assert "Topic views: field f[]: the logical type is ignored: timestamp-nanos" in record.getMessage()
    caplog.clear()
    caplog.set_level(logging.DEBUG)
    registry.register("views", schema)
    registry.check("views", schema)
    registry.snapshot("views")
    assert {record.levelno for record in caplog.records if "timestamp-nanos" in record.getMessage()} == {logging.DEBUG}
