"""The lines of the table: what each client does, how often, and what it should cost at most."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from paper_benchmarks.payloads import BATCH, PAYLOAD_BYTES

MESSAGE_BYTES = PAYLOAD_BYTES + 10
"""In the log."""

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
    """One thing that a client does with `messages` messages. `broker_title` makes a line of the broker's part too.

    `client` is a name of `paper_benchmarks.drivers.kafka`, which takes `batch` messages at a time.
    """

    name: str
    title: str
    client: str
    batch: int
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
    batch: int
    messages: int
    client: str = "raw"

    def scaled(self, scale: float) -> Yardstick:
        """Return it with more or fewer messages, in whole batches."""
        return replace(self, messages=max(round(self.messages * scale / BATCH), 1) * BATCH)


LINES = (
    Line("async", "Producer, async, a message a send", "async", 1, 200_000, targets=Targets(2.0, 3.0)),
    Line("async-confirmed", "the same, confirmed", "async-confirmed", 1, 200_000, targets=Targets(2.5, 3.75)),
    Line("async-lists", "Producer, async, lists of 50", "async", BATCH, 500_000),
    Line(
        "sync-1",
        "SyncProducer, batch 1",
        "sync",
        1,
        100_000,
        targets=Targets(4.5, 5.0),
        broker_title="broker, batch 1",
        broker_targets=Targets(1.5, 2.0),
    ),
    Line(
        "sync-50",
        "SyncProducer, batch 50",
        "sync",
        BATCH,
        500_000,
        targets=Targets(0.25, 0.42),
        broker_title="broker, batch 50",
        broker_targets=Targets(0.45, 0.7),
    ),
    Line("simple", "SimpleConsumer, fetches of 200 KB", "simple", 1, 500_000, reads=True, targets=Targets(0.5, 0.55)),
    Line("stream", "a stream, message by message", "stream", 1, 500_000, True, True, Targets(0.65, 0.9)),
    Line("batches", "a stream, batches()", "batches", 1, 500_000, True, True, Targets(0.4, 0.7)),
)

YARDSTICKS = (
    Yardstick("sendall-1", "sendall of one message, encoded before", 1, 200_000),
    Yardstick("sendall-50", "sendall of 50 messages, encoded before", BATCH, 2_000_000),
)
