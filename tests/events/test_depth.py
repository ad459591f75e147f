"""How deep events and schemas may nest."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka2011.events.codec import HEADER_BYTES, EventDecoder, EventEncoder
from kafka2011.events.depth import MAX_DEPTH, depth_check, is_deeper
from kafka2011.events.errors import InvalidSchemaError, UndecodableEventError, UnencodableEventError
from kafka2011.events.schemas import HEADER, EventSchema, KnownSchemas, event_schema
from kafka2011.events.types import EVENT_TYPES
from tests.support.hostile_payloads import NODE, SHALLOW, TREE, deep

HEADER_VALUES: dict[str, Any] = {"time": 1, "published_at": 2, "server": "w", "id": "0"}

VALUE = event_schema(
    "Value",
    {
        "name": "it",
        "type": {
            "type": "record",
            "name": "Any",
            "fields": [
                {
                    "name": "is",
                    "type": [
                        "null", "boolean", "long", "double", "string", "Any",
                        {"type": "fixed", "name": "Two", "size": 2},
                        {"type": "enum", "name": "Letter", "symbols": ["A", "B"]},
                        {"type": "array", "items": "Any"},
                        {"type": "map", "values": "Any"},
                    ],
                },
                {"name": "raw", "type": "bytes"},
            ],
        },
    },
)  # fmt: skip
"""One that holds whatever JSON does, within itself."""

anys = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)


def wrapped(value: Any) -> Any:
    if isinstance(value, list):
        return {"is": [wrapped(each) for each in value], "raw": b"list"}
    if isinstance(value, dict):
        return {"is": {key: wrapped(each) for key, each in value.items()}, "raw": b""}
    return {"is": value, "raw": b"\xff"}


def nodes(count: int) -> Any:
    found: Any = None
    for _ in range(count):
        found = {"next": found}
    return found


def nested(levels: int, around: Any) -> Any:
    """Return a type with so many arrays around it."""
    for _ in range(levels):
        around = {"type": "array", "items": around}
    return around


def chain(records: int, fields: int = 1) -> list[dict[str, Any]]:
    """Return fields of which each one's record holds the one before, by its name, in each of its own fields."""
    found: list[dict[str, Any]] = [{"name": "f0", "type": {"type": "record", "name": "R0", "fields": []}}]
    for number in range(1, records):
        own = [{"name": f"g{each}", "type": f"R{number - 1}"} for each in range(fields)]
        found.append({"name": f"f{number}", "type": {"type": "record", "name": f"R{number}", "fields": own}})
    return found


@given(value=anys)
def test_the_check_walks_through_what_decoders_read(value: Any) -> None:
    """Up to the end, through all kinds of types; what is cut short or too long for them is none."""
    known = KnownSchemas({"t": VALUE})
    payload = EventEncoder(known).encode("t", {**HEADER_VALUES, "it": wrapped(value)})
    check = depth_check(VALUE.reader)
    assert check is not None
    check.check_bytes(payload, HEADER_BYTES)
    assert EventDecoder(known).decode_payload(payload)
    with pytest.raises(UndecodableEventError):
        EventDecoder(known).decode_payload(payload[:-1])


def test_blocks_may_have_their_size_before_them() -> None:
    """Then their count is negative; and there may be several."""
    schema = event_schema("Tree", {"name": "n", "type": ["null", {"type": "array", "items": NODE}]})
    known = KnownSchemas({"t": schema})
    payload = EventEncoder(known).encode("t", {**HEADER_VALUES, "n": None})
    found = EventDecoder(known).decode_payload(payload[:-1] + b"\x02" + b"\x01\x04\x02\x00" + b"\x02\x00" + b"\x00")
    assert found.fields["n"] == [nodes(2), nodes(1)]


def test_the_deepest_that_is_taken() -> None:
    """The event is the first level, its root the second; encoding takes what decoding takes."""
    known = KnownSchemas({"t": TREE})
    deepest = {**HEADER_VALUES, "root": nodes(MAX_DEPTH - 1)}
    assert EventDecoder(known).decode_payload(EventEncoder(known).encode("t", deepest)).fields == deepest
    with pytest.raises(UndecodableEventError, match="nests more than 100 levels"):
        EventDecoder(known).decode_payload(deep(MAX_DEPTH))
    for count in (MAX_DEPTH, 100_000):
        event = {**HEADER_VALUES, "root": nodes(count)}
        with pytest.raises(UnencodableEventError, match="nests more than 100 levels"):
            EventEncoder(known).encode("t", event)
        while event:
            event = event.pop("root", None) or event.pop("next", None)  # freed level by level


