"""Two clusters in memory, whose brokers may be away, and the time that everybody reads from a clock of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafka2011.audit.late import LateReports
from kafka2011.audit.report import AUDIT_TOPIC

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Mapping

VIEWS = "views"
BROKERS = (0, 1)
FLUSH_MS = 15
"""After so long at the latest a reader sees what was appended."""
SKEW_MS = 20
"""Clocks are this much before or behind, at most."""


class AwayError(Exception):
    """The broker does not answer."""


@dataclass
class Entry:
    """A message; `seen_ms` is from when on readers see it."""

    payload: Any
    appended_ms: int
    seen_ms: int


@dataclass
class Cluster:
    """Brokers with one partition of each topic. An offset is the number of a message."""

    home: str
    chance: random.Random
    logs: dict[tuple[str, int], list[Entry]] = field(
        default_factory=lambda: {(topic, broker): [] for topic in (VIEWS, AUDIT_TOPIC) for broker in BROKERS}
    )
    away: set[int] = field(default_factory=set)
    noted: set[int] = field(default_factory=set)
    """The brokers that may hold reports, as they were noted before an instance had begun."""
    skew_ms: int = 0
    """How far its ZooKeeper's clock is ahead."""

    def clock_ms(self, now_ms: int) -> int:
        """Return ZooKeeper's time."""
        return now_ms + self.skew_ms

    first: dict[int, int] = field(default_factory=dict)
    """By broker, the first offset of its partition of events: retention has removed what stood before."""

    def append(self, topic: str, broker: int, payload: Any, now_ms: int) -> None:
        if broker in self.away:
            raise AwayError
        log = self.logs[topic, broker]
        seen_ms = now_ms + self.chance.choice((0, 0, self.chance.randrange(FLUSH_MS)))
        log.append(Entry(payload, now_ms, max(seen_ms, log[-1].seen_ms if log else 0)))

    def end(self, topic: str, broker: int, now_ms: int) -> int:
        if broker in self.away:
            raise AwayError
        log = self.logs[topic, broker]
        return next((offset for offset, entry in enumerate(log) if entry.seen_ms > now_ms), len(log))

    def read(self, topic: str, broker: int, start: int, now_ms: int) -> Iterator[tuple[int, Entry]]:
        end = self.end(topic, broker, now_ms)
        return ((offset, self.logs[topic, broker][offset]) for offset in range(start, end))


class AuditRead:
    """How far the topic audit was read, and what in it is late, behind where it was judged."""

    def __init__(
        self, judged_ends: Mapping[tuple[int, int], int] | None = None, judged_before_ms: int | None = None
    ) -> None:
        self.ends = dict(judged_ends or {})
        self.late = LateReports(judged_ends, judged_before_ms)
