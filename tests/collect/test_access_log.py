"""Lines of an access log as page views."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka2011.collect.access_log import is_unparsed, page_view
from kafka2011.events.codec import EventDecoder, EventEncoder
from kafka2011.events.schemas import KnownSchemas
from kafka2011.events.types import EVENT_TYPES

REAL_LOG = Path(__file__).parents[3] / "shared" / "data" / "access_log"
LINE = (
    '83.149.9.216 - frank [17/May/2015:10:05:03 +0000] "GET /images/search.png?q=1 HTTP/1.1" 200 203023'
    ' "http://semicomplete.com/" "Mozilla/5.0 (Macintosh; \\"quoted\\")"'
)
VIEW: dict[str, Any] = {
    "line": LINE,
    "remote_host": "83.149.9.216",
    "remote_user": "frank",
    "time": 1_431_857_103_000_000,
    "method": "GET",
    "url": "/images/search.png?q=1",
    "protocol": "HTTP/1.1",
    "status": 200,
    "response_bytes": 203023,
    "referrer": "http://semicomplete.com/",
    "user_agent": 'Mozilla/5.0 (Macintosh; \\"quoted\\")',
}


def test_a_line_becomes_its_fields() -> None:
    """And is kept; the end of the line is not part of it."""
    assert page_view(LINE) == page_view(LINE.encode() + b"\r\n") == VIEW


def test_a_dash_is_nothing() -> None:
    """As the format writes what is not known; the common format ends after the bytes."""
    line = '::1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.0" 304 -'
    found = page_view(line)
    assert "parse_error" not in found
    assert [found[name] for name in ("remote_user", "response_bytes", "referrer", "user_agent")] == [None] * 4


@pytest.mark.parametrize(
    ("zone", "hours"), [("+0000", 0), ("+0200", -2), ("-0730", 7.5)], ids=["UTC", "Athens", "half an hour"]
)
def test_the_time_is_the_lines_with_its_zone(zone: str, hours: float) -> None:
    """Not the machine's."""
    found = page_view(LINE.replace("+0000", zone))
    assert found["time"] == VIEW["time"] + hours * 3_600_000_000


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (LINE[:-1], "user agent: not as in the combined log format"),
        (LINE.replace("200 2", "OK 2"), "status: not as in"),
        (LINE.replace("GET /images/search.png?q=1 HTTP/1.1", "\\x16\\x03"), "request: not a method"),
        (LINE.replace("May", "Mai"), "time: '17/Mai/2015:10:05:03 +0000' is not like"),
        (LINE.replace("17/May", "32/May"), "time: day "),
        (LINE.replace("+0000", "+9900"), "time: offset must be"),
        ("", "host: not as in"),
        ("nonsense", "identity: not as in"),
    ],
)
def test_what_cannot_be_read_says_why_and_keeps_the_line(line: str, why: str) -> None:
    """It is an event all the same, with all that could be read, its time above all."""
    found = page_view(line)
    assert found["parse_error"].startswith(why)
    assert found["line"] == line
    assert ("time" in found) == ("17/May" in line and "+9900" not in line)


T = "[29/May/2017:19:02:48 +0000]"
TIME_US = 1_496_084_568_000_000
COMBINED = f'192.0.2.7 - - {T} "GET /a HTTP/1.1" 200 612 "-" "curl/8"'
SEEN: dict[str, Any] = {
    "remote_host": "192.0.2.7",
    "time": TIME_US,
    "method": "GET",
    "url": "/a",
    "protocol": "HTTP/1.1",
    "status": 200,
    "response_bytes": 612,
    "user_agent": "curl/8",
}
CADDY = {
    "ts": 1496084568.5,
    "request": {
        "remote_ip": "192.0.2.7",
        "proto": "HTTP/2.0",
        "method": "GET",
        "host": "a.example",
        "uri": "/a",
        "headers": {"User-Agent": ["curl/8"]},
    },
    "size": 612,
    "status": 200,
}
TRAEFIK = {
    "ClientHost": "192.0.2.7",
    "ClientUsername": "-",
    "DownstreamContentSize": 612,
    "DownstreamStatus": 200,
    "Duration": 39_100,
    "RequestMethod": "GET",
    "RequestPath": "/a",
    "RequestProtocol": "HTTP/1.1",
    "StartUTC": "2017-05-29T19:02:48.123456789Z",
    "request_User-Agent": "curl/8",
}
DOCKER = {"log": f"{COMBINED}\n", "stream": "stdout", "time": "2017-05-29T19:02:49.1Z"}


