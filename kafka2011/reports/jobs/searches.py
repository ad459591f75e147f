"""Searches and their click-through, for each query and hour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from kafka2011.reports.jobs.search_clicks import search_clicks
from kafka2011.reports.report import Report, ReportSettings
from kafka2011.reports.sections import NOTHING, TOP, Figure, Section, hours_of, share, shown, table_of
from kafka2011.reports.settings import CLICK_WITHIN_S
from kafka2011.reports.tables import top, total

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def searches(with_clicks: DataFrame) -> DataFrame:
    """Return `date`, `hour`, `query`, `searches`, `found_nothing`, `clicked`, `clicks` of what `search_clicks` gives.

    The click-through is `clicked` of `searches`: all of these columns add up, over hours and over queries.
    """
    return with_clicks.groupBy("date", "hour", "query").agg(
        sql.count("*").alias("searches"),
        sql.count_if(sql.col("results") == 0).alias("found_nothing"),
        sql.count_if(sql.col("clicks") > 0).alias("clicked"),
        sql.sum("clicks").alias("clicks"),
    )


def _section(rows: pa.Table, settings: ReportSettings) -> Section:
    count, clicked = total(rows, "searches"), total(rows, "clicked")
    if not count:
        return Section("Searches", NOTHING)
    top_searches = top(rows, ["query"], "searches", ("searches", "found_nothing", "clicked", "clicks"), TOP)
    by_hour = hours_of(rows, {"searches": "searches", "clicked": "with a click"}, "Searches by hour, UTC.")
    table = table_of(
        "Most frequent searches",
        {"Query": False, "Searches": True, "Found nothing": True, "Clicks": True, "Click-through": True},
        [
            (
                shown(row["query"]),
                row["searches"],
                share(row["found_nothing"], row["searches"]),
                row["clicks"],
                share(row["clicked"], row["searches"]),
            )
            for row in top_searches
        ],
    )
    text = (
        f"{shown(count)} searches. The click-through, {share(clicked, count)}, is the share with a click on a result"
        f" within {settings[CLICK_WITHIN_S] // 60} minutes."
    )
    figures = [Figure("searches", shown(count)), Figure("click-through", share(clicked, count))]
    return Section("Searches", text, by_hour, table, figures)


REPORT = Report(
    name="searches",
    topics=("searches", "clicks"),
    settings=(CLICK_WITHIN_S,),
    make=lambda of, settings: searches(search_clicks(of["searches"], of["clicks"], settings[CLICK_WITHIN_S])),
    order=("hour", "query"),
    reach_s={"clicks": CLICK_WITHIN_S},
    counted="searches",
    section=_section,
)
