"""The comparison of tiers, alone."""

from __future__ import annotations

import io
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka2011.audit.compare import Counted, Ledger, MixedWindowsError, TierCount, WindowAccount
from kafka2011.audit.window_counts import WindowCounts
from kafka2011.audit.windows import Windows
from tests.support.audit_streams import (
    TOPIC,
    WINDOW_MS,
    Copy,
    Seen,
    count_read,
    count_sent,
    new_id,
    shuffled,
    write_log,
)
from zk.cluster import TopicPartition

WINDOWS = Windows(WINDOW_MS, 0)
WHERE = TopicPartition(TOPIC, 0, 0)
FOREVER_MS = 10**9


def new_counts(tier: str, instance: str = "one") -> WindowCounts:
    return WindowCounts(tier, instance, "", WINDOWS)


def ledger_of(*every_counts: WindowCounts) -> Ledger:
    ledger = Ledger(io.BytesIO(), grace_ms=0)
    for counts in every_counts:
        for report in counts.take():
            assert ledger.add(report)
    return ledger


def producer_of(*messages: tuple[str, int], tier: str = "producer") -> WindowCounts:
    counts = new_counts(tier)
    count_sent(counts, Seen(), messages)
    return counts


def reader_of(*messages: tuple[str, int], tier: str = "live", first_offset: int = 0) -> WindowCounts:
    counts = new_counts(tier)
    copies = [Copy(each, at, WHERE, first_offset + number, 0) for number, (each, at) in enumerate(messages)]
    count_read(counts, Seen(), copies)
    return counts


@pytest.fixture
def ids() -> list[str]:
    chance = random.Random(11)
    return [new_id(chance) for _ in range(10)]


def test_a_loss_and_a_repeat_in_the_same_window_do_not_cancel_out(ids: list[str]) -> None:
    """Totals agree, and the gap is named nevertheless, with the repeat in a column of its own."""
    a, b, c = ((each, 5) for each in ids[:3])
    [account] = ledger_of(producer_of(a, b, c), reader_of(a, c, c)).accounts(FOREVER_MS)
    assert account == WindowAccount(TOPIC, 0, (TierCount("producer", 3, 3, 0, 0), TierCount("live", 3, 2, 1, 0, 1)))
    assert account.has_gap
    assert [count.repeated for count in account.tiers] == [0, 1]


def test_what_a_dead_counter_has_not_reported_is_no_gap(ids: list[str]) -> None:
    """Messages that the producer sent and never counted are told apart from those that were lost."""
    a, b, c = ((each, 5) for each in ids[:3])
    [account] = ledger_of(producer_of(a), reader_of(a, b, c)).accounts(FOREVER_MS)
    assert not account.has_gap
    assert not account.is_exact
    assert account.tiers[1] == TierCount("live", 3, 3, 0, 2)


def test_a_loss_is_found_beside_messages_that_were_never_counted(ids: list[str]) -> None:
    """As many lost as not counted: both tiers have as many distinct messages, and it is a gap."""
    a, b, c = ((each, 5) for each in ids[:3])
    [account] = ledger_of(producer_of(a, b), reader_of(a, c)).accounts(FOREVER_MS)
    assert account.tiers[1] == TierCount("live", 2, 2, 1, 1, 1)
    assert account.has_gap


def test_the_gap_is_where_the_message_went_missing(ids: list[str]) -> None:
    """Tiers after it are compared with the one before them, and have no gap of their own."""
    a, b = ((each, 5) for each in ids[:2])
    tiers = (producer_of(a, b), reader_of(a), reader_of(a, tier="mirror"))
    [account] = ledger_of(*tiers).accounts(FOREVER_MS)
    assert [count.missing for count in account.tiers] == [0, 1, 0]


def test_only_the_window_with_a_gap_has_one(ids: list[str]) -> None:
    """An event is in the window of its publication, whenever it was read."""
    a, b, c = (ids[0], 5_000), (ids[1], 15_000), (ids[2], 25_000)
    accounts = list(ledger_of(producer_of(a, b, c), reader_of(c, a)).accounts(FOREVER_MS))
    assert [(account.start_ms, account.has_gap) for account in accounts] == [(0, False), (10, True), (20, False)]


