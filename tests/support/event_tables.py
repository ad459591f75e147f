"""Tables of this package's own events, written by hand as a load writes them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafka2011.events.columns.column_types import table_columns
from kafka2011.events.types import EVENT_TYPES
from kafka2011.reports.table_inputs import view_of
from kafka2011.warehouse.rows.columns import (
    BROKER_ID,
    INDEX_IN_SET,
    LOAD_ID,
    NEXT_OFFSET,
    OFFSET,
    PARTITION,
    SCHEMA,
    table_schema,
)
from kafka2011.warehouse.table.cleaning import clean
from kafka2011.warehouse.table.commits import Commit, Operation
from kafka2011.warehouse.table.compaction import compact
from kafka2011.warehouse.table.topic_table import TopicTable
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafka2011.reports.table_inputs import TableView


class EventTable:
    """One topic's table."""

    def __init__(self, warehouse: Path, topic: str) -> None:
        self.table = TopicTable(warehouse, topic)

    def load(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Commit a load of these events."""
        newest = self.table.newest()
        number = newest.number + 1 if newest else 1
        where = TopicPartition(self.table.topic, 0, 0)
        start = newest.offsets[where] if newest else 0
        staging = self.table.begin()
        rows = [{**event, **own_columns(number, start + index)} for index, event in enumerate(events)]
        write_days(Path(staging), self.table.topic, rows)
        offsets = {where: start + len(rows)}
        self.table.commit(staging, Commit(where.topic, number, Operation.LOAD, number, offsets, rows=len(rows)))

    def compact(self) -> None:
        """Compact all that there is; what is replaced is removed."""
        compact(self.table)
        clean(self.table, older_than_s=-1)

    def view(self) -> TableView:
        """Return it as it is now."""
        return view_of(self.table)


def own_columns(number: int, offset: int) -> dict[str, Any]:
    """Return what a load of this number adds to an event."""
    place = {BROKER_ID: 0, PARTITION: 0, OFFSET: offset, NEXT_OFFSET: offset + 1, INDEX_IN_SET: 0}
    return {**place, LOAD_ID: number, SCHEMA: "00" * 8}


def write_days(directory: Path, topic: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows into a file for each day."""
    by_place: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        place = datetime.fromtimestamp(row["time"] // 1_000_000, UTC).strftime("date=%Y-%m-%d")
        by_place.setdefault(place, []).append(row)
    schema = table_schema(table_columns(EVENT_TYPES[topic], topic))
    for place, of_place in by_place.items():
        (directory / place).mkdir(parents=True)
        complete = [{name: row.get(name) for name in schema.names} for row in of_place]
        table = pa.Table.from_pylist(complete, schema).sort_by("time")
        pq.write_table(table, directory / place / "part-0.parquet")


def read_results(directory: Path, report: str) -> list[dict[str, Any]]:
    """Read the rows of one report with plain pyarrow, `date` as text, in a fixed order."""
    rows: list[dict[str, Any]] = []
    for day in sorted((directory / report).glob("date=*")):
        for file in day.glob("*.parquet"):
            found = pq.read_table(file, partitioning=None).to_pylist()
            rows += [{"date": day.name.removeprefix("date="), **row} for row in found]
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))
