"""Referrers: which sites page views came from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from kafka2011.reports.event_frames import visitor
from kafka2011.reports.report import Report, ReportSettings
from kafka2011.reports.sections import NOTHING, TOP, Section, share, shown, table_of
from kafka2011.reports.settings import OWN_SITES
from kafka2011.reports.tables import distinct, top, total

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
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


def _section(rows: pa.Table, _: ReportSettings) -> Section:
    views = total(rows, "views")
    if not views:
        return Section("Referrers", NOTHING)
    top_sites = top(rows, ["site"], "views", ("views",), TOP)
    of_sites = [(shown(row["site"] or "(no site)"), row["views"]) for row in top_sites]
    table = table_of(
        "Sites with the most referred views",
        {"Site": False, "Views": True, "Share": True},
        [(site, count, share(count, views)) for site, count in of_sites],
    )
    text = f"{shown(views)} page views had a referrer, of {shown(distinct(rows, 'site'))} sites."
    return Section("Referrers", text, (), table)


REPORT = Report(
    name="referrers",
    topics=("page_views",),
    settings=(OWN_SITES,),
    make=lambda of, settings: referrers(of["page_views"], settings[OWN_SITES]),
    order=("site",),
    section=_section,
)
