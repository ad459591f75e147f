"""Asks a broker why a topic may not be consumed, as only those of this package understand.

    request    size int32 | type int16 = 103 | topic
    response   size int32 | error int16 = 0 | JSON: principal, rules

A broker is asked once it has answered NotAllowedError's number. It does so to clients of this package, whose requests
have `WAIT` behind them; those of 0.7 get what they get of a topic without messages.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from kafka2011.errors import ProtocolError
from kafka2011.json_document import read_document
from kafka2011.wire.protocol import encode_response_header


class Refusal(NamedTuple):
    """Who may not consume, as the broker knows it, and the path of the broker's rules that say so."""

    principal: str
    rules: str


def encode_answer(refusal: Refusal) -> bytes:
    """Return the whole response."""
    body = json.dumps(refusal._asdict()).encode()
    return encode_response_header(0, len(body)) + body


def decode_answer(body: bytes, what: str) -> Refusal:
    """Return what the body of a response says. Raises ProtocolError, which names `what`, if it makes no sense."""
    return read_document(body, _of_document, ProtocolError, f"the broker does not say why it refused {what}")


def _of_document(document: dict[str, Any]) -> Refusal:
    principal, rules = document["principal"], document["rules"]
    if not isinstance(principal, str) or not isinstance(rules, str):
        raise TypeError(f"{principal!r} and {rules!r} are not text")
    return Refusal(principal, rules)
