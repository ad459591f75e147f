"""The check and the reader agree: a schema is refused exactly where events could not be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafka2011.events.codec import EventDecoder, EventEncoder
from kafka2011.events.errors import UndecodableEventError
from kafka2011.events.schemas import EventSchema, KnownSchemas, event_schema, why_unreadable
from tests.support.schema_pairs import schema_pairs

if TYPE_CHECKING:
    from collections.abc import Iterable

OWN = {"time": 1, "published_at": 2, "server": "web-1", "id": "00000000-0000-8000-8000-000000000000"}


def refused(writer: EventSchema, reader: EventSchema, events: Iterable[dict[str, Any]]) -> list[str]:
    """Return why events of a writer cannot be read with another schema."""
    known = KnownSchemas({"things": writer})
    encoder, decoder = EventEncoder(known), EventDecoder(known, reader)
    reasons = []
    for event in events:
        try:
            decoder.decode_payload(encoder.encode("things", event))
        except UndecodableEventError as error:
            reasons.append(str(error))
    return reasons


def test_pairs_of_schemas_are_refused_exactly_if_an_event_cannot_be_read() -> None:
    """Types are renamed with aliases and without, become wider and narrower, and come and go; see `schema_pairs`."""
    compatible = 0
    for writer, reader, events in schema_pairs(seed=2011, count=600):
        why, reasons = why_unreadable(reader, writer), refused(writer, reader, events)
        assert (why is None) == (not reasons), f"{writer.text}\n{reader.text}\ncheck: {why}\nreader: {reasons[:1]}"
        compatible += why is None
    assert 100 < compatible < 500


KINDS: dict[str, tuple[dict[str, Any], Any]] = {
    "record": ({"type": "record", "fields": [{"name": "a", "type": "int"}]}, {"a": 1}),
    "error": ({"type": "error", "fields": [{"name": "a", "type": "int"}]}, {"a": 1}),
    "enum": ({"type": "enum", "symbols": ["A"]}, "A"),
    "fixed": ({"type": "fixed", "size": 1}, b"x"),
}
AROUND: dict[str, tuple[Any, Any]] = {
    "a field": (lambda kind: kind, lambda value: value),
    "a union": (lambda kind: ["null", kind], lambda value: value),
    "an array": (lambda kind: {"type": "array", "items": kind}, lambda value: [value]),
    "a map": (lambda kind: {"type": "map", "values": kind}, lambda value: {"k": value}),
}
RENAMED: dict[str, tuple[str, dict[str, Any], bool]] = {
    "a short alias": ("Old", {"name": "New", "aliases": ["Old"]}, True),
    "a full alias": ("Old", {"name": "New", "aliases": ["kafka2011.Old"]}, True),
    "an alias in another namespace": ("other.Old", {"name": "New", "aliases": ["other.Old"]}, True),
    "one of several aliases": ("Old", {"name": "New", "aliases": ["Never", "Old"]}, True),
    "a namespace of its own": ("there.Old", {"name": "New", "namespace": "there", "aliases": ["Old"]}, True),
    "another namespace": ("other.Old", {"name": "Old"}, True),
    "no alias": ("Old", {"name": "New"}, False),
    "an alias of another type": ("Old", {"name": "New", "aliases": ["Older"]}, False),
    "a short alias of a type in another namespace": ("other.Old", {"name": "New", "aliases": ["Old"]}, False),
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", RENAMED)
def test_a_renamed_type_is_read_by_its_alias(how: str, kind: str, around: str) -> None:
    old_name, new, is_read = RENAMED[how]
    (document, value), (wrapped, wrapped_value) = KINDS[kind], AROUND[around]
    writer = event_schema("Event", {"name": "f", "type": wrapped({**document, "name": old_name})})
    reader = event_schema("Event", {"name": "f", "type": wrapped({**document, **new})})
    assert (why_unreadable(reader, writer) is None) is is_read
    assert bool(refused(writer, reader, [{**OWN, "f": wrapped_value(value)}])) is not is_read


def test_an_alias_is_followed_in_schemas_without_a_namespace() -> None:
    document, value = KINDS["record"]
    writer, reader = (
        event_schema("Event", {"name": "f", "type": {**document, **names}}, namespace="")
        for names in ({"name": "Old"}, {"name": "New", "aliases": ["Old"]})
    )
    assert why_unreadable(reader, writer) is None
    assert not refused(writer, reader, [{**OWN, "f": value}])
