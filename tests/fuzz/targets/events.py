"""Events: their headers, and their bodies in Avro, decoded one by one and, in C, many at once."""

from __future__ import annotations

import json
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from kafka2011.audit.counts_file import MalformedCountsError, decode, encode
from kafka2011.audit.encoding import AUDIT_COUNT, InvalidReportError, open_decoder, report_from
from kafka2011.audit.report import AUDIT_TOPIC
from kafka2011.events.codec import (
    MARK,
    EventDecoder,
    EventEncoder,
    read_any_stamp,
    read_stamp,
)
from kafka2011.events.errors import InvalidSchemaError, UndecodableEventError
from kafka2011.events.schemas import EventSchema, KnownSchemas, event_schema
from kafka2011.events.types import PAGE_VIEW
from kafka2011.events.varint import read_varint, write_varint
from kafka2011.spark.batches import SCHEMA as SOURCE_SCHEMA
from kafka2011.warehouse.rows import batch_reader
from kafka2011.warehouse.rows.decode import BatchDecoder
from tests.fuzz.driver import Target

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from tests.fuzz.driver import Run

TOPIC = "things"
_AT_ONCE = 64
_INNER = {
    "type": "record",
    "name": "Inner",
    "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": ["null", "string"]}],
}
_NODE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
_WRITTEN = (
    {"name": "n", "type": "long"},
    {"name": "f", "type": "float"},
    {"name": "text", "type": ["null", "string"]},
    {"name": "data", "type": "bytes"},
    {"name": "list", "type": {"type": "array", "items": {"type": "array", "items": "string"}}},
    {"name": "map", "type": {"type": "map", "values": _INNER}},
    {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B", "C"]}},
    {"name": "fixed", "type": {"type": "fixed", "name": "Fixed", "size": 3}},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "both", "type": ["int", "double", "null"]},
    {"name": "inner", "type": ["Inner", "null"]},
)
THING = event_schema("Thing", *_WRITTEN)
LATER = event_schema(
    "Thing",
    {"name": "more", "type": "string", "default": "x"},
    {"name": "f", "type": "double"},
    *(each for each in _WRITTEN if each["name"] in {"text", "map", "list", "kind"}),
    {"name": "renamed", "type": "long", "aliases": ["n"]},
)
TREE = event_schema(
    "Tree", {"name": "root", "type": _NODE}, {"name": "leaves", "type": {"type": "array", "items": "Node"}}
)
SCHEMAS = (THING, LATER, TREE, PAGE_VIEW)


def _known(newest: EventSchema) -> KnownSchemas:
    return KnownSchemas({TOPIC: newest}, SCHEMAS)


def _payload(data: bytes) -> bytes:
    number = data[0] % len(SCHEMAS) if data else 0
    return MARK + bytes.fromhex(SCHEMAS[number].fingerprint) + data[1:]


@contextmanager
def open_stamps() -> Iterator[Run]:
    """Check that the quick way to read a header gives what the long one gives, and that numbers are read as written."""

    def run(data: bytes) -> Hashable:
        payload = _payload(data)
        try:
            expected = read_any_stamp(payload)
        except UndecodableEventError:
            expected = None
        try:
            found = read_stamp(payload)
        except UndecodableEventError:
            assert expected is None
            raise
        assert found == expected
        number, _ = read_varint(payload, 10)
        assert -(2**63) <= number < 2**63
        assert read_varint(write_varint(number), 0)[0] == number
        found.id.encode()
        return len(found.id) == 36, payload[26] & 1

    yield run


@contextmanager
def open_bodies() -> Iterator[Run]:
    """Check that a body is decoded, as written and as wanted now, or refused; what was decoded is encoded again."""
    as_written, as_wanted = EventDecoder(_known(THING)), EventDecoder(_known(LATER), LATER)
    encoders = {each: EventEncoder(_known(each)) for each in SCHEMAS}

    def run(data: bytes) -> Hashable:
        payload = _payload(data)
        event = as_written.decode_payload(payload)
        again = encoders[event.schema].encode(TOPIC, event.fields)
        assert repr(as_written.decode_payload(again)) == repr(event)
        if event.schema in {THING, LATER}:
            as_wanted.decode_payload(payload)
        return event.schema.name, again == payload

    yield run


