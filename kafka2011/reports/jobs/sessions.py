"""Sessions: page views of one visitor that belong together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as sql

from kafka2011.reports.event_frames import visitor
from kafka2011.reports.report import Report, ReportSettings
from kafka2011.reports.sections import NOTHING, Figure, Section, hours_of, share, shown, table_of
from kafka2011.reports.settings import SESSION_GAP_S
from kafka2011.reports.tables import top, total

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def sessions(views: DataFrame, gap_s: int = SESSION_GAP_S.default) -> DataFrame:
    """Return `date`, `hour`, `sessions`, `views`, `bounces`, `duration_s`, by the hour in which sessions began.

    Views with one `session_id` are one session. Of visitors without, a session ends when more than `gap_s` pass before
    the next view. All end at midnight, so that what is known of a day does not depend on the next one. A bounce is a
    session of one view; `duration_s` is the sum of the times from first view to last. Views without a session and
    without a visitor are left out.
    """
    who = sql.coalesce(sql.concat(sql.lit("session "), sql.col("session_id")), visitor())
    seen = views.select("date", "hour", "second", "session_id", who.alias("who")).where("who is not null")
    by_visitor = Window.partitionBy("date", "who").orderBy("second")
    silence_s = sql.col("second") - sql.lag("second").over(by_visitor)
    begins = sql.col("session_id").isNull() & (silence_s > gap_s)
    numbered = seen.withColumn("begins", sql.when(begins, 1).otherwise(0)).withColumn(
        "number", sql.sum("begins").over(by_visitor.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    )
    of_sessions = numbered.groupBy("date", "who", "number").agg(
        sql.min("hour").alias("hour"),
        sql.count("*").alias("views"),
        (sql.max("second") - sql.min("second")).alias("duration_s"),
    )
    return of_sessions.groupBy("date", "hour").agg(
        sql.count("*").alias("sessions"),
        sql.sum("views").alias("views"),
        sql.count_if(sql.col("views") == 1).alias("bounces"),
        sql.sum("duration_s").alias("duration_s"),
    )


def _section(rows: pa.Table, settings: ReportSettings) -> Section:
    if not rows.num_rows:
        return Section("Sessions", NOTHING)
    of_days = top(rows, ["date"], "sessions", ("sessions", "views", "bounces", "duration_s"), rows.num_rows)
    table = table_of(
        "Sessions that began on each day",
        {"Day": False, "Sessions": True, "Views in each": True, "Mean length": True, "Of one view": True},
        [
            (
                row["date"],
                row["sessions"],
                f"{row['views'] / row['sessions']:.1f}",
                f"{row['duration_s'] / row['sessions']:,.0f} s",
                share(row["bounces"], row["sessions"]),
            )
            for row in sorted(of_days, key=lambda row: str(row["date"]))
        ],
    )
    text = (
        "A session is all views with one session id; for visitors without one, views with at most"
        f" {settings[SESSION_GAP_S] // 60} minutes between them. Sessions end at midnight, UTC."
    )
    charts = hours_of(rows, {"sessions": "sessions"}, "Sessions by the hour in which they began, UTC.")
    return Section("Sessions", text, charts, table, [Figure("sessions", shown(total(rows, "sessions")))])


REPORT = Report(
    name="sessions",
    topics=("page_views",),
    settings=(SESSION_GAP_S,),
    make=lambda of, settings: sessions(of["page_views"], settings[SESSION_GAP_S]),
    order=("hour",),
    section=_section,
)
