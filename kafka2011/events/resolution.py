"""Prepares schemas for fastavro, so that it reads and writes what Avro's specification says.

Left alone, it differs in four ways. It returns a default as the JSON has it: bytes and fixed as text, a double of 1 as
an int, records without the fields that have defaults of their own. It gives every event the same list or dict. Where
the writer has both a field's name and its alias, it may return the alias's value. And it converts logical types, which
costs more than all the rest.
"""

from __future__ import annotations

from copy import deepcopy
from itertools import combinations
from typing import Any

from kafka2011.errors import missing_extra
from kafka2011.events.depth import check_schema
from kafka2011.events.schema_walk import named_types, records, walk

try:
    from fastavro.schema import parse_schema
except ImportError as error:
    raise missing_extra(error) from error

_CLOSED = frozenset(
    {
        "date",
        "time-millis",
        "time-micros",
        "timestamp-millis",
        "timestamp-micros",
        "local-timestamp-millis",
        "local-timestamp-micros",
        "uuid",
    }
)
"""Logical types left as numbers and text; decimals are converted."""


_TAKES = {"float": ("int", "long"), "double": ("int", "long"), "string": ("bytes",), "bytes": ("string",)}
"""For each type, the types whose values it also takes when they stand later in a union."""


def for_writing(document: Any) -> Any:
    """Return the parsed schema to encode with, from its JSON, which is not changed.

    Raises InvalidSchemaError if it nests too deep, and whatever fastavro raises.
    """
    parsed = parse_schema(deepcopy(document))
    check_schema(parsed)
    return _with_python_defaults(parsed)


def for_reading(document: Any, writer: Any = None) -> Any:
    """Return the parsed schema to decode with, from its JSON; `writer` is the JSON of the schema written with."""
    document = deepcopy(document)
    for schema in walk(document):
        if isinstance(schema, dict) and schema.get("logicalType") in _CLOSED:
            del schema["logicalType"]
    if writer is not None:
        _drop_aliases(document, writer)
    return _with_python_defaults(parse_schema(document))


def shared_defaults(reader: Any) -> list[str]:
    """Return the fields of a parsed record in which every event would get the same list or dict as a default."""
    return [
        field["name"]
        for field in reader["fields"]
        if any(isinstance(part.get("default"), list | dict) for part in (field, *_fields(field["type"])))
    ]


def repeated_alias(document: Any) -> str | None:
    """Return an alias of a field that also names another field of its record, or is an alias of two; None if none is.

    Which value such a field gets would depend on the reader.
    """
    for record in records(document):
        names: list[str] = [name for field in record["fields"] for name in {field["name"], *field.get("aliases", ())}]
        for name in names:
            if names.count(name) > 1:
                return name
    return None


def inexact_union(parsed: Any) -> tuple[str, str] | None:
    """Return two types of one union whose values cannot be told apart; None if there are none.

    An int or a long is written as the float or double that stands before it, and may be rounded. A text comes out as
    bytes, or the other way round, where the reader's schema has both.
    """
    for part in walk(parsed):
        if isinstance(part, list):
            kinds = [branch["type"] if isinstance(branch, dict) else branch for branch in part]
            for former, latter in combinations(kinds, 2):
                if latter in _TAKES.get(former, ()):
                    return former, latter
    return None


def has_weightless_items(parsed: Any) -> bool:
    """Say whether an array in it has items that take no bytes: a few bytes could then claim any number of them."""
    named = named_types(parsed)
    arrays = (part for part in walk(parsed) if isinstance(part, dict) and part["type"] == "array")
    return any(all(_is_weightless(part, named) for part in walk(array["items"], named)) for array in arrays)


def _is_weightless(part: Any, named: dict[str, Any]) -> bool:
    """Say whether a part of a type takes no bytes but those of the parts within it."""
    if isinstance(part, list):
        return False
    if isinstance(part, str):
        return part == "null" or part in named
    return part["type"] in {"null", "record", "error"} or part.get("size") == 0


def _fields(schema: Any) -> list[dict[str, Any]]:
    return [field for record in records(schema) for field in record["fields"]]


# Aliases -------------------------------------------------------------------------------------------------------------


def _drop_aliases(reader: Any, writer: Any) -> None:
    """Remove the aliases of every field that the writer has under its own name."""
    fields_of = {_last(record["name"]): {field["name"] for field in record["fields"]} for record in records(writer)}
    for record in records(reader):
        for name in (_last(full_name) for full_name in (record["name"], *record.get("aliases", ()))):
            for field in record["fields"]:
                if field["name"] in fields_of.get(name, ()):
                    field.pop("aliases", None)


def _last(name: str) -> str:
    return name.rpartition(".")[2]


# Defaults ------------------------------------------------------------------------------------------------------------


def _with_python_defaults(parsed: Any) -> Any:
    """Turn the defaults of a parsed schema from JSON into what decoding would return; returns the schema."""
    named = named_types(parsed)
    for field in _fields(parsed):
        if "default" in field:
            field["default"] = _value(field["type"], field["default"], named)
    return parsed


def _value(schema: Any, default: Any, named: dict[str, Any]) -> Any:  # noqa: PLR0911  # one for each kind of type
    """Return the value of a default. Raises ValueError if it does not fit; another branch of a union may fit."""
    if isinstance(schema, list):
        return _branch_value(schema, default, named)
    if isinstance(schema, str) and schema in named:
        schema = named[schema]
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind in {"bytes", "fixed"} and isinstance(default, str):
        return default.encode("latin-1")
    if kind in {"float", "double"} and isinstance(default, int | float) and not isinstance(default, bool):
        return float(default)
    if kind == "array" and isinstance(default, list):
        return [_value(schema["items"], item, named) for item in default]
    if kind == "map" and isinstance(default, dict):
        return {key: _value(schema["values"], item, named) for key, item in default.items()}
    if kind == "record" and isinstance(default, dict):
        return {
            field["name"]: _value(field["type"], default.get(field["name"], field.get("default")), named)
            for field in schema["fields"]
        }
    fits = {"null": type(None), "boolean": bool, "int": int, "long": int, "string": str, "enum": str}.get(kind, bytes)
    if type(default) is fits:
        return default
    raise ValueError(f"default {default!r} is no {kind}")


def _branch_value(branches: list[Any], default: Any, named: dict[str, Any]) -> Any:
    for branch in branches:
        try:
            return _value(branch, default, named)
        except ValueError:
            continue
    raise ValueError(f"default {default!r} fits no branch of {branches}")
