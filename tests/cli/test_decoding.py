"""Events as `consume --decode` prints them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafka2011.cli.decoding import Decoding
from kafka2011.cli.formats import named, pattern
from kafka2011.errors import KafkaError
from kafka2011.events.codec import EventDecoder, EventEncoder
from kafka2011.events.schemas import KnownSchemas, event_schema
from kafka2011.message.message_set import Message

VIEW = event_schema(
    "View",
    {"name": "url", "type": "string"},
    {"name": "seen", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": None},
    {"name": "raw", "type": "bytes", "default": ""},
    {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "default": ""},
)
EVENT: dict[str, Any] = {"time": 1_307_872_800_000_001, "published_at": 2**62, "server": "w", "id": "0", "url": "/ü"}
SCHEMAS = KnownSchemas({"views": VIEW})
SHOWN = {
    "time": "2011-06-12T10:00:00.000001Z",
    "published_at": 2**62,
    "server": "w",
    "id": "0",
    "url": "/ü",
    "seen": "1970-01-01T00:00:00.007000Z",
    "raw": "ÿ",
    "price": "1.25",
}


def message(payload: bytes | None = None) -> Message:
    from decimal import Decimal

    event = {**EVENT, "seen": 7, "raw": b"\xff", "price": Decimal("1.25")}
    return Message("views", 2, 0, 70, 99, 0, payload or EventEncoder(SCHEMAS).encode("views", event))


@pytest.fixture
def decoding() -> Decoding:
    return Decoding(EventDecoder(SCHEMAS))


def test_an_event_is_its_schemas_name_and_its_fields(decoding: Decoding) -> None:
    """Times as people read them; one that no calendar has stays a number."""
    name, _, fields = decoding.within(named("payload", b"\n"))(message()).decode().partition(" ")
    assert name == "kafka2011.View"
    assert json.loads(fields) == SHOWN
    decoding.end()


def test_a_pattern_has_it_in_place_of_the_payload(decoding: Decoding) -> None:
    """With all else that is known of the message."""
    printed = decoding.within(pattern(r"%t %b-%p %o|%s"))(message())
    assert printed.startswith(b"views 2-0 70|kafka2011.View {")


def test_json_has_the_event_as_an_object(decoding: Decoding) -> None:
    """Not as a text within a text."""
    printed = json.loads(decoding.as_json(b"\n")(message()))
    assert printed == {
        "topic": "views",
        "broker_id": 2,
        "partition": 0,
        "offset": 70,
        "next_offset": 99,
        "index_in_set": 0,
        "schema": "kafka2011.View",
        "fingerprint": VIEW.fingerprint,
        "event": SHOWN,
    }


def test_what_is_no_event_is_logged_and_counted(decoding: Decoding, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is printed for it, the others are, and the command fails in the end."""
    to_bytes = decoding.within(named("payload", b"\n"))
    assert [bool(to_bytes(each)) for each in (message(b"x"), message(), message(b"y"))] == [False, True, False]
    assert "views/2-0 offset 70: not an event" in caplog.text
    with pytest.raises(KafkaError, match="2 messages could not be decoded"):
        decoding.end()
