"""Events as bytes: Avro's single-object encoding, and reading the header without decoding the rest.

    payload = C3 01 | fingerprint, 8 bytes | body
    body    = time | published_at | server | id | the schema's own fields

That is the paper's "schema id, then bytes" in its standard form. Numbers in the body are zigzag varints; a text is
its length and then UTF-8. Nothing here asks ZooKeeper: a `Schemas`, such as the registry, looks fingerprints up.
"""

from __future__ import annotations

import io
import struct
from copy import deepcopy
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kafka2011.errors import missing_extra
from kafka2011.events.depth import DepthCheck, depth_check
from kafka2011.events.errors import InvalidSchemaError, UndecodableEventError, UnencodableEventError, UnknownSchemaError
from kafka2011.events.flat_encoder import flat_encoder
from kafka2011.events.resolution import shared_defaults
from kafka2011.events.schema_walk import walk
from kafka2011.events.union_branches import branch_chooser
from kafka2011.events.varint import read_varint
from zk.errors import MalformedNode

try:
    from fastavro import schemaless_reader, schemaless_writer
except ImportError as error:
    raise missing_extra(error) from error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafka2011.events.schemas import EventSchema
    from kafka2011.message.message_set import Message

MARK = b"\xc3\x01"
HEADER_BYTES = 10
"""The mark and the fingerprint."""


class Schemas(Protocol):
    """Looks up schemas; `schema_registry.SchemaRegistry` is one."""

    def schema_of(self, fingerprint: str) -> EventSchema:
        """Return the schema that a fingerprint stands for. Raises UnknownSchemaError."""

    def newest(self, topic: str) -> EventSchema:
        """Return a topic's newest schema. Raises UnknownSchemaError."""


class Event(NamedTuple):
    """Holds a decoded event: its fields by name, and the schema that it was written with.

    Times are whole numbers in their schema's unit (`time` and `published_at`: microseconds since 1970); ids are text.
    """

    schema: EventSchema
    fields: dict[str, Any]


class Stamp(NamedTuple):
    """Holds an event's header: when it was published and when it happened, in microseconds since 1970, and its id."""

    published_at_us: int
    id: str
    time_us: int


class _Writing(NamedTuple):
    """How events of one topic are written: `flat` writes most of them, if the schema is flat."""

    head: bytes
    schema: Any
    depth: DepthCheck | None
    flat: Callable[[Mapping[str, Any]], bytes | None] | None
    named: Callable[[Mapping[str, Any]], Any] | None
    """Names the branch of each dict in an event whose union leaves a choice, if the schema has such unions."""


class EventEncoder:
    """Encodes events with the schemas in `own`; for other topics, with the newest when the topic is first used.

    Pass the schemas that the application was written for, so that it keeps using them when others register newer ones.
    They must be registered already. May be shared by threads.
    """

    def __init__(self, schemas: Schemas, own: Mapping[str, EventSchema] | None = None) -> None:
        self._schemas = schemas
        self._own = dict(own or {})
        self._ways: dict[str, _Writing] = {}

    def encode(self, topic: str, event: Mapping[str, Any]) -> bytes:
        """Return the payload of an event; times may be datetimes with a zone, or numbers.

        Raises UnencodableEventError when a field without a default is missing, a field is not in the schema, a value
        does not fit, or the event nests too deep; UnknownSchemaError when the topic has no schema.
        """
        head, schema, depth, flat, named = self._ways.get(topic) or self._way(topic)
        if flat is not None and (payload := flat(event)) is not None:
            return payload
        body = io.BytesIO()
        body.write(head)
        try:
            if depth is not None:
                depth.check_event(event)
            if named is not None:
                event = named(event)
            schemaless_writer(body, schema, event, strict_allow_default=True)
            if depth is not None:  # with its defaults
                depth.check_bytes(body.getvalue(), HEADER_BYTES)
        except Exception as error:
            raise UnencodableEventError(f"topic {topic}: event does not fit {schema['name']}: {error}") from error
        return body.getvalue()

    def encode_all(self, topic: str, events: Iterable[Mapping[str, Any]]) -> list[bytes]:
        """Return the payloads of events; raises as `encode` does for the first that does not fit."""
        return [self.encode(topic, event) for event in events]

    def _way(self, topic: str) -> _Writing:
        schema = self._own.get(topic) or self._schemas.newest(topic)
        head = MARK + bytes.fromhex(schema.fingerprint)
        parsed = schema.writer
        writing = _Writing(head, parsed, depth_check(parsed), flat_encoder(head, parsed), branch_chooser(parsed))
        self._ways[topic] = writing
        return writing


class Resolver(Protocol):
    """Says how events of each schema are read, for readers whose fields are those of many."""

    def resolved(self, writer: EventSchema) -> tuple[Any, Any]:
        """Return the parsed schemas of what was written, and of what is wanted: None for all of it.

        Raises UndecodableEventError where no event of that schema can be read.
        """


class _Reading(NamedTuple):
    """How events of one schema are read."""

    schema: EventSchema
    written: Any
    wanted: Any
    shared: list[str]
    depth: DepthCheck | None
    is_read_first: bool
    """Without what is wanted: fastavro believes any number of items that nobody wants, and goes through them all."""


