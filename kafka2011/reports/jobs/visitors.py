"""Unique visitors of each hour, and of each day, which is not the sum of its hours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc
from pyspark.sql import functions as sql

from kafka2011.reports.event_frames import visitor
from kafka2011.reports.report import Report, ReportSettings
from kafka2011.reports.sections import NOTHING, Figure, Section, hours_of, shown, table_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def visitors(views: DataFrame) -> DataFrame:
    """Return `date`, `hour`, `visitors`, `members`; the rows whose hour is null are those of whole days.

    A visitor is a member, or else an address with a browser. Views for which neither is known have no visitor.
    """
    seen = views.select("date", "hour", "member_id", visitor().alias("visitor"))
    counts = (
        sql.countDistinct("visitor").alias("visitors"),
        sql.countDistinct("member_id").alias("members"),
    )
    hours = seen.groupBy("date", "hour").agg(*counts)
    days = seen.groupBy("date").agg(*counts).withColumn("hour", sql.lit(None).cast("int"))
    return hours.unionByName(days)


def _section(rows: pa.Table, _: ReportSettings) -> Section:
    if not rows.num_rows:
        return Section("Unique visitors", NOTHING)
    of_days = rows.filter(pc.is_null(rows["hour"])).sort_by("date").to_pylist()
    of_hours = rows.filter(pc.is_valid(rows["hour"]))
    table = table_of(
        "Visitors of each day",
        {"Day": False, "Visitors": True, "Of them members": True},
        [(row["date"], row["visitors"], row["members"]) for row in of_days],
    )
    return Section(
        "Unique visitors",
        "A visitor is a member, or else an address with a browser. Each visitor counts once a day.",
        hours_of(of_hours, {"visitors": "visitors"}, "Visitors of each hour, UTC."),
        table,
        [Figure("visitors on the last day", shown(of_days[-1]["visitors"]))],
    )


REPORT = Report(
    name="visitors",
    topics=("page_views",),
    make=lambda of, _: visitors(of["page_views"]),
    order=("hour",),
    section=_section,
)
