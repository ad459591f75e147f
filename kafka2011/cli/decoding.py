"""Events as `consume --decode` prints them: the schema's name, and the fields as JSON."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from kafka2011.cli.formats import as_object
from kafka2011.cli.output import counted
from kafka2011.errors import KafkaError
from kafka2011.events.errors import UndecodableEventError

if TYPE_CHECKING:
    from kafka2011.cli.formats import Format
    from kafka2011.events.codec import Event, EventDecoder
    from kafka2011.message.message_set import Message

logger = logging.getLogger(__name__)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = {"timestamp-micros": timedelta(microseconds=1), "timestamp-millis": timedelta(milliseconds=1)}


class Decoding:
    """Prints events in place of payloads; what cannot be decoded is logged, counted and left out."""

    def __init__(self, decoder: EventDecoder) -> None:
        self._decoder = decoder
        self.undecodable = 0

    def within(self, to_bytes: Format) -> Format:
        """Return a format in which an event's text stands in place of the payload."""
        return lambda message: self._print(message, lambda event: to_bytes(message._replace(payload=_line(event))))

    def as_json(self, delimiter: bytes) -> Format:
        """Return the format of JSON objects, with `schema`, `fingerprint` and `event` in place of the payload."""

        def to_bytes(message: Message, event: Event) -> bytes:
            found = as_object(message._replace(payload=b""))
            del found["payload"]
            found |= {"schema": event.schema.name, "fingerprint": event.schema.fingerprint, "event": shown(event)}
            return _json(found) + delimiter

        return lambda message: self._print(message, lambda event: to_bytes(message, event))

    def end(self) -> None:
        """Raise KafkaError if anything was left out."""
        if self.undecodable:
            raise KafkaError(f"{counted(self.undecodable, 'message')} could not be decoded")

    def _print(self, message: Message, to_bytes: Any) -> bytes:
        try:
            event = self._decoder.decode(message)
        except UndecodableEventError as error:
            self.undecodable += 1
            logger.warning("%s", error)
            return b""
        printed: bytes = to_bytes(event)
        return printed


def shown(event: Event) -> dict[str, Any]:
    """Return an event's fields for people: times as ISO 8601 in UTC."""
    found = dict(event.fields)
    for field in event.schema.document["fields"]:
        unit = _unit(field["type"])
        if unit is not None and isinstance(found.get(field["name"]), int):
            found[field["name"]] = _time(found[field["name"]], unit)
    return found


def _unit(schema: Any) -> timedelta | None:
    """Return the unit of a time, also of one that may be null; None for what is no time."""
    for each in schema if isinstance(schema, list) else [schema]:
        if isinstance(each, dict) and each.get("logicalType") in _UNITS:
            return _UNITS[each["logicalType"]]
    return None


def _time(number: int, unit: timedelta) -> str | int:
    try:
        return (_EPOCH + number * unit).isoformat(timespec="microseconds").replace("+00:00", "Z")
    except OverflowError:
        return number


def _line(event: Event) -> bytes:
    return event.schema.name.encode() + b" " + _json(shown(event))


def _json(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False, default=_plain).encode()


def _plain(value: object) -> str:
    """Return what JSON has not: bytes as Avro's own JSON writes them, and decimals."""
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