def test_a_tier_that_has_counted_nothing_of_a_window_has_a_gap_there(ids: list[str]) -> None:
    """A report that is not there counts nothing."""
    a, b = (ids[0], 5_000), (ids[1], 15_000)
    accounts = list(ledger_of(producer_of(a, b), reader_of(a)).accounts(FOREVER_MS))
    assert accounts[1].tiers[1] == TierCount("live", 0, 0, 1, 0, 1)


def test_what_is_read_again_counts_once(ids: list[str]) -> None:
    """After a takeover in the middle of a list, ranges overlap in part; a copy in the log is another message."""
    a, b, c = ((each, 5) for each in ids[:3])
    first, second = reader_of(a, b, a), reader_of(a, c, first_offset=2)
    [account] = ledger_of(producer_of(a, b, c), first, second).accounts(FOREVER_MS)
    assert account.tiers[1] == TierCount("live", 4, 3, 0, 0)


def test_partitions_of_two_clusters_are_different(ids: list[str]) -> None:
    """A mirror of two live clusters reads from two partitions that are called the same."""
    ledger = Ledger(io.BytesIO(), grace_ms=0)
    for cluster, message_id in (("east", ids[0]), ("west", ids[1])):
        counts = WindowCounts("mirror", "one", cluster, WINDOWS)
        count_read(counts, Seen(), [Copy(message_id, 5, WHERE, 0, 0)])
        for report in counts.take():
            ledger.add(report)
    [account] = ledger.accounts(FOREVER_MS)
    assert account.tiers == (TierCount("mirror", 2, 2, 0, 0),)


def test_windows_that_are_open_are_not_judged(ids: list[str]) -> None:
    """Until the grace is over counts may still be on their way."""
    ledger = Ledger(io.BytesIO(), grace_ms=100)
    for report in producer_of((ids[0], 5)).take():
        ledger.add(report)
    assert (list(ledger.accounts(109)), ledger.open_windows(109)) == ([], 1)
    assert (len(list(ledger.accounts(110))), ledger.open_windows(110)) == (1, 0)


def test_reports_may_come_after_a_look(ids: list[str]) -> None:
    """A window that was opened is opened again with what came since."""
    ledger = ledger_of(producer_of((ids[0], 5), (ids[1], 5)), reader_of((ids[0], 5), tier="live"))
    assert next(ledger.accounts(FOREVER_MS)).has_gap
    for report in reader_of((ids[1], 5), first_offset=1).take():
        ledger.add(report)
    assert next(ledger.accounts(FOREVER_MS)).is_exact
    for report in producer_of((ids[2], 15_000)).take():
        ledger.add(report)
    assert [account.has_gap for account in ledger.accounts(FOREVER_MS)] == [False, True]


def test_tiers_without_partitions_come_first(ids: list[str]) -> None:
    """Readers report at once, and producers when a window is over: the order of reports is not that of tiers."""
    a = (ids[0], 5)
    ledger = ledger_of(reader_of(a, tier="live"), reader_of(a, tier="mirror"), producer_of(a))
    assert ledger.tiers == ["producer", "live", "mirror"]


def test_a_tier_that_has_reported_too_little_hides_nothing(ids: list[str]) -> None:
    """Messages that the last tier has lost are missing since the first, whatever the one between has not reported."""
    a, b, c = ((each, 5) for each in ids[:3])
    tiers = (producer_of(a, b, c), reader_of(a), reader_of(a, b, tier="mirror"))
    [account] = ledger_of(*tiers).accounts(FOREVER_MS)
    assert [(count.missing, count.missing_since_first) for count in account.tiers] == [(0, 0), (2, 2), (0, 1)]
    assert account.tiers[2].has_gap


