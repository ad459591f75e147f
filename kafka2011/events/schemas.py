"""Event schemas: parsing, fingerprints, and which of them reads whose events.

Schemas are Avro's. Every event's record begins with the same four fields, the paper's header, so that whoever counts
events need not know the rest:

    time          long, timestamp-micros    when it happened
    published_at  long, timestamp-micros    when it was given to a producer
    server        string                    where
    id            string, uuid              of this event, the same however often it is published

The fingerprint is Avro's CRC-64 of the canonical form, 16 hex digits in the order of its bytes in an event.
Schemas that differ only in a default, an alias, a logical type or a text for people share it: their bytes are the same.
"""

from __future__ import annotations

import json
from contextlib import suppress
from copy import deepcopy
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from kafka2011.errors import missing_extra
from kafka2011.events.depth import check_document
from kafka2011.events.errors import InvalidSchemaError, UnansweredSchemaError, UnknownSchemaError
from kafka2011.events.logical_types import logical_type
from kafka2011.events.resolution import (
    for_reading,
    for_writing,
    has_weightless_items,
    inexact_union,
    repeated_alias,
    without_ignored,
)
from kafka2011.events.schema_files import schema_json, with_references
from kafka2011.events.schema_walk import RECORDS, qualify_aliases, undefined_type, walk

try:
    import avro.compatibility
    import avro.schema
    import fastavro.schema
except ImportError as error:
    raise missing_extra(error) from error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

