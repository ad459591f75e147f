"""The console behind TLS: who comes in, and that certificates may be replaced."""

from __future__ import annotations

import http.client
import json
import logging
import shutil
import socket
import ssl
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from integration.ui.conftest import TOPIC
from kafka2011.admin import Groups
from kafka2011.broker.security.access import Access
from kafka2011.broker.security.certificates import Certificates
from kafka2011.broker.security.file_changes import LOOK_INTERVAL_S
from kafka2011.certificates import Authority
from kafka2011.ui.doors import Doors
from kafka2011.ui.serving import serve
from tests.support.devtools import CHROMIUM, Browser
from tests.support.waiting import TIMEOUT_S, eventually
from zk.clock import SYSTEM_CLOCK
from zk.connecting import connect

GROUP = "behind-doors"

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from integration.ui.conftest import Shown
    from kafka2011.certificates import Issued


class Door:
    """A console by TLS, and who may knock."""

    def __init__(
        self, address: str, ca: Path, client: Issued, visitor: Issued, stranger: Issued, server: Issued
    ) -> None:
        self.address = address
        self.ca = ca
        self.client = client
        self.visitor = visitor
        self.stranger = stranger
        self.server = server

    def context(self, shown: Issued | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.ca))
        if shown is not None:
            context.load_cert_chain(shown.certificate, shown.key)
        return context

    def get(self, shown: Issued | None = None) -> int:
        return self.ask("GET", "/", shown)

    def ask(
        self, method: str, path: str, shown: Issued | None, body: str = "", headers: Mapping[str, str] | None = None
    ) -> int:
        context = self.context(shown)
        connection = http.client.HTTPSConnection(urlsplit(self.address).netloc, timeout=TIMEOUT_S, context=context)
        try:
            connection.request(method, path, body, headers or {})
            return connection.getresponse().status
        finally:
            connection.close()


@pytest.fixture
def door(shown: Shown, tmp_path: Path) -> Iterator[Door]:
    ours, theirs = Authority(tmp_path / "ours"), Authority(tmp_path / "theirs")
    server = ours.issue("console", ["127.0.0.1"])
    certificates = Certificates(server.certificate, server.key, ours.ca, required=True, clock=SYSTEM_CLOCK)
    rules = tmp_path / "allow.toml"
    rules.write_text('[consume]\n".*" = ["operator"]\n')
    access = Access(rules, SYSTEM_CLOCK)
    with (
        connect(shown.cluster.zk_connect) as client,
        serve(
            client, "0.0.0.0", 0, is_always_on=True, doors=Doors(certificates, allow_changes=True, access=access)
        ) as served,
    ):
        Groups(client).import_offsets(GROUP, {TOPIC: {"0-1": 0}})
        address = served.replace("0.0.0.0", "127.0.0.1")
        yield Door(address, ours.ca, ours.issue("operator"), ours.issue("visitor"), theirs.issue("operator"), server)


def test_only_who_has_a_certificate_comes_in(door: Door) -> None:
    """Of that authority: nobody without, none of a stranger's, and none in the clear."""
    assert door.address.startswith("https://")
    assert door.get(door.client) == 200
    for refused in (None, door.stranger):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            door.get(refused)
    plain = http.client.HTTPConnection(urlsplit(door.address).netloc, timeout=TIMEOUT_S)
    try:
        plain.request("GET", "/")
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            plain.getresponse()
    finally:
        plain.close()
    assert door.get(door.client) == 200


def test_certificates_are_read_again(door: Door, tmp_path: Path) -> None:
    """A new one is shown to the next browser, without a restart."""
    before = _shown_by(door)
    fresh = Authority(tmp_path / "ours").issue("fresh", ["127.0.0.1"])
    shutil.copyfile(fresh.key, door.server.key)
    shutil.copyfile(fresh.certificate, door.server.certificate)
    eventually(lambda: _shown_by(door) != before, TIMEOUT_S + LOOK_INTERVAL_S, what="the new certificate")


def _shown_by(door: Door) -> bytes:
    host, _, port = urlsplit(door.address).netloc.partition(":")
    with (
        socket.create_connection((host, int(port)), TIMEOUT_S) as plain,
        door.context(door.client).wrap_socket(plain, server_hostname=host) as secured,
    ):
        found = secured.getpeercert(binary_form=True)
    assert found
    return found


def test_the_log_says_who_has_changed_something(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    """By the name in the certificate; at an address of all, since nobody comes in without one."""
    headers = {"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"}
    with caplog.at_level(logging.INFO, "kafka2011.ui"):
        moves = [{"partition": "0-0", "before": None, "after": 0}]
        body = json.dumps({"group": GROUP, "topic": TOPIC, "moves": moves})
        assert door.ask("POST", "/api/move", door.client, body, headers) in {200, 502}
    assert f"operator at 127.0.0.1 moves group {GROUP} in topic {TOPIC}" in caplog.text


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_a_browser_sees_it_live_by_tls(shown: Shown, tmp_path: Path) -> None:
    """Where no authority is named, without a certificate of its own."""
    server = Authority(tmp_path / "ours").issue("console", ["127.0.0.1"])
    certificates = Certificates(server.certificate, server.key, None, required=True, clock=SYSTEM_CLOCK)
    with (
        connect(shown.cluster.zk_connect) as client,
        serve(client, "127.0.0.1", 0, doors=Doors(certificates)) as address,
        Browser(tmp_path / "profile") as browser,
    ):
        browser.ask("Security.setIgnoreCertificateErrors", ignore=True)
        browser.open(address)
        eventually(lambda: browser.evaluate("document.getElementById('beat').innerText") == "live", what="news")


def test_messages_are_shown_to_whom_may_consume_them(door: Door) -> None:
    """As the brokers' allow.file says, by the browser's certificate; the rest of the page is for all who come in."""
    messages, log = (f"/api/{name}?topic={TOPIC}&partition=0-0" for name in ("messages", "log"))
    eventually(lambda: door.ask("GET", messages, door.client) == http.HTTPStatus.OK, what="a look at the cluster")
    assert door.ask("GET", messages, door.visitor) == http.HTTPStatus.FORBIDDEN
    assert door.ask("GET", log, door.visitor) == http.HTTPStatus.OK
