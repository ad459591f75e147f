"""Errors of each server and hour: by its page views, and by its own reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from kafka2011.reports.report import Report, ReportSettings
from kafka2011.reports.sections import NOTHING, TOP, Figure, Section, share, shown, table_of
from kafka2011.reports.tables import top, total

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_NUMBERS = ("views", "client_errors", "server_errors", "told_requests", "told_errors")


def server_errors(views: DataFrame, stats: DataFrame) -> DataFrame:
    """Return `date`, `hour`, `server`, `views`, `client_errors`, `server_errors`, `told_requests`, `told_errors`.

    The first three numbers count page views, those with a status from 400 to 499, and those from 500 on. The others are
    the sums of the server's own events; what it tells at the beginning of an hour may have happened in the hour before.
    """
    status = sql.col("status")
    seen = views.groupBy("date", "hour", "server").agg(
        sql.count("*").alias("views"),
        sql.count_if(status.between(400, 499)).alias("client_errors"),
        sql.count_if(status >= 500).alias("server_errors"),
    )
    told = stats.groupBy("date", "hour", "server").agg(
        sql.sum("requests").alias("told_requests"), sql.sum("errors").alias("told_errors")
    )
    return seen.join(told, ["date", "hour", "server"], "full").na.fill(0, _NUMBERS)


def _section(rows: pa.Table, _: ReportSettings) -> Section:
    if not rows.num_rows:
        return Section("Errors of servers", NOTHING)
    top_servers = top(rows, ["server"], "views", _NUMBERS, TOP)
    table = table_of(
        "Servers, by the number of page views",
        {
            "Server": False,
            "Views": True,
            "4xx": True,
            "5xx": True,
            "5xx share": True,
            "Requests it told of": True,
            "Errors it told of": True,
        },
        [
            (
                shown(row["server"]),
                row["views"],
                row["client_errors"],
                row["server_errors"],
                share(row["server_errors"], row["views"]),
                row["told_requests"],
                row["told_errors"],
            )
            for row in top_servers
        ],
    )
    text = "Counted twice: from the status of page views, and from the servers' own reports every few seconds."
    errors = share(total(rows, "server_errors"), total(rows, "views"))
    return Section("Errors of servers", text, (), table, [Figure("answered with 5xx", errors)])


REPORT = Report(
    name="server_errors",
    topics=("page_views", "server_stats"),
    make=lambda of, _: server_errors(of["page_views"], of["server_stats"]),
    order=("hour", "server"),
    section=_section,
)
