"""The verdict: a gap, or that nobody can tell."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from kafka2011.audit.compare import Ledger, TierCount, WindowAccount
from kafka2011.audit.progress import Instance, Progress
from kafka2011.audit.received import ReceivedReports
from kafka2011.audit.scan import AuditScan, Rules
from kafka2011.audit.state import AuditState, ReadPlace
from kafka2011.audit.verdict import Verdict, judge
from kafka2011.audit.window_counts import WindowCounts
from kafka2011.audit.windows import Windows
from tests.support.audit_streams import TOPIC, WINDOW_MS, Copy, Seen, count_read, count_sent
from zk.cluster import TopicPartition

WINDOWS = Windows(WINDOW_MS, 0)
RULES = Rules(margin_ms=0, dead_after_ms=100)
WHERE = TopicPartition(TOPIC, 0, 0)
IDS = [f"00000000-0000-4000-8000-00000000000{number}" for number in range(4)]
FIRST, SECOND, THIRD = ((IDS[number], number * WINDOW_MS * 1000) for number in range(3))
ALL = [FIRST, SECOND, THIRD]


class Tiers:
    """A producer that has closed, and readers that have read to the ends at some time."""

    def __init__(self) -> None:
        self.ledger = Ledger(io.BytesIO(), 0)
        self.received = ReceivedReports()

    def count(self, tier: str, messages: list[tuple[str, int]], *, read_ms: int | None = None, loses: int = 0) -> None:
        counts, progress = WindowCounts(tier, tier, "", WINDOWS), Progress(Instance(tier, tier), TOPIC)
        if read_ms is None:
            count_sent(counts, Seen(), messages)
        else:
            count_read(counts, Seen(), [Copy(each, at, WHERE, at, 0) for each, at in messages])
            progress.read(WHERE, 0, 100)
        reports = progress.number(counts.take())
        said = progress.covered(50, read_ms, {WHERE: (0, 100)}) if read_ms else progress.through(50, None, is_last=True)
        self.received.add(said)
        for report in reports[loses:]:
            self.received.add(report)
            self.ledger.add(report)

    def judge(
        self, *tiers: str, until_ms: int = 30, state: AuditState | None = None, since_ms: int | None = None
    ) -> Verdict:
        known = self.ledger, self.received, AuditScan(at_ms=50, since_ms=since_ms)
        return judge(*known, (), tiers or None, from_ms=None, until_ms=until_ms, rules=RULES, state=state)


@pytest.fixture
def tiers() -> Tiers:
    found = Tiers()
    found.count("producer", ALL)
    return found


def test_all_is_well(tiers: Tiers) -> None:
    tiers.count("live", ALL, read_ms=40)
    found = tiers.judge()
    assert (len(found.accounts), found.gaps, found.unknowns, found.lost_reports) == (3, [], [], 0)
    assert found.settled_ms == 30


def test_what_is_missing_where_all_was_read_is_a_gap(tiers: Tiers) -> None:
    tiers.count("live", [FIRST, THIRD], read_ms=40)
    found = tiers.judge()
    assert ([account.start_ms for account in found.gaps], found.unknowns) == ([10], [])


def test_what_a_tier_has_not_read_yet_is_unknown(tiers: Tiers) -> None:
    """Though messages are missing there; what it has read is judged."""
    tiers.count("live", [SECOND], read_ms=15)
    found = tiers.judge()
    assert [account.start_ms for account in found.gaps] == [0]
    assert [unknown.since_ms for _, unknown in found.unknowns] == [15]
    assert found.settled_ms == 15
    assert tiers.judge(until_ms=10).unknowns == []


def test_a_lost_report_is_no_lost_message(tiers: Tiers) -> None:
    """Nobody can tell what it counted; and what was lost after that tier is missing since the first one."""
    tiers.count("mirror", ALL, read_ms=40, loses=1)
    tiers.count("load", [SECOND, THIRD], read_ms=40)
    found = tiers.judge("producer", "mirror", "load")
    assert found.gaps == []
    assert found.lost_reports == 1
    assert [unknown.since_ms for _, unknown in found.unknowns] == [None]
    assert found.settled_ms is None
    assert [count.missing_since_first for count in found.accounts[0].tiers] == [0, 1, 1]
    assert [count.missing for count in found.accounts[0].tiers] == [0, 1, 0]


def test_windows_of_which_reports_were_removed_are_not_compared(tiers: Tiers) -> None:
    """Retention takes the reports of a window one by one: what nobody counts any more was not lost."""
    tiers.count("live", [SECOND, THIRD], read_ms=40)
    assert [account.start_ms for account in tiers.judge().gaps] == [0]
    found = tiers.judge(since_ms=10)
    assert ([account.start_ms for account in found.accounts], found.gaps, found.settled_ms) == ([10, 20], [], 30)


def test_what_was_judged_before_counts_as_it_was_judged(tiers: Tiers) -> None:
    """In its place, with its gaps, though nothing of it is read any more."""
    counts = TierCount("producer", 5, 5, 0, 0), TierCount("live", 4, 4, 1, 0, 1)
    early, lossy = (WindowAccount(TOPIC, start_ms, counts) for start_ms in (-30, -20))
    place = ReadPlace(None, {}, {})
    state = AuditState(
        home="", tiers=("producer", "live"), topics=(), from_ms=None, window_ms=10, until_ms=0, place=place
    )
    state = replace(state, windows={lossy: True, early: False})
    tiers.count("live", [FIRST, THIRD], read_ms=40)
    found = tiers.judge("producer", "live", state=state)
    assert [account.start_ms for account in found.accounts] == [-30, -20, 0, 10, 20]
    assert [account.start_ms for account in found.gaps] == [-20, 10]
    nothing_new = tiers.judge("producer", "live", until_ms=0, state=state)
    assert (nothing_new.gaps, nothing_new.unknowns) == ([lossy], [])


def test_nothing_that_was_compared_is_no_proof(tiers: Tiers) -> None:
    """Neither is a tier that nobody has heard of, nor a topic that nobody counts."""
    assert [unknown.why for _, unknown in tiers.judge("producer", until_ms=0).unknowns] == ["no window was compared"]
    whys = [unknown.why for _, unknown in tiers.judge("producer", "lvie").unknowns]
    assert whys == ["tier lvie has said nothing of topic views"]
    readers = Tiers()
    readers.count("live", ALL, read_ms=40)
    assert [unknown.why for _, unknown in readers.judge().unknowns] == ["no producer has said anything of it"]