HEADER: tuple[dict[str, Any], ...] = (
    {"name": "time", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "published_at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "server", "type": "string"},
    {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
)
"""The fields at the start of every event."""

MAX_TEXT_BYTES = 256 * 1024
"""The limit for one schema, far below the 1 MiB that a znode may hold."""

_FINGERPRINT = "CRC-64-AVRO"


class EventSchema:
    """Holds one schema as its author wrote it; two are equal when their texts mean the same, documentation included.

    `text` is the schema in JSON. Raises InvalidSchemaError.
    """

    def __init__(self, text: str) -> None:
        """Parse a schema's JSON. Raises InvalidSchemaError."""
        size_bytes = _text_bytes(text)
        if size_bytes > MAX_TEXT_BYTES:
            raise InvalidSchemaError(f"a schema of {size_bytes} bytes: at most {MAX_TEXT_BYTES} are taken")
        try:
            self.document: Any = schema_json(text)
            check_document(self.document)
            _check_record(self.document)
            self._compared = _for_comparison(self.document)
            self.writer: Any = for_writing(self.document)
            self.canonical = fastavro.schema.to_parsing_canonical_form(without_ignored(self.document))
        except InvalidSchemaError:
            raise
        except Exception as error:  # whatever two libraries may raise
            raise InvalidSchemaError(f"not an Avro schema: {error}") from error
        self.text = json.dumps(self.document, ensure_ascii=False)
        _text_bytes(self.text)
        self.fingerprint: str = fastavro.schema.fingerprint(self.canonical, _FINGERPRINT)
        _check_header(self.document)
        repeated = repeated_alias(self.document)
        if repeated is not None:
            raise InvalidSchemaError(f"record {self.document['name']}: {repeated} names two fields of one record")
        if has_weightless_items(self.writer):
            raise InvalidSchemaError(
                f"record {self.document['name']}: the items of an array take no bytes,"
                " so a short payload could fill the memory"
            )
        inexact = inexact_union(self.writer)
        if inexact is not None:
            raise InvalidSchemaError(
                f"record {self.document['name']}: a union has {inexact[0]} and then {inexact[1]}, whose values might be"
                " taken for the former's"
            )
        self.name = fastavro.schema.fullname(self.writer)

    @classmethod
    def of(cls, schema: EventSchema | str | dict[str, Any]) -> EventSchema:
        """Return a schema from its text, or from the same document as Python values."""
        if isinstance(schema, EventSchema):
            return schema
        return cls(schema if isinstance(schema, str) else json.dumps(schema))

    @classmethod
    def with_references(cls, text: str, references: Iterable[str]) -> EventSchema:
        """Return the schema of a text; `references` are texts that define types which it names.

        Raises InvalidSchemaError.
        """
        try:
            document, *documents = map(schema_json, (text, *references))
            for each in (document, *documents):
                check_document(each)
            whole = with_references(document, documents)
        except (AttributeError, KeyError, RecursionError, TypeError) as error:
            raise InvalidSchemaError(f"not Avro schemas: {error!r}") from error
        return cls(json.dumps(whole))

    @cached_property
    def reader(self) -> Any:
        """The parsed schema to decode its events with: times stay numbers, and ids text."""
        return for_reading(self.document)

    def reader_of(self, writer: EventSchema) -> Any:
        """Return the parsed schema that decodes events of the schema `writer` into this schema's fields."""
        return for_reading(self.document, writer.document)

    @cached_property
    def identity(self) -> str:
        """A text that is the same for equal schemas."""
        return json.dumps(self.document, sort_keys=True)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EventSchema) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def __reduce__(self) -> tuple[Callable[[str], EventSchema], tuple[str]]:
        return parsed_once, (self.text,)

    def __repr__(self) -> str:
        return f"<EventSchema {self.name} {self.fingerprint}>"


@lru_cache(1024)
def parsed_once(text: str) -> EventSchema:
    """Return the schema of a text, which this process parses once. Raises InvalidSchemaError."""
    return EventSchema(text)


class KnownSchemas:
    """Holds a snapshot of a registry for processes without ZooKeeper, such as Spark's executors; can be pickled."""

    def __init__(
        self,
        newest: Mapping[str, EventSchema],
        others: Iterable[EventSchema] = (),
        stored: Mapping[str, Sequence[tuple[int, EventSchema]]] | None = None,
        retired: Mapping[str, Sequence[tuple[int, EventSchema]]] | None = None,
        absent: Iterable[str] | None = None,
    ) -> None:
        """Take each topic's newest schema, any others, and of topics all that are in use and retired, by number.

        `absent` are fingerprints that nobody has registered; None if all are absent that are not among these schemas.
        """
        self._newest = dict(newest)
        self._stored = {topic: tuple(numbered) for topic, numbered in (stored or {}).items()}
        self._retired = {topic: tuple(numbered) for topic, numbered in (retired or {}).items()}
        self._others = tuple(others)
        self._absent = None if absent is None else frozenset(absent)
        lists = (*self._retired.values(), *self._stored.values())
        every = (schema for numbered in lists for _, schema in reversed(numbered))
        self._by_fingerprint = {schema.fingerprint: schema for schema in (*newest.values(), *every, *self._others)}

    def schema_of(self, fingerprint: str) -> EventSchema:
        """Return the schema that events of a fingerprint were written with.

        Raises UnknownSchemaError, or UnansweredSchemaError if somebody with ZooKeeper has to look it up.
        """
        schema = self._by_fingerprint.get(fingerprint)
        if schema is not None:
            return schema
        if self.is_answered(fingerprint):
            raise UnknownSchemaError.of_fingerprint(fingerprint)
        raise UnansweredSchemaError([fingerprint])

    def is_answered(self, fingerprint: str) -> bool:
        """Return whether it is known which schema a fingerprint stands for, or that there is none."""
        return fingerprint in self._by_fingerprint or self._absent is None or fingerprint in self._absent

    def with_answers(self, found: Iterable[EventSchema], absent: Iterable[str]) -> KnownSchemas:
        """Return these schemas and those that were `found` since; `absent` are fingerprints without a schema."""
        others = (*self._others, *found)
        known = None if self._absent is None else self._absent.union(absent)
        return KnownSchemas(self._newest, others, self._stored, self._retired, known)

    def newest(self, topic: str) -> EventSchema:
        """Return a topic's newest schema. Raises UnknownSchemaError."""
        schema = self._newest.get(topic)
        if schema is None:
            raise UnknownSchemaError.of_topic(topic)
        return schema

    def stored(self, topic: str) -> Sequence[tuple[int, EventSchema]]:
        """Return all schemas of a topic that are known and in use, with their numbers, the newest last.

        Raises UnknownSchemaError for a topic without schemas.
        """
        return self._stored[topic] if topic in self._stored else ((1, self.newest(topic)),)

    def retired(self, topic: str) -> Sequence[tuple[int, EventSchema]]:
        """Return the retired schemas of a topic, with their numbers."""
        return self._retired.get(topic, ())


def event_schema(name: str, *fields: dict[str, Any], doc: str = "", namespace: str = "kafka2011") -> EventSchema:
    """Return the schema `name` of an event with these fields after the header, in a `namespace`, with a `doc`."""
    return EventSchema.of(
        {"type": "record", "name": name, "namespace": namespace, "doc": doc, "fields": [*HEADER, *fields]}
    )


def why_unreadable(reader: EventSchema, writer: EventSchema) -> str | None:
    """Say why events of one schema cannot be read with another; None when they can."""
    checker = avro.compatibility.ReaderWriterCompatibilityChecker()  # type: ignore[no-untyped-call]
    result = checker.get_compatibility(
        reader._compared,
        writer._compared,
    )
    if result.compatibility is avro.compatibility.SchemaCompatibilityType.compatible:
        return None
    kinds = ", ".join(sorted(incompatibility.value.replace("_", " ") for incompatibility in result.incompatibilities))
    return f"{kinds}: {'; '.join(sorted(result.messages))} at {', '.join(sorted(result.locations))}"


def reads(reader: Any, writer: Any) -> bool:
    """Say whether values of one type can be read with another; both are JSON, and need no other types."""
    checker = avro.compatibility.ReaderWriterCompatibilityChecker()  # type: ignore[no-untyped-call]
    ours, theirs = (_for_comparison(part) for part in (reader, writer))
    result = checker.get_compatibility(ours, theirs)
    return result.compatibility is avro.compatibility.SchemaCompatibilityType.compatible


def other_unit(new: EventSchema, old: EventSchema) -> str | None:
    """Return a field whose times have another unit in the other schema, or whose decimals another scale; None without.

    Avro takes them for the same types, so a reader would take a value of the one for one of the other.
    """
    kinds = [{field["name"]: field["type"] for field in schema.document["fields"]} for schema in (new, old)]
    for name, kind in kinds[0].items():
        units = [[unit for part in walk(kind) if (unit := _unit(part))] for kind in (kind, kinds[1].get(name, kind))]
        if units[0] != units[1] and len(units[0]) == len(units[1]):
            return str(name)
    return None


def _unit(part: Any) -> str:
    """Return the unit of a time or the scale of a decimal, empty for what is neither."""
    logical = logical_type(part) or ""
    if logical == "decimal":
        return f"scale {part.get('scale', 0)}"
    return logical if logical.endswith(("-millis", "-micros")) else ""


def _for_comparison(document: Any) -> Any:
    """Return a schema as Avro's library parses it, to compare it with others.

    Logical types play no part in that, and those that the library does not know would print warnings. It parses errors,
    which are records, and cannot compare them.
    """
    document = deepcopy(document)
    with suppress(AttributeError, KeyError, TypeError):  # it is no schema, and the library says best why
        qualify_aliases(document)
        for part in walk(document):
            if isinstance(part, dict):
                part.pop("logicalType", None)
                part["type"] = "record" if part["type"] in RECORDS else part["type"]
    return avro.schema.parse(json.dumps(document))


def _text_bytes(text: str) -> int:
    """Return the size of a schema's text. Raises InvalidSchemaError for halves of characters, as JSON may escape."""
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidSchemaError(f"not an Avro schema: {error}") from error


def _check_record(document: Any) -> None:
    """Raise InvalidSchemaError if a schema's JSON is not that of a record whose types are all defined."""
    if isinstance(document, list):
        raise InvalidSchemaError(
            f"the schema of an event is a record, and this is a list of {len(document)}: give the record alone, and the"
            " types that it names with --reference FILE"
        )
    if isinstance(document, dict) and "protocol" in document:
        raise InvalidSchemaError(
            "the schema of an event is a record, and this is a protocol: give one of its types alone"
        )
    if not isinstance(document, dict) or document.get("type") != "record":
        raise InvalidSchemaError("the schema of an event is a record")
    with suppress(AttributeError, KeyError, TypeError):  # it is no schema, and the library says best why
        name = undefined_type(document)
        if name is not None:
            raise InvalidSchemaError(
                f"record {document['name']}: type {name} is not defined: give the file that defines it with --reference"
                " FILE"
            )


def _check_header(document: Any) -> None:
    fields = document["fields"]
    for number, wanted in enumerate(HEADER):
        field = fields[number] if number < len(fields) else {}
        if (field.get("name"), field.get("type")) != (wanted["name"], wanted["type"]):
            actual = json.dumps(field) if field else "missing"
            raise InvalidSchemaError(
                f"record {document['name']}: field {number + 1} must be {json.dumps(wanted)} and is {actual}:"
                " every event begins with the same four"
            )