@pytest.mark.parametrize(
    ("line", "more"),
    [
        pytest.param(f'{COMBINED} "-"', {"rest": '"-"'}, id="nginx main"),
        pytest.param(f'{COMBINED} "198.51.100.4, 192.0.2.1"', {"rest": '"198.51.100.4, 192.0.2.1"'}, id="forwarded"),
        pytest.param(f"{COMBINED} 0.102 0.100 .", {"rest": "0.102 0.100 ."}, id="times"),
        pytest.param(f'{COMBINED} "an open quote', {"rest": '"an open quote'}, id="a cut rest"),
        pytest.param(f"{COMBINED} ", {}, id="blank at the end"),
        pytest.param(
            f'{COMBINED} 13 "web" "http://10.0.0.2" 5ms', {"rest": '13 "web" "http://10.0.0.2" 5ms'}, id="Traefik"
        ),
        pytest.param(
            COMBINED.replace(' "-" "curl/8"', " 15"), {"user_agent": None, "rest": "15"}, id="common and time"
        ),
        pytest.param(
            COMBINED.replace(' "-"', ""),
            {"user_agent": None, "rest": '"curl/8"'},
            id="one quoted field, of unknown meaning",
        ),
        pytest.param(f"a.example:443 {COMBINED}", {"virtual_host": "a.example:443"}, id="virtual host"),
        pytest.param(f"a.example {COMBINED}", {"virtual_host": "a.example"}, id="virtual host without a port"),
        pytest.param(
            f"a.example:80 {COMBINED}".replace("192.0.2.7", "web.example"),
            {"virtual_host": "a.example:80", "remote_host": "web.example"},
            id="virtual host, resolved host",
        ),
        pytest.param(f"- {COMBINED}", {}, id="no forwarded address"),
        pytest.param(
            f"198.51.100.4, 192.0.2.1 {COMBINED}", {"forwarded_for": "198.51.100.4, 192.0.2.1"}, id="forwarded in front"
        ),
        pytest.param(f"198.51.100.4 {COMBINED}", {"rest": "198.51.100.4"}, id="an address in front"),
        pytest.param(COMBINED.replace("- - [", "- Ann Lee ["), {"remote_user": "Ann Lee"}, id="blank in the user"),
        pytest.param(COMBINED.replace("- - [", '- "Ann Lee" ['), {"remote_user": "Ann Lee"}, id="quoted user"),
        pytest.param(COMBINED.replace("- - [", '- "" ['), {"remote_user": None}, id="empty user"),
        pytest.param(COMBINED.replace("- - [", "- ["), {"remote_user": None}, id="no user"),
        pytest.param(COMBINED.replace(" - - [", " ["), {"remote_user": None}, id="host only"),
        pytest.param(
            COMBINED.replace("- - [", "- a.example a.example - ["), {"rest": "a.example a.example -"}, id="Virtualmin"
        ),
        pytest.param(COMBINED.replace("- - [", "- 198.51.100.4 ["), {"rest": "198.51.100.4"}, id="an address as user"),
        pytest.param(COMBINED.replace("192.0.2.7", '"192.0.2.7"'), {}, id="a quoted address"),
        pytest.param(
            COMBINED.replace("- - [", "[").replace("192.0.2.7", "198.51.100.4, 192.0.2.7"),
            {"forwarded_for": "198.51.100.4, 192.0.2.7", "remote_host": None},
            id="forwarded addresses alone",
        ),
        pytest.param(COMBINED.replace("- - [", "ident frank ["), {"remote_user": "frank"}, id="identity"),
        pytest.param(COMBINED.replace(" HTTP/1.1", ""), {"protocol": None}, id="HTTP/0.9"),
        pytest.param(COMBINED.replace("HTTP/1.1", "HTTP/2"), {"protocol": "HTTP/2"}, id="HTTP/2"),
        pytest.param(COMBINED.replace("/a HTTP", "/a b c HTTP"), {"url": "/a b c"}, id="blanks in the URL"),
        pytest.param(COMBINED.replace("200 612", "- -"), {"status": None, "response_bytes": None}, id="no status"),
        pytest.param(COMBINED.replace("200", "000"), {"status": 0}, id="status 000"),
        pytest.param(COMBINED.replace("48 +", "48.123 +"), {"time": TIME_US + 123_000}, id="milliseconds"),
        pytest.param(COMBINED.replace("192.0.2.7", "fe80::1%eth0"), {"remote_host": "fe80::1%eth0"}, id="IPv6 zone"),
        pytest.param(f"2017-05-29T19:02:48.123456789Z stdout F {COMBINED}", {}, id="Kubernetes"),
        pytest.param(f"<190>May 29 19:02:48 web1 nginx: {COMBINED}", {}, id="syslog"),
        pytest.param(
            f"May  9 19:02:48 web1 nginx[12]: a.example {COMBINED}", {"virtual_host": "a.example"}, id="in a file"
        ),
        pytest.param(f"<190>1 2017-05-29T19:02:48.123Z web1 nginx 12 - - {COMBINED}", {}, id="RFC 5424"),
        pytest.param(json.dumps(DOCKER, separators=(",", ":")), {}, id="Docker"),
        pytest.param(
            json.dumps(CADDY),
            {"virtual_host": "a.example", "protocol": "HTTP/2.0", "time": TIME_US + 500_000},
            id="Caddy",
        ),
        pytest.param(json.dumps(TRAEFIK), {"duration_us": 39, "time": TIME_US + 123_456}, id="Traefik, JSON"),
    ],
)
def test_a_server_s_own_format_is_read(line: str, more: dict[str, Any]) -> None:
    found = page_view(line)
    wanted = {name: value for name, value in {**SEEN, **more}.items() if value is not None}
    assert {name: value for name, value in found.items() if value is not None} == {"line": line, **wanted}


