"""Lost messages and late ones: what proves that a tier has read past what it lacks."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest

from kafka2011.audit.compare import Ledger
from kafka2011.audit.progress import Instance, Progress
from kafka2011.audit.received import ReceivedReports
from kafka2011.audit.report import AUDIT_TOPIC, AuditReport
from kafka2011.audit.scan import AuditScan, Rules
from kafka2011.audit.verdict import Verdict, judge
from zk.cluster import TopicPartition

TOPIC = "views"
FLUSH_MS = 100
RULES = Rules(margin_ms=500, dead_after_ms=10_000, flush_ms=FLUSH_MS)
SCAN = AuditScan(at_ms=9000, clock_ms=9000, home="offline")
WHERE = TopicPartition(TOPIC, 0, 0)
LATE = "tier {} lacks messages that it may not have come to yet"


class Tiers:
    """A producer that counted one message of the window at 0, and tiers that have read on without it."""

    def __init__(self) -> None:
        self.ledger = Ledger(io.BytesIO(), 0)
        self.received = ReceivedReports()

    def publish(self, home: str, clock_ms: int | None) -> None:
        progress = Progress(Instance("producer", f"p-{home}", home), TOPIC)
        one = AuditReport(
            tier="producer", instance=f"p-{home}", topic=TOPIC, window_ms=10, start_ms=0, ids=np.array([7], np.uint64)
        )
        for report in progress.number([replace(one, clock_ms=clock_ms)]):
            self.received.add(report)
            self.ledger.add(report)
        self.received.add(replace(progress.through(9_000_000, None, is_last=True), clock_ms=clock_ms))

    def read(self, tier: str, home: str, ends_ms: int, clock_ms: int | None, cluster: str = "", end: int = 5) -> None:
        """Let a tier report that it has read all there was at a time."""
        progress = Progress(Instance(tier, f"{tier}-{ends_ms}", home, cluster), TOPIC)
        progress.read(WHERE, 0, end)
        self.received.add(replace(progress.covered(ends_ms, ends_ms, {WHERE: (0, end)}), clock_ms=clock_ms))

    def mirror(self, source: str, home: str, ends_ms: int, clock_ms: int, end: int = 5) -> None:
        """Let a mirror report the same, and that it copies reports."""
        self.read("mirror", home, ends_ms, clock_ms, source, end)
        who = Instance("mirror", f"copies-{source}", home, source, copies=source)
        said = Progress(who, AUDIT_TOPIC).covered(8000, 8900, {TopicPartition(AUDIT_TOPIC, 0, 0): (0, 0)})
        self.received.add(replace(said, clock_ms=8000))

    def judge(self, *tiers: str, scan: AuditScan = SCAN) -> Verdict:
        return judge(
            self.ledger, self.received, scan, (TOPIC,), ("producer", *tiers), from_ms=None, until_ms=10, rules=RULES
        )

    def late(self, *tiers: str, scan: AuditScan = SCAN) -> list[str]:
        """Return who may be late, if there is no gap."""
        found = self.judge(*tiers, scan=scan)
        return [] if found.gaps else [unknown.why for _, unknown in found.unknowns if "lacks" in unknown.why]


@pytest.mark.parametrize(
    ("counted_ms", "ends_ms", "is_gap"),
    [(500, 599, False), (500, 600, True), (None, 700, True)],
    ids=["it looked before", "it looked once it was flushed", "from a release that says no time"],
)
def test_a_gap_needs_a_look_after_the_messages_were_in_the_log(
    counted_ms: int | None, ends_ms: int, is_gap: bool
) -> None:
    """A send that took long, or the clock of its producer, may have given it an old time."""
    tiers = Tiers()
    tiers.publish("offline", counted_ms)
    tiers.read("load", "offline", ends_ms, 700)
    found = tiers.judge("load")
    assert bool(found.gaps) == is_gap
    assert tiers.late("load") == ([] if is_gap else [LATE.format("load")])
    assert found.settled_ms == (10 if is_gap else 0)


def test_what_comes_by_a_mirror_is_lost_only_after_the_mirror_had_it() -> None:
    """The mirror is no tier that is compared, and its clock is that of another ZooKeeper, a day ahead."""
    day_ms = 86_400_000
    tiers = Tiers()
    tiers.publish("live", day_ms)
    tiers.read("load", "offline", 800, 900)
    assert tiers.late("load") == [LATE.format("load")], "nobody says that it copies this topic"
    tiers.mirror("live", "offline", day_ms + FLUSH_MS - 1, 500)
    assert tiers.late("load") == [LATE.format("load")], "the mirror has looked too early"
    tiers.mirror("live", "offline", day_ms + FLUSH_MS, 701, 6)
    assert tiers.late("load") == [LATE.format("load")], "the loader has looked before the mirror said so"
    tiers.read("load", "offline", 801, 901)
    assert len(tiers.judge("load").gaps) == 1


def test_the_way_by_two_mirrors_takes_both() -> None:
    tiers = Tiers()
    tiers.publish("live", 500)
    tiers.mirror("live", "middle", 600, 700)
    tiers.mirror("middle", "offline", 799, 900)
    tiers.read("load", "offline", 5000, 5000)
    assert tiers.late("load") == [LATE.format("load")]
    tiers.mirror("middle", "offline", 800, 900)
    assert len(tiers.judge("load").gaps) == 1


def test_a_mirror_has_passed_on_what_it_has_reported_and_not_what_it_saw() -> None:
    """It looks where a partition ends before it has copied all of that."""
    tiers = Tiers()
    tiers.publish("live", 500)
    tiers.mirror("live", "offline", 600, 6000)
    progress = Progress(Instance("mirror", "m", "offline", "live"), TOPIC)
    tiers.received.add(replace(progress.covered(650, 650, {WHERE: (0, 5)}), clock_ms=650))
    tiers.read("load", "offline", 6000, 6000)
    assert tiers.late("load") == [LATE.format("load")]
    tiers.read("load", "offline", 6100, 6100)
    assert len(tiers.judge("load").gaps) == 1


def test_what_cannot_be_read_may_have_counted_it() -> None:
    """Then nobody can tell."""
    tiers = Tiers()
    tiers.publish("offline", 500)
    tiers.read("load", "offline", 600, 700)
    assert len(tiers.judge("load").gaps) == 1
    away = replace(SCAN, faults=("broker 1 is away",))
    assert (tiers.judge("load", scan=away).gaps, tiers.late("load", scan=away)) == ([], [LATE.format("load")])


def test_what_was_just_said_does_not_count_yet() -> None:
    """What it speaks of may be in partitions that the scan had read before. That goes by the time of one ZooKeeper."""
    tiers = Tiers()
    tiers.publish("offline", 500)
    tiers.read("load", "offline", 600, 9000 - FLUSH_MS + 1)
    found = tiers.judge("load")
    assert (found.gaps, [unknown.why for _, unknown in found.unknowns]) == (
        [],
        ["tier load has not said that it has read all of topic views"],
    )
    tiers.read("load", "offline", 601, 9000 - FLUSH_MS)
    assert len(tiers.judge("load").gaps) == 1
