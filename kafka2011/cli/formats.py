"""How messages are printed: payloads, lines with their place, JSON objects, or in a pattern like kcat's."""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any

import click

from kafka2011.cli.options import unescaped

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.message.message_set import Message

    Format = Callable[[Message], bytes]

NAMES = ("payload", "full", "json")

_TOKEN = re.compile(r"%(.?)", re.DOTALL)
_FIELDS: dict[str, Format] = {
    "s": lambda message: message.payload,
    "S": lambda message: b"%d" % len(message.payload),
    "R": lambda message: len(message.payload).to_bytes(4, "big"),
    "t": lambda message: message.topic.encode(),
    "b": lambda message: b"-" if message.broker_id is None else b"%d" % message.broker_id,
    "p": lambda message: b"%d" % message.partition,
    "o": lambda message: b"%d" % message.offset,
    "n": lambda message: b"%d" % message.next_offset,
    "i": lambda message: b"%d" % message.index_in_set,
}
_NOT_IN_07 = {"k": "keys", "K": "keys", "T": "times", "h": "headers"}


def as_object(message: Message) -> dict[str, Any]:
    """Return a message for JSON; a payload that is not UTF-8 is there as `payload_base64`."""
    document: dict[str, Any] = message._asdict()
    payload = document.pop("payload")
    return {**document, **payload_field(payload)}


def payload_field(payload: bytes) -> dict[str, str]:
    """Return `payload` as text, or `payload_base64` where it is not UTF-8."""
    try:
        return {"payload": payload.decode()}
    except UnicodeDecodeError:
        return {"payload_base64": base64.b64encode(payload).decode()}


def named(name: str, delimiter: bytes) -> Format:
    """Return the format of a name, one of NAMES."""
    if name == "json":
        return lambda message: json.dumps(as_object(message), ensure_ascii=False).encode() + delimiter
    if name == "full":
        return lambda message: _place(message) + message.payload + delimiter
    return lambda message: message.payload + delimiter


def _place(message: Message) -> bytes:
    broker = "-" if message.broker_id is None else message.broker_id
    return f"{message.topic}\t{broker}-{message.partition}\t{message.offset}\t".encode()


def pattern(text: str) -> Format:
    """Return the format that a text with % tokens and escapes describes; nothing is added. Raises BadParameter."""
    parts: list[bytes | Format] = []
    end = 0
    for match in _TOKEN.finditer(text):
        parts.append(unescaped(text[end : match.start()]))
        parts.append(_token(match[1]))
        end = match.end()
    parts.append(unescaped(text[end:]))
    return lambda message: b"".join(part if isinstance(part, bytes) else part(message) for part in parts)


def _token(letter: str) -> bytes | Format:
    if letter == "%":
        return b"%"
    if letter in _NOT_IN_07:
        raise click.BadParameter(f"%{letter}: messages of Kafka 0.7 have no {_NOT_IN_07[letter]}")
    if letter not in _FIELDS:
        raise click.BadParameter(f"%{letter} is none of {' '.join(f'%{field}' for field in (*_FIELDS, '%'))}")
    return _FIELDS[letter]


format_option = click.option(
    "-f",
    "--format",
    "given_format",
    type=pattern,
    metavar="TEXT",
    help="What to print of a message, and nothing after it: %s payload, %S its length, %R the same as a big-endian"
    " int32, %t topic, %b broker, %p partition, %o offset, %n next offset, %i index in its compressed set, %%, and"
    " escapes such as \\n.",
)
