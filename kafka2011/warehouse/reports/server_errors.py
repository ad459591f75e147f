"""Errors of each server and hour: as its page views tell, and as it tells itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
    numbers = ("views", "client_errors", "server_errors", "told_requests", "told_errors")
    return seen.join(told, ["date", "hour", "server"], "full").na.fill(0, numbers)
