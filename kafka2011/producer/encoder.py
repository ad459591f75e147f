"""From what an application sends to payloads: bytes as they are, or by an Encoder of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from kafka2011.message import MessageSet


class Encoder(Protocol):
    """Turns one value into the payload of one message. Named by serializer.class, and made without arguments."""

    def encode(self, value: Any) -> bytes:
        """Return the payload. Called by the sending thread."""


def payloads_of(messages: object, encoder: Encoder | None = None) -> list[bytes]:
    """Return the payloads of what `send` takes, but for a MessageSet: one value, or several.

    Several are any iterable of bytes; with an encoder, whose values may be iterable themselves, only a list, a tuple
    or an iterator. Raises TypeError for text without an encoder: the payload of a message is bytes.
    """
    if encoder is not None:
        if isinstance(messages, list | tuple | Iterator):
            return [_encoded(encoder, value) for value in messages]
        return [_encoded(encoder, messages)]
    if isinstance(messages, bytes):
        return [messages]
    if isinstance(messages, bytearray | memoryview):
        return [bytes(messages)]
    if isinstance(messages, Iterable) and not isinstance(messages, str | MessageSet):
        payloads = list(messages)
        if set(map(type, payloads)) <= {bytes}:  # one pass without Python code for each payload
            return payloads
        return [_as_bytes(payload) for payload in payloads]
    raise _no_payload(messages)


def _encoded(encoder: Encoder, value: object) -> bytes:
    return _as_bytes(encoder.encode(value))


def _as_bytes(payload: object) -> bytes:
    if isinstance(payload, bytes | bytearray | memoryview):
        return bytes(payload)
    raise _no_payload(payload)


def _no_payload(value: object) -> TypeError:
    return TypeError(f"a payload is bytes, not {type(value).__name__}: encode it first, or set serializer.class")
