"""Schemas that change: what is read with another schema is what Avro promises.

Types change in the ways in which people change them, and in ways that break. Whatever `avro.compatibility` calls
compatible must be read by fastavro, with the value that the specification gives, which `resolved` spells out.
"""

from __future__ import annotations

import itertools
import math
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from kafka2011.events.codec import EventDecoder, EventEncoder
from kafka2011.events.compatibility import check_compatible
from kafka2011.events.errors import IncompatibleSchemaError, InvalidSchemaError, UndecodableEventError
from kafka2011.events.schemas import HEADER, EventSchema, KnownSchemas, event_schema, why_unreadable

HEADER_VALUES: dict[str, Any] = {"time": 1, "published_at": 2, "server": "web-1", "id": "0"}
WIDER = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
PRIMITIVES = ("boolean", "int", "long", "float", "double", "string", "bytes")
SYMBOLS = ("A", "B", "C", "D")


class Drawn:
    """Draws schemas, changes of them, and values."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self._numbers = itertools.count()

    def one(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def new_name(self) -> str:
        return f"n{next(self._numbers)}"

    # A schema

    def type(self, depth: int = 0) -> Any:  # noqa: PLR0911  # one for each kind of type
        kind = self.one(*PRIMITIVES, *(() if depth > 1 else ("array", "map", "record", "union", "enum", "fixed")))
        if kind in PRIMITIVES:
            return kind
        if kind == "array":
            return {"type": "array", "items": self.type(depth + 1)}
        if kind == "map":
            return {"type": "map", "values": self.type(depth + 1)}
        if kind == "union":
            return ["null", self.one("int", "string", "double", {"type": "array", "items": "long"})]
        if kind == "enum":
            return {"type": "enum", "name": self.new_name(), "symbols": list(SYMBOLS[: self.one(1, 2, 3)])}
        if kind == "fixed":
            return {"type": "fixed", "name": self.new_name(), "size": self.one(0, 2)}
        return {"type": "record", "name": self.new_name(), "fields": self.fields(depth + 1, self.one(0, 1, 2))}

    def fields(self, depth: int, count: int) -> list[dict[str, Any]]:
        return [self.field(depth) for _ in range(count)]

    def field(self, depth: int) -> dict[str, Any]:
        schema = self.type(depth)
        field = {"name": self.new_name(), "type": schema}
        if self.one(True, True, False):
            field["default"] = self.default(schema)
        return field

    def default(self, schema: Any) -> Any:  # noqa: PLR0911  # one for each kind of type
        """Return a default as JSON has it."""
        if isinstance(schema, list):
            return None if schema[0] == "null" else self.default(schema[0])
        kind = schema["type"] if isinstance(schema, dict) else schema
        made: dict[str, Any] = {
            "boolean": True,
            "int": 7,
            "long": 2**40,
            "float": 0.5,
            "double": self.one(1, 0.25),
            "string": "text",
            "bytes": "\u00ff\u0001",
            "null": None,
        }
        if kind in made:
            return made[kind]
        if kind == "array":
            return [self.default(schema["items"])] * self.one(0, 1)
        if kind == "map":
            return {"key": self.default(schema["values"])} if self.one(True, False) else {}
        if kind == "enum":
            return schema["symbols"][0]
        if kind == "fixed":
            return "\u00fe" * schema["size"]
        return {
            field["name"]: self.default(field["type"])
            for field in schema["fields"]
            if "default" not in field or self.one(True, False)
        }

    # A change of it

    def changed(self, schema: Any) -> Any:  # noqa: PLR0911  # one for each kind of type
        if isinstance(schema, list):
            return self.one(schema, schema, schema[1], [*schema, "boolean"], [schema[1], "null"])
        if isinstance(schema, str):
            wider = [[each, "null"] for each in (schema, *WIDER.get(schema, ()))] if schema != "null" else []
            return self.one(schema, schema, schema, *WIDER.get(schema, ()), ["null", schema], *wider, "int")
        if schema["type"] == "array":
            return {**schema, "items": self.changed(schema["items"])}
        if schema["type"] == "map":
            return {**schema, "values": self.changed(schema["values"])}
        if schema["type"] == "enum":
            symbols = list(SYMBOLS[: self.one(1, 2, 3, 4)])
            return {**schema, "symbols": symbols, **self.one({}, {"default": symbols[0]})}
        if schema["type"] == "fixed":
            return {**schema, "size": self.one(schema["size"], schema["size"], 3)}
        return {**schema, "fields": self.changed_fields(schema["fields"])}

    def changed_fields(self, fields: list[dict[str, Any]]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for field in fields:
            what = self.one("same", "same", "same", "type", "type", "gone", "renamed", "default", "shadowed")
            new = dict(field)
            if what in {"type", "default"}:
                new["type"] = self.changed(field["type"])
                new.pop("default", None)
                if what == "default":
                    new["default"] = self.default(new["type"])
            elif what == "renamed":
                new |= {"name": self.new_name(), "aliases": [field["name"]]}
            elif what == "shadowed" and found:
                new["aliases"] = [self.one(*(each["name"] for each in fields))]
            if what != "gone":
                found.append(new)
        taken = {field["name"] for field in found}
        for field in found:  # an alias that another field has is refused
            if not taken.isdisjoint(field.get("aliases", ())):
                del field["aliases"]
            taken.update(field.get("aliases", ()))
        if self.one(True, False):
            found.insert(self.one(*range(len(found) + 1)), self.field(1))
        return self.draw(st.permutations(found)) if self.one(True, False, False) else found

    # A value

    def value(self, schema: Any) -> Any:  # noqa: PLR0911  # one for each kind of type
        if isinstance(schema, list):
            return self.value(self.one(*schema))
        kind = schema["type"] if isinstance(schema, dict) else schema
        if kind == "array":
            return [self.value(schema["items"]) for _ in range(self.one(0, 1, 2))]
        if kind == "map":
            return {self.one("a", "b"): self.value(schema["values"]) for _ in range(self.one(0, 1))}
        if kind == "enum":
            return self.one(*schema["symbols"])
        if kind == "fixed":
            return self.draw(st.binary(min_size=schema["size"], max_size=schema["size"]))
        if kind == "record":
            return {field["name"]: self.value(field["type"]) for field in schema["fields"]}
        strategies: dict[str, st.SearchStrategy[Any]] = {
            "null": st.none(),
            "boolean": st.booleans(),
            "int": st.integers(-(2**31), 2**31 - 1),
            "long": st.integers(-(2**63), 2**63 - 1),
            "float": st.floats(width=32, allow_nan=False),
            "double": st.floats(allow_nan=False),
            "string": st.text(max_size=5),
            "bytes": st.text(max_size=5).map(str.encode),  # so that it may become a string
        }
        return self.draw(strategies[kind])


@st.composite
def evolutions(draw: st.DrawFn) -> tuple[EventSchema, EventSchema, dict[str, Any]]:
    """Return a schema, another one that it became, and an event of the first."""
    drawn = Drawn(draw)
    before = drawn.fields(0, drawn.one(1, 2, 3))
    try:
        writer = event_schema("Event", *before)
        reader = event_schema("Event", *drawn.changed_fields(before))
    except InvalidSchemaError as error:
        if "take no bytes" not in str(error):
            raise
        reject()
    return writer, reader, {**HEADER_VALUES, **{field["name"]: drawn.value(field["type"]) for field in before}}


# What the specification says, from a value as it was written --------------------------------------------------------


class Unreadable(Exception):  # noqa: N818
    """The schemas do not go together, or not for this value."""


def resolved(value: Any, writer: Any, reader: Any) -> Any:  # noqa: C901, PLR0911  # one for each rule
    """Return the value as a reader gets it: "Schema Resolution" in the specification, rule by rule."""
    if isinstance(writer, list):
        return resolved(value, next(each for each in writer if is_of(value, each)), reader)
    if isinstance(reader, list):
        for branch in reader:
            with suppress(Unreadable):
                return resolved(value, writer, branch)
        raise Unreadable
    written, wanted = (each["type"] if isinstance(each, dict) else each for each in (writer, reader))
    if written != wanted:
        return promoted(value, written, wanted)
    if written == "array":
        return [resolved(each, writer["items"], reader["items"]) for each in value]
    if written == "map":
        return {key: resolved(each, writer["values"], reader["values"]) for key, each in value.items()}
    if written == "record":
        return {field["name"]: field_value(value, writer, field) for field in reader["fields"]}
    if written == "enum" and value not in reader["symbols"]:
        if "default" not in reader:
            raise Unreadable
        return reader["default"]
    if written == "fixed" and writer["size"] != reader["size"]:
        raise Unreadable
    return value


def field_value(value: dict[str, Any], writer: Any, field: dict[str, Any]) -> Any:
    written = {each["name"]: each["type"] for each in writer["fields"]}
    for name in (field["name"], *field.get("aliases", ())):
        if name in written:
            return resolved(value[name], written[name], field["type"])
    if "default" not in field:
        raise Unreadable
    return default_value(field["type"], field["default"])


def promoted(value: Any, written: str, wanted: str) -> Any:
    if wanted not in WIDER.get(written, ()):
        raise Unreadable
    if wanted in {"float", "double"}:
        return float(value)
    return value.encode() if wanted == "bytes" else value.decode() if wanted == "string" else value


def is_of(value: Any, schema: Any) -> bool:
    kind = schema["type"] if isinstance(schema, dict) else schema
    return isinstance(value, {"null": type(None), "int": int, "string": str, "double": float, "array": list}[kind])


def default_value(schema: Any, default: Any) -> Any:
    """Return what a default in JSON means."""
    if isinstance(schema, list):
        schema = schema[0]
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind in {"bytes", "fixed"}:
        return default.encode("latin-1")
    if kind in {"float", "double"}:
        return float(default)
    if kind == "array":
        return [default_value(schema["items"], each) for each in default]
    if kind == "map":
        return {key: default_value(schema["values"], each) for key, each in default.items()}
    if kind == "record":
        return {
            field["name"]: default_value(field["type"], default.get(field["name"], field.get("default")))
            for field in schema["fields"]
        }
    return default


def alike(found: Any, wanted: Any) -> bool:
    """Whether two values and their types are the same, all through; floats but for what 32 bits cannot hold."""
    if type(found) is not type(wanted):
        return False
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(alike(found[name], wanted[name]) for name in wanted)
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(alike, found, wanted))
    if isinstance(wanted, float):
        return math.isclose(found, wanted, rel_tol=1e-6)
    return bool(found == wanted)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
@given(evolution=evolutions())
def test_what_is_compatible_is_read_as_the_specification_says(
    evolution: tuple[EventSchema, EventSchema, dict[str, Any]],
) -> None:
    """Every event of a writer that the reader is said to go with, field by field; and with its own schema as it was."""
    writer, reader, event = evolution
    payload = EventEncoder(KnownSchemas({"events": writer})).encode("events", event)
    assert alike(EventDecoder(KnownSchemas({"events": writer})).decode_payload(payload).fields, event)
    if why_unreadable(reader, writer) is None:
        found = EventDecoder(KnownSchemas({"events": writer}), reader=reader).decode_payload(payload).fields
        assert alike(found, resolved(event, writer.document, reader.document))


# What fastavro alone would read in another way ------------------------------------------------------------------------


def event(*fields: dict[str, Any]) -> EventSchema:
    return event_schema("Event", *fields)


def read(writer: EventSchema, reader: EventSchema, values: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the reader's own, of an event of the writer."""
    payload = EventEncoder(KnownSchemas({"events": writer})).encode("events", {**HEADER_VALUES, **values})
    fields = EventDecoder(KnownSchemas({"events": writer}), reader=reader).decode_payload(payload).fields
    return {name: value for name, value in fields.items() if name not in HEADER_VALUES}


