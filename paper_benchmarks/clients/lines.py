"""The lines of the table: what each client does, how often, and what it should cost at most."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

PAYLOAD_BYTES = 200
MESSAGE_BYTES = PAYLOAD_BYTES + 10
"""In the log."""
BATCH = 50
FETCH_BYTES = 200 * 1024

COMPILED, PURE = "C", "Python"
"""The two that work on messages; see `kafka2011.plain`."""


class Targets(NamedTuple):
    """CPU time a message at most, in microseconds, with either code."""

    c_us: float
    python_us: float

    def of(self, code: str) -> float:
        """Return that of one code."""
        return self.c_us if code == COMPILED else self.python_us


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that a client does with `messages` messages. `broker_title` makes a line of the broker's part too."""

    name: str
    title: str
    messages: int
    reads: bool = False
    needs_group: bool = False
    targets: Targets | None = None
    broker_title: str = ""
    broker_targets: Targets | None = None

    def scaled(self, scale: float) -> Line:
        """Return it with more or fewer messages, in whole batches."""
        return replace(self, messages=max(round(self.messages * scale / BATCH), 1) * BATCH)


@dataclass(frozen=True, slots=True)
class Yardstick:
    """Bytes encoded beforehand that go into a sink: `batch` messages at a time."""

    name: str
    title: str
    messages: int
    batch: int

    def scaled(self, scale: float) -> Yardstick:
        """Return it with more or fewer messages, in whole batches."""
        return replace(self, messages=max(round(self.messages * scale / BATCH), 1) * BATCH)


LINES = (
    Line("async", "Producer, async, a message a send", 200_000, targets=Targets(2.0, 3.0)),
    Line("async-confirmed", "the same, confirmed", 200_000, targets=Targets(2.5, 3.75)),
    Line("async-lists", "Producer, async, lists of 50", 500_000),
    Line(
        "sync-1",
        "SyncProducer, batch 1",
        100_000,
        targets=Targets(4.5, 5.0),
        broker_title="broker, batch 1",
        broker_targets=Targets(1.5, 2.0),
    ),
    Line(
        "sync-50",
        "SyncProducer, batch 50",
        500_000,
        targets=Targets(0.25, 0.42),
        broker_title="broker, batch 50",
        broker_targets=Targets(0.45, 0.7),
    ),
    Line("simple", "SimpleConsumer, fetches of 200 KB", 500_000, reads=True, targets=Targets(0.5, 0.55)),
    Line("stream", "a stream, message by message", 500_000, True, True, Targets(0.65, 0.9)),
    Line("batches", "a stream, batches()", 500_000, True, True, Targets(0.4, 0.7)),
)

YARDSTICKS = (
    Yardstick("sendall-1", "sendall of one message, encoded before", 200_000, 1),
    Yardstick("sendall-50", "sendall of 50 messages, encoded before", 2_000_000, BATCH),
)
