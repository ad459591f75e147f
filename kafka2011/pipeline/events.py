"""Events as bytes: Avro's single-object encoding, and the header read without decoding the rest.

    payload = C3 01 | fingerprint, 8 bytes | body
    body    = time | published_at | server | id | the fields of the schema's own

That is the paper's "schema id, then bytes" in its standard form. Numbers in the body are zigzag varints, texts their
length and UTF-8. Nothing here asks ZooKeeper: a `Schemas`, such as the registry, says what a fingerprint stands for.
"""

from __future__ import annotations

import io
import struct
from copy import deepcopy
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kafka2011.pipeline.errors import UndecodableEventError, UnencodableEventError, UnknownSchemaError
from kafka2011.pipeline.extra import missing_extra
from kafka2011.pipeline.resolution import shared_defaults

try:
    from fastavro import schemaless_reader, schemaless_writer
except ImportError as error:
    raise missing_extra(error) from error

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafka2011.message import Message
    from kafka2011.pipeline.schemas import EventSchema

MARK = b"\xc3\x01"
HEADER_BYTES = 10
"""Of the mark and the fingerprint."""


class Schemas(Protocol):
    """Says which schemas there are; `registry.SchemaRegistry` is one."""

    def schema_of(self, fingerprint: str) -> EventSchema:
        """Return what a fingerprint stands for. Raises UnknownSchemaError."""

    def newest(self, topic: str) -> EventSchema:
        """Return a topic's newest schema. Raises UnknownSchemaError."""


class Event(NamedTuple):
    """A decoded event: its fields by name, and the schema that it was written with.

    Times are whole numbers in the unit of their schema (`time` and `published_at`: microseconds since 1970), ids text.
    """

    schema: EventSchema
    fields: dict[str, Any]


class Stamp(NamedTuple):
    """What the header says of an event: when it was published and happened, in microseconds since 1970, and its id."""

    published_at_us: int
    id: str
    time_us: int


class EventEncoder:
    """Encodes events of topics with the schemas of its own, or else with the newest of each topic when first used.

    Give the schemas that the application was written for: so it goes on with them when others register newer ones.
    They must have been registered. May be shared by threads.
    """

    def __init__(self, schemas: Schemas, own: Mapping[str, EventSchema] | None = None) -> None:
        self._schemas = schemas
        self._own = dict(own or {})
        self._heads: dict[str, tuple[bytes, Any]] = {}

    def encode(self, topic: str, event: Mapping[str, Any]) -> bytes:
        """Return the payload of an event; times may be datetimes with a zone, or numbers.

        Raises UnencodableEventError when a field without default is missing, when there is one that the schema has not,
        and when a value does not fit; UnknownSchemaError.
        """
        head, schema = self._heads.get(topic) or self._head(topic)
        body = io.BytesIO()
        body.write(head)
        try:
            schemaless_writer(body, schema, event, strict_allow_default=True)
        except Exception as error:
            raise UnencodableEventError(f"topic {topic}: event does not fit {schema['name']}: {error}") from error
        return body.getvalue()

    def encode_all(self, topic: str, events: Iterable[Mapping[str, Any]]) -> list[bytes]:
        """Return the payloads of events; raises as `encode` does, for the first that does not fit."""
        return [self.encode(topic, event) for event in events]

    def _head(self, topic: str) -> tuple[bytes, Any]:
        schema = self._own.get(topic) or self._schemas.newest(topic)
        found = self._heads[topic] = (MARK + bytes.fromhex(schema.fingerprint), schema.writer)
        return found


class _Reading(NamedTuple):
    """How events of one schema are read."""

    schema: EventSchema
    written: Any
    wanted: Any
    shared: list[str]


class EventDecoder:
    """Decodes events, each with the schema that it names; with `reader`, into the fields of that schema.

    May be shared by threads.
    """

    def __init__(self, schemas: Schemas, reader: EventSchema | None = None) -> None:
        self._schemas = schemas
        self._reader = reader
        self._known: dict[bytes, _Reading] = {}

    def decode(self, message: Message) -> Event:
        """Decode one message. Raises UndecodableEventError, and what the schemas raise when they cannot be asked."""
        try:
            return self.decode_payload(message.payload)
        except UndecodableEventError as error:
            raise _placed(error, message) from error

    def decode_all(self, messages: Sequence[Message]) -> list[Event | UndecodableEventError]:
        """Decode messages; in the place of one that cannot be decoded is the error."""
        found: list[Event | UndecodableEventError] = []
        for message in messages:
            try:
                found.append(self.decode_payload(message.payload))
            except UndecodableEventError as error:
                found.append(_placed(error, message))
        return found

    def decode_payload(self, payload: bytes) -> Event:
        """Decode a payload; the errors are those of `decode`, without a place."""
        schema, written, wanted, shared = self._known.get(payload[:HEADER_BYTES]) or self._reading(payload)
        body = io.BytesIO(payload)
        body.seek(HEADER_BYTES)
        try:
            fields: Any = schemaless_reader(body, written, wanted)
        except Exception as error:
            why = f"{type(error).__name__} {error}".strip()
            raise UndecodableEventError(f"the body does not fit {schema.name}: {why}", schema.fingerprint) from error
        if body.tell() != len(payload):
            why = f"{len(payload) - body.tell()} bytes are left over after {schema.name}"
            raise UndecodableEventError(why, schema.fingerprint)
        for name in shared:
            fields[name] = deepcopy(fields[name])
        return Event(schema, fields)

    def _reading(self, payload: bytes) -> _Reading:
        fingerprint = fingerprint_of(payload)
        try:
            schema = self._schemas.schema_of(fingerprint)
        except UnknownSchemaError as error:
            raise UndecodableEventError("the schema is not registered", fingerprint) from error
        if self._reader is None or self._reader == schema:
            reading = _Reading(schema, schema.reader, None, [])
        else:
            wanted = self._reader.reader_of(schema)
            reading = _Reading(schema, schema.reader, wanted, shared_defaults(wanted))
        self._known[payload[:HEADER_BYTES]] = reading
        return reading


