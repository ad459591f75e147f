"""Decoding whole batches gives what decoding one by one gives, for good bytes and for bad ones, of any schemas."""

from __future__ import annotations

import math
import random
import struct
import uuid
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from kafka2011.events.codec import HEADER_BYTES, EventEncoder
from kafka2011.events.errors import InvalidSchemaError
from kafka2011.events.schemas import EventSchema, KnownSchemas, event_schema
from kafka2011.spark.batches import SCHEMA as SOURCE_SCHEMA
from kafka2011.warehouse.rows import batch_reader
from kafka2011.warehouse.rows.columns import as_json
from kafka2011.warehouse.rows.decode import BatchDecoder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TOPIC = "things"
HEADER = {"time": 1, "published_at": 2, "server": "s", "id": str(uuid.UUID(int=7))}
RECORD = {
    "type": "record",
    "name": "Inner",
    "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": ["null", "string"]}],
}
"""A record that other types of one schema may name again."""

pytestmark = pytest.mark.skipif(batch_reader.compiled is None, reason="without the C code all is decoded one by one")


# Schemas, events and their bytes, at random ---------------------------------------------------------------------------

SCALARS = ("boolean", "int", "long", "float", "double", "string", "bytes")
LOGICAL = {
    "timestamp-micros": ("long", (-(10**16), 10**17)),
    "timestamp-millis": ("long", (-(10**13), 10**14)),
    "local-timestamp-micros": ("long", (-(10**16), 10**17)),
    "time-micros": ("long", (0, 10**10)),
    "date": ("int", (-(10**5), 10**5)),
}
EDGES = (0, -1, 63, 64, -64, -65, 8191, 8192, 2**31 - 1, -(2**31))
LONG_EDGES = (*EDGES, 2**62, 2**63 - 1, -(2**63))


def value_of(chance: random.Random, part: Any, named: dict[str, Any]) -> Any:  # noqa: C901, PLR0911, PLR0912 (one for each kind of type)
    """Return a value of a type."""
    if isinstance(part, list):
        return value_of(chance, chance.choice(part), named)
    if isinstance(part, str) and part in named:
        part = named[part]
    if isinstance(part, dict) and part.get("logicalType") in LOGICAL:
        return chance.randint(*LOGICAL[part["logicalType"]][1])
    match part["type"] if isinstance(part, dict) else part:
        case "null":
            return None
        case "boolean":
            return chance.random() < 0.5
        case "int":
            return chance.choice(EDGES)
        case "long":
            return chance.choice((*LONG_EDGES, chance.randint(-(2**63), 2**63 - 1)))
        case "float":
            return struct.unpack("<f", struct.pack("<f", chance.uniform(-1e9, 1e9)))[0]
        case "double":
            return chance.choice((chance.random(), float("nan"), -0.0, float("inf")))
        case "string":
            return "".join(chance.choice("aü€😀\0") for _ in range(chance.choice((0, 1, 3, 70))))
        case "bytes":
            return chance.randbytes(chance.choice((0, 1, 3, 70)))
        case "fixed":
            return chance.randbytes(part["size"])
        case "enum":
            return chance.choice(part["symbols"])
        case "array":
            return [value_of(chance, part["items"], named) for _ in range(chance.randrange(4))]
        case "map":
            return {key: value_of(chance, part["values"], named) for key in "aü€"[: chance.randrange(4)]}
    return {each["name"]: value_of(chance, each["type"], named) for each in part["fields"]}