INNER = {"type": "record", "name": "Inner", "fields": [{"name": "raw", "type": "bytes", "default": "\u00ff"}]}


@pytest.mark.parametrize(
    ("schema", "default", "value"),
    [
        ("bytes", "\u00ff\u0000", b"\xff\x00"),
        ({"type": "fixed", "name": "F", "size": 1}, "\u00fe", b"\xfe"),
        ("double", 1, 1.0),
        (["float", "null"], 2, 2.0),
        (["null", "bytes"], None, None),
        (INNER, {}, {"raw": b"\xff"}),
        (INNER, {"raw": "\u0001"}, {"raw": b"\x01"}),
        ({"type": "array", "items": INNER}, [{}], [{"raw": b"\xff"}]),
        ({"type": "map", "values": "double"}, {"one": 1}, {"one": 1.0}),
    ],
)
def test_a_default_is_the_value_that_its_json_means(schema: Any, default: Any, value: Any) -> None:
    """When it is read, and when an event is written without the field."""
    newer = event({"name": "new", "type": schema, "default": default})
    assert alike(read(event(), newer, {}), {"new": value})
    assert alike(read(newer, newer, {}), {"new": value})


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
LONG_DECIMAL = {**DECIMAL, "precision": 40}
FIXED_DECIMAL = {"type": "fixed", "name": "Fee", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2}
PRICED = {
    "type": "record",
    "name": "Priced",
    "fields": [{"name": "fee", "type": DECIMAL, "default": "\u0001"}, {"name": "day", "type": "int", "default": 1}],
}
FAILED = {**PRICED, "type": "error", "name": "Failed"}
FEE = Decimal("0.01")
UUID_TEXT = "00000000-0000-8000-8000-000000000000"


