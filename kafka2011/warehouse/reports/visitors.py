"""Unique visitors of each hour, and of each day, which is not the sum of its hours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from kafka2011.warehouse.reports.events import visitor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def visitors(views: DataFrame) -> DataFrame:
    """Return `date`, `hour`, `visitors`, `members`; the rows whose hour is null are those of whole days.

    A visitor is a member, or else an address with a browser. Views of which neither is known have no visitor.
    """
    seen = views.select("date", "hour", "member_id", visitor().alias("visitor"))
    counts = (
        sql.countDistinct("visitor").alias("visitors"),
        sql.countDistinct("member_id").alias("members"),
    )
    hours = seen.groupBy("date", "hour").agg(*counts)
    days = seen.groupBy("date").agg(*counts).withColumn("hour", sql.lit(None).cast("int"))
    return hours.unionByName(days)
