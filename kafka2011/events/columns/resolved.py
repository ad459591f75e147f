"""Schemas for decoders, made of merged types: one that reads all events of a topic, and each writer's beside it.

The one that reads has a field for each column, whichever schemas have it. A writer's says the same as the schema that
its events name, since names take no bytes: its fields have the names of the columns that they go to, and its records,
enums and fixed those of the places where they stand (`at_3_0`). So Avro's own resolution puts each value in its column.

Two marks, logical types of our own, say how numbers are read: a long that goes into a double must be one exactly, and
milliseconds become microseconds.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import fastavro.read

from kafka2011.events.columns.column_types import JSON_MARK
from kafka2011.events.columns.field_types import (
    MISSING,
    Branch,
    Enum,
    Fixed,
    Items,
    Json,
    Logical,
    Record,
    plain,
)
from kafka2011.events.columns.kinds import LARGEST_EXACT
from kafka2011.events.schema_walk import RECORDS, named_types

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafka2011.events.columns.field_types import Core, FieldType, RecordField

EXACT = "kafka2011-exact"
"""The mark of a long that becomes a double."""
MILLIS = "kafka2011-millis"
"""The mark of a time in milliseconds that becomes one in microseconds."""

_ROOT = "at"
_BYTES = frozenset({"bytes", "fixed"})


def _exact(value: int, *_: object) -> float:
    if abs(value) > LARGEST_EXACT:
        raise ValueError(f"{value} is beyond 2^53, and its column is double, which might round it")
    return float(value)


def _micros(value: int, *_: object) -> int:
    return value * 1000


fastavro.read.LOGICAL_READERS[f"long-{EXACT}"] = _exact
fastavro.read.LOGICAL_READERS[f"long-{MILLIS}"] = _micros


# What reads ----------------------------------------------------------------------------------------------------------


def reading_document(record: Record, *, with_names: bool = False) -> Any:
    """Return the schema that reads events of all schemas of a record, as JSON.

    With `with_names` it is for schemas that are none of these, which are matched by their own names.
    """
    return _record(record, _ROOT, record.name if with_names else _ROOT, with_names=with_names)


def reading_type(kind: FieldType, path: str, *, with_names: bool = False) -> Any:
    """Return the type that reads the values of a type at a place, as JSON."""
    core = kind.core
    if isinstance(core, Json):
        defined: set[str] = set()
        members = [branch.document(path, defined) for branch in core.branches]
        if len(members) == 1 and isinstance(members[0], dict):  # of one, as of several, the column is text
            members = [members[0] | {JSON_MARK: True}]
        return ["null", *members] if kind.is_nullable else members[0] if len(members) == 1 else members
    read = _core(core, path, with_names=with_names)
    return ["null", read] if kind.is_nullable and read != "null" else read


def _core(core: Core, path: str, *, with_names: bool) -> Any:  # noqa: PLR0911 (one for each kind of type)
    if core is None:
        return "null"
    if isinstance(core, str):
        return core
    if isinstance(core, Items):
        held = "items" if core.kind == "array" else "values"
        return {"type": core.kind, held: reading_type(core.inner, f"{path}_0", with_names=with_names)}
    if isinstance(core, Logical):
        return _logical(core, path)
    assert not isinstance(core, Json), "it was taken before"
    name: dict[str, Any] = {"name": path, **({"aliases": [core.name]} if with_names else {})}
    if isinstance(core, Enum):
        default = {} if core.default is None else {"default": core.default}
        return {"type": "enum", **name, "symbols": list(core.symbols), **default}
    if isinstance(core, Fixed):
        return {"type": "fixed", **name, "size": core.size}
    return _record(core, path, path, with_names=with_names) | name


def _logical(core: Logical, path: str) -> dict[str, Any]:
    digits = {"precision": core.precision, "scale": core.scale} if core.name == "decimal" else {}
    place = {"name": path, "size": core.size} if core.base == "fixed" else {}
    return {"type": core.base, **place, "logicalType": core.name, **digits}


def _record(record: Record, path: str, name: str, *, with_names: bool) -> dict[str, Any]:
    keys = {field.name for field in record.fields}
    fields = []
    for number, field in enumerate(record.fields):
        at = f"{path}_{number}"
        read: dict[str, Any] = {"name": field.name, "type": reading_type(field.type, at, with_names=with_names)}
        if with_names and (aliases := sorted(field.names - keys)):
            read["aliases"] = aliases
        fields.append(read | _default(record, field, read["type"]))
    return {"type": "record", "name": name, "fields": fields}


def _default(record: Record, field: RecordField, kind: Any) -> dict[str, Any]:
    """Return the default that events get which lack a field, and with which type: null where it has none.

    It is that of the newest schema, if that has the field and its column can hold it.
    """
    newest = record.maps[max(record.maps)]
    if field.name in newest.values() and field.default is not MISSING:
        with suppress(UnicodeDecodeError):  # bytes in a column of text
            default = placed(field.default, field.source, field.type)
            return {"type": _with_bytes_first(kind, default), "default": plain(default)}
    if all(field.name in names.values() for names in record.maps.values()):
        return {}
    return {"type": _nullable(kind), "default": None}


def _with_bytes_first(kind: Any, default: Any) -> Any:
    """Return a type; of a union, what a default of bytes is a value of stands before text, which JSON writes alike."""
    if not isinstance(kind, list) or not isinstance(default, bytes):
        return kind
    return sorted(kind, key=lambda member: not (isinstance(member, dict) and member["type"] in _BYTES))


def _nullable(kind: Any) -> Any:
    if isinstance(kind, list):
        return kind if "null" in kind else ["null", *kind]
    return kind if kind == "null" else ["null", kind]


def placed(value: Any, source: FieldType, target: FieldType) -> Any:  # noqa: PLR0911 (one for each kind of type)
    """Return a default of one type as one of the merged type. Raises UnicodeDecodeError for bytes that are no text."""
    core, own = target.core, source.core
    if value is None or isinstance(core, Json) or isinstance(own, Json):
        return value
    if isinstance(core, Items) and isinstance(own, Items):
        if isinstance(value, dict):
            return {key: placed(item, own.inner, core.inner) for key, item in value.items()}
        return [placed(item, own.inner, core.inner) for item in value]
    if isinstance(core, Record) and isinstance(own, Record):
        [(number, names)] = own.maps.items()
        here = {field.name: field.type for field in core.fields}
        keys = core.maps[number]
        types = {field.name: field.type for field in own.fields}
        return {keys[name]: placed(value[name], types[name], here[keys[name]]) for name in names}
    if isinstance(own, Logical) and isinstance(value, int):
        return value * own.factor
    if core == "bytes" and isinstance(value, str):
        return value.encode()
    return value.decode() if core == "string" and isinstance(value, bytes) else value


# What was written ----------------------------------------------------------------------------------------------------


def written_document(parsed: Mapping[str, Any], record: Record, number: int) -> dict[str, Any]:
    """Return the parsed schema of a number as the one that reads takes it."""
    return _written_record(parsed["fields"], named_types(parsed), record, number, _ROOT)


def _written_record(
    fields: Sequence[Mapping[str, Any]], named: Mapping[str, Any], record: Record, number: int, path: str
) -> dict[str, Any]:
    places = {field.name: (at, field.type) for at, field in enumerate(record.fields)}
    written = []
    for field in fields:
        key = record.maps[number][field["name"]]
        if key not in places:  # it holds nothing but null, and has no column
            written.append({"name": key, "type": field["type"]})
            continue
        at, kind = places[key]
        written.append({"name": key, "type": _written(field["type"], named, kind, number, f"{path}_{at}")})
    return {"type": "record", "name": path, "fields": written}


def _written(part: Any, named: Mapping[str, Any], target: FieldType, number: int, path: str) -> Any:  # noqa: PLR0911
    """Return a type of the schema as what reads the merged type at a place takes it."""
    core = target.core
    if isinstance(core, Json):
        return _written_json(part, named, path)
    if isinstance(part, list):
        return [_written(branch, named, target, number, path) for branch in part]
    part = named.get(part, part) if isinstance(part, str) else part
    kind = part if isinstance(part, str) else part["type"]
    logical = "" if isinstance(part, str) else part.get("logicalType", "")
    if isinstance(core, Logical):
        if logical.endswith("millis"):
            return {"type": kind, "logicalType": MILLIS}
        return kind if core.name != "decimal" or kind == "null" else _decimal(part, path)
    if kind == "long" and core == "double":
        return {"type": "long", "logicalType": EXACT}
    if isinstance(core, Items) and kind == core.kind:
        held = "items" if kind == "array" else "values"
        return {"type": kind, held: _written(part[held], named, core.inner, number, f"{path}_0")}
    if isinstance(core, Record) and kind in RECORDS:
        return _written_record(part["fields"], named, core, number, path)
    if kind == "enum":
        return {"type": "enum", "name": path, "symbols": part["symbols"]}
    return {"type": "fixed", "name": path, "size": part["size"]} if kind == "fixed" else kind


def _decimal(part: Mapping[str, Any], path: str) -> dict[str, Any]:
    kept = {name: part[name] for name in ("type", "logicalType", "precision", "scale", "size") if name in part}
    return {**kept, **({"name": path} if part["type"] == "fixed" else {})}


def _written_json(part: Any, named: Mapping[str, Any], path: str) -> Any:
    return Branch(part, named).document(path, set())
