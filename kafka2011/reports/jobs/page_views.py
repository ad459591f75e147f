"""Page views: how often each page was asked for in each hour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from kafka2011.reports.event_frames import page
from kafka2011.reports.report import Report, ReportSettings
from kafka2011.reports.sections import NOTHING, TOP, Figure, Section, hours_of, share, shown, table_of
from kafka2011.reports.tables import distinct, top, total

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def page_views(views: DataFrame) -> DataFrame:
    """Return how often each page was viewed: `date`, `hour`, `page`, `views`, `response_bytes`.

    `views` are page views as `dated` returns them.
    """
    return (
        views.withColumn("page", page())
        .groupBy("date", "hour", "page")
        .agg(sql.count("*").alias("views"), sql.coalesce(sql.sum("response_bytes"), sql.lit(0)).alias("response_bytes"))
    )


def _section(rows: pa.Table, _: ReportSettings) -> Section:
    views = total(rows, "views")
    figures = [Figure("page views", shown(views))]
    if not views:
        return Section("Page views", NOTHING, figures=figures)
    top_pages = top(rows, ["page"], "views", ("views", "response_bytes"), TOP)
    of_pages = [(shown(row["page"] or "(no address)"), row["views"], row["response_bytes"]) for row in top_pages]
    by_hour = hours_of(rows, {"views": "page views"}, "Page views by hour, UTC.")
    table = table_of(
        "Most viewed pages",
        {"Page": False, "Views": True, "Share": True, "Bytes sent": True},
        [(address, count, share(count, views), sent) for address, count, sent in of_pages],
    )
    text = (
        f"{shown(views)} page views of {shown(distinct(rows, 'page'))} pages. A page is an address without its query."
    )
    return Section("Page views", text, by_hour, table, figures)


REPORT = Report(
    name="page_views",
    topics=("page_views",),
    make=lambda of, _: page_views(of["page_views"]),
    order=("hour", "page"),
    counted="views",
    section=_section,
)
