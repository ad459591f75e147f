"""Unreadable lines: what the other reports leave out, with the reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from kafka2011.reports.report import Report, ReportSettings
from kafka2011.reports.sections import TOP, Figure, Section, shown, table_of
from kafka2011.reports.tables import top, total

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_EXAMPLE_CHARS = 200


def unreadable_lines(lines: DataFrame) -> DataFrame:
    """Return `date`, `reason`, `lines`, `example` of events with a `parse_error`; the example is cut."""
    return lines.groupBy("date", sql.col("parse_error").alias("reason")).agg(
        sql.count("*").alias("lines"),
        sql.min(sql.substring(sql.coalesce("line", sql.lit("")), 1, _EXAMPLE_CHARS)).alias("example"),
    )


def _section(rows: pa.Table, _: ReportSettings) -> Section:
    title = "Unreadable lines"
    lines = total(rows, "lines")
    if not lines:
        return Section(title, "All lines of the logs could be read.")
    examples = {row["reason"]: row["example"] for row in rows.sort_by("date").to_pylist()}
    table = table_of(
        "Reasons",
        {"Reason": False, "Lines": True, "For example": False},
        [
            (row["reason"], row["lines"], examples[row["reason"]])
            for row in top(rows, ["reason"], "lines", ("lines",), TOP)
        ],
    )
    text = f"{shown(lines)} lines could not be read as page views. The other reports leave them out."
    return Section(title, text, (), table, [Figure("unreadable lines", shown(lines))])


REPORT = Report(
    name="unreadable_lines",
    topics=("page_views",),
    reads_unreadable=True,
    make=lambda of, _: unreadable_lines(of["page_views"]),
    order=("reason",),
    counted="lines",
    section=_section,
)
