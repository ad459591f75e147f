"""What the console answers to those who ask it by HTTP."""

from __future__ import annotations

import http.client
import json
import logging
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

import pytest

from integration.ui.conftest import GROUP, TOPIC, Shown, members, owners
from kafka2011 import LocalCluster, Producer, SyncProducer
from kafka2011.ui import sampler
from kafka2011.ui.app import HEADERS
from kafka2011.ui.serving import serve
from tests.support.waiting import TIMEOUT_S, eventually
from zk.connecting import connect
from zk.four_letters import ask
from zk.nodes import Nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zk.local_zookeeper import LocalZooKeeper

VIEWS = ("cluster", "log", "messages", "pipeline", "rebalances")
PAGE = ("", "app.css", "icon.svg", *(f"{name}.js" for name in ("app", "dom", "members", *VIEWS)))
HOSTILE = "<img src=x onerror=alert(1)>"


def get(address: str, path: str = "", **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=TIMEOUT_S)
    try:
        connection.request("GET", f"/{path}", headers=headers)
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()


class Events:
    """What a browser hears; `latest` has the newest of each kind."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response
        self.latest: dict[str, Any] = {}
        self.sizes: list[int] = []

    def next(self) -> str:
        kind = ""
        while line := self._response.readline():
            if line.startswith(b"event: "):
                kind = line[7:].decode().strip()
            elif line.startswith(b"data: "):
                self.sizes.append(len(line))
                self.latest[kind] = json.loads(line[6:])
                return kind
        raise AssertionError("the stream has ended")

    def until(self, condition: Any) -> Any:
        deadline_s = time.monotonic() + TIMEOUT_S
        while True:
            found = self.latest.get("picture") and condition(self.latest)
            if found:
                return found
            assert time.monotonic() < deadline_s, self.latest
            self.next()


@contextmanager
def events(address: str, query: str = "") -> Iterator[Events]:
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=TIMEOUT_S)
    try:
        connection.request("GET", f"/events?{query}")
        response = connection.getresponse()
        assert response.status == 200, response.read()
        yield Events(response)
    finally:
        connection.close()


def test_the_page_is_whole_and_shut_in(shown: Shown) -> None:
    """Every file is there with its kind, and no browser is to load or run anything else."""
    kinds = {"": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    for name in PAGE:
        status, headers, body = get(shown.address, name)
        assert (status, headers["content-type"].partition(";")[0]) == (200, kinds[name.rpartition(".")[2]]), name
        assert headers.items() >= HEADERS.items()
        assert b"http://www.w3.org" in body or b"http:" not in body
    status, headers, _ = get(shown.address, "../picture.py")
    assert (status, headers.items() >= HEADERS.items()) == (404, True)


def test_a_stranger_s_name_for_this_address_is_refused(shown: Shown) -> None:
    """A page elsewhere may have its own name point to 127.0.0.1, and would read everything."""
    port = urlsplit(shown.address).port
    for refused in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "localhost.evil.example", ""):
        status, headers, _ = get(shown.address, "api/log", Host=refused)
        assert (status, headers.items() >= HEADERS.items()) == (403, True), refused
    for known in ("localhost", f"localhost:{port}", f"127.0.0.1:{port}", "192.168.1.7", f"[::1]:{port}", "[::1]"):
        assert get(shown.address, Host=known)[0] == 200, known


def group_of(latest: dict[str, Any], name: str = GROUP) -> dict[str, Any]:
    return next((each for each in latest["picture"]["groups"] if each["name"] == name), {"partitions": []})


def test_the_picture_is_that_of_the_registries(shown: Shown) -> None:
    """Owners, offsets and ends are what `groups` says; a member that dies is replaced, and the steps are told."""
    with Producer({"zk.connect": shown.cluster.zk_connect, "confirm": True}) as producer:
        for number in range(50):
            producer.send(TOPIC, b"%d" % number)
    with members(shown.cluster.zk_connect, 2) as its, events(shown.address, f"group={GROUP}&history={GROUP}") as heard:

        def of_owners(latest: dict[str, Any]) -> dict[str, str]:
            partitions = group_of(latest)["partitions"]
            return {f"{row['topic']}/{row['partition']}": row["owner"] for row in partitions if row["owner"]}

        def are_same(latest: dict[str, Any]) -> bool:
            its_owners = owners(shown.client)
            return len(its_owners) == 4 and of_owners(latest) == {
                where: stream.rpartition("-")[0] for where, stream in its_owners.items()
            }

        heard.until(are_same)
        assert [each["id"] for each in heard.latest["picture"]["brokers"]] == [0, 1]
        heard.until(lambda latest: all(row["lag_bytes"] == 0 for row in group_of(latest)["partitions"]))
        its[0].kill()
        heard.until(lambda latest: len(group_of(latest)["members"]) == 1 and are_same(latest))
        heard.until(has_told_of_a_loss)
        assert heard.latest["beat"]["trouble"] == ""


def has_told_of_a_loss(latest: dict[str, Any]) -> bool:
    """Say whether a member has left in the newest rebalance, and what it owned was claimed after that."""
    [newest, *_] = latest["history"]["rebalances"] or [{"steps": [], "waiting": 1}]
    kinds = [step["kind"] for step in newest["steps"]]
    return not newest["waiting"] and "released" in kinds and "left" in kinds and kinds[-1] == "claimed"


def test_hostile_names_arrive_as_they_are(shown: Shown) -> None:
    """Whoever can write znodes can name topics and groups; the page makes text of it."""
    nodes = Nodes(shown.client)
    for path in (f"/brokers/topics/{HOSTILE}", f"/consumers/{HOSTILE}/ids", f"/consumers/{HOSTILE}/owners/{HOSTILE}"):
        nodes.ensure_persistent(path)
    nodes.create_with_parents(f"/consumers/{HOSTILE}/ids/{HOSTILE}", HOSTILE.encode(), ephemeral=True)
    nodes.create(f"/consumers/{HOSTILE}/owners/{HOSTILE}/0-0", b"\xff\xfe", ephemeral=True)
    with events(shown.address) as heard:
        found = heard.until(lambda latest: group_of(latest, HOSTILE).get("members"))
        assert found[0]["subscription"] == HOSTILE
        assert HOSTILE in heard.latest["picture"]["topics"]


def test_so_many_browsers_and_no_more(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is told so; when one goes, there is room again."""
    monkeypatch.setattr(sampler, "MOST_VIEWERS", 2)
    with events(shown.address) as first:
        first.next()
        with events(shown.address) as second:
            second.next()
            assert (get(shown.address, "events")[0]) == 503
        eventually(lambda: _is_let_in(shown.address), what="room for another browser")


