"""Referrers: which sites page views came from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from kafka2011.warehouse.reports.events import visitor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

_SITE = r"^[A-Za-z][A-Za-z0-9+.-]*://(?:[^/?#@]*@)?([^/?#:@]+)"


def referrers(views: DataFrame, own_sites: Sequence[str] = ()) -> DataFrame:
    """Return `date`, `site`, `views`, `visitors`, without those that came from one of `own_sites`.

    A site is the host in the referrer, in lower case; empty for a referrer that names none. Views without a referrer
    are left out.
    """
    site = sql.lower(sql.regexp_extract("referrer", _SITE, 1))
    seen = views.where("referrer is not null").select("date", site.alias("site"), visitor().alias("visitor"))
    if own_sites:
        seen = seen.where(~sql.col("site").isin([own.lower() for own in own_sites]))
    return seen.groupBy("date", "site").agg(
        sql.count("*").alias("views"), sql.countDistinct("visitor").alias("visitors")
    )
