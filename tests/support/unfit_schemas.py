"""Schemas that loads can make nothing of, with what errors say of them, and odd ones that loads take."""

from __future__ import annotations

from typing import Any

from tests.support.schema_life import field

Row = dict[str, Any]


def record(name: str, *fields: Row, kind: str = "record") -> Row:
    return {"type": kind, "name": name, "fields": list(fields)}


def logical(kind: str, logical_name: Any, **more: Any) -> Row:
    return {"type": kind, "logicalType": logical_name, **more}


def nested(levels: int, within: str) -> Any:
    """Return a type of so many records, arrays or maps, one within the other."""
    kind: Any = "int"
    for level in range(levels):
        if within == "record":
            kind = record(f"L{level}", field("f", kind))
        else:
            kind = {"type": within, ("items" if within == "array" else "values"): kind}
    return kind


MILLIS = logical("long", "timestamp-millis")
TWINS = record("Twins", field("a", "int"), field("A", "int"))
ENDLESS = record("Endless", field("next", "Endless"))

UNFIT: dict[str, tuple[list[Row], str]] = {
    "a nested record with names that differ in case": (
        [field("x", {"type": "array", "items": TWINS})],
        r"field x\[\]: its fields a and A are one to readers that ignore case",
    ),
    "an error with names that differ in case": ([field("x", ["null", {**TWINS, "type": "error"}])], "a and A are one"),
    "fields with names that differ in case": ([field("a", "int"), field("A", "int")], "field A .* that of field a are"),
    "a field with the name of a directory and its column": (
        [field("hour", "int"), field("hour_", "int")],
        "field hour_ .* that of field hour",
    ),
    "a field with a name of the table's own": ([field("Kafka2011_offset", "int")], "field Kafka2011_offset"),
    "records that nest too deep": ([field("x", nested(42, "record"))], "field x: it nests 126 levels deep"),
    "arrays that nest too deep": ([field("x", nested(50, "array"))], "field x: it nests 100 levels deep"),
    "maps that nest too deep": ([field("x", nested(32, "map"))], "field x: it nests 64 levels deep"),
    "a default after the year 9999": ([field("x", MILLIS, default=2**60)], "field x: .* outside of the years"),
    "such a default within a record": (
        [field("x", ["null", record("R", field("t", MILLIS, default=2**60))])],
        "field x: .* outside of the years",
    ),
    "a record within itself without an end": ([field("x", ENDLESS)], "field x.next: record kafka2011.Endless is"),
    "a union of nothing": ([field("x", [])], "field x is a union without types"),
}
"""The fields of each, and what the error says."""

ODD: dict[str, list[Row]] = {
    "an error": [field("x", record("E", field("text", "string"), kind="error"))],
    "an error that may be null": [field("x", ["null", record("E", field("text", "string"), kind="error")])],
    "an array of errors": [field("x", {"type": "array", "items": record("E", field("t", "int"), kind="error")})],
    "a decimal without precision": [field("x", logical("bytes", "decimal"))],
    "a decimal of no digits": [field("x", logical("bytes", "decimal", precision=0))],
    "a decimal of more digits after the point than it has": [
        field("x", logical("bytes", "decimal", precision=1, scale=2))
    ],
    "a decimal whose precision is a text": [field("x", logical("bytes", "decimal", precision="5"))],
    "a decimal of an int": [field("x", logical("int", "decimal", precision=5))],
    "a decimal that its bytes do not hold": [
        field("x", logical("fixed", "decimal", name="F", size=2, precision=30)),
    ],
    "a decimal of 64 digits": [field("x", logical("bytes", "decimal", precision=64, scale=2))],
    "an unknown logical type": [field("x", logical("string", "colour"))],
    "a logical type that is no name": [field("x", logical("long", ["a"]))],
    "a time of an int": [field("x", logical("int", "timestamp-micros"))],
    "a local time": [field("x", logical("long", "local-timestamp-millis"))],
    "nothing but null": [field("x", "null")],
    "null in a record, a map and a list": [
        field("r", record("R", field("n", "null"), field("i", "int"))),
        field("m", {"type": "map", "values": "null"}),
        field("l", {"type": "array", "items": ["null"]}),
    ],
    "a record without fields": [field("x", record("R"))],
    "a map of records without fields": [field("x", {"type": "map", "values": record("R")})],
    "a fixed of no bytes": [field("x", {"type": "fixed", "name": "F", "size": 0})],
    "a tree": [field("x", record("Tree", field("v", "int"), field("next", ["null", "Tree"], default=None)))],
    "two records that are one another's": [
        field("x", ["null", record("P", field("q", ["null", record("Q", field("p", ["null", "P"]))]))]),
    ],
    "a union of records": [field("x", [record("P", field("a", "int", default=1)), record("Q", field("b", "int"))])],
    "41 records": [field("x", nested(41, "record"))],
    "49 arrays": [field("x", nested(49, "array"))],
    "31 maps": [field("x", nested(31, "map"))],
    "fields with the names of directories": [field("date", "int"), field("Hour", "int"), field("load_id", "int")],
    "defaults of each kind": [
        field("i", "int", default=7),
        field("f", "float", default=1),
        field("b", "bytes", default="\xff"),
        field("d", logical("bytes", "decimal", precision=5, scale=2), default="\x01"),
        field("t", MILLIS, default=5),
        field("day", logical("int", "date"), default=5),
        field("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]}, default="B"),
        field("l", {"type": "array", "items": "int"}, default=[1]),
        field("m", {"type": "map", "values": MILLIS}, default={"a": 1}),
        field("r", record("R", field("a", "int"), field("z", "int", default=3)), default={"a": 1}),
        field("u", ["null", "int", "string"], default=None),
    ],
}
"""The fields of schemas that are unusual, and that loads take."""
