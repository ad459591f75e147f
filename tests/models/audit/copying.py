"""A mirror from one cluster into another one, as one process after the other runs it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafka2011.audit.report import AUDIT_TOPIC
from tests.models.audit.clusters import VIEWS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.models.audit.clusters import Cluster


@dataclass(eq=False)
class Copying:
    """What is copied from a cluster: how far, by which clock, and which partitions are not for a while."""

    source: Cluster
    name: str
    skew_ms: int
    steps: Iterator[None]
    copied: dict[tuple[str, int], int] = field(default_factory=dict)  # what the mirror has committed
    stuck: set[tuple[str, int]] = field(default_factory=set)
    speed: float = 0.9
    seen: dict[int, int] = field(default_factory=dict)  # by broker, the highest end of its topic audit that was told
    cut: dict[int, int] = field(default_factory=dict)  # the same, when the topic audit was put back
    topics: tuple[str, ...] = (AUDIT_TOPIC, VIEWS)

    def told(self, ends: dict[int, int]) -> bool:
        """Note which ends of the topic audit were told; say whether a log that was put back has grown again before."""
        noticed = any(end < self.cut.get(broker, 0) for broker, end in ends.items())
        has_grown = bool(self.cut) and bool(ends) and not noticed
        if noticed:
            self.cut = {}
        self.seen = {broker: max(end, self.seen.get(broker, 0)) for broker, end in (self.seen | ends).items()}
        return has_grown
