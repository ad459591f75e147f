"""Scrapers: clients that ask for more pages in a minute than people do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
from pyspark.sql import Window
from pyspark.sql import functions as sql

from kafka2011.reports.event_frames import DAY_S
from kafka2011.reports.report import Report, ReportSettings
from kafka2011.reports.sections import TOP, Figure, Section, shown, table_of
from kafka2011.reports.settings import VIEWS_PER_MINUTE

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_MINUTE_S = 60


def scrapers(views: DataFrame, views_per_minute: int = VIEWS_PER_MINUTE.default) -> DataFrame:
    """Return `date`, `remote_host`, `user_agent`, `views`, `most_per_minute`, `at_s` of clients above a rate.

    A client is an address with a browser. `most_per_minute` counts its views within any 60 seconds, wherever they
    begin, and is above `views_per_minute`; the first such 60 seconds ended with second `at_s` of the day. Midnight
    divides them. They are found in counts by second, which bounds the work however busy a client is.
    """
    client = ("date", "remote_host", "user_agent")
    seconds = views.where("remote_host is not null").groupBy(*client, "second").agg(sql.count("*").alias("views"))
    minute = Window.partitionBy(*client).orderBy("second").rangeBetween(1 - _MINUTE_S, 0)
    of_day = sql.pmod("second", sql.lit(DAY_S))
    return (
        seconds.withColumn("in_minute", sql.sum("views").over(minute))
        .groupBy(*client)
        .agg(
            sql.sum("views").alias("views"),
            sql.max("in_minute").alias("most_per_minute"),
            sql.max_by(of_day, sql.struct("in_minute", -sql.col("second"))).alias("at_s"),
        )
        .where(sql.col("most_per_minute") > views_per_minute)
    )


def _section(rows: pa.Table, settings: ReportSettings) -> Section:
    top_scrapers: list[dict[str, Any]] = []
    if rows.num_rows:
        top_scrapers = rows.take(pc.select_k_unstable(rows, TOP, [("most_per_minute", "descending")])).to_pylist()
    limit = settings[VIEWS_PER_MINUTE]
    text = f"Clients that viewed more than {limit} pages within a minute. A client is an address with a browser."
    table = table_of(
        "The fastest clients",
        {"Address": False, "Browser": False, "Most in a minute": True, "At": False, "Views that day": True},
        [
            (
                row["remote_host"],
                row["user_agent"],
                row["most_per_minute"],
                f"{row['date']} {row['at_s'] // 3600:02d}:{row['at_s'] // 60 % 60:02d}:{row['at_s'] % 60:02d}",
                row["views"],
            )
            for row in top_scrapers
        ],
    )
    figures = [Figure("scrapers", shown(rows.num_rows))]
    return Section("Scrapers", text if top_scrapers else f"{text} There were none.", (), table, figures)


REPORT = Report(
    name="scrapers",
    topics=("page_views",),
    settings=(VIEWS_PER_MINUTE,),
    make=lambda of, settings: scrapers(of["page_views"], settings[VIEWS_PER_MINUTE]),
    order=("remote_host", "user_agent"),
    section=_section,
)