@pytest.mark.parametrize(
    ("schema", "default", "value"),
    [
        (DECIMAL, "\u0000", Decimal("0.00")),
        (DECIMAL, "\u00ff\u0001", Decimal("-2.55")),
        (DECIMAL, "", Decimal("0.00")),
        (LONG_DECIMAL, "\u0001", FEE),
        (FIXED_DECIMAL, "\u0000\u0000\u0000\u0001", FEE),
        ([DECIMAL, "null"], "\u0001", FEE),
        (["null", DECIMAL], "\u0001", FEE),
        ({"type": "array", "items": DECIMAL}, ["\u0001"], [FEE]),
        ({"type": "map", "values": FIXED_DECIMAL}, {"a": "\u0000\u0000\u0000\u0001"}, {"a": FEE}),
        (PRICED, {}, {"fee": FEE, "day": 1}),
        (PRICED, {"fee": "\u0002"}, {"fee": Decimal("0.02"), "day": 1}),
        (FAILED, {}, {"fee": FEE, "day": 1}),
        ({"type": "array", "items": PRICED}, [{}], [{"fee": FEE, "day": 1}]),
        ({"type": "int", "logicalType": "date"}, 15000, 15000),
        ({"type": "int", "logicalType": "time-millis"}, 1, 1),
        ({"type": "long", "logicalType": "time-micros"}, 1, 1),
        ({"type": "long", "logicalType": "timestamp-millis"}, 1, 1),
        ({"type": "long", "logicalType": "timestamp-micros"}, 1, 1),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, 1, 1),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, 1, 1),
        ({"type": "long", "logicalType": "timestamp-nanos"}, 1, 1),
        ({"type": "string", "logicalType": "uuid"}, UUID_TEXT, UUID_TEXT),
        ({"type": "fixed", "name": "D", "size": 1, "logicalType": "duration"}, "\u0001", b"\x01"),
        ({"type": "bytes", "logicalType": "decimal"}, "\u0001", b"\x01"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}, "\u0001", b"\x01"),
        ({"type": "string", "logicalType": "decimal", "precision": 2}, "1", "1"),
    ],
)
def test_a_default_of_a_logical_type_is_the_value_that_an_event_with_it_has(
    schema: Any, default: Any, value: Any
) -> None:
    """It is the same for a reader of older events, and for writers that leave the field out or give it."""
    newer = event({"name": "new", "type": schema, "default": default})
    assert alike(read(event(), newer, {}), {"new": value})
    assert alike(read(newer, newer, {}), {"new": value})
    assert alike(read(newer, newer, {"new": value}), {"new": value})
    assert alike(read(event(), event({"name": "x", "type": "int", "default": 1}), {}), {"x": 1})


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_default_within_a_record_is_a_decimal_wherever_the_record_stands(is_shared: bool) -> None:
    """Here in events of a writer whose record has not got the field, in a union, an array and a map."""
    older, newer = (
        {"type": "record", "name": "Line", "fields": [{"name": "item", "type": "string"}, *more]}
        for more in ([], [{"name": "fee", "type": DECIMAL, "default": "\u0001"}])
    )
    writer, reader = (
        event(
            {"name": "one", "type": ["null", line]},
            {"name": "many", "type": {"type": "array", "items": "kafka2011.Line" if is_shared else renamed(line, "A")}},
            {"name": "named", "type": {"type": "map", "values": "Line" if is_shared else renamed(line, "B")}},
        )
        for line in (older, newer)
    )
    item = {"item": "pen"}
    found = read(writer, reader, {"one": item, "many": [item], "named": {"a": item}})
    whole = {"item": "pen", "fee": FEE}
    assert found == {"one": whole, "many": [whole], "named": {"a": whole}}


