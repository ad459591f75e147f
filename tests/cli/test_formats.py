"""How messages are printed."""

from __future__ import annotations

import json

import click
import pytest

from kafka2011.cli.formats import as_object, named, pattern
from kafka2011.cli.options import unescaped
from kafka2011.message.message_set import Message

MESSAGE = Message("views", 2, 3, 40, 55, 1, b"\xffone")


def test_named_formats() -> None:
    """Payload, place and payload, or an object; each with the delimiter."""
    assert named("payload", b"|")(MESSAGE) == b"\xffone|"
    assert named("full", b"\n")(MESSAGE) == b"views\t2-3\t40\t\xffone\n"
    assert named("full", b"\n")(MESSAGE._replace(broker_id=None)).startswith(b"views\t-")
    assert json.loads(named("json", b"\n")(MESSAGE)) == as_object(MESSAGE)


def test_payloads_in_json() -> None:
    """Text is text, and what is no text is not spoiled."""
    assert as_object(MESSAGE)["payload_base64"] == "/29uZQ=="
    assert "payload" not in as_object(MESSAGE)
    assert as_object(MESSAGE._replace(payload="ü".encode()))["payload"] == "ü"


def test_a_pattern() -> None:
    """Every token and escape means what kcat means by it, as far as 0.7 has it."""
    text = r"%t %b-%p %o..%n [%i] %S %% \x41\t" + "%s"
    assert pattern(text)(MESSAGE) == b"views 2-3 40..55 [1] 4 % A\t\xffone"
    assert pattern("%R")(MESSAGE) == b"\0\0\0\4"
    assert pattern("%b")(MESSAGE._replace(broker_id=None)) == b"-"


@pytest.mark.parametrize(
    ("text", "words"), [("%k", "have no keys"), ("%T", "have no times"), ("%x", "%x is none of %s"), ("%", "% is none")]
)
def test_wrong_patterns(text: str, words: str) -> None:
    """What 0.7 does not have is said."""
    with pytest.raises(click.BadParameter, match=words):
        pattern(text)


@pytest.mark.parametrize("text", [r"\q", r"\x4", "\\"])
def test_wrong_escapes(text: str) -> None:
    """An escape that there is not is no silent character."""
    with pytest.raises(click.BadParameter, match="is not an escape"):
        unescaped(text)
