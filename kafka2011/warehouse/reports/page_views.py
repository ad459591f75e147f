"""Page views: how often each page was asked for in each hour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from kafka2011.warehouse.reports.events import page

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def page_views(views: DataFrame) -> DataFrame:
    """Return `date`, `hour`, `page`, `views`, `response_bytes`.

    A page is an address without its query. It is null for lines of a log that could not be read.
    """
    return (
        views.withColumn("page", page())
        .groupBy("date", "hour", "page")
        .agg(sql.count("*").alias("views"), sql.coalesce(sql.sum("response_bytes"), sql.lit(0)).alias("response_bytes"))
    )
