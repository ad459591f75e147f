"""Events encoded in C are those that fastavro encodes, byte by byte; what is not plain is left to it."""

from __future__ import annotations

import io
import struct
import sys
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any

import pytest
from fastavro import schemaless_writer
from hypothesis import given
from hypothesis import strategies as st

from kafka2011.events import flat_encoder as module
from kafka2011.events.codec import EventEncoder
from kafka2011.events.errors import UnencodableEventError
from kafka2011.events.flat_encoder import flat_encoder
from kafka2011.events.schemas import KnownSchemas, event_schema

pytestmark = pytest.mark.skipif(module.compiled is None, reason="the C code is not built")

HEAD = b"\xc3\x01headhead"
HEADER = {"time": 5, "published_at": 2**62, "server": "web-1", "id": "x" * 36}
TYPES: list[Any] = [
    *("int", "long", "double", "boolean", "string", "bytes"),
    {"type": "int", "logicalType": "date"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "time-micros"},
]
PLAIN = {
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(),
    "boolean": st.booleans(),
    "string": st.text(max_size=300),
    "bytes": st.binary(max_size=2000),
}
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**65), 2**65),
    st.sampled_from([0, -1, 63, 64, -64, -65, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63 - 1, -(2**63), 2**63]),
    st.floats(),
    st.text(max_size=300),
    st.binary(max_size=2000),
    st.just("\ud800"),
    st.just(datetime(2011, 6, 12, tzinfo=UTC)),
)


def by_fastavro(schema: Any, event: dict[str, Any]) -> bytes | None:
    """Return what fastavro writes, None if it refuses the event."""
    body = io.BytesIO()
    body.write(HEAD)
    try:
        schemaless_writer(body, schema, event, strict_allow_default=True)
    except Exception:  # noqa: BLE001 (whatever it raises)
        return None
    return body.getvalue()


@st.composite
def schemas_and_events(draw: st.DrawFn) -> tuple[Any, dict[str, Any]]:
    fields = []
    event: dict[str, Any] = dict(HEADER)
    for number in range(draw(st.integers(0, 8))):
        kind = draw(st.sampled_from(TYPES))
        way = draw(st.integers(0, 3))
        types = [kind, ["null", kind], [kind, "null"], ["null", kind]][way]
        fields.append({"name": f"f{number}", "type": types, **({"default": None} if way == 3 else {})})
        if draw(st.integers(0, 9)):
            plain = PLAIN[kind["type"] if isinstance(kind, dict) else kind]
            event[f"f{number}"] = draw(plain if draw(st.integers(0, 9)) else VALUES)
    if not draw(st.integers(0, 9)):
        event["more"] = 1
    return event_schema("Thing", *fields).writer, event


@given(schemas_and_events())
def test_the_bytes_are_fastavros(given_so: tuple[Any, dict[str, Any]]) -> None:
    """Of values good and bad: whatever C encodes, fastavro encodes so too."""
    schema, event = given_so
    encode = flat_encoder(HEAD, schema)
    assert encode is not None
    assert encode(event) in {None, by_fastavro(schema, event)}


def test_what_is_plain_is_encoded_in_c() -> None:
    """All kinds, with and without null, at their limits, and longer than what is kept on the stack."""
    fields = [{"name": f"f{at}", "type": kind} for at, kind in enumerate(TYPES)]
    fields += [{"name": f"n{at}", "type": ["null", kind], "default": None} for at, kind in enumerate(TYPES)]
    schema = event_schema("Thing", *fields).writer
    plain = [-(2**31), 2**63 - 1, struct.unpack("<d", b"12345678")[0], True, "é" * 5000, b"\0" * 5000, 0, -(2**63), 64]
    events: list[dict[str, Any]] = [
        {**HEADER, **{f"f{at}": value for at, value in enumerate(plain)}},
        {**HEADER, **{f"{each}{at}": value for each in "fn" for at, value in enumerate(plain)}},
        {**HEADER, **{f"f{at}": value for at, value in enumerate(plain)}, **{f"n{at}": None for at in range(9)}},
    ]
    encode = flat_encoder(HEAD, schema)
    assert encode is not None
    for event in events:
        assert encode(event) == by_fastavro(schema, event) is not None


class Level(IntEnum):
    LOW = 1


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "change",
    [
        {"f": Level.LOW},
        {"f": True},
        {"f": 2**63},
        {"f": 1.0},
        {"g": Text("a")},
        {"g": "\ud800"},
        {"g": b"a"},
        {"more": 1},
        {"-type": "Thing"},
    ],
)
def test_what_is_not_plain_is_left_to_fastavro(change: dict[str, Any]) -> None:
    """It may take it, or says what is wrong with it."""
    schema = event_schema("Thing", {"name": "f", "type": "long"}, {"name": "g", "type": ["null", "string"]})
    event = {**HEADER, "f": 1, "g": None, **change}
    encode = flat_encoder(HEAD, schema.writer)
    assert encode is not None
    assert encode(event) is None
    assert encode(type("Event", (dict,), {})(event)) is None
    encoder = EventEncoder(KnownSchemas({"things": schema}))
    expected = by_fastavro(schema.writer, event)
    if expected is None:
        with pytest.raises(UnencodableEventError):
            encoder.encode("things", event)
    else:
        assert encoder.encode("things", event)[10:] == expected[10:]


@pytest.mark.parametrize(
    "kind",
    [
        {"type": "array", "items": "int"},
        {"type": "enum", "name": "E", "symbols": ["A"]},
        {"type": "bytes", "logicalType": "decimal", "precision": 4},
        ["null", "int", "string"],
        "float",
    ],
)
def test_other_schemas_are_left_to_fastavro(kind: Any) -> None:
    """Such as those with arrays, enums, decimals and unions of several types."""
    assert flat_encoder(HEAD, event_schema("Thing", {"name": "f", "type": kind}).writer) is None


def test_nothing_is_kept() -> None:
    """Neither of events that were encoded, nor of those that were left, nor of programs."""
    schema = event_schema("Thing", {"name": "f", "type": "string"}).writer
    value, bad = "a text " * 400, 10**30

    def encode_some() -> None:
        encode = flat_encoder(HEAD, schema)
        assert encode is not None
        for _ in range(100):
            assert encode({**HEADER, "f": value}) is not None
            assert encode({**HEADER, "f": bad}) is None

    encode_some()
    before = sys.getrefcount(value), sys.getrefcount(bad), sys.getrefcount(HEAD), sys.getrefcount(None)
    encode_some()
    after = sys.getrefcount(value), sys.getrefcount(bad), sys.getrefcount(HEAD), sys.getrefcount(None)
    assert before[:3] == after[:3]
    assert abs(before[3] - after[3]) < 50


def test_programs_are_checked() -> None:
    """A kind that there is not would read beyond a table."""
    assert module.compiled is not None
    for field in [("f", 6, -1, False), ("f", -1, -1, False), ("f", 0, 2, False), ("f", 0, -1, True)]:
        with pytest.raises(ValueError, match="no kind of field"):
            module.compiled.program(HEAD, [field])
    with pytest.raises(TypeError):
        module.compiled.program(HEAD, [("f", 0, -1)])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="PyCapsule"):
        module.compiled.encode(object(), {})
