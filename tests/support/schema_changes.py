"""Changes of a topic's schema, and the rows that a table has after each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.support.schema_life import field, thing

if TYPE_CHECKING:
    from tests.support.schema_life import SchemaLife

A = field("a", "int", default=0)
X = field("x", "int", default=1)

Row = dict[str, Any]


class Case(NamedTuple):
    """Two schemas, an event of each, and the rows of an old one, a new one and an old one that comes after it."""

    old: list[Row]
    new: list[Row]
    old_event: Row
    new_event: Row
    rows: list[Row]
    again: list[Row] | None = None
    """Those of a rebuilt table, if they are others."""


def of_x(old: Any, new: Any, old_value: Any, new_value: Any, *rows: Any, **more: Any) -> Case:
    """Return a case of a field whose type changes."""
    kept = [{"x": value} for value in rows]
    return Case([field("x", old)], [field("x", new)], {"x": old_value}, {"x": new_value}, kept, **more)


def enum(*symbols: str) -> Row:
    return {"type": "enum", "name": "E", "symbols": list(symbols)}


def record(*fields: Row) -> Row:
    return {"type": "record", "name": "R", "fields": list(fields)}


def moment(micros: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=micros)


def decimal(precision: int, scale: int = 2) -> Row:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


CASES: dict[str, Case] = {
    "a field is added, with a default": Case(
        [A],
        [A, X],
        {"a": 1},
        {"a": 2, "x": 3},
        [{"a": 1, "x": None}, {"a": 2, "x": 3}, {"a": 1, "x": 1}],
        again=[{"a": 1, "x": 1}, {"a": 2, "x": 3}, {"a": 1, "x": 1}],
    ),
    "a field is added, without a default": Case(
        [A],
        [A, field("x", "int")],
        {"a": 1},
        {"a": 2, "x": 3},
        [{"a": 1, "x": None}, {"a": 2, "x": 3}, {"a": 1, "x": None}],
    ),
    "a field is removed, which had a default": Case(
        [A, X], [A], {"a": 1, "x": 5}, {"a": 2}, [{"a": 1, "x": 5}, {"a": 2, "x": None}, {"a": 1, "x": 5}]
    ),
    "a field is removed, which had none": Case(
        [A, field("x", "int")],
        [A],
        {"a": 1, "x": 5},
        {"a": 2},
        [{"a": 1, "x": 5}, {"a": 2, "x": None}, {"a": 1, "x": 5}],
    ),
    "a field is renamed, with an alias": Case(
        [field("x", "string")],
        [field("y", "string", aliases=["x"])],
        {"x": "old"},
        {"y": "new"},
        [{"x": "old"}, {"x": "new"}, {"x": "old"}],
    ),
    "a field is renamed, without an alias": Case(
        [field("x", "string")],
        [field("y", "string")],
        {"x": "old"},
        {"y": "new"},
        [{"x": "old", "y": None}, {"x": None, "y": "new"}, {"x": "old", "y": None}],
    ),
    "another default": Case([X], [field("x", "int", default=2)], {"x": 5}, {"x": 6}, [{"x": 5}, {"x": 6}, {"x": 5}]),
    "`int` becomes `long`": of_x("int", "long", 1, 2**40, 1, 2**40, 1),
    "`int` becomes `float`": of_x("int", "float", 2**31 - 1, 0.5, 2**31 - 1, 0.5, 2**31 - 1),
    "`int` becomes `double`": of_x("int", "double", 1, 0.5, 1, 0.5, 1),
    "`long` becomes `float`": of_x("long", "float", 2**40, 0.5, 2**40, 0.5, 2**40),
    "`long` becomes `double`": of_x("long", "double", 2**53, 0.5, 2**53, 0.5, 2**53),
    "`float` becomes `double`": of_x("float", "double", 0.5, 0.1, 0.5, 0.1, 0.5),
    "`long` becomes `int`": of_x("long", "int", 2**40, 1, 2**40, 1, 2**40),
    "`double` becomes `int`": of_x("double", "int", 0.5, 1, 0.5, 1, 0.5),
    "`string` becomes `bytes`": of_x("string", "bytes", "ü", "ä".encode(), "ü", "ä", "ü"),
    "`bytes` becomes `string`": of_x("bytes", "string", b"\xff", "ü", b"\xff", "ü".encode(), b"\xff"),
    '`T` becomes `["null", T]`': of_x("int", ["null", "int"], 1, None, 1, None, 1),
    '`["null", T]` becomes `T`': of_x(["null", "int"], "int", None, 1, None, 1, None),
    "a union of one type gains another": of_x(["null", "int"], ["null", "int", "string"], 1, "x", "1", '"x"', "1"),
    "a union of `string` gains another type": of_x(
        ["null", "string"], ["null", "string", "int"], "x", 1, '"x"', "1", '"x"'
    ),
    "a union of several types gains another": of_x(
        ["string", "int"], ["string", "int", "boolean"], "x", True, '"x"', "true", '"x"'
    ),
    "a union loses a type": of_x(["string", "int"], "string", 1, "x", "1", '"x"', "1"),
    "an enum gains a symbol": of_x(enum("P"), enum("P", "Q"), "P", "Q", "P", "Q", "P"),
    "an enum loses a symbol": of_x(enum("P", "Q"), enum("P"), "Q", "P", "Q", "P", "Q"),
    "items of an array, or values of a map, become wider": of_x(
        {"type": "array", "items": "int"}, {"type": "array", "items": "double"}, [1], [0.5], [1], [0.5], [1]
    ),
    "a nested record gains a field": of_x(
        record(field("p", "int")),
        record(field("p", "int"), field("q", "int", default=7)),
        {"p": 1},
        {"p": 2, "q": 3},
        {"p": 1, "q": None},
        {"p": 2, "q": 3},
        {"p": 1, "q": 7},
        again=[{"x": {"p": 1, "q": 7}}, {"x": {"p": 2, "q": 3}}, {"x": {"p": 1, "q": 7}}],
    ),
    "a nested record loses a field": of_x(
        record(field("p", "int"), field("q", "int", default=7)),
        record(field("p", "int")),
        {"p": 1, "q": 3},
        {"p": 2},
        {"p": 1, "q": 3},
        {"p": 2, "q": None},
        {"p": 1, "q": 3},
    ),
    "a decimal gets more digits": of_x(
        decimal(5),
        decimal(9),
        Decimal("1.23"),
        Decimal("1234567.89"),
        Decimal("1.23"),
        Decimal("1234567.89"),
        Decimal("1.23"),
    ),
}
CASES["a time gets another unit"] = Case(
    [field("x", {"type": "long", "logicalType": "timestamp-millis"})],
    [field("x", {"type": "long", "logicalType": "timestamp-micros"}), field("y", "int", default=0)],
    {"x": 7},
    {"x": 7, "y": 1},
    [{"x": moment(7000), "y": None}, {"x": moment(7), "y": 1}, {"x": moment(7000), "y": 0}],
    again=[{"x": moment(7000), "y": 0}, {"x": moment(7), "y": 1}, {"x": moment(7000), "y": 0}],
)
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
REFUSED: dict[str, tuple[Any, Any, Any, Any, str]] = {
    "`string` becomes `long`, and the like": ("string", "long", "x", 5, "field x of schema 2: long is no string"),
    "a decimal gets another scale": (
        decimal(5),
        decimal(5, 3),
        Decimal("1.23"),
        Decimal("1.234"),
        r"decimal\(5, 3\) is no decimal\(5, 2\)",
    ),
}
"""Changes after which events of the newer schema are no rows, and why."""


def changed(life: SchemaLife, case: Case) -> None:
    """Load an event of the older schema; then one of the newer, and another one of the older."""
    old, new = thing(*case.old), thing(*case.new)
    life.register(old)
    life.send(old, case.old_event)
    assert life.load() == []
    life.register(new)
    life.send(new, case.new_event)
    assert life.load() == []
    life.send(old, case.old_event)
    assert life.load() == []
