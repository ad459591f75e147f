"""How long flushes take, and how long what was appended waits until it can be read."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafka2011.metrics.histogram import Histogram


@dataclass(frozen=True, slots=True)
class LogTimes:
    """Of all logs of a broker, an observation for each flush of a log.

    `readable` is the wait of the first message of those that a flush makes readable.
    """

    flush: Histogram = field(default_factory=Histogram)
    readable: Histogram = field(default_factory=Histogram)


class FlushTimer:
    """One log's: what is appended waits since `waiting_since_s`, until a flush begins that covers it, and has ended."""

    __slots__ = ("_began_s", "_covered_since_s", "_times", "waiting_since_s")

    def __init__(self, times: LogTimes) -> None:
        self._times = times
        self._began_s = 0.0
        self._covered_since_s: float | None = None
        self.waiting_since_s: float | None = None
        """When the first was appended that no flush covers yet; None if there is none."""

    def begin(self, now_s: float) -> None:
        """Begin a flush of all that was appended."""
        self._began_s = now_s
        if self._covered_since_s is None:  # else the last one has come to nothing
            self._covered_since_s = self.waiting_since_s
        self.waiting_since_s = None

    def end(self, now_s: float) -> None:
        """Count the flush: what it covers can be read."""
        self._times.flush.observe(now_s - self._began_s)
        if self._covered_since_s is not None:
            self._times.readable.observe(now_s - self._covered_since_s)
            self._covered_since_s = None