class Types:
    """Makes types of one schema, which may name others of it again."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.named: dict[str, Any] = {}

    def any(self, depth: int = 3) -> Any:  # noqa: PLR0911
        chance = self._chance
        kinds = ["scalar"] * 4 + ["logical", "enum", "fixed", "nullable", "nullable", "numbers", "again"]
        kinds += ["array", "map", "record"] * bool(depth)
        match chance.choice(kinds):
            case "logical":
                name = chance.choice(sorted(LOGICAL))
                return {"type": LOGICAL[name][0], "logicalType": name}
            case "enum":
                return self._named("enum", symbols=["A", "B", "LONGER"][: chance.randint(1, 3)])
            case "fixed":
                return self._named("fixed", size=chance.randint(1, 9))
            case "nullable":
                kind = self.any(max(depth - 1, 0))
                return chance.choice((["null", kind], [kind, "null"])) if not isinstance(kind, list) else kind
            case "numbers":
                return ["int", "long", "null"][chance.randrange(3) :] if chance.random() < 0.9 else ["long", "string"]
            case "again" if self.named:
                return chance.choice(sorted(self.named))
            case "array":
                return {"type": "array", "items": self._weighty(depth)}
            case "map":
                return {"type": "map", "values": self.any(depth - 1)}
            case "record":
                fields = [{"name": f"f{n}", "type": self._weighty(depth)} for n in range(chance.randint(1, 3))]
                return self._named("record", fields=fields)
        return chance.choice(SCALARS)

    def _weighty(self, depth: int) -> Any:
        found = self.any(depth - 1)
        return "long" if found in ("null", ["null"]) else found

    def _named(self, kind: str, **more: Any) -> dict[str, Any]:
        name = f"N{len(self.named)}"
        self.named[name] = {"type": kind, "name": name, **more}
        return {"type": kind, "name": name, **more}


class Case:
    """A schema at random, what it became later, and its events."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self._types = Types(self.chance)
        fields = [{"name": f"field{n}", "type": self._types.any()} for n in range(self.chance.randint(1, 5))]
        self.schema = event_schema("Thing", *fields)

    def payloads(self) -> list[bytes]:
        """Return some events."""
        chance, fields = self.chance, self.schema.document["fields"][4:]
        events = []
        for _ in range(chance.randint(1, 5)):
            event = {each["name"]: value_of(chance, each["type"], self._types.named) for each in fields}
            times = {"time": chance.randrange(10**15), "published_at": chance.randrange(-(10**12), 10**15)}
            events.append({**HEADER, **times, **event})
        return encoded(self.schema, events)

    def broken(self, payload: bytes) -> bytes:  # noqa: PLR0911
        """Return a payload that is not what was encoded, more or less."""
        chance = self.chance
        at = chance.randrange(len(payload)) if chance.random() < 0.2 else chance.randrange(10, len(payload))
        match chance.randrange(7):
            case 0:
                return payload[:at] + chance.randbytes(1) + payload[at + 1 :]
            case 1:
                return payload[:at]
            case 2:
                return payload[:at] + payload[at + chance.randint(1, 3) :]
            case 3:
                return payload[:at] + chance.randbytes(chance.randint(1, 3)) + payload[at:]
            case 4:
                return payload + chance.randbytes(chance.randint(1, 3))
            case 5:
                return payload[:at] + chance.choice((b"\xff" * 9 + b"\x01", b"\xfe\xff\xff\xff\x0f")) + payload[at:]
        return payload[:at] + bytes([payload[at] ^ 1 << chance.randrange(8)]) + payload[at + 1 :]

    def evolved(self) -> EventSchema:
        """Return what the schema may have become: fields are gone, new, renamed, wider, nullable."""
        return event_schema("Thing", *self._fields(self.schema.document["fields"][4:], "more"))

    def _fields(self, fields: list[dict[str, Any]], new: str) -> list[dict[str, Any]]:
        found = [each | {"type": self._changed(each["type"])} for each in fields if self.chance.random() < 0.8]
        if found and self.chance.random() < 0.2:
            found[0] |= {"name": "renamed", "aliases": [found[0]["name"]]}
        kind, default = self.chance.choice(ADDED[: 14 if new == "more" else 7])
        found.insert(self.chance.randint(0, len(found)), {"name": new, "type": kind, "default": default})
        return found

    def _changed(self, part: Any) -> Any:  # noqa: PLR0911
        chance = self.chance
        if isinstance(part, list):
            return [each if each == "null" else self._changed(each) for each in part]
        if isinstance(part, str):
            return chance.choice(WIDER[part]) if part in WIDER and chance.random() < 0.2 else part
        match part["type"]:
            case "array":
                return part | {"items": self._changed(part["items"])}
            case "map":
                return part | {"values": self._changed(part["values"])}
            case "enum" if chance.random() < 0.3:
                return part | {"symbols": ["NEW", part["symbols"][0]], "default": "NEW"}
            case "record" if chance.random() < 0.5:
                return part | {"fields": self._fields(part["fields"], "inner")}
        return part