class EventDecoder:
    """Decodes events, each with the schema that it names; with `reader`, into that schema's fields.

    A `resolver` says instead for each schema how its events are read. May be shared by threads.

    `schemas` is a SchemaRegistry or KnownSchemas.
    """

    def __init__(
        self, schemas: Schemas, reader: EventSchema | None = None, *, resolver: Resolver | None = None
    ) -> None:
        self._schemas = schemas
        self._reader = reader
        self._resolver = resolver
        self._known: dict[bytes, _Reading] = {}

    def decode(self, message: Message) -> Event:
        """Decode one message. Raises UndecodableEventError, and whatever `schemas` raises when a lookup fails."""
        try:
            return self.decode_payload(message.payload)
        except UndecodableEventError as error:
            raise _placed(error, message) from error

    def decode_all(self, messages: Sequence[Message]) -> list[Event | UndecodableEventError]:
        """Decode messages; where one cannot be decoded, the list holds the error instead."""
        decoded: list[Event | UndecodableEventError] = []
        for message in messages:
            try:
                decoded.append(self.decode_payload(message.payload))
            except UndecodableEventError as error:
                decoded.append(_placed(error, message))
        return decoded

    def decode_payload(self, payload: bytes) -> Event:
        """Decode a payload; raises as `decode` does, but the error does not say where the payload was read."""
        reading = self._known.get(payload[:HEADER_BYTES]) or self._reading(payload)
        schema, written, wanted, shared, depth, is_read_first = reading
        body = io.BytesIO(payload)
        body.seek(HEADER_BYTES)
        try:
            if depth is not None:
                depth.check_bytes(payload, HEADER_BYTES)
            if is_read_first:
                schemaless_reader(body, written, None)
                body.seek(HEADER_BYTES)
            fields: Any = schemaless_reader(body, written, wanted)
        except Exception as error:
            is_short = isinstance(error, EOFError)  # whose text holds an address
            why = "it is cut short" if is_short else f"{type(error).__name__} {error}".strip()
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
        except (InvalidSchemaError, MalformedNode) as error:
            raise UndecodableEventError(f"the schema cannot be used: {error}", fingerprint) from error
        written, wanted = self._resolved(schema)
        depth = depth_check(written)
        if wanted is None:
            reading = _Reading(schema, written, None, [], depth, is_read_first=False)
        else:
            has_items = any(isinstance(part, dict) and part["type"] in {"array", "map"} for part in walk(written))
            reading = _Reading(schema, written, wanted, shared_defaults(wanted), depth, has_items)
        self._known[payload[:HEADER_BYTES]] = reading
        return reading

    def _resolved(self, schema: EventSchema) -> tuple[Any, Any]:
        if self._resolver is not None:
            return self._resolver.resolved(schema)
        is_as_written = self._reader is None or self._reader == schema
        return schema.reader, None if is_as_written or self._reader is None else self._reader.reader_of(schema)


def fingerprint_of(payload: bytes) -> str:
    """Return the fingerprint that a payload names, in hex. Raises UndecodableEventError when it is not an event."""
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
_EIGHT_BYTES = 0x0080808080808080  # every byte but the last says that another follows
_SERVER_AT = HEADER_BYTES + 16
_ID_BYTES = 36


def read_stamp(payload: bytes) -> Stamp:
    """Read the header of an event, without its schema or the rest of it. Raises UndecodableEventError."""
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
    except (struct.error, IndexError, UnicodeDecodeError):
        pass
    return read_any_stamp(payload)


def read_stamps(payloads: Sequence[bytes]) -> list[Stamp | None]:
    """Read the headers of events; None in the place of a payload for which `read_stamp` raises."""
    stamps: list[Stamp | None] = []
    for payload in payloads:
        try:
            stamps.append(read_stamp(payload))
        except UndecodableEventError:
            stamps.append(None)
    return stamps


def _unfolded(eight: int) -> int:
    """Return the number in an eight-byte varint, as times from 1979 to 3111 have. Each byte holds seven bits."""
    eight = (eight & 0x007F007F007F007F) | (eight & 0x7F007F007F007F00) >> 1
    eight = (eight & 0x00003FFF00003FFF) | (eight & 0x3FFF00003FFF0000) >> 2
    return (eight & 0x0FFFFFFF | eight >> 32 << 28) >> 1


def read_any_stamp(payload: bytes) -> Stamp:
    """Read the stamp of any event, also one with fields of unusual length."""
    fingerprint = fingerprint_of(payload)
    try:
        time, at = read_varint(payload, HEADER_BYTES)
        published_at, at = read_varint(payload, at)
        _, at = _text_end(payload, at)  # its letters are not looked at, as by `read_stamp`
        start, end = _text_end(payload, at)
        event_id = payload[start:end].decode()
    except (IndexError, ValueError) as error:
        why = "the header is cut short, or has something else where a number or text must be"
        raise UndecodableEventError(why, fingerprint) from error
    return Stamp(published_at, event_id, time)


def _text_end(payload: bytes, at: int) -> tuple[int, int]:
    """Return where the letters of the text at a position begin and end. Raises IndexError and ValueError."""
    length, at = read_varint(payload, at)
    if not 0 <= length <= len(payload) - at:
        raise IndexError
    return at, at + length
