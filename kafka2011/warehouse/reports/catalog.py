"""Which reports there are, and what each is made of."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from kafka2011.warehouse.reports import scrapers, search_clicks, sessions
from kafka2011.warehouse.reports.page_views import page_views
from kafka2011.warehouse.reports.referrers import referrers
from kafka2011.warehouse.reports.searches import searches
from kafka2011.warehouse.reports.server_errors import server_errors
from kafka2011.warehouse.reports.visitors import visitors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame

_LOGIC = 1
"""Raise it with a change that makes other results of the same events: then all days are derived again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSettings:
    """What results depend on besides events. Where one is changed, all days are derived again."""

    own_sites: tuple[str, ...] = ()
    """Hosts that are no referrers."""
    session_gap_s: int = sessions.DEFAULT_GAP_S
    click_within_s: int = search_clicks.DEFAULT_WITHIN_S
    scraper_views_per_minute: int = scrapers.DEFAULT_VIEWS_PER_MINUTE

    def to_json(self) -> dict[str, Any]:
        """Return them as they are written down with results."""
        return {"logic": _LOGIC, **asdict(self), "own_sites": sorted(self.own_sites)}


@dataclass(frozen=True, slots=True)
class Report:
    """One report: each day of it can be made of events around that day alone."""

    name: str
    topics: tuple[str, ...]
    make: Callable[[Mapping[str, DataFrame], ReportSettings], DataFrame]
    """Takes a frame for each topic, as `events.dated` gives it; returns one with a column `date`."""
    order: tuple[str, ...]
    """The columns that rows of a day are sorted by."""
    reaches_back: str = ""
    """The one of `topics` whose events may belong to the day before."""

    def reach_s(self, topic: str, settings: ReportSettings) -> int:
        """Return how long after the end of a day events of a topic still matter to it."""
        return settings.click_within_s if topic == self.reaches_back else 0


REPORTS: tuple[Report, ...] = (
    Report(
        "page_views",
        ("page_views",),
        lambda of, _: page_views(of["page_views"]),
        ("hour", "page"),
    ),
    Report(
        "visitors",
        ("page_views",),
        lambda of, _: visitors(of["page_views"]),
        ("hour",),
    ),
    Report(
        "sessions",
        ("page_views",),
        lambda of, settings: sessions.sessions(of["page_views"], settings.session_gap_s),
        ("hour",),
    ),
    Report(
        "referrers",
        ("page_views",),
        lambda of, settings: referrers(of["page_views"], settings.own_sites),
        ("site",),
    ),
    Report(
        "search_clicks",
        ("searches", "clicks"),
        lambda of, settings: search_clicks.search_clicks(of["searches"], of["clicks"], settings.click_within_s),
        ("hour", "search_id"),
        reaches_back="clicks",
    ),
    Report(
        "searches",
        ("searches", "clicks"),
        lambda of, settings: searches(
            search_clicks.search_clicks(of["searches"], of["clicks"], settings.click_within_s)
        ),
        ("hour", "query"),
        reaches_back="clicks",
    ),
    Report(
        "server_errors",
        ("page_views", "server_stats"),
        lambda of, _: server_errors(of["page_views"], of["server_stats"]),
        ("hour", "server"),
    ),
    Report(
        "scrapers",
        ("page_views",),
        lambda of, settings: scrapers.scrapers(of["page_views"], settings.scraper_views_per_minute),
        ("remote_host", "user_agent"),
    ),
)

TOPICS: tuple[str, ...] = tuple(sorted({topic for report in REPORTS for topic in report.topics}))
"""All that some report reads."""
