"""The page of `kafka2011 lab page` in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafka2011.lab.slow_motion_page import STORIES, render
from tests.support.devtools import CHROMIUM, Browser
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")

NARROW, WIDE = 360, 1200
FITS = "document.documentElement.scrollWidth <= window.innerWidth"
UNNAMED = "a:empty, button:empty, select:not(label *), input:not([aria-label])"
NOW = "document.getElementById('now').innerText"
STEP = "Number(document.getElementById('step').value)"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "slow.html"
    file.write_text(render(), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def press(browser: Browser, key: str, code: int) -> None:
    for kind in ("keyDown", "keyUp"):
        browser.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)


def see(browser: Browser, page: Path, where: str = "", width: int = WIDE) -> None:
    browser.open("about:blank")
    browser.open(f"{page.as_uri()}{where}", width)
    eventually(lambda: browser.evaluate("document.getElementById('now') !== null"), what="the page")


def click(browser: Browser, text: str) -> None:
    script = "(text => [...document.querySelectorAll('button')].find(each => each.innerText === text).click())"
    browser.evaluate(f"{script}({text!r})")


@pytest.mark.parametrize("width", [NARROW, WIDE])
@pytest.mark.parametrize("story", STORIES)
def test_each_story_fits_and_asks_for_nothing(browser: Browser, page: Path, story: str, width: int) -> None:
    """Also on a telephone. Every control has a name, every table a caption, and what is said now is read out."""
    see(browser, page, f"#/{story}/9", width)
    assert browser.evaluate(FITS)
    assert browser.complaints() == []
    assert [each for each in browser.addresses() if not each.startswith(("file:", "about:", "data:"))] == []
    assert browser.evaluate(f"document.querySelectorAll('{UNNAMED}').length") == 0
    assert browser.evaluate("document.querySelectorAll('table:not(:has(caption))').length") == 0
    assert browser.evaluate("document.getElementById('now').getAttribute('role')") == "status"
    assert browser.evaluate("document.querySelectorAll('h1').length") == 1


def test_keys_lead_forwards_and_backwards(browser: Browser, page: Path) -> None:
    """To the same step whichever way one comes to it."""
    see(browser, page)
    said = [browser.evaluate(NOW)]
    for _ in range(5):
        press(browser, "ArrowRight", 39)
        eventually(lambda: browser.evaluate(STEP) == len(said), what="the next step")
        said.append(browser.evaluate("document.querySelector('main').innerText"))
    press(browser, "ArrowLeft", 37)
    eventually(lambda: browser.evaluate(STEP) == 4, what="the step before")
    assert browser.evaluate("document.querySelector('main').innerText") == said[4]
    press(browser, "End", 35)
    eventually(lambda: browser.evaluate("document.getElementById('forward').disabled"), what="the end")
    press(browser, "Home", 36)
    eventually(lambda: browser.evaluate(NOW) == said[0], what="the beginning")


def test_a_member_is_killed_at_a_mark_and_one_comes_back(browser: Browser, page: Path) -> None:
    """What follows has steps of its own; the address leads there again; the step's line of code is marked."""
    see(browser, page)
    script = "[...document.querySelectorAll('.marks button')].find(each => /claimed/.test(each.innerText)).click()"
    browser.evaluate(script)
    eventually(lambda: "claims partition 0-2" in browser.evaluate(NOW), what="the mark")
    assert browser.evaluate("document.querySelectorAll('.source .here').length") == 1
    assert "Algorithm 1" in browser.evaluate("document.querySelector('main').innerText")
    at: Any = browser.evaluate(STEP)
    click(browser, "kill a")
    eventually(lambda: "kill -9" in browser.evaluate(NOW), what="the fault")
    assert browser.evaluate(STEP) == at + 1
    press(browser, "End", 35)
    eventually(lambda: "nothing is missing" in browser.evaluate(NOW), what="the end of it")
    address = browser.evaluate("location.hash")
    see(browser, page, address)
    assert "nothing is missing" in browser.evaluate(NOW)
    click(browser, "Back to the main line")
    eventually(lambda: browser.evaluate(STEP) == at, what="the main line")


def test_the_printed_algorithm_stands_beside_the_shipped_one(browser: Browser, page: Path) -> None:
    """Whoever chooses other numbers sees how many partitions nobody has."""
    see(browser, page)
    choose = "(each => {{ each.value = '{}'; each.onchange({{ target: each }}); }})(document.getElementById('{}'))"
    browser.evaluate(choose.format(7, "partitions"))
    browser.evaluate(choose.format(8, "consumers"))
    said = browser.evaluate("document.getElementById('without').innerText")
    assert said == "As printed, N = 7 / 8 leaves 7 of 7 partitions without an owner."


def test_light_and_dark(browser: Browser, page: Path) -> None:
    """As the browser's user likes it."""
    grounds = set()
    for scheme in ("light", "dark"):
        browser.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        see(browser, page)
        grounds.add(browser.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(grounds) == 2
