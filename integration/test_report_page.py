"""The page of reports in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.devtools import CHROMIUM, Browser
from tests.support.odd_events import odd_events
from tests.support.report_pages import page_of

if TYPE_CHECKING:
    from pathlib import Path

_PICTURES = "[...document.images].map(each => [each.complete, each.naturalWidth > 100, each.alt.length > 20])"
_LEVELS = "[...document.querySelectorAll('h1, h2')].map(each => each.innerText)"
_FITS = "document.documentElement.scrollWidth <= window.innerWidth"
_NARROW, _WIDE = 360, 1000


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_a_browser_shows_all_of_it(tmp_path: Path) -> None:
    """Every picture is drawn and nothing comes from anywhere else; it fits a telephone; events run no script."""
    page = page_of(tmp_path / "results", odd_events(seed=3))
    with Browser(tmp_path / "profile") as browser:
        for width in (_NARROW, _WIDE):
            browser.open(page, width)
            assert browser.evaluate(_PICTURES) == [[True, True, True]] * 4
            assert browser.evaluate(_FITS)
        assert browser.requested() == {"file", "data"}
        assert browser.complaints() == []
        assert browser.evaluate(_LEVELS) == [
            "Reports",
            *("Page views", "Unique visitors", "Sessions", "Referrers", "Searches", "Errors of servers", "Scrapers"),
            "Unreadable lines",
            "Source",
        ]
        seen = browser.evaluate("document.body.innerText")
        assert "<script>alert(1)</script>" in seen
        tree = browser.ask("Accessibility.getFullAXTree")["nodes"]
        names = {node["name"]["value"] for node in tree if node.get("role", {}).get("value") in {"image", "region"}}
        assert {"Page views", "Scrapers", "Most viewed pages"} <= names
        assert any(name.startswith("Page views by hour, UTC. A line from") for name in names)
