"""Types of columns, without Arrow: which of them hold the values of others, and how deep they nest.

A plain type is its name as Arrow prints it; the others say what lies within them.
"""

from __future__ import annotations

from typing import NamedTuple

NULL, BOOLEAN, LONG, FLOAT, DOUBLE = "null", "bool", "int64", "float", "double"
TEXT, BINARY, DATE = "string", "binary", "date32[day]"
INSTANT, LOCAL_TIME = "timestamp[us, tz=UTC]", "timestamp[us]"

LARGEST_EXACT = 2**53
"""A double holds each whole number up to this one, and down to its negative."""

MAX_DECIMAL_DIGITS = 38


class Decimals(NamedTuple):
    """Decimals of at most so many digits, `scale` of them after the point."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal128({self.precision}, {self.scale})"


class Lists(NamedTuple):
    """Lists of values of one type."""

    inner: Kind

    def __str__(self) -> str:
        return f"list<element: {self.inner}>"


class Maps(NamedTuple):
    """Maps from texts to values of one type; Arrow knows `keys` of other types too."""

    inner: Kind
    keys: Kind = TEXT

    def __str__(self) -> str:
        return f"map<{self.keys}, {self.inner}>"


class Structs(NamedTuple):
    """Records, with names and types of their fields."""

    fields: tuple[tuple[str, Kind], ...]

    def __str__(self) -> str:
        return f"struct<{', '.join(f'{name}: {kind}' for name, kind in self.fields)}>"


Kind = str | Decimals | Lists | Maps | Structs


def takes(before: Kind, now: Kind, *, grown: bool = False) -> bool:
    """Say whether values of one type fit into a column of another; with `grown`, once records have more fields."""
    if isinstance(before, Structs) and isinstance(now, Structs):
        known = dict(before.fields)
        return all(takes(known[name], kind, grown=grown) if name in known else grown for name, kind in now.fields)
    if isinstance(before, Lists) and isinstance(now, Lists):
        return takes(before.inner, now.inner, grown=grown)
    if isinstance(before, Maps) and isinstance(now, Maps):
        return takes(before.keys, now.keys) and takes(before.inner, now.inner, grown=grown)
    return _are_equal(before, now)


def widens(before: Kind, after: Kind) -> bool:
    """Say whether a column can be rewritten with another type that holds more.

    A long fits into a double only as far as 2^53, which whoever rewrites the column checks.
    """
    if isinstance(before, Structs) and isinstance(after, Structs):
        known = dict(after.fields)
        return all(name in known and widens(kind, known[name]) for name, kind in before.fields)
    if isinstance(before, Lists) and isinstance(after, Lists):
        return widens(before.inner, after.inner)
    if isinstance(before, Maps) and isinstance(after, Maps):
        return before.keys == after.keys and widens(before.inner, after.inner)
    if isinstance(before, Decimals) and isinstance(after, Decimals):
        return before.scale == after.scale and before.precision <= after.precision
    return (before in (LONG, FLOAT) and after == DOUBLE) or _are_equal(before, after)


def _are_equal(one: Kind, other: Kind) -> bool:
    return type(one) is type(other) and one == other


def becomes_json(before: Kind) -> bool:
    """Say whether a column can be rewritten as JSON text, as a union of its type and others is kept."""
    return before in (LONG, FLOAT, DOUBLE, BOOLEAN, TEXT, BINARY)


# How deep types nest -------------------------------------------------------------------------------------------------

_MOST = {"the table's log": 123, "Arrow": 62, "Parquet": 98}
"""The levels that each of these takes in a type; a few more, and tables are neither written nor read."""
_LEVELS = {Structs: (3, 1, 1), Lists: (1, 1, 2), Maps: (1, 2, 2)}
"""The levels that a record, a list and a map take in each of these."""


def why_too_deep(kind: Kind) -> str | None:
    """Say why a type nests too deep for a column; None if it does not."""
    for (keeper, most), levels in zip(_MOST.items(), _depths(kind), strict=True):
        if levels > most:
            return f"it nests {levels} levels deep as {keeper} counts them, which takes at most {most}"
    return None


def _depths(kind: Kind) -> tuple[int, int, int]:
    if isinstance(kind, str | Decimals):
        return 0, 0, 0
    inner = [inner for _, inner in kind.fields] if isinstance(kind, Structs) else [kind.inner]
    own = _LEVELS[type(kind)]
    within = [_depths(part) for part in inner] or [(0, 0, 0)]
    first, second, third = (max(levels) + more for levels, more in zip(zip(*within, strict=True), own, strict=True))
    return first, second, third
