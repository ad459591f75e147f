"""The settings of reports. Imports nothing of Spark, so that `kafka2011 report` can show its options without it."""

from __future__ import annotations

from typing import Any

from kafka2011.reports.report import ReportSetting

OWN_SITES: ReportSetting[tuple[str, ...]] = ReportSetting(
    "own_sites",
    (),
    option="--own-site",
    metavar="HOST",
    meaning="A host of the site itself, which is not a referrer. May be given many times.",
)
VIEWS_PER_MINUTE = ReportSetting(
    "scraper_views_per_minute",
    60,
    option="--scraper-rate",
    meaning="Page views within a minute, above which a client is a scraper.",
)
CLICK_WITHIN_S = ReportSetting("click_within_s", 3600)
SESSION_GAP_S = ReportSetting("session_gap_s", 1800)

SETTINGS: tuple[ReportSetting[Any], ...] = (SESSION_GAP_S, OWN_SITES, CLICK_WITHIN_S, VIEWS_PER_MINUTE)
"""All settings, in the order in which the command shows those that have an option."""
