"""The publishers in the demo of all tiers: the collector with a log's lines, or a generator of made-up events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

EVENT_TOPICS = ("page_views", "searches", "impressions", "clicks", "server_stats")
RATE = 200.0
"""Made-up events a second."""


@dataclass(frozen=True, slots=True)
class Frontends:
    """Publish the lines of a file as page views, without one made-up events of several topics for so many seconds.

    `rate` is that of made-up events, in events a second.
    """

    file: Path | None
    seconds: float
    rate: float = RATE

    @property
    def tier(self) -> str:
        """What they are called in the audit."""
        return "producer" if self.file is None else "collector"

    @property
    def topics(self) -> tuple[str, ...]:
        """Where their events go."""
        return EVENT_TOPICS if self.file is None else EVENT_TOPICS[:1]

    def arguments(self, zk_connect: str, state: Path) -> list[str]:
        """Return the arguments of `kafka2011`, for a cluster; `state` is the collector's."""
        if self.file is None:
            words = ["generate", "--rate", f"{self.rate:g}", "--seconds", f"{self.seconds:g}", "--start", "now"]
        else:
            words = ["collect", str(self.file), "--topic", self.topics[0], "--as", "access-log", "--state", str(state)]
        return [*words, "--audit", self.tier, "--zookeeper", zk_connect]
