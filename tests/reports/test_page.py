"""The page of reports: what is on it, and that nothing in an event can become part of it."""

from __future__ import annotations

import base64
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from tests.support.odd_events import MIDNIGHT_US, odd_events
from tests.support.report_pages import page_of

if TYPE_CHECKING:
    from pathlib import Path

_EMPTY = {"meta", "link", "img", "br"}


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


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    path = page_of(tmp_path_factory.mktemp("page"), odd_events(seed=3))
    return Page(path.read_text(encoding="utf-8"))


def test_every_report_is_on_it(page: Page) -> None:
    """Each has a section that the links at the top lead to; ids are there once."""
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = [link["href"].removeprefix("#") for link in page.of("a")]
    assert targets == [
        *("page_views", "visitors", "sessions", "referrers", "searches", "server_errors", "scrapers", "source")
    ]
    assert set(targets) <= set(ids)
    for word in (
        "192.0.2.7",
        "scraper/1.0",
        "2011-06-11 to 2011-06-13, UTC. Each event counts once, however often it was published.",
    ):
        assert word in page.words


def test_it_needs_no_network(page: Page) -> None:
    """Nothing on it has an address elsewhere; no script runs."""
    addresses = [attributes[name] for _, attributes in page.elements for name in ("src", "href") if name in attributes]
    assert all(address.startswith(("data:", "#")) for address in addresses)
    assert page.of("script") == []
    [policy] = [each["content"] for each in page.of("meta") if each.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none';")


def test_pictures_are_drawn_and_described(page: Page) -> None:
    """Each is well-formed SVG whose labels are text, and says in words what it shows."""
    pictures = page.of("img")
    assert len(pictures) == 9
    texts = []
    for picture in pictures:
        assert len(picture["alt"]) > 20
        root = ET.fromstring(base64.b64decode(picture["src"].partition("base64,")[2]))
        texts += ["".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"/ü/$x$", "<script>alert(1)</script>", "192.0.2.7 on 2011-06-12"} <= set(texts)


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
