"""Fields of schemas as people write them by mistake, and such as look like it and are right."""

from __future__ import annotations

import math
from typing import Any

from kafka2011.events.schemas import HEADER

Field = dict[str, Any]

ENUM: Field = {"type": "enum", "name": "Colour", "symbols": ["RED"]}
FIXED: Field = {"type": "fixed", "name": "Hash", "size": 2}
RECORD: Field = {"type": "record", "name": "Line", "fields": [{"name": "item", "type": "int"}]}
ARRAY: Field = {"type": "array", "items": "int"}
MAP: Field = {"type": "map", "values": "int"}
DECIMAL: Field = {"type": "bytes", "logicalType": "decimal", "precision": 2}


def with_field(field: Field) -> Field:
    """Return the JSON of a schema of an event with a field."""
    return {"type": "record", "name": "Order", "namespace": "shop", "fields": [*HEADER, field]}


def of(kind: Any, default: Any) -> Field:
    return {"name": "f", "type": kind, "default": default}


REFUSED: dict[str, tuple[Field, str]] = {
    "a hyphen in a name": (
        {"name": "item-id", "type": "int"},
        'field item-id: "item-id" is no name: names have letters',
    ),
    "a digit first": ({"name": "2nd", "type": "int"}, "is no name"),
    "a blank in a name": ({"name": "item id", "type": "int"}, "is no name"),
    "a dot in a name": ({"name": "item.id", "type": "int"}, "is no name"),
    "a dollar in a name": ({"name": "price$", "type": "int"}, "is no name"),
    "a name within a record": (
        {"name": "f", "type": {**RECORD, "fields": [{"name": "item-id", "type": "int"}]}},
        "field f.item-id: ",
    ),
    "a name within an array": (
        {"name": "f", "type": {"type": "array", "items": {**RECORD, "fields": [{"name": "item-id", "type": "int"}]}}},
        r"field f\[\].item-id: ",
    ),
    "a name within a map": (
        {"name": "f", "type": {"type": "map", "values": {**RECORD, "fields": [{"name": "item-id", "type": "int"}]}}},
        "field f{}.item-id: ",
    ),
    "an alias of a type that is no name": (
        {"name": "f", "type": {**RECORD, "aliases": ["a-b"]}},
        'alias "a-b" of the type at f',
    ),
    "a union with a type twice": (
        {"name": "f", "type": ["null", RECORD, "shop.Line"]},
        "field f: its union has shop.Line twice",
    ),
    "an int beyond 32 bits": (of("int", 2**31), "field f: the default 2147483648 does not fit: .* 32 bits of int"),
    "an int below 32 bits": (of("int", -(2**31) - 1), "32 bits of int"),
    "a long beyond 64 bits": (of("long", 2**63), "64 bits of long"),
    "a date beyond 32 bits": (of({"type": "int", "logicalType": "date"}, 2**31), "32 bits of int"),
    "an int within an array": (of(ARRAY, [1, 2**31]), "32 bits of int"),
    "an int within a map": (of(MAP, {"a": 2**31}), "32 bits of int"),
    "an int within a record": (of(RECORD, {"item": 2**31}), "item: 2147483648 does not fit"),
    "an int within a union": (of(["null", "int"], 2**31), "32 bits of int"),
    "not a number": (of("double", math.nan), r"fields\[4\].default is NaN, which is no number in JSON"),
    "an infinite number": (of("double", -math.inf), r"fields\[4\].default is -Infinity"),
    "not a number in a property": ({"name": "f", "type": "int", "weight": math.nan}, r"fields\[4\].weight is NaN"),
    "a float beyond 32 bits": (of("float", 1e39), "it is too large for float"),
    "a symbol that the enum has not": (of(ENUM, "BLUE"), '"BLUE" is none of the symbols of shop.Colour'),
    "a fixed that is too short": (of(FIXED, "a"), "shop.Hash has 2 bytes, and the default has 1"),
    "a fixed that is too long": (of(FIXED, "abc"), "shop.Hash has 2 bytes, and the default has 3"),
    "a decimal with too many digits": (of(DECIMAL, "\u0001\u0000"), "the decimal has 3 digits, and its precision is 2"),
    "a union without types": ({"name": "f", "type": []}, "field f is a union without types"),
}
"""Fields that are refused, and why."""

JAVA_TAKES = frozenset(
    {
        "a float beyond 32 bits",
        "a symbol that the enum has not",
        "a fixed that is too short",
        "a fixed that is too long",
        "a decimal with too many digits",
        "a union without types",
    }
)
"""Those that Java's library takes when it parses a schema; most of them fail there at the first event."""

TAKEN: dict[str, tuple[Field, str]] = {
    "letters of other languages": ({"name": "größe", "type": "int"}, ""),
    "an underscore first": ({"name": "_id", "type": "int"}, ""),
    "the name of a type": ({"name": "int", "type": "int"}, ""),
    "an alias of a field that is no name": ({"name": "f", "type": "int", "aliases": ["item-id"]}, ""),
    "the largest int": (of("int", 2**31 - 1), ""),
    "the smallest long": (of("long", -(2**63)), ""),
    "a whole number for a double": (of("double", 1), ""),
    "the second type of a union": (of(["null", "int"], 1), ""),
    "null where it comes last": (of(["int", "null"], None), ""),
    "all bytes": (of("bytes", "\u0000\u00ff"), ""),
    "a symbol": (of(ENUM, "RED"), ""),
    "a fixed": (of(FIXED, "ab"), ""),
    "a decimal": (of(DECIMAL, "\u0001"), ""),
    "a record": (of(RECORD, {"item": 1}), ""),
    "a record of defaults": (of({**RECORD, "fields": [of("int", 1)]}, {}), ""),
    "a type in no namespace": ({"name": "f", "type": {**RECORD, "namespace": ""}}, ""),
}
"""Fields that are taken."""
