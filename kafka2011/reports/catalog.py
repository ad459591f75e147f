"""The list of reports, in the order in which the page shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.reports.jobs import (
    page_views,
    referrers,
    scrapers,
    search_clicks,
    searches,
    server_errors,
    sessions,
    unreadable_lines,
    visitors,
)

if TYPE_CHECKING:
    from kafka2011.reports.report import Report

REPORTS: tuple[Report, ...] = tuple(
    job.REPORT
    for job in (
        page_views,
        visitors,
        sessions,
        referrers,
        search_clicks,
        searches,
        server_errors,
        scrapers,
        unreadable_lines,
    )
)

TOPICS: tuple[str, ...] = tuple(sorted({topic for report in REPORTS for topic in report.topics}))
"""All that some report reads."""