@contextmanager
def open_reports() -> Iterator[Run]:
    """Check that a body of the audit's schema is a report, or is refused."""
    decoder = open_decoder(KnownSchemas({AUDIT_TOPIC: AUDIT_COUNT}))
    head = MARK + bytes.fromhex(AUDIT_COUNT.fingerprint)

    def run(data: bytes) -> Hashable:
        return type(report_from(decoder.decode_payload(head + data))).__name__

    yield run


@contextmanager
def open_counts() -> Iterator[Run]:
    """Check that a file of a commit's counts is read, or is refused, and that what was read is written the same again.

    The first byte of a case says whether its columns are compressed only here: changes of compressed ones lead nowhere.
    """

    def run(data: bytes) -> Hashable:
        head, _, columns = data[1:].partition(b"\n")
        body = zlib.compress(columns, 1) if data[:1] == b"c" else columns
        parts = decode(head + b"\n" + body, TOPIC)
        if not parts:
            return 0
        written = encode(parts)
        assert encode(decode(written, TOPIC)) == written
        return len(parts)

    yield run


@contextmanager
def open_columns() -> Iterator[Run]:
    """Check that many at once, in C, give what one by one gives, and refuse what that refuses."""
    assert batch_reader.compiled is not None, "the C code is not built"
    decoders = [BatchDecoder(TOPIC, _known(newest), 1) for newest in (THING, LATER, TREE)]
    waiting: list[bytes] = []

    def compare(payloads: Sequence[bytes]) -> int:
        batch = _batch_of(payloads)
        decoder = decoders[len(payloads[0]) % len(decoders)]
        rows, refused = decoder.decode(batch)
        expected, expected_refused = decoder.decode_each(batch)
        rows.validate(full=True)
        assert refused == sorted(expected_refused)
        assert sorted(map(repr, rows.to_pylist())) == sorted(map(repr, expected.to_pylist()))
        return int(rows.num_rows)

    def run(data: bytes) -> Hashable:
        waiting.append(_payload(data))
        if len(waiting) < _AT_ONCE:
            return None
        payloads, waiting[:] = list(waiting), []
        return compare(payloads)

    yield run
    if waiting:
        compare(waiting)


def _batch_of(payloads: Sequence[bytes]) -> pa.RecordBatch:
    rows = len(payloads)
    columns = [payloads, [TOPIC] * rows, [1] * rows, [2] * rows, range(rows), range(1, rows + 1), [0] * rows]
    arrays = [pa.array(column, each.type) for column, each in zip(columns, SOURCE_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SOURCE_SCHEMA)


@contextmanager
def open_schemas() -> Iterator[Run]:
    """Check that a text is a schema with which events can be decoded, or is refused."""

    def run(data: bytes) -> Hashable:
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise InvalidSchemaError("no text") from error
        schema = EventSchema(text)
        schema.text.encode()
        assert EventSchema(schema.text).fingerprint == schema.fingerprint
        json.loads(schema.text)
        return schema.name

    yield run


_VARINTS = (b"\xff" * 9 + b"\x01", b"\x02" * 120, b"\xfe\xff\xff\xff\x0f", b"\x01" * 10, b"\x00" * 20)

TARGETS = (
    Target("stamps", 100_000, open_stamps, (UndecodableEventError, IndexError, ValueError), _VARINTS, 200),
    Target("events", 50_000, open_bodies, (UndecodableEventError,), _VARINTS, 400),
    Target("reports", 20_000, open_reports, (UndecodableEventError, InvalidReportError), _VARINTS, 600),
    Target(
        "counts", 10_000, open_counts, (MalformedCountsError,), (*_VARINTS, b"[", b"]", b"-1", b"null", b"1e999"), 600
    ),
    Target("columns", 15_000, open_columns, (), _VARINTS, 400),
    Target("schemas", 1_500, open_schemas, (InvalidSchemaError,), (b"[" * 300, b'"type"', b"null", b"1e999", b"-1")),
)
