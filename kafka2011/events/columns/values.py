"""Which values a column holds: the limits of its type, and of the readers of tables."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from kafka2011.events.columns.kinds import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INSTANT,
    LOCAL_TIME,
    LONG,
    NULL,
    TEXT,
    Decimals,
    Lists,
    Maps,
    Structs,
)

if TYPE_CHECKING:
    from kafka2011.events.columns.column_types import Column
    from kafka2011.events.columns.kinds import Kind

FIRST_US = -62_135_596_800_000_000
LAST_US = 253_402_300_799_999_999
"""The first and last microsecond that readers have a date for: of the years 1 and 9999."""

DAY_US = 86_400_000_000
FIRST_DAY, LAST_DAY = FIRST_US // DAY_US, LAST_US // DAY_US

_TYPES: dict[str, tuple[type, ...]] = {
    BOOLEAN: (bool,),
    LONG: (int,),
    FLOAT: (int, float),
    DOUBLE: (int, float),
    TEXT: (str,),
    BINARY: (bytes,),
    INSTANT: (int,),
    LOCAL_TIME: (int,),
    DATE: (int,),
}
_BOUNDS: dict[str, tuple[int, int, str]] = {
    LONG: (-(2**63), 2**63 - 1, "beyond 64 bits"),
    INSTANT: (FIRST_US, LAST_US, "a time outside of the years 1 to 9999"),
    LOCAL_TIME: (FIRST_US, LAST_US, "a time outside of the years 1 to 9999"),
    DATE: (FIRST_DAY, LAST_DAY, "a time outside of the years 1 to 9999"),
}


def why_no_row(columns: list[Column], event: dict[str, Any]) -> str | None:
    """Return the reason why a decoded event cannot be a row of these columns; None if it can."""
    for column in columns:
        convert = column.column_type.convert
        try:
            value = event[column.field] if convert is None else convert(event[column.field])
        except (ArithmeticError, RecursionError, TypeError, ValueError) as error:
            return f"field {column.field}: {error}"
        if why := _why_not(column.column_type.type, value):
            return f"field {column.field}: {why}"
    return None


def _why_not(kind: Kind, value: Any) -> str | None:
    """Return the reason why a column of a type does not hold a value; None if it does."""
    if value is None:
        return None
    if isinstance(kind, Structs):
        within = [(inner, value[name]) for name, inner in kind.fields]
    elif isinstance(kind, Lists):
        within = [(kind.inner, item) for item in value]
    elif isinstance(kind, Maps):
        within = [(kind.inner, item) for _, item in value]
    else:
        return _why_no_decimal(kind, value) if isinstance(kind, Decimals) else _why_not_plain(kind, value)
    return next((why for inner, item in within if (why := _why_not(inner, item))), None)


def _why_not_plain(kind: str, value: Any) -> str | None:
    if not _is_of_type(kind, value):
        return f"{value!r} is no {kind}"
    if kind in _BOUNDS:
        least, most, why = _BOUNDS[kind]
        return None if least <= value <= most else f"{value} is {why}"
    if kind in {FLOAT, DOUBLE} and isinstance(value, int) and not _is_exact(value):
        return f"{value} is no exact {kind}"
    if kind == TEXT:
        try:
            value.encode()
        except UnicodeEncodeError as error:
            return str(error)
    return None


def _is_of_type(kind: str, value: Any) -> bool:
    return kind != NULL and isinstance(value, _TYPES[kind])


def _is_exact(value: int) -> bool:
    try:
        return int(float(value)) == value
    except OverflowError:
        return False


def _why_no_decimal(kind: Decimals, value: Any) -> str | None:
    if not isinstance(value, Decimal):
        return f"{value!r} is no {kind}"
    if not value.is_finite():
        return f"{value} is no {kind}"
    scaled = Fraction(value) * 10**kind.scale
    if scaled.denominator != 1 or abs(scaled.numerator) >= 10**kind.precision:
        return f"{value} does not fit into {kind}"
    return None
