"""Messages that somebody could write to harm whoever reads them, for a topic whose other messages are good events.

`SCHEMAS` has what a registry has: the topic's own schema, and another one that some of these messages name.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kafka2011.events.codec import MARK, EventEncoder
from kafka2011.events.schemas import KnownSchemas, event_schema
from kafka2011.events.types import PAGE_VIEW

TOPIC = "page_views"

NODE: dict[str, Any] = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
"""A record that may lie within itself, as often as somebody pleases."""
TREE = event_schema("Tree", {"name": "root", "type": NODE})

SCHEMAS = KnownSchemas({TOPIC: PAGE_VIEW}, [TREE])


class Hostile(NamedTuple):
    """A message, what is wrong with it, and who can take it nevertheless: the audit's counters, and decoders."""

    name: str
    payload: bytes
    is_countable: bool = False
    is_decodable: bool = False


def _event(number: int, **more: Any) -> dict[str, Any]:
    event_id = f"0c2ae1a4-5b6e-4f6a-9d3c-{number:012d}"
    return {"time": 1_307_872_800_000_000, "published_at": 1_307_872_800_000_005, "server": "w", "id": event_id, **more}


GOOD = EventEncoder(SCHEMAS).encode(TOPIC, _event(1, url="/jobs"))
"""An event of the topic."""
AFTER = EventEncoder(SCHEMAS).encode(TOPIC, _event(2, url="/inbox"))
"""The one after the hostile message."""
SHALLOW = EventEncoder(KnownSchemas({TOPIC: TREE})).encode(TOPIC, _event(3, root={"next": None}))


def deep(nodes: int) -> bytes:
    """Return an event of `TREE` that has so many nodes within one another: one of them, and a byte for each further."""
    return SHALLOW[:-1] + (nodes - 1) * b"\x02" + SHALLOW[-1:]


_FINGERPRINT_END, _ID_END = 10, GOOD.index(b"000000000001") + 12
_URL_AT = GOOD.index(b"\x0a/jobs")


def _with_id(text: bytes) -> bytes:
    assert len(text) == 36
    return GOOD[: _ID_END - 36] + text + GOOD[_ID_END:]


HOSTILE = (
    Hostile("empty", b""),
    Hostile("no event", b"GET / HTTP/1.1"),
    Hostile("mark alone", MARK),
    Hostile("fingerprint alone", GOOD[:_FINGERPRINT_END]),
    Hostile("unknown schema", MARK + bytes(8) + GOOD[_FINGERPRINT_END:], is_countable=True),
    Hostile("header cut short", GOOD[: _ID_END - 1]),
    Hostile("header alone", GOOD[:_ID_END], is_countable=True),
    Hostile("id that is no UTF-8", _with_id(b"\xff" + 35 * b"0")),
    Hostile("id with blanks", _with_id(b"01234567-89ab-cdef-    -            "), is_decodable=True),
    Hostile("id with a blank for each dash", _with_id(b"01234567 89ab cdef 0123 456789abcdef"), is_decodable=True),
    Hostile("id with dashes at its end", _with_id(b"0123456789abcdef0123456789abcdef----"), is_decodable=True),
    Hostile("id with a fifth dash", _with_id(b"01234567-89ab-cdef-0123-456789abcde-"), is_decodable=True),
    Hostile("id with digits of another script", _with_id(b"\xd9\xa0" + 34 * b"0"), is_decodable=True),
    Hostile("endless number in the header", GOOD[:_FINGERPRINT_END] + 400_000 * b"\xff"),
    Hostile("endless number", GOOD[:_URL_AT] + 400_000 * b"\xff", is_countable=True),
    Hostile("text of 2^62 bytes", GOOD[:_URL_AT] + 8 * b"\xfe" + b"\x7f/jobs", is_countable=True),
    Hostile("text of -5 bytes", GOOD[:_URL_AT] + b"\x09/jobs", is_countable=True),
    Hostile("no such branch", GOOD[: _URL_AT - 1] + b"\x7e" + GOOD[_URL_AT:], is_countable=True),
    Hostile("bytes left over", GOOD + 400_000 * b"\0", is_countable=True),
    Hostile("deeper than is taken", deep(100), is_countable=True),
    Hostile("deeper than Python's stack", deep(2_000), is_countable=True),
    Hostile("deeper than C's stack", deep(400_000), is_countable=True),
)