def renamed(record: dict[str, Any], suffix: str) -> dict[str, Any]:
    return {**record, "name": record["name"] + suffix}


def test_events_do_not_share_a_default() -> None:
    """Whoever adds to one event's list adds to that one."""
    tags = {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []}

    def within(*fields: dict[str, Any]) -> dict[str, Any]:
        return {"name": "within", "type": {"type": "record", "name": "Within", "fields": fields}}

    older = event(within())
    decoder = EventDecoder(KnownSchemas({"events": older}), reader=event(tags, within(tags)))
    payload = EventEncoder(KnownSchemas({"events": older})).encode("events", {**HEADER_VALUES, "within": {}})
    first, second = (decoder.decode_payload(payload).fields for _ in range(2))
    first["tags"].append("one")
    first["within"]["tags"].append("two")
    assert (second["tags"], second["within"]) == ([], {"tags": []})


def test_a_name_comes_before_an_alias() -> None:
    """Where the writer has both, a field gets the value of its name, in records within records too."""
    long = {"type": "long"}
    writer_fields = [{"name": "old", **long}, {"name": "new", **long}]
    reader_fields = [{"name": "new", **long, "aliases": ["old"], "default": 0}]

    def within(fields: list[dict[str, Any]]) -> dict[str, Any]:
        return {"name": "within", "type": ["null", {"type": "record", "name": "Within", "fields": fields}]}

    values = {"old": 1, "new": 2}
    writer = event(*writer_fields, within(writer_fields))
    reader = event(*reader_fields, within(reader_fields))
    assert read(writer, reader, {**values, "within": values}) == {"new": 2, "within": {"new": 2}}
    older = event(writer_fields[0], within(writer_fields[:1]))
    assert read(older, reader, {"old": 1, "within": {"old": 1}}) == {"new": 1, "within": {"new": 1}}