def fingerprint_of(payload: bytes) -> str:
    """Return the fingerprint that a payload names, in hex. Raises UndecodableEventError when it is no event."""
    if payload[:2] != MARK or len(payload) < HEADER_BYTES:
        raise UndecodableEventError(f"not an event: it begins with {payload[:4].hex(' ') or 'nothing'}, not with c3 01")
    return payload[2:HEADER_BYTES].hex()


def _placed(error: UndecodableEventError, message: Message) -> UndecodableEventError:
    broker = "-" if message.broker_id is None else message.broker_id
    partition = f"{broker}-{message.partition}"
    return UndecodableEventError(
        error.reason, error.fingerprint, topic=message.topic, partition=partition, offset=message.offset
    )


# The header alone ----------------------------------------------------------------------------------------------------

_TWO_TIMES = struct.Struct("<QQ").unpack_from
_ENDS = 0x8080808080808080
_EIGHT_BYTES = 0x0080808080808080  # every byte but the last says that another one follows
_SERVER_AT = HEADER_BYTES + 16
_ID_BYTES = 36


def read_stamp(payload: bytes) -> Stamp:
    """Read the header of an event, without its schema and the rest. Raises UndecodableEventError."""
    try:
        time, published_at = _TWO_TIMES(payload, HEADER_BYTES)
        server_bytes = payload[_SERVER_AT]
        id_at = _SERVER_AT + 2 + (server_bytes >> 1)
        if (
            payload[:2] == MARK
            and time & _ENDS == published_at & _ENDS == _EIGHT_BYTES
            and not (server_bytes & 0x81 or time & 1 or published_at & 1)
            and payload[id_at - 1] == _ID_BYTES << 1
            and len(payload) >= id_at + _ID_BYTES
        ):
            return Stamp(_unfolded(published_at), payload[id_at : id_at + _ID_BYTES].decode(), _unfolded(time))
    except (struct.error, IndexError):
        pass
    return _read_any_stamp(payload)


def read_stamps(payloads: Sequence[bytes]) -> list[Stamp | None]:
    """Read the headers of events; None in the place of a payload for which `read_stamp` raises."""
    found: list[Stamp | None] = []
    for payload in payloads:
        try:
            found.append(read_stamp(payload))
        except UndecodableEventError:
            found.append(None)
    return found


def _unfolded(eight: int) -> int:
    """Return the number in a varint of eight bytes: those of times from 1979 to 3111. Seven bits of each, doubled."""
    eight = (eight & 0x007F007F007F007F) | (eight & 0x7F007F007F007F00) >> 1
    eight = (eight & 0x00003FFF00003FFF) | (eight & 0x3FFF00003FFF0000) >> 2
    return (eight & 0x0FFFFFFF | eight >> 32 << 28) >> 1


def _read_any_stamp(payload: bytes) -> Stamp:
    fingerprint = fingerprint_of(payload)
    try:
        time, at = _varint(payload, HEADER_BYTES)
        published_at, at = _varint(payload, at)
        _server, at = _text(payload, at)
        event_id, _ = _text(payload, at)
    except (IndexError, UnicodeDecodeError) as error:
        raise UndecodableEventError("the header is cut short, or not text where it must be", fingerprint) from error
    return Stamp(published_at, event_id, time)


def _varint(payload: bytes, at: int) -> tuple[int, int]:
    """Return the number at a position, and the position after it. Raises IndexError."""
    folded = shift = 0
    while True:
        byte = payload[at]
        at += 1
        folded |= (byte & 0x7F) << shift
        if byte < 0x80:
            return folded >> 1 ^ -(folded & 1), at
        shift += 7


def _text(payload: bytes, at: int) -> tuple[str, int]:
    """Return the text at a position, and the position after it. Raises IndexError and UnicodeDecodeError."""
    length, at = _varint(payload, at)
    if not 0 <= length <= len(payload) - at:
        raise IndexError
    return payload[at : at + length].decode(), at + length
