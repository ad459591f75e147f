"""Changes that are made from the page: a group's offsets, shown first, then moved; and who may ask for it."""

from __future__ import annotations

import http.client
import json
import logging
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from integration.ui.conftest import Shown, members
from kafka2011 import SyncProducer
from kafka2011.admin import Groups
from kafka2011.errors import ConfigError
from kafka2011.ui.doors import Doors
from kafka2011.ui.serving import serve
from tests.support.devtools import CHROMIUM, Browser
from tests.support.waiting import TIMEOUT_S, eventually
from zk.cluster import TopicPartition
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOPIC, GROUP = "moved", "movable"
WHERE = TopicPartition(TOPIC, 0, 0)
MESSAGE_BYTES = 110
PAGE = {"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"}
TEXT = "document.getElementById('main').innerText"
CHANGING = Doors(allow_changes=True)


@pytest.fixture(scope="module")
def address(shown: Shown) -> Iterator[str]:
    """Serve a console that may change something, of a cluster in which a group is at the second of ten messages."""
    with SyncProducer(shown.cluster.brokers[0].host, shown.cluster.brokers[0].port) as producer:
        producer.send(TOPIC, [b"x" * 100] * 10, partition=0)
    groups = Groups(shown.client)
    eventually(lambda: TOPIC in _topics(shown), what="the topic")
    groups.import_offsets(GROUP, {TOPIC: {"0-0": MESSAGE_BYTES}})
    with (
        connect(shown.cluster.zk_connect) as client,
        serve(client, "127.0.0.1", 0, doors=CHANGING) as served,
    ):
        yield served


def _topics(shown: Shown) -> list[str]:
    from zk.brokers import BrokerRegistry

    return list(BrokerRegistry(shown.client).topics())


@pytest.fixture(autouse=True)
def _at_the_second(shown: Shown, address: str) -> None:
    """Have the group where it was, whatever another test has done."""
    Groups(shown.client).import_offsets(GROUP, {TOPIC: {"0-0": MESSAGE_BYTES}})


def move(before: object, after: object, partition: str = "0-0") -> dict[str, object]:
    return {"partition": partition, "before": before, "after": after}


def committed(shown: Shown) -> dict[TopicPartition, int]:
    return Groups(shown.client).committed(GROUP, TOPIC)


def post(address: str, name: str, body: object, headers: dict[str, str] | None = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=TIMEOUT_S)
    try:
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", f"/api/{name}", text, PAGE if headers is None else headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def test_what_was_shown_is_moved_and_logged(shown: Shown, address: str, caplog: pytest.LogCaptureFixture) -> None:
    """A preview writes nothing; the same moves are then written, and the log says who has moved what."""
    asked = {"group": GROUP, "topic": TOPIC}
    status, found = post(address, "preview", {**asked, "to": "latest", "partition": "0-0"})
    assert (status, found) == (200, {"moves": [move(MESSAGE_BYTES, 10 * MESSAGE_BYTES)]})
    assert committed(shown) == {WHERE: MESSAGE_BYTES}
    with caplog.at_level(logging.INFO, "kafka2011.ui"):
        assert post(address, "move", {**asked, **found}) == (200, {"moved": 1})
    assert committed(shown) == {WHERE: 10 * MESSAGE_BYTES}
    [said] = [each.getMessage() for each in caplog.records if each.name == "kafka2011.ui.changes"]
    assert said == (
        f"anonymous at 127.0.0.1 moves group {GROUP} in topic {TOPIC}: 0-0 from {MESSAGE_BYTES} to {10 * MESSAGE_BYTES}"
    )


def test_every_target_is_shown(address: str) -> None:
    """The first, the end, a time, and an offset of one partition."""
    for to, expected in (("earliest", 0), ("latest", 1100), ("@1", 0), ("220", 220)):
        status, found = post(address, "preview", {"group": GROUP, "topic": TOPIC, "to": to, "partition": "0-0"})
        assert (status, found) == (200, {"moves": [move(MESSAGE_BYTES, expected)]}), to


def test_offsets_that_have_moved_since_stay(shown: Shown, address: str) -> None:
    """Who confirms has seen other offsets: nothing is written."""
    moves = [move(0, 2 * MESSAGE_BYTES)]
    status, found = post(address, "move", {"group": GROUP, "topic": TOPIC, "moves": moves})
    assert (status, "check again" in found["error"]) == (502, True)
    assert committed(shown) == {WHERE: MESSAGE_BYTES}


def test_a_group_with_members_stays(shown: Shown, address: str) -> None:
    """They would write their own offsets over these."""
    with members(shown.cluster.zk_connect, 1, "living"):
        status, found = post(address, "preview", {"group": "living", "topic": "views", "to": "earliest"})
        assert (status, "has members" in found["error"]) == (502, True)
        before = Groups(shown.client).committed("living", "views").get(TopicPartition("views", 0, 0))
        moves = [move(before, 0)]
        status, found = post(address, "move", {"group": "living", "topic": "views", "moves": moves})
        assert status == 502


