"""What a scan of the topic `audit` is, by which rules its reports are judged, and what an unknown is. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

DEFAULT_MARGIN_MS = 60_000
DEFAULT_DEAD_AFTER_MS = 3_600_000
DEFAULT_FLUSH_MS = 10_000
"""Brokers flush every three seconds unless told otherwise, and at once where somebody waits to read."""
REMOVED = "removed reports"
"""The name that an operator accepts when reports were deleted from the topic audit before they were read."""
AGAIN_MS = 1_800_000
"""How far back complete windows are checked again: an instance whose clock is behind may be discovered late."""


class Unknown(NamedTuple):
    """Gives the reason why events published at `since_ms` or later (None: any events) cannot be judged.

    `accept` is the name that an operator may accept to end it; empty if only time or a repair ends it.
    """

    since_ms: int | None
    why: str
    accept: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditScan:
    """Describes one scan of the topic audit: begun at `at_ms`, up to the ends of all partitions that could be read.

    That is the earlier of two times: by the clock of who scans, and by the cluster's ZooKeeper, which is `clock_ms`.
    `home` is the id of the cluster. `faults` say what could not be read. Reports of instances that last reported more
    than half an hour before `since_ms` may have been deleted; None: none were.
    """

    at_ms: int
    clock_ms: int | None = None
    home: str = ""
    faults: tuple[str, ...] = ()
    since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """How far apart clocks may be, and how long an instance may be silent before it counts as dead.

    Among times of one ZooKeeper only `flush_ms` matters, the time until what was sent can be read, and never more than
    the margin.
    """

    margin_ms: int = DEFAULT_MARGIN_MS
    dead_after_ms: int = DEFAULT_DEAD_AFTER_MS
    flush_ms: int = DEFAULT_FLUSH_MS

    @property
    def visible_ms(self) -> int:
        """How long it may take, by one clock, until what was sent can be read."""
        return min(self.flush_ms, self.margin_ms)


DEFAULT_RULES = Rules()
