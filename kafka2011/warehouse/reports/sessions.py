"""Sessions: page views of one visitor that belong together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as sql

from kafka2011.warehouse.reports.events import visitor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DEFAULT_GAP_S = 1800


def sessions(views: DataFrame, gap_s: int = DEFAULT_GAP_S) -> DataFrame:
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
    each = numbered.groupBy("date", "who", "number").agg(
        sql.min("hour").alias("hour"),
        sql.count("*").alias("views"),
        (sql.max("second") - sql.min("second")).alias("duration_s"),
    )
    return each.groupBy("date", "hour").agg(
        sql.count("*").alias("sessions"),
        sql.sum("views").alias("views"),
        sql.count_if(sql.col("views") == 1).alias("bounces"),
        sql.sum("duration_s").alias("duration_s"),
    )
