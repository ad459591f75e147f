"""A table as readers find it: with compacted files, a column that came later, and after another one took its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from kafka2011.events.columns.held_columns import Widening
from kafka2011.events.columns.kinds import DOUBLE, TEXT
from kafka2011.warehouse.table.compaction import compact
from kafka2011.warehouse.table.rewriting import widen
from kafka2011.warehouse.table.swapping import swap
from kafka2011.warehouse.table.topic_table import TopicTable
from tests.support.tables import FIRST_MS, HOUR_MS, SCHEMA, TOPIC, load, staged

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Rows = list[tuple[int, str | float | None]]
"""Offset and referrer of each row."""

COLUMNS = ["kafka2011_offset", "referrer"]
NEWER = SCHEMA.append(pa.field("referrer", pa.string()))
DAY_MS = 24 * HOUR_MS


def evolved(warehouse: Path) -> Rows:
    """Make a table of three loads, two of which are compacted, and the rows of a load that was never committed."""
    table = TopicTable(warehouse, TOPIC)
    load(table, [FIRST_MS, FIRST_MS + HOUR_MS])
    load(table, [FIRST_MS, FIRST_MS + DAY_MS], NEWER, referrer=["/"] * 2)
    compact(table)
    load(table, [FIRST_MS, FIRST_MS + HOUR_MS], NEWER, referrer=["/"] * 2)
    staged(table, 5, [FIRST_MS], 9)
    return [(0, None), (100, None), (200, "/"), (300, "/"), (400, "/"), (500, "/")]


def swapped(warehouse: Path) -> Rows:
    """Put another table in the place of that one, and load on."""
    evolved(warehouse)
    rebuilt = TopicTable(warehouse, TOPIC, name="rebuilt")
    load(rebuilt, [FIRST_MS] * 3, NEWER, referrer=["/rebuilt"] * 3)
    load(rebuilt, [FIRST_MS + DAY_MS], NEWER, referrer=[None])
    swap(str(warehouse), TOPIC, "rebuilt")
    load(TopicTable(warehouse, TOPIC), [FIRST_MS], NEWER, referrer=["/after"])
    return [(0, "/rebuilt"), (100, "/rebuilt"), (200, "/rebuilt"), (300, None), (400, "/after")]


def widened(warehouse: Path) -> Rows:
    """Rewrite the column of a table of two dates with a wider type, and load on."""
    table = TopicTable(warehouse, TOPIC)
    numbers = SCHEMA.append(pa.field("referrer", pa.int64()))
    load(table, [FIRST_MS])
    load(table, [FIRST_MS, FIRST_MS + DAY_MS], numbers, referrer=[2**53, None])
    widen(table, {"referrer": Widening(DOUBLE)})
    load(table, [FIRST_MS], SCHEMA.append(pa.field("referrer", pa.float64())), referrer=[0.5])
    return [(0, None), (100, 2.0**53), (200, None), (300, 0.5)]


def made_json(warehouse: Path) -> Rows:
    """Rewrite a column of text as JSON text, as a union is kept."""
    evolved(warehouse)
    widen(TopicTable(warehouse, TOPIC), {"referrer": Widening(TEXT, is_json=True)})
    return [(0, None), (100, None), (200, '"/"'), (300, '"/"'), (400, '"/"'), (500, '"/"')]


STAGES: dict[str, Callable[[Path], Rows]] = {
    "compacted, with a new column": evolved,
    "swapped": swapped,
    "with a wider column": widened,
    "with a column of JSON": made_json,
}
