"""Results read back for the page: the newest days, added up, and no more rows than a page has room for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

_DAY = "date="


def days_of(directory: Path, report: str) -> list[str]:
    """Return the days that a report has results of, as text, oldest first."""
    return sorted(path.name.removeprefix(_DAY) for path in (directory / report).glob(f"{_DAY}*"))


def read_days(directory: Path, report: str, days: Iterable[str]) -> pa.Table:
    """Read a report's results of some days, with `date` as text; no rows are a table without columns."""
    parts = []
    for day in days:
        for file in sorted((directory / report / f"{_DAY}{day}").glob("*.parquet")):
            part = pq.read_table(file, partitioning=None)
            parts.append(part.append_column("date", pa.repeat(pa.scalar(day), part.num_rows)))
    return pa.concat_tables(parts) if parts else pa.table({})


def total(rows: pa.Table, column: str) -> int:
    """Return the sum of a column."""
    return int(pc.sum(rows[column]).as_py() or 0) if rows.num_rows else 0


def distinct(rows: pa.Table, column: str) -> int:
    """Return how many different values a column has."""
    return int(pc.count_distinct(rows[column]).as_py()) if rows.num_rows else 0


def top(rows: pa.Table, names: Sequence[str], by: str, adding: Sequence[str], most: int) -> list[dict[str, Any]]:
    """Add up columns for equal `names`, and return those with the largest sum in `by`; of equals, the first by name."""
    if not rows.num_rows:
        return []
    added = rows.group_by(list(names)).aggregate([(column, "sum") for column in adding])
    added = added.rename_columns([*names, *adding])
    order = [(by, "descending"), *((name, "ascending") for name in names)]
    return list(added.take(pc.select_k_unstable(added, most, order)).to_pylist())


def hourly(rows: pa.Table, adding: Sequence[str]) -> tuple[list[datetime], dict[str, list[int]]]:
    """Add up columns by hour, and return the hours, with 0 where there is nothing in one.

    They go from the first hour to the last, without those of days that have no rows.
    """
    if not rows.num_rows:
        return [], {}
    added = rows.group_by(["date", "hour"]).aggregate([(column, "sum") for column in adding]).to_pylist()
    by_hour = {datetime.fromisoformat(row["date"]).replace(hour=row["hour"], tzinfo=UTC): row for row in added}
    first, last = min(by_hour), max(by_hour)
    days = sorted({hour.replace(hour=0) for hour in by_hour})
    hours = [hour for day in days for number in range(24) if first <= (hour := day + timedelta(hours=number)) <= last]
    return hours, {column: [by_hour.get(hour, {}).get(f"{column}_sum") or 0 for hour in hours] for column in adding}