WIDER = {"int": ("long", "float", "double"), "long": ("float", "double"), "float": ("double",)}
WIDER |= {"string": ("bytes",), "bytes": ("string",)}
ADDED: list[tuple[Any, Any]] = [
    ("string", "x"),
    ("long", -5),
    ("float", 1.5),
    ("boolean", True),
    ("bytes", "\xff"),
    (["null", "long"], None),
    (["long", "null"], 7),
    ({"type": "array", "items": "long"}, [1, 2]),
    ({"type": "map", "values": "string"}, {"k": "v"}),
    ({"type": "enum", "name": "Added", "symbols": ["P", "Q"]}, "Q"),
    ({"type": "fixed", "name": "AddedFixed", "size": 2}, "ab"),
    ({"type": "long", "logicalType": "timestamp-millis"}, 1000),
    (RECORD, {"a": 1, "b": None}),
    ({"type": "array", "items": "string"}, []),
]


# Batches -------------------------------------------------------------------------------------------------------------


def batch_of(payloads: Sequence[bytes | None]) -> pa.RecordBatch:
    rows = len(payloads)
    places = [[1] * rows, [2] * rows, range(rows), range(1, rows + 1), [0] * rows]
    columns = [payloads, [TOPIC] * rows, *places]
    schema = SOURCE_SCHEMA
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def decoder_of(newest: EventSchema, *others: EventSchema) -> BatchDecoder:
    return BatchDecoder(TOPIC, KnownSchemas({TOPIC: newest}, others), 1)


def encoded(schema: EventSchema, events: Sequence[dict[str, Any]]) -> list[bytes]:
    return EventEncoder(KnownSchemas({TOPIC: schema})).encode_all(TOPIC, events)


def texts_of(rows: pa.RecordBatch) -> list[str]:
    """Return the rows as text, in which what is not a number equals itself."""
    rows.validate(full=True)
    return sorted(map(repr, rows.to_pylist()))


def same_as_one_by_one(decoder: BatchDecoder, batch: pa.RecordBatch) -> int:
    """Compare both ways of decoding; return how many rows are good."""
    rows, refused = decoder.decode(batch)
    expected, expected_refused = decoder.decode_each(batch)
    assert refused == sorted(expected_refused)
    assert rows.schema == expected.schema
    assert texts_of(rows) == texts_of(expected)
    return int(rows.num_rows)


def left_to_python(decoder: BatchDecoder, batch: pa.RecordBatch) -> int:
    """Return how many rows are not decoded at once."""
    head = batch.column("value")[0].as_py()[:HEADER_BYTES]
    return len(decoder.decode_whole(batch, head, np.arange(batch.num_rows), []))


@settings(max_examples=300)
@given(st.integers(0, 2**64))
def test_any_events_of_any_schema(seed: int) -> None:
    """Good ones, and ones whose bytes were changed, among each other."""
    case = made(seed)
    payloads = case.payloads()
    decoder = decoder_of(case.schema)
    same_as_one_by_one(decoder, batch_of(payloads))
    mixed = payloads + [case.broken(case.chance.choice(payloads)) for _ in range(6)]
    case.chance.shuffle(mixed)
    same_as_one_by_one(decoder, batch_of(mixed))


@settings(max_examples=300)
@given(st.integers(0, 2**64))
def test_events_of_a_schema_that_another_one_followed(seed: int) -> None:
    """Its fields may be gone, renamed, wider; new ones have their defaults."""
    case = made(seed)
    payloads = case.payloads()
    try:
        newest = case.evolved()
    except InvalidSchemaError:
        reject()
    decoder = decoder_of(newest, case.schema)
    same_as_one_by_one(decoder, batch_of(payloads))
    same_as_one_by_one(decoder, batch_of([case.broken(each) for each in payloads]))


@settings(max_examples=300)
@given(st.integers(0, 2**64))
def test_events_of_a_schema_that_two_others_followed(seed: int) -> None:
    """Columns are those of all three. Each value is that of a table of its own schema; or it is refused."""
    case = made(seed)
    payloads = case.payloads()
    try:
        stored = list(enumerate((case.schema, case.evolved(), case.evolved()), 1))
    except InvalidSchemaError:
        reject()
    decoder = BatchDecoder(TOPIC, KnownSchemas({TOPIC: stored[-1][1]}, (), {TOPIC: stored}), 1)
    same_as_one_by_one(decoder, batch_of([*payloads, *map(case.broken, payloads)]))
    rows, refused = decoder.decode(batch_of(payloads))
    own, wrong = decoder_of(case.schema).decode(batch_of(payloads))
    places = {place: row for row, place in enumerate(rows.column("kafka2011_offset").to_pylist())}
    assert len(places) + len(refused) == len(payloads)
    assert {each.row for each in wrong} <= {each.row for each in refused}
    for row in own.to_pylist():
        if (found := places.get(row["kafka2011_offset"])) is not None:
            now = rows.slice(found, 1).to_pylist()[0]
            for name, value in row.items():  # in its column, or in the one of a field with its name as an alias
                assert is_kept(value, now.get(name)) or is_kept(value, now.get("renamed")), (row, now)


