"""The parts of a section of the page: text, pictures still to be drawn, a table, and numbers at the top."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.printable import printable
from kafka2011.reports import tables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import pyarrow as pa

TOP = 15
"""So many rows has a table."""

NOTHING = "There are no events for these days."

_LINE_HOURS = 3
"""A line over fewer hours says nothing."""
_SMALLEST_SHARE = 0.0005


class HoursChart(NamedTuple):
    """A line for each series over hours, some of which may be left out; a caption, and a description in words."""

    hours: Sequence[datetime]
    series: Mapping[str, Sequence[int]]
    caption: str
    alt: str


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table of text; the first cell of a row is its name."""

    caption: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    numeric: tuple[bool, ...]


class Figure(NamedTuple):
    """One number at the top of the page."""

    label: str
    value: str


@dataclass(frozen=True, slots=True)
class Section:
    """One report on the page."""

    title: str
    text: str
    charts: Sequence[HoursChart] = ()
    table: TextTable | None = None
    figures: Sequence[Figure] = ()


def table_of(caption: str, columns: Mapping[str, bool], rows: Sequence[tuple[object, ...]]) -> TextTable:
    """Return a table; of each column it is said whether it holds numbers."""
    texts = [tuple(shown(cell) for cell in row) for row in rows]
    return TextTable(caption, tuple(columns), texts, tuple(columns.values()))


def shown(cell: object) -> str:
    """Return a cell as text in which nothing is invisible; whole numbers get their thousands."""
    if cell is None:
        return "-"
    if isinstance(cell, int):
        return f"{cell:,}"
    return printable(str(cell))


def share(part: int, whole: int) -> str:
    """Return a part of a whole in percent."""
    if not whole:
        return "-"
    return f"{100 * part / whole:.1f}%" if not part or part / whole >= _SMALLEST_SHARE else "<0.1%"


def hours_of(rows: pa.Table, names: Mapping[str, str], caption: str) -> list[HoursChart]:
    """Return lines of columns by hour, with their names; none of too few hours."""
    hours, columns = tables.hourly(rows, tuple(names))
    if len(hours) < _LINE_HOURS:
        return []
    first, *_ = columns.values()
    best = max(range(len(hours)), key=first.__getitem__)
    word = next(iter(names.values()))
    alt = (
        f"{caption} A line from {hours[0]:%Y-%m-%d %H:00} to {hours[-1]:%Y-%m-%d %H:00}; at most {shown(first[best])}"
        f" {word}, at {hours[best]:%Y-%m-%d %H:00}."
    )
    return [HoursChart(hours, {names[name]: values for name, values in columns.items()}, caption, alt)]
