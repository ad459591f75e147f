"""Messages to be loaded: lines of text and events of several fields, of three sizes, no two alike."""

from __future__ import annotations

import random
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka2011.events.codec import EventEncoder
from kafka2011.events.schemas import KnownSchemas, event_schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.events.schemas import EventSchema

MARKER_BYTES = 10
"""In front of an event's fields: two that say so, and the fingerprint of its schema."""
SIZES = (100, 200, 1000)
_DAY_US = 1_700_006_400_000_000  # midnight, UTC
_STEP_US = 500  # two thousand events a second: 16 million are two hours and a bit
_DELAY_US = 137
_ID_STEP = 0x9E3779B97F4A7C15F39CC0605CEDC835  # odd, so that ids come again after 2**128 events
_SEED = 2011
_WORDS = 20_000
_TEXT_CHARACTERS = 4_000_000


class Form(StrEnum):
    """What a message is."""

    LINE = "line"
    """A line of text."""
    EVENT = "event"
    """An event of several fields."""


class Case(NamedTuple):
    """Messages of one form, of so many bytes each."""

    form: Form
    size_bytes: int

    @property
    def topic(self) -> str:
        """The topic that has them."""
        return f"{self.form}s_{self.size_bytes}"

    def __str__(self) -> str:
        return f"{self.form}s of {self.size_bytes} bytes"


CASES = tuple(Case(form, size) for form in Form for size in SIZES)

LINE = event_schema("Line", {"name": "line", "type": "string"})
VISIT = event_schema(
    "Visit",
    {"name": "member_id", "type": ["null", "long"], "default": None},
    {"name": "status", "type": "int"},
    {"name": "response_bytes", "type": "long"},
    {"name": "seconds", "type": "double"},
    {"name": "url", "type": "string"},
)


def schema_of(form: Form) -> EventSchema:
    """Return the schema that messages of a form have where they must be events."""
    return LINE if form is Form.LINE else VISIT


def events(case: Case, first: int, count: int) -> list[bytes]:
    """Return events, numbered from `first`, encoded: of a line the text is in its one field."""
    make = _visit if case.form is Form.EVENT else _line
    encoder = EventEncoder(KnownSchemas({case.topic: schema_of(case.form)}))
    length = _text_bytes(case)
    chance = random.Random(first)  # noqa: S311 (nothing is to be kept secret)
    numbers = range(first, first + count)
    return encoder.encode_all(case.topic, [make(number, _slice(chance, length)) for number in numbers])


def lines(case: Case, first: int, count: int) -> list[bytes]:
    """Return lines of text of the case's size as they are, without anything around them."""
    chance = random.Random(first)  # noqa: S311
    return [_slice(chance, case.size_bytes).encode() for _ in range(count)]


def _header(number: int) -> dict[str, Any]:
    at_us = _DAY_US + number * _STEP_US
    digits = f"{number * _ID_STEP % 2**128:032x}"
    event_id = f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
    return {"time": at_us, "published_at": at_us + _DELAY_US, "server": f"web{number % 8}", "id": event_id}


def _line(number: int, text: str) -> dict[str, Any]:
    return {**_header(number), "line": text}


def _visit(number: int, text: str) -> dict[str, Any]:
    return {
        **_header(number),
        "member_id": number * 7919 % 1_000_003 if number % 4 else None,
        "status": 200 if number % 20 else 404,
        "response_bytes": 500 + number * 104_729 % 60_000,
        "seconds": number * 31 % 1000 / 997,
        "url": text,
    }


@cache
def _text_bytes(case: Case) -> int:
    """Return how long the text of an event is that takes as many bytes as the case says."""
    make: Callable[[int, str], dict[str, Any]] = _visit if case.form is Form.EVENT else _line
    encoder = EventEncoder(KnownSchemas({case.topic: schema_of(case.form)}))
    [bare] = encoder.encode_all(case.topic, [make(1, "")])
    left = case.size_bytes - len(bare)
    return max(left if left < 64 else left - 1, 1)  # a length of 64 and more takes two bytes


@cache
def _text() -> str:
    """Return words, some of which are frequent: text that codecs make about half as large."""
    chance = random.Random(_SEED)  # noqa: S311
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    words = ["".join(chance.choices(letters, k=chance.randint(2, 10))) for _ in range(_WORDS)]
    weights = [1 / rank for rank in range(1, _WORDS + 1)]
    return " ".join(chance.choices(words, weights, k=_TEXT_CHARACTERS // 6))


def _slice(chance: random.Random, length: int) -> str:
    text = _text()
    at = int(chance.random() * (len(text) - length))
    return text[at : at + length]