def is_kept(value: Any, now: Any) -> bool:
    """Say whether a value is the same in a wider column: a record may have more fields, text be bytes, a union JSON."""
    if isinstance(now, str) and value != now and isinstance(value, str | bytes | int | float):
        return now == as_json(value) or (isinstance(value, bytes) and now.encode() == value)
    if isinstance(now, str) and value != now:
        return True  # a record or time as JSON, of which each schema has a form of its own
    if isinstance(value, dict):
        return all(is_kept(inner, now[name]) for name, inner in value.items())
    if isinstance(value, list | tuple) and len(value) == len(now):
        return all(is_kept(*pair) for pair in zip(value, now, strict=True))
    if isinstance(value, str) and isinstance(now, bytes):
        return value.encode() == now
    return bool(value == now or (isinstance(value, float) and math.isnan(value) and math.isnan(now)))


def made(seed: int) -> Case:
    try:
        return Case(seed)
    except InvalidSchemaError:
        reject()


# What is decoded at once ---------------------------------------------------------------------------------------------


TYPES: dict[str, tuple[Any, Any]] = {
    **{kind: (kind, value) for kind, value in zip(SCALARS, (True, 1, 2, 1.5, 2.5, "aü€😀", b"\xff"), strict=True)},
    **{f"{kind} or none": (["null", kind], None) for kind in SCALARS},
    "none last": (["long", "null"], None),
    "int or long": (["int", "long"], 2**40),
    "timestamp-millis": ({"type": "long", "logicalType": "timestamp-millis"}, 1_700_000_000_000),
    "date": ({"type": "int", "logicalType": "date"}, 19_000),
    "enum": ({"type": "enum", "name": "Kind", "symbols": ["A", "B"]}, "B"),
    "fixed": ({"type": "fixed", "name": "Four", "size": 4}, b"four"),
    "array": ({"type": "array", "items": ["null", "string"]}, ["x", None, ""]),
    "map": ({"type": "map", "values": "long"}, {"a": 1, "b": 2}),
    "record": (RECORD, {"a": 1, "b": None}),
    "records": ({"type": "array", "items": RECORD}, [{"a": 1, "b": "x"}, {"a": 2, "b": None}]),
    "record or none": (["null", RECORD], None),
    "null": ("null", None),
}


@pytest.mark.parametrize("name", sorted(TYPES))
def test_good_events_are_decoded_at_once(name: str) -> None:
    """Slices of batches, too."""
    kind, value = TYPES[name]
    schema = event_schema("Thing", {"name": "it", "type": kind}, {"name": "after", "type": "string"})
    batch = batch_of(encoded(schema, [{**HEADER, "it": value, "after": f"{number}"} for number in range(30)]))
    decoder = decoder_of(schema)
    for part in (batch, batch.slice(17, 10), batch.slice(29)):
        assert left_to_python(decoder, part) == 0
        assert same_as_one_by_one(decoder, part) == part.num_rows


@pytest.mark.parametrize(("kind", "default"), [pytest.param(*each, id=str(each[1])) for each in ADDED])
def test_fields_that_came_later_are_decoded_at_once(kind: Any, default: Any) -> None:
    old = event_schema("Thing", {"name": "gone", "type": {"type": "array", "items": RECORD}})
    newest = event_schema("Thing", {"name": "more", "type": kind, "default": default})
    batch = batch_of(encoded(old, [{**HEADER, "gone": [{"a": 1, "b": "b"}]}] * 3))
    decoder = decoder_of(newest, old)
    assert left_to_python(decoder, batch) == 0
    assert same_as_one_by_one(decoder, batch) == 3


