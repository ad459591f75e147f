"""Events as people read them: times as such, and as JSON."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from kafka2011.json_document import json_text

if TYPE_CHECKING:
    from kafka2011.events.codec import Event

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = {"timestamp-micros": timedelta(microseconds=1), "timestamp-millis": timedelta(milliseconds=1)}


def shown(event: Event) -> dict[str, Any]:
    """Return an event's fields for people: times as ISO 8601 in UTC."""
    fields = dict(event.fields)
    for field in event.schema.document["fields"]:
        unit = _unit(field["type"])
        if unit is not None and isinstance(fields.get(field["name"]), int):
            fields[field["name"]] = _time(fields[field["name"]], unit)
    return fields


def _unit(schema: Any) -> timedelta | None:
    """Return the unit of a time, also of one that may be null; None for what is no time."""
    for branch in schema if isinstance(schema, list) else [schema]:
        if isinstance(branch, dict) and branch.get("logicalType") in _UNITS:
            return _UNITS[branch["logicalType"]]
    return None


def _time(number: int, unit: timedelta) -> str | int:
    try:
        return (_EPOCH + number * unit).isoformat(timespec="microseconds").replace("+00:00", "Z")
    except OverflowError:
        return number


def as_json(document: Any, indent: int | None = None) -> str:
    """Return what an event's fields may be as JSON; floats that are not finite are texts such as "NaN"."""
    return json_text(document, _plain, indent)


def _plain(value: object) -> str:
    """Return what JSON has not: bytes as Avro's own JSON writes them, and decimals."""
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
