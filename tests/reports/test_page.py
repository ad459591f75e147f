"""The page of reports: what is on it, and that nothing in an event can become part of it."""

from __future__ import annotations

import base64
import xml.etree.ElementTree as ET
from datetime import date
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from kafka2011.audit.days import AuditedDays, DayVerdict, TierDay
from kafka2011.collect.access_log import page_view
from kafka2011.reports.catalog import REPORTS
from kafka2011.reports.sections import NOTHING
from tests.support.odd_events import DAY_US, MIDNIGHT_US, odd_events
from tests.support.report_pages import page_of

if TYPE_CHECKING:
    from pathlib import Path

GOOD = '192.0.2.7 - - [12/Jun/2011:00:00:00 +0000] "GET /a HTTP/1.1" 200 5 "-" "-"'
_EMPTY = {"meta", "link", "img", "br", "source"}


class Page(HTMLParser):
    """The elements of a page, and its text; tags must match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in _EMPTY:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip() and self._open[-1:] != ["style"]:
            self.words.append(data.strip())

    def of(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


def texts_of(address: str) -> set[str]:
    root = ET.fromstring(base64.b64decode(address.partition("base64,")[2]))
    return {"".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    path = page_of(tmp_path_factory.mktemp("page"), odd_events(seed=3))
    return Page(path.read_text(encoding="utf-8"))


def test_every_report_is_on_it(page: Page) -> None:
    """Each has a section that the links at the top lead to; ids are there once."""
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = [link["href"].removeprefix("#") for link in page.of("a") if link["href"].startswith("#")]
    assert targets == [
        *("page_views", "visitors", "sessions", "referrers", "searches", "server_errors", "scrapers"),
        *("unreadable_lines", "source"),
    ]
    assert set(targets) <= set(ids)
    for word in (
        "192.0.2.7",
        "scraper/1.0",
        "2011-06-11 to 2011-06-13, UTC. Each event counts once, however often it was published.",
    ):
        assert word in page.words


def test_it_needs_no_network(page: Page) -> None:
    """Nothing on it has an address elsewhere, but for the files beside it; no script runs."""
    named = ("src", "srcset", "href")
    addresses = [attributes[name] for _, attributes in page.elements for name in named if name in attributes]
    files = {f"report-2011-06-{day}.html" for day in (11, 12, 13)} | {"report.html"}
    data = {f"{report.name}/" for report in REPORTS if report.section}
    assert {address for address in addresses if not address.startswith(("data:image/", "data:,", "#"))} == files | data
    assert page.of("script") == []
    [policy] = [each["content"] for each in page.of("meta") if each.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none';")


def test_pictures_are_drawn_and_described(page: Page) -> None:
    """Each is well-formed SVG whose labels are text, and says in words what it shows."""
    pictures = page.of("img")
    assert len(pictures) == 4
    assert all(len(picture["alt"]) > 20 for picture in pictures)
    in_the_dark = [source["srcset"] for source in page.of("source")]
    for address in [*(picture["src"] for picture in pictures), *in_the_dark]:
        assert {"11 Jun", "2011", "12 Jun", "13 Jun"} <= texts_of(address)


def test_what_could_not_be_read_is_shown_and_nowhere_else(tmp_path: Path) -> None:
    """With its reasons, and an example; errors have no share of it."""
    lines = ["2015-05-17 status installed", "nothing of the kind", GOOD, GOOD.replace('" 200', '" 500')]
    events = [("page_views", {**page_view(line), "time": MIDNIGHT_US, "id": line, "server": "s"}) for line in lines]
    words = Page(page_of(tmp_path, events).read_text(encoding="utf-8")).words
    assert {"2 page views of 1 pages. A page is an address without its query.", "50.0%"} <= set(words)
    assert "2 lines could not be read as page views. The other reports leave them out." in words
    assert "2015-05-17 status installed" in words


def test_without_a_line_that_could_be_read_it_says_so(tmp_path: Path) -> None:
    """There are no views then, and why."""
    event = {**page_view("not a log"), "time": MIDNIGHT_US, "id": "1", "server": "s"}
    page = Page(page_of(tmp_path, [("page_views", event)]).read_text(encoding="utf-8"))
    assert "1 lines could not be read as page views. The other reports leave them out." in page.words
    assert page.words.count(NOTHING) == 6


def test_days_that_lie_years_apart_stand_side_by_side(tmp_path: Path) -> None:
    """There is a page of each; in pictures of both, the years between take no room, and are named."""
    view = {"server": "s", "url": "/a"}
    times = [MIDNIGHT_US + day * DAY_US + hour * 3_600_000_000 for day in (0, 3653) for hour in range(5)]
    events = [("page_views", {**view, "time": time, "id": str(time)}) for time in times]
    page = Page(page_of(tmp_path, events, derived_at_ms=times[-1] // 1000).read_text(encoding="utf-8"))
    for picture in page.of("img"):
        assert len(picture["src"]) < 30_000
        assert {"12 Jun", "2011", "2021"} <= texts_of(picture["src"])
    days = [link["href"] for link in page.of("a") if link["href"].endswith(".html")]
    assert days == ["report.html", "report-2011-06-12.html", "report-2021-06-12.html"]
    for name in days[1:]:
        of_day = Page((tmp_path / name).read_text(encoding="utf-8"))
        assert "5 page views of 1 pages. A page is an address without its query." in of_day.words
        assert any(link.get("aria-current") == "page" for link in of_day.of("a"))


def test_events_cannot_write_html_or_hide(page: Page) -> None:
    """Tags in an event are text; characters that turn the direction of text around are shown as escapes."""
    assert "<script>alert(1)</script>" in page.words
    assert not any("\u202e" in word for word in page.words)


def test_only_the_newest_days_are_shown(tmp_path: Path) -> None:
    """And it says how many there are."""
    path = page_of(tmp_path, odd_events(seed=3), days=1)
    words = Page(path.read_text(encoding="utf-8")).words
    assert any(word.startswith("2011-06-13, UTC (the newest 1 of 3 days)") for word in words)
    assert "2011-06-12" not in words
    assert not list(tmp_path.glob("report-*"))


def test_controls_in_events_are_escaped(tmp_path: Path) -> None:
    """A picture with a control character would not be XML."""
    view = {"time": MIDNIGHT_US, "id": "1", "server": "a\x01b", "url": "/\x00\x1b[2J", "referrer": "http://x\x02y/"}
    page = Page(page_of(tmp_path, [("page_views", view)]).read_text(encoding="utf-8"))
    assert r"/\x00\x1b[2J" in page.words
    for picture in page.of("img"):
        ET.fromstring(base64.b64decode(picture["src"].partition("base64,")[2]))


def test_without_events_it_says_so(tmp_path: Path) -> None:
    """No day, no table of days, no picture."""
    page = Page(page_of(tmp_path, []).read_text(encoding="utf-8"))
    assert "There are no events yet." in page.words
    assert page.of("img") == []


def test_what_the_audit_has_concluded_is_on_it(tmp_path: Path) -> None:
    """Each day's verdict stands in Source; a day of which it has no counts, and a page without an audit, say so."""
    days = [
        DayVerdict(
            date(2011, 6, 11),
            "page_views",
            "complete",
            None,
            (TierDay("producer", 1234, 0), TierDay("mirror", 1234, 0)),
        ),
        DayVerdict(
            date(2011, 6, 12),
            "page_views",
            "cannot tell",
            "mirror <1> is silent",
            (TierDay("producer", 9, 0), TierDay("mirror", 7, 2)),
        ),
        DayVerdict(date(2011, 6, 10), "page_views", "gap", None, (TierDay("producer", 9, 0),)),
    ]
    events = odd_events(seed=3)
    audited = Page(page_of(tmp_path / "audited", events, audited=AuditedDays(1_308_009_600_000, days)).read_text())
    rows = audited.words[audited.words.index("The audit's verdict for these days") :]
    assert rows[6:][:15] == [
        *("2011-06-11", "page_views", "complete", "1,234", "mirror 0"),
        *("2011-06-12", "page_views", "cannot tell: mirror <1> is silent", "9", "mirror 2"),
        *("2011-06-13", "all", "not audited: no counts of that day", "-", "-"),
    ]
    assert any(word.startswith("The audit compared") and "2011-06-14 00:00:00 UTC" in word for word in audited.words)
    of_day = Page((tmp_path / "audited" / "report-2011-06-11.html").read_text())
    assert "cannot tell: mirror <1> is silent" not in of_day.words
    without = Page(page_of(tmp_path / "without", events).read_text())
    assert any(word.startswith("This page has no audit") for word in without.words)


def test_days_in_the_future_stand_apart_and_do_not_replace_the_newest_days(tmp_path: Path) -> None:
    """Events of 2038 and 2099 are counted under their own heading, and the day after the derivation is a usual day."""
    days = {"a": 1, "b": 0, "c": -1, "d": 9_860, "e": 9_860, "f": 32_000}
    events = [
        ("page_views", {**page_view(GOOD), "time": MIDNIGHT_US + number * DAY_US, "id": name, "server": "s"})
        for name, number in days.items()
    ]
    page = Page(page_of(tmp_path, events, days=2).read_text(encoding="utf-8"))
    assert any(word.startswith("2011-06-12 to 2011-06-13, UTC (the newest 2 of 3 days)") for word in page.words)
    at = page.words.index("Days in the future (2 of 2)")
    assert page.words[at + 5 :][:8] == ["2038-06-10", "2", "0", "0", "2099-01-21", "1", "0", "0"]
    assert any(word.startswith("3 events are dated after 2011-06-13, on 2 days.") for word in page.words)
    assert not (tmp_path / "report-2099-01-21.html").exists()


def test_without_days_in_the_future_there_is_no_such_section(page: Page) -> None:
    """The heading is left out, and so is its link."""
    assert "Days in the future" not in page.words