@pytest.mark.parametrize(
    "fields",
    [
        [{"name": "a", "type": "int"}, {"name": "b", "type": "int", "aliases": ["a"]}],
        [{"name": "a", "type": "int", "aliases": ["old"]}, {"name": "b", "type": "int", "aliases": ["old"]}],
        [{"name": "a", "type": "int", "aliases": ["time"]}],
        [{"name": "r", "type": {"type": "record", "name": "R", "fields": [
            {"name": "a", "type": "int"}, {"name": "b", "type": "int", "aliases": ["a"]}
        ]}}],
    ],
)  # fmt: skip
def test_an_alias_that_two_fields_have_is_refused(fields: list[dict[str, Any]]) -> None:
    """Which of them would get the value is for every reader to guess."""
    with pytest.raises(InvalidSchemaError, match="names two fields of one record"):
        event(*fields)


EMPTY = {"type": "record", "name": "Empty", "fields": [{"name": "nothing", "type": "null"}]}
AGAIN = {"type": "record", "name": "Again", "fields": [{"name": "again", "type": ["null", "Again"]}]}


@pytest.mark.parametrize(
    ("items", "refused"),
    [
        ("null", True),
        ({"type": "null"}, True),
        (EMPTY, True),
        ({"type": "fixed", "name": "F", "size": 0}, True),
        ("int", False),
        (["null"], False),
        (AGAIN, False),
        ({"type": "array", "items": "int"}, False),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, False),
    ],
)
def test_items_that_take_no_bytes_are_refused(items: Any, refused: bool) -> None:
    """A payload of twenty bytes could claim a billion billion of them, until whoever decodes it is out of memory."""
    fields = ({"name": "array", "type": {"type": "array", "items": items}},)
    if refused:
        with pytest.raises(InvalidSchemaError, match="take no bytes"):
            event(*fields)
        with pytest.raises(InvalidSchemaError, match="take no bytes"):
            event({"name": "one", "type": EMPTY}, {"name": "array", "type": {"type": "array", "items": "Empty"}})
    else:
        assert event(*fields)


