"""Through when a tier has everything: what a loader writes down, so that jobs need not guess how late events may be."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kafka2011.pipeline.audit.compare import Ledger


class Complete(NamedTuple):
    """A tier has every event of a topic that was published before `through_ms`, as far as the audit can tell.

    `missing` is how many it misses in the window that begins then; 0 when that one is only not closed yet.
    """

    through_ms: int
    missing: int


def complete(ledger: Ledger, topic: str, tier: str, seen_ms: float) -> Complete | None:
    """Say through when a tier has everything of a topic; None where no producer counts it.

    `seen_ms` is when the ends of all partitions were seen that the tier has reached now. Compared are the tiers that
    read from no partition, such as producers and collectors, with this one.
    """
    through_ms = ledger.closed_before_ms(seen_ms)
    if through_ms is None or not ledger.is_counted(topic):
        return None
    for start_ms, missing in ledger.missing(topic, tier, seen_ms):
        if missing:
            return Complete(start_ms, missing)
    return Complete(through_ms, 0)
