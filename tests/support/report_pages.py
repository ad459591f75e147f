"""Results in files, and the page of them, without Spark."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafka2011.reports.catalog import REPORTS
from kafka2011.reports.page import FILE, write_page
from kafka2011.reports.report import ReportSettings
from kafka2011.reports.results import Derivation
from tests.support.plain_reports import plain_reports

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


def write_results(directory: Path, events: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """Write the reports of events as a derivation does."""
    for name, rows in plain_reports(events).items():
        for day in sorted({row["date"] for row in rows}):
            of_day = [{key: value for key, value in row.items() if key != "date"} for row in rows if row["date"] == day]
            target = directory / name / f"date={day}"
            target.mkdir(parents=True)
            pq.write_table(pa.Table.from_pylist(of_day), target / "part-0.parquet")


def page_of(
    directory: Path,
    events: Iterable[tuple[str, Mapping[str, Any]]],
    derived_at_ms: int = 1_307_836_800_000,
    **more: Any,
) -> Path:
    """Write results and their page, and return its path. The default of `derived_at_ms` is 2011-06-12 00:00 UTC."""
    directory.mkdir(parents=True, exist_ok=True)
    write_results(directory, events)
    place = {"commit": 3, "attempt": "1", "complete_through_ms": None}
    days = {report.name: (date(2011, 6, 12),) for report in REPORTS}
    settings = ReportSettings()
    derivation = Derivation(1, derived_at_ms, "tables", settings.to_json(REPORTS), {}, {"page_views": place}, days)
    write_page(directory, derivation, settings, **more)
    return directory / FILE