@pytest.mark.parametrize("request_line", ["-", "", "\\x16\\x03\\x01", "HELP", "a b c", "GET "])
def test_a_line_without_a_request_is_parsed_and_no_page_view(request_line: str) -> None:
    found = page_view(COMBINED.replace("GET /a HTTP/1.1", request_line))
    assert found["parse_error"] == "request: not a method, an address and a protocol"
    assert (found["status"], found["user_agent"]) == (200, "curl/8")
    assert not is_unparsed(found)


@pytest.mark.parametrize(
    "line",
    [
        '127.0.0.1 - - [29/May/2017 19:02:48] "GET / HTTP/1.1" 200 -',
        '[2016-04-15T20:17:00.310Z] "POST /api HTTP/2" 204 - 154 0 226 100 "10.0.35.28" "curl"',
        'INFO:     127.0.0.1:5000 - "GET / HTTP/1.1" 200 OK',
        "1496084568.123     45 192.0.2.7 TCP_MISS/200 612 GET http://example.com/a - HIER_DIRECT/- text/html",
        "2017-05-29 19:02:48 10.0.0.1 GET /a - 80 - 192.0.2.7 curl/8 - 200 0 0 15",
        '{"level": "info", "message": "started", "status": 200}',
        '{"unfinished',
    ],
)
def test_another_format_is_unparsed_and_never_read_wrongly(line: str) -> None:
    found = page_view(line)
    assert is_unparsed(found)
    assert found.get("url", "/") == "/"


def test_a_header_of_a_log_is_not_unparsed() -> None:
    assert not is_unparsed(page_view("#Version: 1.0"))


@pytest.mark.parametrize(
    "line",
    [
        "x" * 300_000,
        "a " * 150_000,
        f'192.0.2.7 - - {T} "{chr(92)}a' + f"{chr(92)}a" * 100_000,
        f' {T} "x' * 9000,
        "[" * 300_000,
    ],
    ids=["one word", "many words", "an open quote", "many times", "many brackets"],
)
def test_a_long_line_that_is_no_line_of_an_access_log_is_read_in_one_pass(line: str) -> None:
    """A pattern that tries many ways to cut a line would take hours, so the timeout of the test is the limit."""
    assert all(is_unparsed(page_view(line, log_format)) for log_format in ("", "main", "%h|%t|%r|%s|%B"))


def test_bytes_that_are_not_utf_8_are_kept_as_escapes() -> None:
    """An Avro string cannot have them."""
    found = page_view(LINE.encode().replace(b"search", b"\xff\xfe"))
    assert found["url"] == r"/images/\xff\xfe.png?q=1"
    assert "parse_error" not in found


@given(line=st.binary(max_size=200) | st.text(max_size=200).map(lambda tail: (LINE[: len(tail)] + tail).encode()))
def test_any_line_becomes_an_event(line: bytes) -> None:
    """Whatever is in it, it can be encoded, and the line is there."""
    header = {"time": 0, "published_at": 0, "server": "web-1", "id": "0"}
    payload = EventEncoder(KnownSchemas(EVENT_TYPES)).encode("page_views", header | page_view(line))
    found = EventDecoder(KnownSchemas(EVENT_TYPES)).decode_payload(payload).fields
    assert found["line"] == line.decode("utf-8", "backslashreplace").rstrip("\r\n")


def test_a_real_log_is_read() -> None:
    """Of 10,000 lines of 2015, all but the one that lacks its closing quote."""
    if not REAL_LOG.exists():
        pytest.skip(f"{REAL_LOG} is not there; the tests above need no file")
    found = [page_view(line) for line in REAL_LOG.read_bytes().splitlines()]
    assert {number for number, event in enumerate(found, start=1) if "parse_error" in event} == {8899}
    assert found[8898]["parse_error"] == "user agent: not as in the combined log format"
    times = [event["time"] for event in found]
    assert times != sorted(times)
    assert {time // 86_400_000_000 for time in times} == {16572, 16573, 16574, 16575}
