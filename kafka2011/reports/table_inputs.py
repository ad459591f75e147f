"""Events of loaded tables, up to the commits that were the newest when they were looked at."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as sql
from pyspark.sql.types import LongType, StructField, StructType

from kafka2011.reports.event_frames import DAY_S, dated, no_events, wanted_columns
from kafka2011.reports.stored_rows import rows_in
from kafka2011.warehouse.table.commits import Operation
from kafka2011.warehouse.table.locations import scheme_of
from kafka2011.warehouse.table.quarantine import awaiting

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kafka2011.warehouse.table.commits import Commit
    from kafka2011.warehouse.table.topic_table import TopicTable

_LOAD_ID = "kafka2011_load_id"
_DAY = re.compile(r"/date=(\d{4}-\d{2}-\d{2})/")
_ATTEMPT = re.compile(r"/data/([^/]+)/date=")
_REPLACING = (Operation.ROLLBACK, Operation.SWAP)
_MIXED = sys.maxsize
"""Stands for the number of a file that may have rows of any commit."""


class TableFile(NamedTuple):
    """A file of a table, and the number of the commit that brought it; larger than any where there is no one."""

    path: str
    number: int

    @property
    def day(self) -> date | None:
        """The one day of all its rows; None when it may have rows of any."""
        match = _DAY.search(self.path)
        return date.fromisoformat(match[1]) if match else None


@dataclass(frozen=True, slots=True)
class TableView:
    """A table as it was at one moment: its commits that are still known, and the files that readers read."""

    topic: str
    commits: Sequence[Commit]
    files: Sequence[TableFile]

    @property
    def newest(self) -> Commit:
        """The newest commit."""
        return self.commits[-1]


def view_of(table: TopicTable) -> TableView:
    """Return the commits that are still known of a table, and the files of its newest version. Raises WarehouseError.

    A file belongs to the commit in whose directory it lies; those of compactions, and of forgotten commits, to any.
    """
    now = table.opened()
    newest = None if now is None else table.history(now).newest()
    if now is None or newest is None:
        return TableView(table.topic, [], [])
    commits = table.history(now).commits() or [newest]
    numbers = {commit.attempt: commit.number for commit in commits}
    files = []
    for path in table.paths_in(now):
        match = _ATTEMPT.search(path)
        files.append(TableFile(path, numbers.get(match[1] if match else "", _MIXED)))
    return TableView(table.topic, commits, files)


class TableInputs:
    """Implements `inputs.ReportInputs` on views of tables."""

    kind = "tables"

    def __init__(self, spark: SparkSession, views: Iterable[TableView]) -> None:
        self._spark = spark
        self._views = {view.topic: view for view in views if view.commits}
        self.through: Mapping[str, Any] = {topic: _place(view.newest) for topic, view in self._views.items()}
        self.quarantined: Mapping[str, int] = {
            topic: sum(commit.quarantined for commit in awaiting(view.commits)) for topic, view in self._views.items()
        }

    def goes_on(self, after: Mapping[str, Any]) -> bool:
        """Say whether each table still has the commit that its topic was read through, as far as is known.

        A table that was built again has another one with that number, or none that large. After a rollback or a swap,
        rows are missing that were there.
        """
        for topic, place in after.items():
            view = self._views.get(topic)
            if view is None or view.newest.number < place["commit"]:
                return False
            same = [commit for commit in view.commits if commit.number == place["commit"]]
            if same and _place(same[0]) != place:
                return False
            if any(commit.operation in _REPLACING and commit.number > place["commit"] for commit in view.commits):
                return False
        return True

    def touched(self, topic: str, after: Any, reach_s: int) -> set[date]:
        """Return the days of events that later commits have brought."""
        number = after["commit"] if after else 0
        view = self._views[topic]
        files = [file for file in view.files if file.number > number]
        brought = {commit.number for commit in view.commits}
        days = {file.day for file in files}
        if not reach_s and None not in days and all(file.number in brought for file in files):
            return {day for day in days if day is not None}
        second = sql.col("second")
        both = sql.array("date", sql.date_from_unix_date(sql.floor((second - reach_s) / DAY_S).cast("int")))
        rows = self._read(topic, [file.path for file in files], number).select(sql.explode(both).alias("day"))
        return {row.day for row in rows.distinct().collect()}

    def learns_from(self, error: Exception) -> bool:  # noqa: ARG002 (as the protocol has it)
        """Return False: rows need no schema."""
        return False

    def events(self, topic: str, dates: Collection[date] | None) -> DataFrame:
        """Return events of some days, read from the files of these days alone."""
        every = self._views[topic].files
        files = [file.path for file in every if dates is None or file.day is None or file.day in dates]
        frame = self._read(topic, files, 0)
        return frame if dates is None else frame.where(frame.date.isin(sorted(dates)))

    def _read(self, topic: str, paths: list[str], after: int) -> DataFrame:
        if not paths:
            return no_events(self._spark, topic)
        columns = StructType([*wanted_columns(topic), StructField(_LOAD_ID, LongType())])
        if scheme_of(paths[0]):
            rows = rows_in(self._spark, paths, columns)
        else:
            rows = self._spark.read.schema(columns).parquet(*(f"file://{path}" for path in paths))
        return dated((rows.where(rows[_LOAD_ID] > after) if after else rows).drop(_LOAD_ID))


def _place(commit: Commit) -> dict[str, Any]:
    return {
        "commit": commit.number,
        "attempt": commit.attempt,
        "written_at_ms": commit.written_at_ms,
        "complete_through_ms": commit.complete_through_ms,
    }
