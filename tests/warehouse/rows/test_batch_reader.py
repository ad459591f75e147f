"""Decoding whole batches gives what decoding one by one gives, for good bytes and for bad ones, of any schemas."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from kafka2011.events.codec import HEADER_BYTES, EventEncoder
from kafka2011.events.columns.column_types import as_json
from kafka2011.events.errors import InvalidSchemaError
from kafka2011.events.schemas import EventSchema, KnownSchemas, event_schema
from kafka2011.spark.batches import SCHEMA as SOURCE_SCHEMA
from kafka2011.warehouse.rows import batch_reader
from kafka2011.warehouse.rows.decode import BatchDecoder
from tests.support.random_schemas import ADDED, HEADER, RECORD, SCALARS, TOPIC, RandomSchema

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

pytestmark = pytest.mark.skipif(batch_reader.compiled is None, reason="without the C code all is decoded one by one")


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
        # A column of this name may be another schema's, with nothing in it here.
        return now is not None and all(is_kept(inner, now[name]) for name, inner in value.items())
    if isinstance(value, list | tuple) and now is not None and len(value) == len(now):
        return all(is_kept(*pair) for pair in zip(value, now, strict=True))
    if isinstance(value, str) and isinstance(now, bytes):
        return value.encode() == now
    return bool(value == now or (isinstance(value, float) and math.isnan(value) and math.isnan(now)))


def made(seed: int) -> RandomSchema:
    try:
        return RandomSchema(seed)
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
