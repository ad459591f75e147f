"""Schemas made ready for fastavro, so that it reads and writes what Avro's specification says.

Left alone, it differs in four points. It gives a default as the JSON has it: bytes and fixed as text, a double of 1 as
an int, records without the fields that have defaults of their own. It gives the same list or dict to every event. Where
the writer has a field's name and its alias, it may give the alias's value. And it opens logical types, which costs more
than all the rest.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from kafka2011.pipeline.extra import missing_extra

try:
    from fastavro.schema import parse_schema
except ImportError as error:
    raise missing_extra(error) from error

if TYPE_CHECKING:
    from collections.abc import Iterator

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
"""Logical types that stay numbers and text; decimals are opened."""


def for_writing(document: Any) -> Any:
    """Return the parsed schema to encode with, from its JSON, which stays as it is."""
    return _with_python_defaults(parse_schema(deepcopy(document)))


def for_reading(document: Any, writer: Any = None) -> Any:
    """Return the parsed schema to decode with, from its JSON; as a reader's, with the JSON of the writer's."""
    document = deepcopy(document)
    for schema in _parts(document):
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
        if any(isinstance(each.get("default"), list | dict) for each in (field, *_fields(field["type"])))
    ]


def repeated_alias(document: Any) -> str | None:
    """Return an alias of a field that also names another field of its record, or is an alias of two; None if none is.

    Whose value a field gets would depend on who reads.
    """
    for fields in _field_lists(document):
        names: list[str] = [name for field in fields for name in {field["name"], *field.get("aliases", ())}]
        for name in names:
            if names.count(name) > 1:
                return name
    return None


def has_weightless_items(document: Any) -> bool:
    """Say whether an array of it has items that take no bytes: a few bytes could then claim any number of them."""
    named = {part["name"]: part for part in _parts(document) if isinstance(part, dict) and "name" in part}
    return any(
        isinstance(part, dict) and part.get("type") == "array" and _is_weightless(part["items"], named, ())
        for part in _parts(document)
    )


def _is_weightless(schema: Any, named: dict[str, Any], within: tuple[str, ...]) -> bool:
    if isinstance(schema, str):
        schema = next((part for name, part in named.items() if _last(name) == _last(schema)), schema)
    if not isinstance(schema, dict):
        return bool(schema == "null")
    if "fields" in schema:
        if schema["name"] in within:
            return True  # a record within itself weighs what its other fields do
        within = (*within, schema["name"])
        return all(_is_weightless(field["type"], named, within) for field in schema["fields"])
    return schema.get("size") == 0 or _is_weightless(schema["type"], named, within)


# Walking through a schema's JSON -------------------------------------------------------------------------------------


def _parts(schema: Any) -> Iterator[Any]:
    """Yield a schema and all that it consists of, types only: a default may look like one."""
    yield schema
    if isinstance(schema, list):
        for each in schema:
            yield from _parts(each)
    elif isinstance(schema, dict):
        for part in ("type", "items", "values"):
            if isinstance(schema.get(part), list | dict):
                yield from _parts(schema[part])
        for field in schema.get("fields", ()):
            yield from _parts(field["type"])


def _records(schema: Any) -> Iterator[dict[str, Any]]:
    for part in _parts(schema):
        if isinstance(part, dict) and "fields" in part:
            yield part


def _field_lists(schema: Any) -> Iterator[list[dict[str, Any]]]:
    for record in _records(schema):
        yield record["fields"]


def _fields(schema: Any) -> Iterator[dict[str, Any]]:
    for fields in _field_lists(schema):
        yield from fields


# Aliases -------------------------------------------------------------------------------------------------------------


def _drop_aliases(reader: Any, writer: Any) -> None:
    """Remove the aliases of every field that the writer has by its name."""
    fields_of = {_last(record["name"]): {field["name"] for field in record["fields"]} for record in _records(writer)}
    for record in _records(reader):
        for name in (_last(each) for each in (record["name"], *record.get("aliases", ()))):
            for field in record["fields"]:
                if field["name"] in fields_of.get(name, ()):
                    field.pop("aliases", None)


def _last(name: str) -> str:
    return name.rpartition(".")[2]


# Defaults ------------------------------------------------------------------------------------------------------------


def _with_python_defaults(parsed: Any) -> Any:
    """Turn the defaults of a parsed schema from JSON into what decoding would give; returns it."""
    named = {part["name"]: part for part in _parts(parsed) if isinstance(part, dict) and "name" in part}
    for field in list(_fields(parsed)):
        if "default" in field:
            field["default"] = _value(field["type"], field["default"], named)
    return parsed


def _value(schema: Any, default: Any, named: dict[str, Any]) -> Any:  # noqa: PLR0911  # one for each kind of type
    """Return the value of a default. Raises ValueError for one that does not fit; another branch of a union may."""
    if isinstance(schema, list):
        return _branch_value(schema, default, named)
    if isinstance(schema, str) and schema in named:
        schema = named[schema]
    kind = schema["type"] if isinstance(schema, dict) else schema
    if isinstance(kind, dict | list):
        return _value(kind, default, named)
    if kind in {"bytes", "fixed"} and isinstance(default, str):
        return default.encode("latin-1")
    if kind in {"float", "double"} and isinstance(default, int | float) and not isinstance(default, bool):
        return float(default)
    if kind == "array" and isinstance(default, list):
        return [_value(schema["items"], each, named) for each in default]
    if kind == "map" and isinstance(default, dict):
        return {key: _value(schema["values"], each, named) for key, each in default.items()}
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
