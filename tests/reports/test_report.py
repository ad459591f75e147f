"""What results depend on besides events: settings of reports, and what is written down of them."""

from __future__ import annotations

from kafka2011.reports.catalog import REPORTS
from kafka2011.reports.report import ReportSettings
from kafka2011.reports.settings import CLICK_WITHIN_S, OWN_SITES, VIEWS_PER_MINUTE


def test_settings_of_all_reports_are_written_down() -> None:
    """By names that results of earlier versions have too, so that they are continued; sites in no order."""
    settings = ReportSettings({OWN_SITES: ("www.example", "mail.example"), VIEWS_PER_MINUTE: 90})
    assert settings.to_json(REPORTS) == {
        "logic": 2,
        "own_sites": ["mail.example", "www.example"],
        "session_gap_s": 1800,
        "click_within_s": 3600,
        "scraper_views_per_minute": 90,
    }


def test_what_was_not_chosen_is_at_its_default() -> None:
    """Whichever report asks."""
    settings = ReportSettings({CLICK_WITHIN_S: 86_401})
    assert (settings[CLICK_WITHIN_S], settings[VIEWS_PER_MINUTE], settings[OWN_SITES]) == (86_401, 60, ())


def test_late_clicks_matter_to_searches_alone() -> None:
    """For as long as a click counts: so much of the next day is needed."""
    settings = ReportSettings({CLICK_WITHIN_S: 7200})
    reaches = {(report.name, topic): report.reach_of(topic, settings) for report in REPORTS for topic in report.topics}
    assert {where: reach_s for where, reach_s in reaches.items() if reach_s} == {
        ("search_clicks", "clicks"): 7200,
        ("searches", "clicks"): 7200,
    }