@pytest.mark.parametrize(
    "kind", [["null", "int", "string"], {"type": "bytes", "logicalType": "decimal", "precision": 4}]
)
def test_what_python_makes_text_or_numbers_of_is_decoded_one_by_one(kind: Any) -> None:
    schema = event_schema("Thing", {"name": "it", "type": kind})
    batch = batch_of(encoded(schema, [{**HEADER, "it": "x" if isinstance(kind, list) else Decimal(1)}]))
    decoder = decoder_of(schema)
    assert left_to_python(decoder, batch) == 1
    assert same_as_one_by_one(decoder, batch) == 1


def test_only_the_bad_events_of_a_batch_are_looked_at_one_by_one() -> None:
    schema = event_schema("Thing", {"name": "page", "type": "string"})
    payloads: list[bytes | None] = [*encoded(schema, [{**HEADER, "page": f"/{number}"} for number in range(1000)])]
    payloads[7] = (payloads[7] or b"")[:-1]
    payloads[500] = None
    payloads[999] = b"garbage"
    decoder = decoder_of(schema)
    asked: list[int] = []
    judge: Callable[[pa.RecordBatch], Any] = decoder.decode_each
    decoder.decode_each = lambda batch: asked.append(batch.num_rows) or judge(batch)  # type: ignore[func-returns-value,method-assign]
    rows, refused = decoder.decode(batch_of(payloads))
    assert asked == [3]
    assert [each.row for each in refused] == [7, 500, 999]
    assert rows.num_rows == 997


def test_a_short_event_and_the_next_one_do_not_make_up_for_each_other() -> None:
    """The bytes that one lacks are those that the next one has too many of."""
    schema = event_schema("Thing", {"name": "page", "type": "string"})
    one, two, three = encoded(schema, [{**HEADER, "page": "/page"}] * 3)
    rows, refused = decoder_of(schema).decode(batch_of([one[:-5], one[-5:] + two, three]))
    assert [each.row for each in refused] == [0, 1]
    assert rows.num_rows == 1


def test_a_key_that_comes_twice_has_one_value() -> None:
    schema = event_schema("Thing", {"name": "map", "type": {"type": "map", "values": "long"}})
    [payload] = encoded(schema, [{**HEADER, "map": {"a": 1, "b": 2}}])
    twice = payload.replace(b"\x02b", b"\x02a")
    many = encoded(schema, [{**HEADER, "map": {str(number): number for number in range(50)}}])
    assert same_as_one_by_one(decoder_of(schema), batch_of([payload, twice, *many])) == 3


def test_a_batch_of_several_schemas_and_bad_messages() -> None:
    """Each row is that of its own message, and what is refused is named by its own row."""
    old = event_schema("Thing", {"name": "page", "type": "string"})
    newest = event_schema("Thing", {"name": "page", "type": "string"}, {"name": "n", "type": "long", "default": 1})
    payloads = [
        *encoded(old, [{**HEADER, "page": f"/{number}"} for number in range(200)]),
        *encoded(newest, [{**HEADER, "page": f"/{number}", "n": number} for number in range(150)]),
        *(b"garbage%d" % number for number in range(20)),
    ]
    payloads[10] = payloads[10][:-1]
    random.Random(3).shuffle(payloads)
    assert same_as_one_by_one(decoder_of(newest, old), batch_of(payloads)) == 349


def test_messages_that_name_schemas_nobody_knows_are_not_remembered() -> None:
    """There may be as many of them as there are messages."""
    schema = event_schema("Thing", {"name": "page", "type": "string"})
    decoder = decoder_of(schema)
    rows, refused = decoder.decode(batch_of([b"\xc3\x01" + number.to_bytes(8) for number in range(100)]))
    assert (rows.num_rows, len(refused), decoder.readers) == (0, 100, {})


def test_without_the_c_code_all_is_decoded_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_reader, "compiled", None)
    schema = event_schema("Thing", {"name": "page", "type": "string"})
    batch = batch_of(encoded(schema, [{**HEADER, "page": "/"}] * 3))
    decoder = decoder_of(schema)
    assert left_to_python(decoder, batch) == 3
    assert same_as_one_by_one(decoder, batch) == 3


def test_a_batch_of_nothing() -> None:
    schema = event_schema("Thing", {"name": "page", "type": "string"})
    rows, refused = decoder_of(schema).decode(batch_of([]))
    assert (rows.num_rows, refused) == (0, [])
