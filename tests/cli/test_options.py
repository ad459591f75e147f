"""Values of options that several commands share."""

from __future__ import annotations

import click
import pytest

from kafka2011.cli.options import parse_broker, read_target

NOON_MS = 1_307_880_000_000  # 12 June 2011, 12:00 UTC


@pytest.mark.parametrize(
    ("text", "target"),
    [("earliest", "earliest"), ("latest", "latest"), ("4711", 4711), (f"@{NOON_MS}", f"@{NOON_MS}"), (None, None)],
)
def test_targets(text: str | None, target: int | str | None) -> None:
    """A word, an offset, or a time."""
    option = click.Option(["--to"], type=read_target)
    assert option.type_cast_value(click.Context(click.Command("x")), text) == target


@pytest.mark.parametrize("text", ["nowhere", "h:0", "h:65536", "h:x", ":1", "h h:1", "::1:5"])
def test_what_is_no_address(text: str) -> None:
    """An address is a host and a port; one of IPv6 stands in brackets."""
    with pytest.raises(click.BadParameter, match="is not host:port"):
        parse_broker(text)
    assert parse_broker("[::1]:5").host == "::1"
