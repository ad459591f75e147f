"""Prepares schemas for fastavro, so that it reads and writes what Avro's specification says.

Left alone, it differs in five ways. It returns a default as the JSON has it: bytes, fixed and decimals as text, a
double of 1 as an int, records without the fields that have defaults of their own. It gives every event the same list or
dict. Where the writer has both a field's name and its alias, it may return the alias's value. It fails for logical
types that are invalid, which Avro says to ignore. And it converts logical types, which costs more than all the rest.
"""

from __future__ import annotations

from copy import deepcopy
from itertools import combinations
from typing import Any

from kafka2011.errors import missing_extra
from kafka2011.events.depth import check_schema
from kafka2011.events.logical_types import NUMBERS_AND_TEXTS, logical_type
from kafka2011.events.schema_walk import RECORDS, named_types, qualify_aliases, records, walk

try:
    from fastavro.read import LOGICAL_READERS
    from fastavro.schema import parse_schema
except ImportError as error:
    raise missing_extra(error) from error

_TAKES = {"float": ("int", "long"), "double": ("int", "long"), "string": ("bytes",), "bytes": ("string",)}
"""For each type, the types whose values it also takes when they stand later in a union."""


def for_writing(document: Any) -> Any:
    """Return the parsed schema to encode with, from its JSON, which is not changed.

    Defaults of decimals are bytes. Raises InvalidSchemaError if it nests too deep, and whatever fastavro raises.
    """
    parsed = parse_schema(without_ignored(document))
    check_schema(parsed)
    return _with_python_defaults(parsed, with_decimals=False)


def for_reading(document: Any, writer: Any = None) -> Any:
    """Return the parsed schema to decode with, from its JSON; `writer` is the JSON of the schema written with.

    Each default is the value that decoding would return for an event with that value.
    """
    document = without_ignored(document)
    qualify_aliases(document)
    for schema in walk(document):
        if isinstance(schema, dict) and schema.get("logicalType") in NUMBERS_AND_TEXTS:
            del schema["logicalType"]
    if writer is not None:
        _drop_aliases(document, writer)
    return _with_python_defaults(parse_schema(document), with_decimals=True)


def without_ignored(document: Any) -> Any:
    """Return a copy of a schema's JSON without those invalid logical types that fastavro would stumble over."""
    document = deepcopy(document)
    for schema in walk(document):
        if not isinstance(schema, dict) or "logicalType" not in schema or logical_type(schema) is not None:
            continue
        if schema["logicalType"] == "decimal" or not isinstance(schema["logicalType"], str):
            del schema["logicalType"]
    return document


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


def _with_python_defaults(parsed: Any, *, with_decimals: bool) -> Any:
    """Turn the defaults of a parsed schema from JSON into what decoding would return; returns the schema.

    `with_decimals` says whether decimals become such too, or stay the bytes that encoding takes.
    """
    values = _Defaults(named_types(parsed), with_decimals=with_decimals)
    fields = [field for field in _fields(parsed) if "default" in field]
    defaults = [values.of(field["type"], field["default"]) for field in fields]  # which need each other's JSON
    for field, default in zip(fields, defaults, strict=True):
        field["default"] = default
    return parsed


class _Defaults:
    """Turns defaults from JSON into values, for one parsed schema, whose named types are `named`."""

    def __init__(self, named: dict[str, Any], *, with_decimals: bool) -> None:
        self._named = named
        self._with_decimals = with_decimals

    def of(self, schema: Any, default: Any) -> Any:  # noqa: PLR0911  # one for each kind of type
        """Return the value of a default. Raises ValueError if it does not fit; another branch of a union may fit."""
        if isinstance(schema, list):
            return self._of_union(schema, default)
        if isinstance(schema, str) and schema in self._named:
            schema = self._named[schema]
        kind = schema["type"] if isinstance(schema, dict) else schema
        if kind in {"bytes", "fixed"} and isinstance(default, str):
            return self._of_bytes(schema, kind, default)
        if kind in {"float", "double"} and isinstance(default, int | float) and not isinstance(default, bool):
            return float(default)
        if kind == "array" and isinstance(default, list):
            return [self.of(schema["items"], item) for item in default]
        if kind == "map" and isinstance(default, dict):
            return {key: self.of(schema["values"], item) for key, item in default.items()}
        if kind in RECORDS and isinstance(default, dict):
            return {
                field["name"]: self.of(field["type"], default.get(field["name"], field.get("default")))
                for field in schema["fields"]
            }
        fits = {"null": type(None), "boolean": bool, "int": int, "long": int, "string": str, "enum": str}
        if type(default) is fits.get(kind):
            return default
        raise ValueError(f"default {default!r} is no {kind}")

    def _of_union(self, branches: list[Any], default: Any) -> Any:
        for branch in branches:
            try:
                return self.of(branch, default)
            except ValueError:
                continue
        raise ValueError(f"default {default!r} fits no branch of {branches}")

    def _of_bytes(self, schema: Any, kind: str, default: str) -> Any:
        """Return the value of a default of bytes: a decimal, where that is what they mean."""
        data = default.encode("latin-1")
        if self._with_decimals and logical_type(schema) == "decimal":
            return LOGICAL_READERS[f"{kind}-decimal"](data, schema, schema)
        return data