def _is_let_in(address: str) -> bool:
    try:
        with events(address) as heard:
            return heard.next() == "beat"
    except AssertionError:
        return False


@pytest.mark.parametrize("query", ["topic=views&partition=x", "topic=views&partition=0"])
def test_what_cannot_be_looked_at_is_refused(shown: Shown, query: str) -> None:
    """In words."""
    status, _, body = get(shown.address, f"events?{query}")
    assert (status, "broker-number" in json.loads(body)["error"]) == (400, True)


def received(zookeeper: LocalZooKeeper) -> int:
    host, _, port = zookeeper.connect_string.partition(":")
    text = ask(host, int(port), b"srvr", TIMEOUT_S)
    return int(next(line for line in text.splitlines() if line.startswith("Received")).split()[1])


def test_little_is_asked_of_zookeeper_and_nothing_while_nobody_looks(own_zookeeper: LocalZooKeeper) -> None:
    """Of 100 topics less than ten requests a second once they are known; without a browser only the session's pings."""
    with connect(own_zookeeper.connect_string) as client:
        nodes = Nodes(client)
        nodes.create_with_parents("/brokers/ids/0", b"me-1:127.0.0.1:1", ephemeral=True)
        for number in range(100):
            nodes.create_with_parents(f"/brokers/topics/t{number}/0", b"2", ephemeral=True)
            for partition in range(2):
                nodes.upsert(f"/consumers/g/offsets/t{number}/0-{partition}", b"0")
        with connect(own_zookeeper.connect_string) as its_own, serve(its_own, "127.0.0.1", 0) as address:
            quiet = _requests_in(3, own_zookeeper)
            with events(address) as heard:
                heard.until(lambda latest: len(group_of(latest, "g")["partitions"]) == 200)
                looking = threading.Thread(target=_listen, args=(heard,), daemon=True)
                looking.start()
                busy = _requests_in(5, own_zookeeper)
    assert quiet <= 3 * 2
    assert busy <= 5 * 12  # ten, and the two sessions' pings


def _requests_in(seconds: float, zookeeper: LocalZooKeeper) -> int:
    before = received(zookeeper)
    threading.Event().wait(seconds)
    return received(zookeeper) - before


def _listen(heard: Events) -> None:
    try:
        while True:
            heard.next()
    except (OSError, AssertionError, ValueError, AttributeError):
        return


