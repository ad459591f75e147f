"""Through when a tier has everything, alone."""

from __future__ import annotations

import io

import pytest

from kafka2011.pipeline.audit.compare import Ledger
from kafka2011.pipeline.audit.complete import Complete, complete
from kafka2011.pipeline.audit.tally import Tally
from kafka2011.pipeline.audit.windows import Windows
from tests.support.audit_streams import TOPIC, WINDOW_MS, Copy, Seen, count_read, count_sent
from zk.cluster import TopicPartition

WINDOWS = Windows(WINDOW_MS, 0)
GRACE_MS = 100
WHERE = TopicPartition(TOPIC, 0, 0)
IDS = [f"00000000-0000-4000-8000-00000000000{number}" for number in range(4)]
FIRST, SECOND, THIRD = ((IDS[number], number * WINDOW_MS * 1000) for number in range(3))


def ledger_of(**tiers: list[tuple[str, int]]) -> Ledger:
    """Return a ledger of what tiers have counted; those called `load` and `live` read it from a partition."""
    ledger = Ledger(io.BytesIO(), GRACE_MS)
    for tier, messages in tiers.items():
        tally = Tally(tier, "one", "", WINDOWS)
        if tier in {"load", "live"}:
            count_read(tally, Seen(), [Copy(each, at, WHERE, at, 0) for each, at in messages])
        else:
            count_sent(tally, Seen(), messages)
        for report in tally.take():
            ledger.add(report)
    return ledger


def test_what_is_over_and_loaded_is_complete() -> None:
    """Windows that are still open, or whose grace is not over, are not; one in which nothing happened is."""
    ledger = ledger_of(producer=[FIRST, SECOND], load=[FIRST, SECOND])
    assert complete(ledger, TOPIC, "load", GRACE_MS + 9) == Complete(0, 0)
    assert complete(ledger, TOPIC, "load", GRACE_MS + 10) == Complete(10, 0)
    assert complete(ledger, TOPIC, "load", GRACE_MS + 45) == Complete(40, 0)


def test_a_gap_ends_it() -> None:
    """However much was loaded after it, and whoever else has those messages; open windows may have gaps."""
    ledger = ledger_of(producer=[FIRST, SECOND, THIRD], load=[FIRST, THIRD], live=[FIRST, SECOND, THIRD])
    assert complete(ledger, TOPIC, "load", GRACE_MS + 40) == Complete(10, 1)
    assert complete(ledger, TOPIC, "load", GRACE_MS + 10) == Complete(10, 0)


def test_every_producing_tier_counts_and_no_reading_one() -> None:
    """Frontends and collectors may publish into one topic. What another group misses says nothing of the load."""
    assert complete(ledger_of(producer=[FIRST], collect=[SECOND], load=[FIRST]), TOPIC, "load", 1000) == Complete(10, 1)
    assert complete(ledger_of(producer=[FIRST], live=[SECOND], load=[FIRST]), TOPIC, "load", 1000) == Complete(900, 0)


@pytest.mark.parametrize("tiers", [{}, {"load": [FIRST], "live": [FIRST]}])
def test_nothing_is_said_of_what_no_producer_counts(tiers: dict[str, list[tuple[str, int]]]) -> None:
    """Without their counts nobody knows what should be there."""
    assert complete(ledger_of(**tiers), TOPIC, "load", 1000) is None
