"""Scrapers: clients that ask for more pages in a minute than people do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as sql

from kafka2011.warehouse.reports.events import DAY_S

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MINUTE_S = 60
DEFAULT_VIEWS_PER_MINUTE = 60


def scrapers(views: DataFrame, views_per_minute: int = DEFAULT_VIEWS_PER_MINUTE) -> DataFrame:
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
