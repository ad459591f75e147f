"""Searches with their clicks: two topics, joined by the id of the search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from kafka2011.reports.report import Report
from kafka2011.reports.settings import CLICK_WITHIN_S

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def search_clicks(searches: DataFrame, clicks: DataFrame, within_s: int = CLICK_WITHIN_S.default) -> DataFrame:
    """Return a row for each search: its `date`, `hour`, `search_id`, `query`, `results`, and what came of it.

    That is `clicks`, and `first_click_s` and `best_position`, null where there is none. A click counts for the search
    whose id it has, up to `within_s` after it: so only that much of the next day is needed. The query is in lower case
    and without outer blanks.
    """
    clicked = clicks.where("search_id is not null").select(
        "search_id", "position", sql.col("id").alias("click_id"), sql.unix_micros("time").alias("click_us")
    )
    searched = searches.select(
        "date",
        "hour",
        sql.col("id").alias("search_id"),
        sql.lower(sql.trim("query")).alias("query"),
        "results",
        sql.unix_micros("time").alias("search_us"),
    )
    delay_us = sql.col("click_us") - sql.col("search_us")
    firsts = (
        searched.join(clicked, "search_id")
        .where(delay_us.between(0, within_s * 1_000_000))
        .groupBy("search_id")
        .agg(
            sql.count("*").alias("clicks"),
            (sql.min(delay_us) / 1_000_000).alias("first_click_s"),
            sql.min("position").alias("best_position"),
        )
    )
    return (
        searched.drop("search_us")
        .join(firsts, "search_id", "left")
        .withColumn("clicks", sql.coalesce("clicks", sql.lit(0)))
        .select("date", "hour", "search_id", "query", "results", "clicks", "first_click_s", "best_position")
    )


REPORT = Report(
    name="search_clicks",
    topics=("searches", "clicks"),
    settings=(CLICK_WITHIN_S,),
    make=lambda of, settings: search_clicks(of["searches"], of["clicks"], settings[CLICK_WITHIN_S]),
    order=("hour", "search_id"),
    reach_s={"clicks": CLICK_WITHIN_S},
)
