"""Events as bytes: encoded, decoded, and their headers read alone."""

from __future__ import annotations

import pickle
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafka2011.config import ProducerConfig
from kafka2011.events.codec import EventDecoder, EventEncoder, Stamp, read_stamp, read_stamps
from kafka2011.events.errors import UndecodableEventError, UnencodableEventError
from kafka2011.events.schemas import KnownSchemas, event_schema
from kafka2011.events.types import EVENT_TYPES, PAGE_VIEW
from kafka2011.message.message_set import Message
from kafka2011.producer.encoder import own_encoder, payloads_of

VIEW = event_schema("View", {"name": "url", "type": "string"})
ID = "0c2ae1a4-5b6e-4f6a-9d3c-2f1d8a7b6c5d"
EVENT: dict[str, Any] = {
    "time": 1_307_872_800_000_000,
    "published_at": 1_307_872_800_000_005,
    "server": "web-1",
    "id": ID,
    "url": "/jobs",
}


SCHEMAS = KnownSchemas({"views": VIEW})
PAYLOAD = EventEncoder(SCHEMAS).encode("views", EVENT)


def message(payload: bytes, offset: int = 70) -> Message:
    return Message("views", 2, 0, offset, offset + len(payload) + 10, 0, payload)


def varint(number: int) -> bytes:
    """Return a number as Avro writes it, composed here from the specification."""
    folded = (number << 1) ^ (number >> 63)
    found = bytearray()
    while folded > 0x7F:
        found.append(folded & 0x7F | 0x80)
        folded >>= 7
    return bytes([*found, folded])


def text(value: str) -> bytes:
    return varint(len(value.encode())) + value.encode()


def test_the_bytes_are_avros() -> None:
    """Mark, the fingerprint's little-endian bytes, and the fields in order: any Avro library reads it."""
    assert (
        b"\xc3\x01"
        + bytes.fromhex(VIEW.fingerprint)
        + varint(EVENT["time"])
        + varint(EVENT["published_at"])
        + text("web-1")
        + text(ID)
        + text("/jobs")
    ) == PAYLOAD


def test_the_fingerprint_is_that_of_the_specification() -> None:
    """CRC-64-AVRO of the canonical form, computed here bit by bit as the specification writes it."""
    crc = empty = 0xC15D213AA4D7A795
    for byte in VIEW.canonical.encode():
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (empty if crc & 1 else 0)
    assert VIEW.fingerprint == crc.to_bytes(8, "little").hex()


def test_what_is_encoded_is_decoded() -> None:
    """Times stay numbers and the id text; the event knows its schema."""
    assert EventDecoder(SCHEMAS).decode(message(PAYLOAD)) == (VIEW, EVENT)


def test_times_and_ids_may_be_given_as_python_has_them() -> None:
    """A datetime with a zone and a UUID become the same bytes."""
    given_so = {**EVENT, "time": datetime.fromtimestamp(1_307_872_800, UTC), "id": uuid.UUID(ID)}
    assert EventEncoder(SCHEMAS).encode("views", given_so) == PAYLOAD


def test_an_application_goes_on_with_its_own_schema() -> None:
    """Whatever the topic's newest is meanwhile."""
    newer = event_schema("View", {"name": "url", "type": "string"}, {"name": "more", "type": "int", "default": 0})
    assert EventEncoder(KnownSchemas({"views": newer}), {"views": VIEW}).encode("views", EVENT) == PAYLOAD
    assert EventEncoder(KnownSchemas({"views": newer})).encode("views", EVENT) != PAYLOAD


def test_a_reader_of_another_schema_gets_its_fields() -> None:
    """Newer ones have defaults where the writer had nothing; what the reader does not know is left out."""
    newer = event_schema("View", {"name": "status", "type": "int", "default": 200})
    decoded = EventDecoder(SCHEMAS, reader=newer).decode(message(PAYLOAD))
    assert decoded.fields == {**{name: EVENT[name] for name in ("time", "published_at", "server", "id")}, "status": 200}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"url": None}, "View"),
        ({"url": 5}, "View"),
        ({"time": "yesterday"}, "View"),
        ({"color": "red"}, "color"),
        ({"published_at": 2**63}, "View"),
    ],
)
def test_an_event_that_does_not_fit_is_refused(change: dict[str, Any], reason: str) -> None:
    """The error names the topic and the schema; a field too many is one that would be lost in silence."""
    with pytest.raises(UnencodableEventError, match=f"topic views: .*{reason}"):
        EventEncoder(SCHEMAS).encode("views", {**EVENT, **change})


def test_an_event_without_a_field_is_refused() -> None:
    """Unless the schema has a default for it."""
    without = {name: value for name, value in EVENT.items() if name != "url"}
    with pytest.raises(UnencodableEventError, match="url"):
        EventEncoder(SCHEMAS).encode("views", without)
    page_views = KnownSchemas({"page_views": PAGE_VIEW})
    decoded = EventDecoder(page_views).decode_payload(EventEncoder(page_views).encode("page_views", without))
    assert decoded.fields == {**dict.fromkeys((f["name"] for f in PAGE_VIEW.document["fields"]), None), **without}


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "not an event: it begins with nothing"),
        (b"GET / HTTP/1.1", "not an event: it begins with 47 45 54 20"),
        (PAYLOAD[:9], "not an event"),
        (PAYLOAD[:10], "the body does not fit"),
        (PAYLOAD[:-1], "the body does not fit"),
        (PAYLOAD + b"x", "1 bytes are left over"),
        (PAYLOAD[:-5] + b"\xff" * 5, "the body does not fit"),
        (b"\xc3\x01" + bytes(8) + PAYLOAD[10:], "the schema is not registered"),
    ],
)
def test_what_is_no_event_is_an_error_that_names_its_place(payload: bytes, reason: str) -> None:
    """Topic, partition, offset, fingerprint and reason, as attributes and in the text."""
    with pytest.raises(UndecodableEventError, match=f"^views/2-0 offset 70: {reason}") as caught:
        EventDecoder(SCHEMAS).decode(message(payload))
    error = caught.value
    assert (error.topic, error.partition, error.offset) == ("views", "2-0", 70)
    assert reason in error.reason
    assert error.fingerprint == (payload[2:10].hex() if payload[:2] == b"\xc3\x01" and len(payload) > 9 else None)
    assert error.fingerprint is None or error.fingerprint in str(error)


