"""Through when a tier has everything, alone."""

from __future__ import annotations

import io

import pytest

from kafka2011.audit.compare import Ledger
from kafka2011.audit.complete import Complete, watermark
from kafka2011.audit.progress import Instance, Progress
from kafka2011.audit.received import ReceivedReports
from kafka2011.audit.scan import AuditScan, Rules, Unknown
from kafka2011.audit.window_counts import WindowCounts
from kafka2011.audit.windows import Windows
from tests.support.audit_streams import TOPIC, WINDOW_MS, Copy, Seen, count_read, count_sent
from zk.cluster import TopicPartition

WINDOWS = Windows(WINDOW_MS, 0)
MARGIN_MS = 100
RULES = Rules(margin_ms=MARGIN_MS, dead_after_ms=1000)
WHERE = TopicPartition(TOPIC, 0, 0)
IDS = [f"00000000-0000-4000-8000-00000000000{number}" for number in range(4)]
FIRST, SECOND, THIRD = ((IDS[number], number * WINDOW_MS * 1000) for number in range(3))


class Known:
    """What tiers have counted and said; those called `load` and `live` read it from a partition."""

    def __init__(self, *, closed: bool = True, **tiers: list[tuple[str, int]]) -> None:
        self.ledger = Ledger(io.BytesIO(), 0)
        self.received = ReceivedReports()
        for tier, messages in tiers.items():
            counts = WindowCounts(tier, tier, "", WINDOWS)
            progress = Progress(Instance(tier, tier), TOPIC)
            is_reader = tier in {"load", "live"}
            if is_reader:
                count_read(counts, Seen(), [Copy(each, at, WHERE, at, 0) for each, at in messages])
            else:
                count_sent(counts, Seen(), messages)
                self.received.add(progress.through(0, None))
            for report in progress.number(counts.take()):
                self.received.add(report)
                self.ledger.add(report)
            if not is_reader:
                self.received.add(progress.through(50_000, None, is_last=closed))

    def complete(self, at_ms: int, before_ms: int | None = None, *faults: str) -> Complete | None:
        scan = AuditScan(at_ms=at_ms, faults=faults)
        options = {"read_ms": at_ms, "from_ms": before_ms, "before_ms": before_ms}
        return watermark(self.ledger, self.received, TOPIC, "load", scan, **options, rules=RULES)


def through(found: Complete | None) -> tuple[int | None, int]:
    assert found is not None
    return found.through_ms, found.missing


def test_what_is_over_and_loaded_is_complete() -> None:
    """Windows that are younger than the margin are not; one in which nothing happened is."""
    known = Known(producer=[FIRST, SECOND], load=[FIRST, SECOND])
    assert through(known.complete(MARGIN_MS + 9)) == (0, 0)
    assert through(known.complete(MARGIN_MS + 10)) == (10, 0)
    assert through(known.complete(MARGIN_MS + 45)) == (40, 0)


def test_a_gap_ends_it() -> None:
    """However much was loaded after it, and whoever else has those messages; young windows may have gaps."""
    known = Known(producer=[FIRST, SECOND, THIRD], load=[FIRST, THIRD], live=[FIRST, SECOND, THIRD])
    assert through(known.complete(MARGIN_MS + 40)) == (10, 1)
    assert through(known.complete(MARGIN_MS + 10)) == (10, 0)


def test_every_producing_tier_counts_and_no_reading_one() -> None:
    """Frontends and collectors may publish into one topic. What another group misses says nothing of the load."""
    assert through(Known(producer=[FIRST], collect=[SECOND], load=[FIRST]).complete(1000)) == (10, 1)
    assert through(Known(producer=[FIRST], live=[SECOND], load=[FIRST]).complete(1000)) == (900, 0)


@pytest.mark.parametrize("known", [Known(), Known(load=[FIRST], live=[FIRST])])
def test_nothing_is_said_of_what_no_producer_counts(known: Known) -> None:
    """Without their counts nobody knows what should be there."""
    assert known.complete(1000) is None


def test_silence_proves_nothing() -> None:
    """A producer that has not closed, and says nothing, is through no more than it has said."""
    found = Known(closed=False, producer=[FIRST], load=[FIRST]).complete(1_000_000)
    assert found == Complete(50, 0, (Unknown(50, "producer died", "producer"),))


def test_what_cannot_be_read_takes_nothing_back() -> None:
    """What was complete at the last look still is; without one nothing is."""
    known = Known(producer=[FIRST], load=[FIRST])
    assert through(known.complete(1000, 30, "broker 2 is away")) == (30, 0)
    assert through(known.complete(1000, None, "broker 2 is away")) == (None, 0)


def test_what_is_missing_is_taken_back_though_more_is_unknown() -> None:
    """Where all could be read, a message that is missing ends it: what is unknown beside that does not matter."""
    known = Known(producer=[FIRST, SECOND], load=[FIRST])
    unnumbered = WindowCounts("producer", "old", "", WINDOWS)
    count_sent(unnumbered, Seen(), [FIRST])
    for report in unnumbered.take():
        known.received.add(report)
    assert through(known.complete(1000, 30)) == (10, 1)
    assert through(known.complete(1000, 30, "broker 2 is away")) == (30, 0)


def test_what_was_complete_is_taken_back() -> None:
    """When an instance is heard of only now that stamps earlier times, though something cannot be read."""
    known = Known(closed=False, producer=[FIRST], load=[FIRST])
    assert through(known.complete(1000, 80)) == (50, 0)
    assert through(known.complete(1000, 80, "broker 2 is away")) == (50, 0)


def test_what_was_removed_before_it_was_read_is_not_missing() -> None:
    """Reports of a window go one by one: of its loader they may have gone first."""
    known = Known(producer=[FIRST, SECOND, THIRD], load=[SECOND])
    scan = AuditScan(at_ms=1000, since_ms=10)
    found = watermark(known.ledger, known.received, TOPIC, "load", scan, read_ms=1000, rules=RULES)
    assert through(found) == (20, 1)
