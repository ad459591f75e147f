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
    topics: tuple[str, ...] = (AUDIT_TOPIC, VIEWS)
