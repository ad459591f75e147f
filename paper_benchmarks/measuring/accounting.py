"""Counting what landed: no figure counts before every message of it was found."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.message.message_set import scan
from kafka2011.wire.protocol import LATEST
from paper_benchmarks.measuring.errors import BenchmarkError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.consumer.simple_consumer import SimpleConsumer

FETCH_BYTES = 1024 * 1024
TIMEOUT_S = 30.0
_POLL_S = 0.01


class Landed(NamedTuple):
    """So many messages of a partition can be read, and this is where they end."""

    messages: int
    end_offset: int


NOTHING = Landed(0, 0)


def scan_log(consumer: SimpleConsumer, topic: str, since: Landed = NOTHING) -> Landed:
    """Read partition 0 of a topic from where an earlier scan ended up to its end, and check every CRC on the way.

    Raises BenchmarkError for what is no message.
    """
    messages, offset = since
    while data := consumer.fetch(topic, 0, offset, FETCH_BYTES).data:
        found = scan(data)
        if found.fault is not None:
            raise BenchmarkError(f"{topic}-0 at offset {offset + found.end}: {found.fault}")
        if not found.messages:
            raise BenchmarkError(f"{topic}-0 at offset {offset}: a message of more than {FETCH_BYTES} bytes")
        messages += found.messages
        offset += found.end
    return Landed(messages, offset)


def await_landed(
    topic: str, sent: int, count: Callable[[], int], timeout_s: float = TIMEOUT_S, unit: str = "messages"
) -> None:
    """Wait until `count` gives just so many messages of a topic; fewer, or more, are a BenchmarkError."""
    deadline_s = time.monotonic() + timeout_s
    while (landed := count()) != sent:
        if landed > sent or time.monotonic() >= deadline_s:
            raise BenchmarkError(f"{sent} {unit} were sent to {topic}, but {landed} are there: no figure")
        time.sleep(_POLL_S)


def check_landed(consumer: SimpleConsumer, topic: str, messages: int, timeout_s: float = TIMEOUT_S) -> int:
    """Wait until so many messages of partition 0 of a topic can be read, no more and no less; return where they end.

    Raises BenchmarkError otherwise, and for what is no message.
    """
    landed = NOTHING

    def count() -> int:
        nonlocal landed
        landed = scan_log(consumer, topic, landed)
        return landed.messages

    await_landed(f"{topic}-0", messages, count, timeout_s)
    return landed.end_offset


def await_end(consumer: SimpleConsumer, topic: str, end_offset: int) -> None:
    """Wait until partition 0 of a topic can be read to just there; raises BenchmarkError when it does not end so."""
    await_landed(f"{topic}-0", end_offset, lambda: consumer.get_offsets_before(topic, 0, LATEST, 1)[0], unit="bytes")
