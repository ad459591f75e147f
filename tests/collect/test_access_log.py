"""Lines of an access log as page views."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka2011.collect.access_log import page_view
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
        (LINE + " more", "more than the combined log format has"),
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