def api(address: str, name: str, **query: object) -> tuple[int, Any]:
    status, headers, body = get(address, f"api/{name}?{urlencode(query)}")
    assert headers.items() >= HEADERS.items()
    return status, json.loads(body)


def test_a_log_and_its_messages(shown: Shown) -> None:
    """Segments with their ages; messages from an offset, a time, the first and the last, each as it was sent."""
    payloads = [b"%05d " % number + HOSTILE.encode() * 3 for number in range(500)]
    with SyncProducer(shown.cluster.brokers[0].host, shown.cluster.brokers[0].port) as producer:
        for payload in payloads:
            producer.send("logged", [payload], partition=0)
    where = {"topic": "logged", "partition": "0-0"}
    size = len(payloads[0]) + 10
    eventually(lambda: api(shown.address, "log", **where)[1].get("end") == 500 * size, what="all of it is flushed")
    status, log = api(shown.address, "log", **where)
    starts = [segment["start"] for segment in log["segments"]]
    assert (status, starts[0], len(starts) > 10, log["is_cut"]) == (200, 0, True, False)
    assert all(start % size == 0 for start in starts)

    def texts(**query: object) -> list[str]:
        status, found = api(shown.address, "messages", **where, **query)
        assert status == 200, found
        assert not any(each["fault"] for each in found["messages"])
        return [each["text"] for each in found["messages"]]

    expected = [payload.decode() for payload in payloads]
    assert texts() == expected[-10:]
    assert texts(**{"from": "earliest"}, count=3) == expected[:3]
    assert texts(**{"from": 7 * size}, count=2) == expected[7:9]
    assert texts(**{"from": "@1"}, count=1) == expected[:1]
    assert texts(before=400 * size, count=2) == expected[398:400]
    assert texts(**{"from": 500 * size}) == []
    assert len(texts(**{"from": "earliest"}, count=10_000)) == 50
    _, found = api(shown.address, "messages", **where, **{"from": 3})
    assert found["messages"][0]["fault"]
    for query, said in (({"from": "x"}, 400), ({"from": 10**9}, 502), ({"count": "many"}, 400)):
        assert api(shown.address, "messages", **where, **query)[0] == said


def test_the_last_messages_of_a_large_segment(shown: Shown) -> None:
    """They are found without reading the segment from its beginning; one that is too long for that is named."""
    with (
        LocalCluster(
            1, zk_connect=f"{shown.cluster.zk_connect}/large", properties={"log.flush.interval": 1}
        ) as cluster,
        connect(cluster.zk_connect) as client,
        serve(client, "127.0.0.1", 0, is_always_on=True) as address,
    ):
        with SyncProducer(cluster.brokers[0].host, cluster.brokers[0].port) as producer:
            producer.send("large", [b"x" * 1000] * 300)
            producer.send("large", [b"last but one", b"last"])
            producer.send("huge", [b"y" * 100_000] * 2)
        large, huge = ({"topic": name, "partition": "0-0"} for name in ("large", "huge"))
        eventually(lambda: api(address, "log", **large)[1].get("end") == 303_036, what="all of it is flushed")
        eventually(lambda: api(address, "log", **huge)[1].get("end") == 200_020, what="all of it is flushed")
        _, found = api(address, "messages", **large, count=3)
        assert [each["text"][:12] for each in found["messages"]] == ["x" * 12, "last but one", "last"]
        status, found = api(address, "messages", **huge)
        assert (status, "no message of huge/0-0 begins" in found["error"]) == (502, True)
        _, found = api(address, "messages", **huge, **{"from": "earliest"})
        assert found["messages"][0]["fault"] == "only 65536 of its 100010 bytes were fetched"


@pytest.mark.parametrize("where", [("nosuch", "0-0"), (TOPIC, "0-9"), (TOPIC, "7-0"), (HOSTILE, "0-0"), (TOPIC, "0")])
def test_partitions_that_are_not_there(shown: Shown, where: tuple[str, str]) -> None:
    """No broker is asked for them."""
    for name in ("log", "messages"):
        status, found = api(shown.address, name, topic=where[0], partition=where[1])
        assert (status in {400, 502}, bool(found["error"])) == (True, True)


def test_a_page_that_is_open_ends_with_the_console(shown: Shown, caplog: pytest.LogCaptureFixture) -> None:
    """Its stream of events ends properly, without an error in the log."""
    with connect(shown.cluster.zk_connect) as client:
        with serve(client, "127.0.0.1", 0) as address:
            connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=TIMEOUT_S)
            connection.request("GET", "/events")
            response = connection.getresponse()
            assert Events(response).next() == "beat"
        while response.readline():
            pass
        assert response.isclosed()
        connection.close()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
