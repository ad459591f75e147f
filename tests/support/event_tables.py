"""Tables of this package's own events, written by hand as a load writes them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafka2011.pipeline.event_types import EVENT_TYPES
from kafka2011.warehouse.commits import Commit, Kind
from kafka2011.warehouse.reports.table_inputs import TableFile, TableView, live_numbers
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_ARROW = {"string": pa.string(), "int": pa.int64(), "long": pa.int64(), "double": pa.float64()}


def arrow_schema(topic: str) -> pa.Schema:
    """Return the columns of a topic's table."""
    fields = []
    for field in EVENT_TYPES[topic].document["fields"]:
        avro = field["type"][1] if isinstance(field["type"], list) else field["type"]
        is_time = isinstance(avro, dict) and avro["type"] == "long"
        name = avro["type"] if isinstance(avro, dict) else avro
        fields.append(pa.field(field["name"], pa.timestamp("us", tz="UTC") if is_time else _ARROW[name]))
    return pa.schema([*fields, pa.field("kafka2011_load_id", pa.int64())])


class EventTable:
    """One topic's table in a directory."""

    def __init__(self, warehouse: Path, topic: str) -> None:
        self.topic = topic
        self.path = warehouse / topic
        self.commits: list[Commit] = []

    def load(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Commit a load of these events."""
        number = len(self.commits) + 1
        self._write(number, [{**event, "kafka2011_load_id": number} for event in events])
        self._commit(number, Kind.LOAD, len(events))

    def compact(self) -> None:
        """Commit one compaction of all that there is, and remove what it replaces."""
        number = len(self.commits) + 1
        old = self.files()
        rows = [row for file in old for row in pq.read_table(file.path, partitioning=None).to_pylist()]
        self._write(number, rows)
        self._commit(number, Kind.COMPACT, 0, replaces=tuple(sorted({file.number for file in old})))
        for file in old:
            Path(file.path).unlink()

    def files(self) -> list[TableFile]:
        """List the files that readers read."""
        return [
            TableFile(str(path), number)
            for number in live_numbers(self.commits)
            for path in sorted(self._directory(number).glob("*/*.parquet"))
        ]

    def view(self) -> TableView:
        """Return it as it is now."""
        return TableView(self.topic, tuple(self.commits), self.files())

    def _directory(self, number: int) -> Path:
        return self.path / f"load_id={number:06d}"

    def _commit(self, number: int, kind: Kind, rows: int, **more: Any) -> None:
        offsets = {TopicPartition(self.topic, 0, 0): number}
        self.commits.append(Commit(self.topic, number, kind, number * 1000, offsets, rows=rows, **more))

    def _write(self, number: int, rows: Iterable[Mapping[str, Any]]) -> None:
        by_day: dict[str, list[Mapping[str, Any]]] = {}
        for row in rows:
            time = row["time"]
            when = time if isinstance(time, datetime) else datetime.fromtimestamp(time / 1_000_000, UTC)
            by_day.setdefault(when.date().isoformat(), []).append(row)
        schema = arrow_schema(self.topic)
        for day, of_day in by_day.items():
            directory = self._directory(number) / f"date={day}"
            directory.mkdir(parents=True)
            complete = [{name: row.get(name) for name in schema.names} for row in of_day]
            pq.write_table(pa.Table.from_pylist(complete, schema), directory / "part-0.parquet")


def read_results(directory: Path, report: str) -> list[dict[str, Any]]:
    """Read the rows of one report with plain pyarrow, `date` as text, in a fixed order."""
    rows: list[dict[str, Any]] = []
    for day in sorted((directory / report).glob("date=*")):
        for file in day.glob("*.parquet"):
            found = pq.read_table(file, partitioning=None).to_pylist()
            rows += [{"date": day.name.removeprefix("date="), **row} for row in found]
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))