def test_of_many_messages_the_good_ones_are_decoded() -> None:
    """An error stands in the place of each one that is not an event."""
    good, bad, again = EventDecoder(SCHEMAS).decode_all([message(PAYLOAD), message(b"x", 99), message(PAYLOAD)])
    assert good == again == (VIEW, EVENT)
    assert isinstance(bad, UndecodableEventError)
    assert bad.offset == 99


class ViewSerializer:
    """An application's own class, made without arguments, as the setting wants it."""

    def __init__(self) -> None:
        self._encoder = EventEncoder(SCHEMAS)

    def encode(self, event: dict[str, Any]) -> bytes:
        return self._encoder.encode("views", event)


def test_an_encoder_may_be_the_producers_serializer() -> None:
    """`send` takes events then, one or many."""
    serializer = own_encoder(ProducerConfig.of({"zk.connect": "h:1", "serializer.class": f"{__name__}:ViewSerializer"}))
    assert payloads_of(EVENT, serializer) == [PAYLOAD]
    assert payloads_of([EVENT, EVENT], serializer) == [PAYLOAD, PAYLOAD]


def test_a_schema_survives_pickling() -> None:
    """Spark's executors get it from the driver."""
    assert pickle.loads(pickle.dumps(VIEW)) == VIEW


def test_all_event_types_have_a_topic_and_a_name_of_their_own() -> None:
    """No two share a fingerprint."""
    assert len({schema.fingerprint for schema in EVENT_TYPES.values()}) == len(EVENT_TYPES)
    assert len({schema.name for schema in EVENT_TYPES.values()}) == len(EVENT_TYPES)


# The header alone ----------------------------------------------------------------------------------------------------

TIMES = st.integers(-(2**63), 2**63 - 1) | st.integers(2**48, 2**55) | st.integers(-(2**55), -(2**48))
SERVERS = st.text(max_size=80) | st.integers(60, 70).map("x".__mul__)
IDS = st.uuids().map(str) | st.text(max_size=80)


@given(time=TIMES, published_at=TIMES, server=SERVERS, event_id=IDS)
@example(time=2**55, published_at=-(2**48), server="web-1", event_id=ID)
@example(time=-(2**48), published_at=2**55, server="web-1", event_id=ID)
@example(time=2**48, published_at=2**55 - 1, server=64 * "H", event_id=ID)  # H is 72, the length of an id
@example(time=2**48, published_at=2**55 - 1, server=63 * "H", event_id=ID)
@example(time=2**48, published_at=2**55 - 1, server="web-1", event_id=40 * "x")
def test_the_stamp_is_what_decoding_gives(time: int, published_at: int, server: str, event_id: str) -> None:
    """Whatever the header holds, on the fast way and on the other."""
    event = {**EVENT, "time": time, "published_at": published_at, "server": server, "id": event_id}
    payload = EventEncoder(SCHEMAS).encode("views", event)
    decoded = EventDecoder(SCHEMAS).decode(message(payload)).fields
    assert decoded == event
    expected = Stamp(published_at, event_id, time)
    assert read_stamp(payload) == expected
    assert read_stamps([payload, b"", payload]) == [expected, None, expected]


@given(payload=st.binary(max_size=120) | st.binary(max_size=100).map(lambda rest: PAYLOAD[:10] + rest))
def test_reading_the_stamp_of_garbage_raises_its_error_and_nothing_else(payload: bytes) -> None:
    """Or gives a stamp, where the bytes happen to make one."""
    try:
        stamp = read_stamp(payload)
    except UndecodableEventError:
        return
    assert isinstance(stamp, Stamp)


def test_only_an_event_has_a_stamp() -> None:
    """However well the rest looks."""
    with pytest.raises(UndecodableEventError, match="not an event"):
        read_stamp(b"\xc3\x02" + PAYLOAD[2:])


@pytest.mark.parametrize("at", [0, 35])
def test_an_id_that_is_no_text_is_an_error(at: int) -> None:
    """On the fast way too."""
    at += PAYLOAD.index(ID.encode())
    with pytest.raises(UndecodableEventError, match="where a number or text must be"):
        read_stamp(PAYLOAD[:at] + b"\xff" + PAYLOAD[at + 1 :])


def test_a_number_of_too_many_bytes_is_an_error() -> None:
    """Soon, however long the payload is."""
    with pytest.raises(UndecodableEventError, match="where a number or text must be"):
        read_stamp(PAYLOAD[:10] + 2_000_000 * b"\xff")


@pytest.mark.parametrize("end", range(PAYLOAD.index(ID.encode()) + len(ID)))
def test_a_header_that_is_cut_short_is_an_error(end: int) -> None:
    """At every byte."""
    with pytest.raises(UndecodableEventError):
        read_stamp(PAYLOAD[:end])