@pytest.mark.parametrize(
    ("name", "body", "status"),
    [
        ("preview", {"group": "nosuch", "topic": TOPIC, "to": "earliest"}, 502),
        ("preview", {"group": GROUP, "topic": TOPIC, "to": "110"}, 400),
        ("preview", {"group": GROUP, "topic": TOPIC, "to": "1101", "partition": "0-0"}, 502),
        ("preview", {"group": GROUP, "topic": TOPIC, "to": "tomorrow", "partition": "0-0"}, 502),
        ("preview", {"group": GROUP, "topic": "nosuch", "to": "earliest"}, 502),
        ("preview", {"group": GROUP, "topic": TOPIC, "to": "earliest", "partition": "0"}, 400),
        ("preview", {"group": GROUP, "topic": 7, "to": "earliest"}, 400),
        ("preview", [], 400),
        ("preview", b"{", 400),
        ("preview", b" " * 2_000_000, 400),
        ("move", {"group": GROUP, "topic": TOPIC, "moves": []}, 400),
        ("move", {"group": GROUP, "topic": TOPIC, "moves": [move(MESSAGE_BYTES, -1)]}, 400),
        ("move", {"group": GROUP, "topic": TOPIC, "moves": [move(MESSAGE_BYTES, True)]}, 400),
        ("move", {"group": GROUP, "topic": TOPIC, "moves": [move(MESSAGE_BYTES, 10**9)]}, 502),
        ("move", {"group": "nosuch", "topic": TOPIC, "moves": [move(None, 0)]}, 502),
    ],
)
def test_what_makes_no_sense_is_refused(shown: Shown, address: str, name: str, body: object, status: int) -> None:
    """In words, and nothing is written."""
    found, said = post(address, name, body)
    assert (found, bool(said["error"])) == (status, True)
    assert committed(shown) == {WHERE: MESSAGE_BYTES}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Content-Type": "application/json"},
        {"Content-Type": "text/plain", "Sec-Fetch-Site": "same-origin"},
        {"Content-Type": "application/json", "Sec-Fetch-Site": "cross-site"},
        {"Content-Type": "application/json", "Sec-Fetch-Site": "same-site"},
        {"Content-Type": "application/json", "Origin": "http://evil.example"},
        {"Content-Type": "application/json", "Origin": "null"},
        {"Content-Type": "application/json", "Sec-Fetch-Site": "cross-site", "Origin": "OURS"},
    ],
)
def test_a_page_of_a_stranger_s_changes_nothing(shown: Shown, address: str, headers: dict[str, str]) -> None:
    """Nor does it learn what it would change, though its browser may come in."""
    sent = {name: address.rstrip("/") if value == "OURS" else value for name, value in headers.items()}
    for name, more in (("preview", {"to": "latest"}), ("move", {"moves": [move(MESSAGE_BYTES, 0)]})):
        assert post(address, name, {"group": GROUP, "topic": TOPIC, **more}, sent)[0] == 403
    assert committed(shown) == {WHERE: MESSAGE_BYTES}


def test_an_older_browser_says_its_origin(address: str) -> None:
    """Which must be that of the page."""
    headers = {"Content-Type": "application/json; charset=utf-8", "Origin": address.rstrip("/")}
    asked = {"group": GROUP, "topic": TOPIC, "to": "latest", "partition": "0-0"}
    assert post(address, "preview", asked, headers)[0] == 200


def test_a_console_that_only_reads_has_no_such_question(shown: Shown) -> None:
    """And a look by GET changes nothing where there is one."""
    assert post_status(shown.address, "POST") == 404
    assert post_status(shown.address, "GET") == 404


def test_a_look_changes_nothing(address: str) -> None:
    """A link, or a picture, must not."""
    assert post_status(address, "GET") == 405
    assert post_status(address, "OPTIONS") == 405


def post_status(address: str, method: str) -> int:
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=TIMEOUT_S)
    try:
        connection.request(method, "/api/move", b"{}" if method == "POST" else None, PAGE)
        return connection.getresponse().status
    finally:
        connection.close()


def test_nobody_elsewhere_may_change_without_a_certificate(shown: Shown, caplog: pytest.LogCaptureFixture) -> None:
    """A console that listens on all addresses is refused; one that only reads says who reaches it."""
    with (
        pytest.raises(ConfigError, match="--tls-ca"),
        serve(shown.client, "0.0.0.0", 0, doors=CHANGING),
    ):
        pass
    with serve(shown.client, "0.0.0.0", 0):
        assert "everyone who reaches the console" in caplog.text


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_a_person_moves_a_group(shown: Shown, address: str, tmp_path: Path) -> None:
    """From the list of groups to the form, what would change, and one more press of a button."""
    with Browser(tmp_path / "profile") as browser:

        def press(name: str) -> None:
            every = "[...document.querySelectorAll('main a, main button')]"
            found = f"{every}.find(each => each.innerText.startsWith('{name}') && !each.disabled)"
            eventually(lambda: browser.evaluate(f"!!{found}"), what=name)
            browser.evaluate(f"{found}.click()")

        browser.open(address)
        eventually(lambda: browser.evaluate(f"!!document.getElementById('of-{GROUP}')"), what="the group")
        browser.evaluate(f"document.getElementById('of-{GROUP}').open = true")
        press(f"Move the offsets of {GROUP}")
        press("Show what would change")
        try:
            eventually(lambda: "Nothing is written yet" in browser.evaluate(TEXT), what="what would change")
        except AssertionError as error:
            error.add_note(browser.evaluate(TEXT))
            raise
        assert "110 B will be read again" in browser.evaluate(TEXT)
        assert committed(shown) == {WHERE: MESSAGE_BYTES}
        press("Move ")
        eventually(lambda: "Moved: " in browser.evaluate(TEXT), what="the word that it is done")
        assert committed(shown)[WHERE] == 0
        assert browser.complaints() == []