def test_a_default_that_looks_like_a_schema_stays_as_it_is() -> None:
    """Logical types are removed from types only."""
    strings = {"type": "map", "values": "string"}
    default = {"type": "long", "logicalType": "timestamp-micros"}
    newer = event({"name": "new", "type": strings, "default": default})
    assert read(event(), newer, {}) == {"new": default}
    assert newer.document["fields"][0] == HEADER[0]  # nothing of it was changed on the way


def test_compatible_means_both_ways() -> None:
    """The error says which way fails, against which number."""
    wider = event({"name": "n", "type": "long"})
    narrow = event({"name": "n", "type": "int"})
    assert why_unreadable(wider, narrow) is None
    assert why_unreadable(narrow, wider) is not None
    with pytest.raises(IncompatibleSchemaError, match="with schema 3, events of the new one could not be read"):
        check_compatible(wider, [(3, narrow)], "events")
    with pytest.raises(IncompatibleSchemaError, match="with the new schema, events of schema 3 could not be read"):
        check_compatible(narrow, [(3, wider)], "events")


# Unions whose branches take each other's values -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("union", "pair"),
    [
        (["double", "long"], "double and then long"),
        (["null", "float", "int"], "float and then int"),
        (["null", "double", "string", {"type": "long", "logicalType": "timestamp-micros"}], "double and then long"),
        (["bytes", "string"], "bytes and then string"),
        (["string", "null", "bytes"], "string and then bytes"),
        (["string", {"type": "bytes", "logicalType": "decimal", "precision": 4}], "string and then bytes"),
    ],
)
def test_a_union_that_would_change_values_is_refused(union: list[Any], pair: str) -> None:
    """A long would be written as a double and rounded, a text be read as bytes; wherever the union stands."""
    for where in (union, {"type": "array", "items": union}):
        with pytest.raises(InvalidSchemaError, match=f"record View: a union has {pair}"):
            event_schema("View", {"name": "x", "type": where})


@pytest.mark.parametrize(
    ("union", "value"),
    [
        (["long", "double"], 2**60 + 1),
        (["long", "double"], 0.1),
        (["int", "long", "float", "double", "string"], 2**60 + 1),
        (["int", "long", "float", "double", "string"], 16777217),
        (["float", "double"], 0.1),
        (["null", "int", "float", "bytes"], 16777217),
        (["null", "int", "float", "bytes"], b"text"),
    ],
)
def test_a_union_that_is_taken_keeps_values_exactly(union: list[str], value: Any) -> None:
    """Also for a reader whose schema has another field."""
    old = event_schema("View", {"name": "x", "type": union})
    new = event_schema("View", {"name": "x", "type": union}, {"name": "y", "type": "int", "default": 0})
    known = KnownSchemas({"t": old})
    payload = EventEncoder(known).encode("t", {**HEADER_VALUES, "x": value})
    for reader in (None, new):
        found = EventDecoder(known, reader).decode_payload(payload).fields["x"]
        assert (found, type(found)) == (value, type(value))


def test_a_count_of_items_that_nobody_wants_is_not_believed() -> None:
    """Two thousand million items, none of which is there, are refused at once."""
    old = event_schema("Thing", {"name": "gone", "type": {"type": "array", "items": "string"}})
    new = event_schema("Thing", {"name": "more", "type": "long", "default": 1})
    payload = EventEncoder(KnownSchemas({"things": old})).encode("things", {**HEADER_VALUES, "gone": []})
    decoder = EventDecoder(KnownSchemas({"things": new}, [old]), new)
    assert decoder.decode_payload(payload).fields["more"] == 1
    with pytest.raises(UndecodableEventError, match="cut short"):
        decoder.decode_payload(payload[:-1] + b"\xfe\xff\xff\xff\x0f")