def test_tiers_that_are_named_must_count_every_topic(ids: list[str]) -> None:
    """Without names, a topic is compared in those tiers that count it."""
    ledger = ledger_of(producer_of((ids[0], 5)))
    assert not next(ledger.accounts(FOREVER_MS)).has_gap
    account = next(ledger.accounts(FOREVER_MS, ["producer", "load"]))
    assert account.tiers[1] == TierCount("load", 0, 0, 1, 0, 1)


def test_windows_of_different_lengths_are_refused(ids: list[str]) -> None:
    """They would be compared with windows that are not theirs."""
    ledger = ledger_of(producer_of((ids[0], 5)))
    other = WindowCounts("live", "one", "", Windows(5))
    count_sent(other, Seen(), [(ids[0], 5)])
    [report] = other.take()
    with pytest.raises(MixedWindowsError, match="tier live counts topic views in windows of 5 ms"):
        ledger.add(report)


@given(seed=st.integers(0, 2**32), messages=st.integers(0, 60))
def test_any_stream_is_accounted_for_as_by_hand(seed: int, messages: int) -> None:
    """Losses, repeats, counters that die, lists read again in part, reports in any order and twice."""
    chance = random.Random(seed)
    published = [(new_id(chance), chance.randrange(4 * WINDOW_MS * 1000)) for _ in range(messages)]
    reports = []
    seen = {tier: Seen() for tier in ("producer", "live", "mirror")}

    rest = list(published)
    while rest:  # several producers, each of which may die with what it has not reported
        sent = [rest.pop() for _ in range(min(len(rest), chance.randrange(1, 20)))]
        counts = new_counts("producer", str(len(rest)))
        is_dead = chance.random() < 0.2
        count_sent(counts, Seen() if is_dead else seen["producer"], sent)
        reports += [] if is_dead else counts.take()

    stored = [each for each in published for _ in range(chance.choice((1, 1, 1, 2)))]  # sent again, in doubt
    chance.shuffle(stored)
    for tier in ("live", "mirror"):
        for log in write_log(chance, stored):
            lost = {place for place in range(len(log)) if chance.random() < 0.05}
            place = 0
            while place < len(log):
                counts = new_counts(tier, str(place))
                read = [log[i] for i in range(place, min(len(log), place + chance.randrange(1, 12))) if i not in lost]
                some = chance.randrange(len(read) + 1)
                count_read(counts, seen[tier], read[:some])
                count_read(counts, seen[tier], read[some:])
                reports += counts.take()
                place = max(place + 1, place + 12 - chance.choice((0, 0, 3, 7)))  # a takeover goes back a bit

    ledger = Ledger(io.BytesIO(), grace_ms=0)
    for report in shuffled(chance, reports):
        ledger.add(report)
    accounts = {account.start_ms: account.tiers for account in ledger.accounts(FOREVER_MS, list(seen))}
    windows = {window for each in seen.values() for window in each.ids}
    assert accounts.keys() == windows
    for window in windows:
        before: set[str] | None = None
        expected = []
        for tier, counted in seen.items():
            here = counted.ids.get(window, set())
            missing, extra = (0, 0) if before is None else (len(before - here), len(here - before))
            since_first = len(seen["producer"].ids.get(window, set()) - here)
            expected.append(TierCount(tier, counted.total[window], len(here), missing, extra, since_first))
            before = here
        assert accounts[window] == tuple(expected)


def test_a_report_that_is_not_believed_counts_nothing(ids: list[str]) -> None:
    """It is as if it were not there; whoever decides knows its tier, its place and its commit."""
    ledger = ledger_of(reader_of((ids[0], 5), (ids[1], 5), (ids[2], 5)), producer_of((ids[0], 5)))
    asked: list[Counted] = []

    def is_believed(counted: Counted) -> bool:
        asked.append(counted)
        return counted.where is None

    ledger.believe(is_believed)
    [account] = ledger.accounts(1e15)
    assert [count.total for count in account.tiers] == [1, 0]
    assert {(each.topic, each.where, each.commit, each.last_offset) for each in asked} == {
        ("views", None, None, -1),
        ("views", WHERE, None, 2),
    }
