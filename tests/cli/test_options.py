"""Values of options that several commands share."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click
import pytest

from kafka2011.cli.options import parse_broker, parse_time_ms, read_target

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


@pytest.mark.parametrize(
    ("text", "target"),
    [("earliest", "earliest"), ("latest", "latest"), ("4711", 4711), (f"@{NOON_MS}", f"@{NOON_MS}"), (None, None)],
)
def test_targets(text: str | None, target: int | str | None) -> None:
    """A word, an offset, or a time."""
    command = click.Command("x")
    assert read_target(click.Context(command), click.Option(["--to"]), text) == target


@pytest.mark.parametrize("text", ["nowhere", "h:0", "h:65536", "h:x", ":1", "h h:1", "::1:5"])
def test_what_is_no_address(text: str) -> None:
    """An address is a host and a port; one of IPv6 stands in brackets."""
    with pytest.raises(click.BadParameter, match="is not host:port"):
        parse_broker(text)
    assert parse_broker("[::1]:5").host == "::1"
