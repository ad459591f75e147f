"""Counting what landed: no figure counts before every message of it was found in the log."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kafka2011.message import scan
from paper_benchmarks.errors import BenchmarkError

if TYPE_CHECKING:
    from kafka2011.consumer.simple_consumer import SimpleConsumer

FETCH_BYTES = 1024 * 1024
TIMEOUT_S = 30.0
_POLL_S = 0.01


def check_landed(consumer: SimpleConsumer, topic: str, messages: int, timeout_s: float = TIMEOUT_S) -> int:
    """Wait until so many messages of partition 0 of a topic can be read, no more and no less; return where they end.

    Raises BenchmarkError otherwise, and for what is no message.
    """
    deadline_s = time.monotonic() + timeout_s
    offset = landed = 0
    while True:
        data = consumer.fetch(topic, 0, offset, FETCH_BYTES).data
        found = scan(data)
        if found.fault is not None:
            raise BenchmarkError(f"{topic}-0 at offset {offset + found.end}: {found.fault}")
        landed += found.messages
        offset += found.end
        if data and not found.messages:
            raise BenchmarkError(f"{topic}-0 at offset {offset}: a message of more than {FETCH_BYTES} bytes")
        if data:
            continue
        if landed > messages or (landed < messages and time.monotonic() >= deadline_s):
            raise BenchmarkError(f"{messages} messages were sent to {topic}-0, but {landed} are in the log: no figure")
        if landed == messages:
            return offset
        time.sleep(_POLL_S)
