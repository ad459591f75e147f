"""Searches and their click-through, for each query and hour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

if TYPE_CHECKING:
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
