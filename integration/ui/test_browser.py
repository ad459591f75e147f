"""The console in a real browser."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from integration.ui.conftest import GROUP, TOPIC, Shown, members
from kafka2011 import SyncProducer
from kafka2011.message.compression import Codec
from kafka2011.message.message_set import MessageSet
from tests.support.devtools import CHROMIUM, Browser
from tests.support.waiting import eventually
from zk.nodes import Nodes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")

HOSTILE = "<img src=x onerror=window.hit=1>\"'&amp;"
SCRIPT = b"<script>window.hit=1</script>"
PAYLOADS = [HOSTILE.encode(), SCRIPT, b'{"a": "</pre>%b"}' % SCRIPT, b"\xff\0\x1b[2J"]
NARROW, WIDE = 360, 1200
FITS = "document.documentElement.scrollWidth <= window.innerWidth"
UNNAMED = "svg:not([aria-label]), a:empty, button:empty, select:not(label *), input:not(label *)"
DRAWINGS = "main svg.log, main svg.timeline"
TEXT = "document.getElementById('main').innerText"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def hostile(shown: Shown) -> Iterator[None]:
    """Give the cluster names and payloads that would be markup."""
    nodes = Nodes(shown.client)
    for path in (f"/brokers/topics/{HOSTILE}", f"/consumers/{HOSTILE}/ids", f"/consumers/{HOSTILE}/owners/{TOPIC}"):
        nodes.ensure_persistent(path)
    nodes.create_with_parents(f"/brokers/topics/{HOSTILE}/0", b"1", ephemeral=True)
    nodes.create(f"/consumers/{HOSTILE}/ids/{HOSTILE}", json.dumps({TOPIC: 1}).encode(), ephemeral=True)
    nodes.create(f"/consumers/{HOSTILE}/owners/{TOPIC}/0-0", f"{HOSTILE}-0".encode(), ephemeral=True)
    nodes.upsert(f"/consumers/{HOSTILE}/offsets/{TOPIC}/0-0", b"0")
    with SyncProducer(shown.cluster.brokers[0].host, shown.cluster.brokers[0].port) as producer:
        producer.send(TOPIC, PAYLOADS, partition=0)
        producer.send(TOPIC, MessageSet(PAYLOADS, Codec.GZIP), partition=0)
    with members(shown.cluster.zk_connect, 2):
        yield


def see(browser: Browser, address: str, view: str, text: str, width: int = WIDE) -> str:
    """Open a view, and return its text once it says something."""
    browser.open("about:blank")
    browser.open(f"{address}#/{view}", width)
    eventually(lambda: text in browser.evaluate(TEXT), what=f"{text!r} on {view}")
    found: str = browser.evaluate(TEXT)
    return found


@pytest.mark.usefixtures("hostile")
@pytest.mark.parametrize(
    ("view", "text"),
    [
        ("cluster", HOSTILE),
        (f"log/{TOPIC}/0-0", "readable end"),
        (f"messages/{TOPIC}/0-0", PAYLOADS[1].decode()),
        (f"rebalances/{GROUP}", "Who owned what"),
        (f"rebalances/{HOSTILE.replace('%', '%25').replace('/', '%2F')}", HOSTILE),
        ("pipeline", "No tier of this cluster reports counts"),
    ],
)
def test_each_view_is_drawn_and_shut_in(browser: Browser, shown: Shown, view: str, text: str) -> None:
    """Names and payloads are text; nothing comes from elsewhere; it fits a telephone; drawings have tables."""
    for width in (NARROW, WIDE):
        see(browser, shown.address, view, text, width)
        assert browser.evaluate(FITS)
        assert browser.evaluate("window.hit ?? document.querySelector('main img, main script')") is None
        assert browser.complaints() == []
        assert [each for each in browser.addresses() if not each.startswith((shown.address, "about:", "data:"))] == []
    assert browser.evaluate(f"document.querySelectorAll('{UNNAMED}').length") == 0
    assert browser.evaluate("document.querySelectorAll('h1').length") == 1
    drawn, tables = (
        browser.evaluate(f"document.querySelectorAll('{each}').length") for each in (DRAWINGS, "main table")
    )
    assert tables or not drawn


@pytest.mark.usefixtures("hostile")
def test_messages_are_beside_their_bytes(browser: Browser, shown: Shown) -> None:
    """Each byte is shown; a compressed set is opened; links lead to those before and after."""
    text = see(browser, shown.address, f"messages/{TOPIC}/0-0", "compression: gzip")
    assert all(payload.decode() in text for payload in PAYLOADS[:2])
    assert "bytes that are not text" in text
    assert HOSTILE.encode().hex(" ")[:17] in text
    browser.evaluate("[...document.querySelectorAll('main a')].find(each => each.innerText === 'first').click()")
    eventually(lambda: "from offset 0;" in browser.evaluate(TEXT), what="the first messages")


def tab(browser: Browser) -> Any:
    for kind in ("keyDown", "keyUp"):
        browser.ask("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
    return browser.evaluate("(at => [at.className, at.ariaLabel ?? ''])(document.activeElement)")


@pytest.mark.usefixtures("hostile")
def test_the_keyboard_leads_to_a_partition(browser: Browser, shown: Shown) -> None:
    """Tab goes to a tile, which says its partition, owner and since when; Enter opens its log. News do not move it."""
    see(browser, shown.address, "cluster", GROUP)
    where = next(each for each in (tab(browser) for _ in range(40)) if each[1].startswith(f"{TOPIC}/0-0,"))
    assert " owner " in where[1]
    with SyncProducer(shown.cluster.brokers[0].host, shown.cluster.brokers[0].port) as producer:
        producer.send(TOPIC, [b"news" * 300], partition=0)
    eventually(lambda: browser.evaluate("document.activeElement.ariaLabel") != where[1], what="the news on the tile")
    assert browser.evaluate("document.activeElement.className").startswith("tile")
    for kind in ("keyDown", "keyUp"):
        browser.ask("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")
    eventually(lambda: browser.evaluate("location.hash").startswith("#/log/"), what="the log of the tile")


@pytest.mark.usefixtures("hostile")
def test_light_and_dark(browser: Browser, shown: Shown) -> None:
    """As the browser's user likes it."""
    grounds = set()
    for scheme in ("light", "dark"):
        browser.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        see(browser, shown.address, "cluster", GROUP)
        grounds.add(browser.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(grounds) == 2


def test_a_server_that_is_gone_is_said(browser: Browser, shown: Shown, tmp_path: Path) -> None:
    """What is on the page stays, and is called old."""
    from kafka2011.ui.serving import serve
    from zk.connecting import connect

    with connect(shown.cluster.zk_connect) as client, serve(client, "127.0.0.1", 0) as address:
        see(browser, address, "cluster", TOPIC)
    eventually(
        lambda: "is out of date" in browser.evaluate("document.getElementById('beat').innerText"), what="the word on it"
    )
    assert TOPIC in browser.evaluate(TEXT)
