"""Times as people write them."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from kafka2011.cli.times import parse_time_ms

if TYPE_CHECKING:
    from collections.abc import Iterator

NOON_MS = 1_307_880_000_000  # 12 June 2011, 12:00 UTC


@pytest.fixture
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("text", ["2011-06-12T12:00Z", "2011-06-12T14:00+02:00", f"@{NOON_MS}"])
def test_times_with_a_zone(text: str, caplog: pytest.LogCaptureFixture) -> None:
    """A zone, or a number of ms, is plain."""
    assert parse_time_ms(text) == NOON_MS
    assert caplog.messages == []


@pytest.mark.usefixtures("in_tokyo")
def test_a_time_without_a_zone_is_local_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever leaves the zone out sees which was taken."""
    assert parse_time_ms("2011-06-12T21:00") == NOON_MS
    assert caplog.messages == ["2011-06-12T21:00 names no zone: taken as local time, 2011-06-12T21:00+09:00"]


@pytest.mark.usefixtures("in_tokyo")
@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("-30s", "2011-06-12T20:59:30"),
        ("-90m", "2011-06-12T19:30:00"),
        ("-1h", "2011-06-12T20:00:00"),
        ("-7d", "2011-06-05T21:00:00"),
        ("-1w", "2011-06-05T21:00:00"),
        ("today", "2011-06-12T00:00:00"),
        ("yesterday", "2011-06-11T00:00:00"),
        ("20:00", "2011-06-12T20:00:00"),
        ("21:00:00", "2011-06-12T21:00:00"),
        ("9:15", "2011-06-12T09:15:00"),
        ("22:00:30", "2011-06-11T22:00:30"),
    ],
)
def test_relative_times(text: str, time: str) -> None:
    """At nine in the evening; a time of day that is still to come was yesterday."""
    now = datetime.fromisoformat("2011-06-12T21:00:00+09:00")
    assert parse_time_ms(text, now) == datetime.fromisoformat(f"{time}+09:00").timestamp() * 1000


@pytest.mark.parametrize("text", ["", "1h", "-1y", "-h", "tomorrow", "25:00", "20:60", "@", "@x", "-1", "20"])
def test_what_is_no_time(text: str) -> None:
    """Whatever else there is."""
    with pytest.raises(ValueError, match=r"."):
        parse_time_ms(text)