def test_defaults_are_levels_too() -> None:
    """An event is not encoded that nobody would decode."""
    node = {**NODE, "fields": [*NODE["fields"], {"name": "more", "type": ["null", "Node"]}]}
    default = nodes(MAX_DEPTH - 60)
    at = default
    while at is not None:
        at["more"], at = None, at["next"]
    leaf = {"type": "record", "name": "Leaf", "fields": [{"name": "d", "type": node, "default": default}]}
    deeper = [{"name": "up", "type": ["null", "Branch"]}, {"name": "leaf", "type": leaf}]
    branch = {"type": "record", "name": "Branch", "fields": deeper}
    known = KnownSchemas({"t": event_schema("Tree", {"name": "root", "type": branch})})
    root: dict[str, Any] = {"up": None, "leaf": {}}
    for _ in range(70):
        root = {"up": root, "leaf": {}}
    with pytest.raises(UnencodableEventError, match="nests more than 100 levels"):
        EventEncoder(known).encode("t", {**HEADER_VALUES, "root": root})


def test_a_record_that_always_holds_itself_has_no_events() -> None:
    """Reading one would never end."""
    endless = {"type": "record", "name": "Endless", "fields": [{"name": "again", "type": "Endless"}]}
    schema = event_schema("Tree", {"name": "root", "type": endless})
    payload = SHALLOW[:2] + bytes.fromhex(schema.fingerprint) + SHALLOW[HEADER_BYTES:]
    with pytest.raises(UndecodableEventError, match="nests more than 100 levels"):
        EventDecoder(KnownSchemas({"t": schema})).decode_payload(payload)


def test_only_schemas_that_contain_themselves_need_a_check() -> None:
    """The events of all others nest no deeper than their schema."""
    assert [depth_check(schema.reader) for schema in EVENT_TYPES.values()] == [None] * len(EVENT_TYPES)
    assert depth_check(event_schema("View", *chain(10, 2)).reader) is None


@pytest.mark.parametrize(
    "fields",
    [
        [{"name": "it", "type": nested(MAX_DEPTH - 1, "int")}],
        chain(MAX_DEPTH - 1),
        [{"name": "it", "type": "int"}, *chain(10, 2)],
    ],
)
def test_schemas_that_are_taken(fields: list[dict[str, Any]]) -> None:
    """The event's record is the first level."""
    assert EventSchema.of({"type": "record", "name": "View", "fields": [*HEADER, *fields]}).reader


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ([{"name": "it", "type": nested(MAX_DEPTH, "int")}], "types nest 101 levels deep"),
        (chain(MAX_DEPTH), "types nest 101 levels deep"),
        (chain(1000), "types nest 1001 levels deep"),
        (chain(30, 3), "types when each name is written out"),
        ([{"name": "it", "type": nested(400, "int")}], "JSON nests more than 400 levels"),
        ([{"name": "it", "type": NODE, "default": nodes(MAX_DEPTH + 1)}], "the default of field it nests more"),
    ],
)
def test_schemas_that_are_refused(fields: list[dict[str, Any]], reason: str) -> None:
    """Where types stand within each other, and where they only name each other; and soon."""
    began_s = time.process_time()
    with pytest.raises(InvalidSchemaError, match=reason):
        EventSchema.of({"type": "record", "name": "View", "fields": [*HEADER, *fields]})
    assert time.process_time() - began_s < 10


def test_a_text_that_nests_deeper_than_any_parser_goes_is_refused() -> None:
    """As a schema, not by the end of the process."""
    text = json.dumps({"type": "record", "name": "View", "fields": HEADER})
    with pytest.raises(InvalidSchemaError):
        EventSchema(text[:-1] + ', "doc": ' + 100_000 * "[" + 100_000 * "]" + "}")


def test_the_depth_of_a_value() -> None:
    """Lists, tuples and dicts are a level each, empty ones too."""
    values: list[Any] = [1, "text", [], {}, [1], {"a": 1}, [[]], {"a": {}}, ({},)]
    assert [is_deeper(each, 1) for each in values] == [
        False, False, False, False, False, False, True, True, True,
    ]  # fmt: skip
