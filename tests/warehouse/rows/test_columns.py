"""Avro's types as columns."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from kafka2011.events.codec import EventEncoder
from kafka2011.events.columns.column_types import table_columns
from kafka2011.events.errors import ColumnError
from kafka2011.events.schemas import EventSchema, KnownSchemas, event_schema
from kafka2011.spark.batches import SCHEMA as SOURCE_SCHEMA
from kafka2011.warehouse.rows.columns import arrow_of, table_schema
from kafka2011.warehouse.rows.decode import CORRUPT, BatchDecoder, RefusedRow

TOPIC = "things"
ID = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
HEADER = {"time": 1_700_000_000_000_000, "published_at": 1_700_000_000_000_001, "server": "s", "id": ID}
UTC = pa.timestamp("us", tz="UTC")


def field(name: str, of_type: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": of_type, **more}


def source_batch(payloads: list[bytes | None]) -> pa.RecordBatch:
    count = len(payloads)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(payloads, pa.binary()),
            pa.array([TOPIC] * count),
            pa.array([1] * count, pa.int32()),
            pa.array([2] * count, pa.int32()),
            pa.array(range(0, 10 * count, 10), pa.int64()),
            pa.array(range(10, 10 * count + 10, 10), pa.int64()),
            pa.array([0] * count, pa.int32()),
        ],
        schema=SOURCE_SCHEMA,
    )


def decode(schema: EventSchema, *payloads: bytes | None, others: tuple[EventSchema, ...] = ()) -> tuple[Any, Any]:
    decoder = BatchDecoder(TOPIC, KnownSchemas({TOPIC: schema}, others), 7)
    return decoder.decode(source_batch(list(payloads)))


def encode(schema: EventSchema, *events: dict[str, Any]) -> list[bytes]:
    encoder = EventEncoder(KnownSchemas({TOPIC: schema}))
    return encoder.encode_all(TOPIC, [{**HEADER, **event} for event in events])


EVEN = {"type": "record", "name": "Even", "fields": [field("odd", "Odd")]}
ODD = {"type": "record", "name": "Odd", "fields": [field("even", ["null", EVEN]), field("next", ["null", "Even"])]}
"""Each lies within the other, by name."""

KINDS: list[tuple[Any, Any, pa.DataType, Any]] = [
    ("boolean", True, pa.bool_(), True),
    ("int", -1, pa.int64(), -1),
    ("long", 2**62, pa.int64(), 2**62),
    ("float", 0.5, pa.float32(), 0.5),
    ("double", 0.1, pa.float64(), 0.1),
    ("string", "ü", pa.string(), "ü"),
    ("bytes", b"\xff", pa.binary(), b"\xff"),
    (["null", "int"], None, pa.int64(), None),
    (["null", "string"], "x", pa.string(), "x"),
    (["int", "long"], 3, pa.int64(), 3),
    (["null", "int", "string"], "x", pa.string(), '"x"'),
    (["null", "int", "string"], 5, pa.string(), "5"),
    (["null", "int", "string"], None, pa.string(), None),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", pa.string(), "B"),
    ({"type": "fixed", "name": "F", "size": 2}, b"ab", pa.binary(), b"ab"),
    ({"type": "array", "items": "int"}, [1, 2], pa.list_(pa.int64()), [1, 2]),
    ({"type": "map", "values": "int"}, {"a": 1}, pa.map_(pa.string(), pa.int64()), [("a", 1)]),
    ({"type": "long", "logicalType": "timestamp-millis"}, 5, UTC, 5000),
    ({"type": "array", "items": {"type": "long", "logicalType": "timestamp-millis"}}, [5], pa.list_(UTC), [5000]),
    (["null", {"type": "long", "logicalType": "timestamp-millis"}], None, UTC, None),
    ({"type": "int", "logicalType": "date"}, 5, pa.date32(), 5),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
        Decimal("123.45"),
        pa.decimal128(5, 2),
        Decimal("123.45"),
    ),
    (
        {"type": "record", "name": "R", "fields": [field("a", "int"), field("b", ["null", "string"])]},
        {"a": 1, "b": None},
        pa.struct([("a", pa.int64()), ("b", pa.string())]),
        {"a": 1, "b": None},
    ),
    (
        {"type": "record", "name": "Both", "fields": [field("odd", ODD), field("even", "Even")]},
        {"odd": {"even": None, "next": None}, "even": {"odd": {"even": None, "next": None}}},
        pa.struct([("odd", pa.string()), ("even", pa.string())]),
        {"odd": '{"even": null, "next": null}', "even": '{"odd": {"even": null, "next": null}}'},
    ),
    (
        {"type": "record", "name": "Tree", "fields": [field("v", "int"), field("next", ["null", "Tree"])]},
        {"v": 1, "next": {"v": 2, "next": None}},
        pa.string(),
        '{"v": 1, "next": {"v": 2, "next": null}}',
    ),
]


@pytest.mark.parametrize(("avro", "value", "arrow", "expected"), KINDS)
def test_each_type_has_its_column(avro: Any, value: Any, arrow: pa.DataType, expected: Any) -> None:
    schema = event_schema("Thing", field("it", avro))
    [column] = table_columns(schema, TOPIC)[4:]
    assert (column.name, arrow_of(column.column_type.type)) == ("it", arrow)
    rows, refused = decode(schema, *encode(schema, {"it": value}))
    assert refused == []
    found = rows.column("it")
    if pa.types.is_timestamp(arrow) or pa.types.is_date(arrow):
        found = found.view(pa.int64() if pa.types.is_timestamp(arrow) else pa.int32())
    if pa.types.is_list(arrow) and pa.types.is_timestamp(arrow.value_type):
        found = found.cast(pa.list_(pa.int64()))
    assert found.to_pylist() == [expected]


def test_our_own_columns_say_where_a_row_comes_from() -> None:
    """What is corrupt or no event is left out, and named with its row and the reason."""
    schema = event_schema("Thing", field("a", "int"))
    good = encode(schema, {"a": 1}, {"a": 2})
    rows, refused = decode(schema, good[0], None, b"garbage", good[1][:-1] + b"\xff", good[1])
    assert [(each.row, each.reason[:20]) for each in refused] == [
        (1, CORRUPT[:20]),
        (2, "not an event: it beg"),
        (3, "the body does not fi"),
    ]
    own = ["kafka2011_broker_id", "kafka2011_partition", "kafka2011_offset", "kafka2011_next_offset"]
    assert [rows.column(name).to_pylist() for name in own] == [[1, 1], [2, 2], [0, 40], [10, 50]]
    assert rows.column("kafka2011_load_id").to_pylist() == [7, 7]
    assert set(rows.column("kafka2011_schema").to_pylist()) == {schema.fingerprint}
    assert rows.schema == table_schema(table_columns(schema, TOPIC))


def test_events_of_older_and_newer_schemas_have_the_newest_ones_columns() -> None:
    """A field that was not there yet has its default; an int is a long, so a column never has to change."""
    old = event_schema("Thing", field("a", "int"))
    new = event_schema("Thing", field("a", "long"), field("b", ["null", "string"], default=None))
    rows, refused = decode(new, *encode(old, {"a": 1}), *encode(new, {"a": 2, "b": "x"}), others=(old,))
    assert refused == []
    assert rows.column("a").to_pylist() == [1, 2]
    assert rows.column("b").to_pylist() == [None, "x"]
    assert rows.column("kafka2011_schema").to_pylist() == [old.fingerprint, new.fingerprint]
    assert table_columns(old, TOPIC)[4].column_type.type == table_columns(new, TOPIC)[4].column_type.type


def test_a_time_that_no_reader_has_a_date_for_is_refused() -> None:
    """It would have no directory; the others of its batch are rows."""
    schema = event_schema("Thing", field("a", "int"))
    payloads = encode(schema, {"a": 1}, {"a": 2, "time": 2**62}, {"a": 3})
    rows, refused = decode(schema, *payloads)
    assert rows.column("a").to_pylist() == [1, 3]
    assert rows.column("kafka2011_offset").to_pylist() == [0, 20]
    assert refused == [RefusedRow(1, "field time: a time outside of the years 1 to 9999")]


def test_an_unknown_schema_is_refused_by_its_fingerprint() -> None:
    schema, other = event_schema("Thing", field("a", "int")), event_schema("Other", field("b", "int"))
    rows, refused = decode(schema, *encode(other, {"b": 1}))
    assert rows.num_rows == 0
    assert other.fingerprint in refused[0].reason


def test_fields_may_have_the_names_of_directories_but_not_ours() -> None:
    schema = event_schema("Thing", field("date", "int"), field("Hour", "int"), field("load_id", "int"))
    assert [column.name for column in table_columns(schema, TOPIC)[4:]] == ["date_", "Hour_", "load_id_"]
    with pytest.raises(ColumnError, match="topic things: field kafka2011_offset of"):
        table_columns(event_schema("Thing", field("kafka2011_offset", "long")), TOPIC)
    with pytest.raises(ColumnError, match=r"field A of .* and that of field a are one"):
        table_columns(event_schema("Thing", field("a", "int"), field("A", "int")), TOPIC)
    with pytest.raises(ColumnError, match=r"field date_ of .* its column date_ and that of field date"):
        table_columns(event_schema("Thing", field("date", "int"), field("date_", "int")), TOPIC)
