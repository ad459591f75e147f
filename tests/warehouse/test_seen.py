"""By when ends were seen, as loads hand it on to one another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.spark.offsets import OffsetRange
from kafka2011.spark.plan import ResolvedOffsets
from kafka2011.warehouse.commits import Commit, Kind
from kafka2011.warehouse.seen import HOUR_MS, SEEN, Seen, is_hour_later
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

ONE, TWO, THREE = (TopicPartition("views", number, 0) for number in range(3))
OFFSETS = {ONE: 10, TWO: 20}


class Asked:
    """An account that says what it is told to."""

    def __init__(self, answer: int | None) -> None:
        self.answer = answer
        self.asked: tuple[Mapping[TopicPartition, int], int, int | None] | None = None

    def through_ms(self, offsets: Mapping[TopicPartition, int], seen_ms: int, from_ms: int | None) -> int | None:
        self.asked = (offsets, seen_ms, from_ms)
        return self.answer


def commit(seen: Mapping[str, int], through_ms: int | None = None) -> Commit:
    return Commit("views", 1, Kind.LOAD, 1, OFFSETS, complete_through_ms=through_ms, extra={SEEN: seen})


def resolved(*away: TopicPartition) -> ResolvedOffsets:
    return ResolvedOffsets((OffsetRange(ONE, 10, 15), OffsetRange(TWO, 20, 20)), away=away)


def test_all_ends_are_seen_now() -> None:
    seen = Seen.after(None, resolved(), 1000)
    assert seen.to_json() == {"0-0": 1000, "1-0": 1000}
    account = Asked(500)
    assert seen.through_ms(account, OFFSETS) == 500
    assert account.asked == (OFFSETS, 1000, None)


def test_the_end_of_a_broker_that_is_away_was_seen_earlier() -> None:
    """So nothing later is complete; and nothing at all is while an end was never seen."""
    account = Asked(None)
    seen = Seen.after(commit({"0-0": 700, "1-0": 700}), resolved(TWO), 1000)
    assert seen.to_json() == {"0-0": 1000, "1-0": 700}
    seen.through_ms(account, OFFSETS)
    assert account.asked == (OFFSETS, 700, None)
    seen = Seen.after(commit({"0-0": 700, "1-0": 700}), resolved(TWO, THREE), 1000)
    seen.through_ms(account, OFFSETS)
    assert account.asked == (OFFSETS, 0, None)


def test_what_was_complete_stays_complete() -> None:
    """When the audit cannot be asked, or knows less, what an earlier commit has said holds."""
    seen = Seen.after(commit({}, through_ms=800), resolved(), 1000)
    assert [seen.through_ms(Asked(answer), OFFSETS) for answer in (None, 700, 900)] == [800, 800, 900]
    assert seen.through_ms(None, OFFSETS) == 800


def test_only_whole_hours_are_worth_a_commit() -> None:
    assert is_hour_later(HOUR_MS, None)
    assert is_hour_later(3 * HOUR_MS, 2 * HOUR_MS + 5)
    assert not is_hour_later(2 * HOUR_MS + 9, 2 * HOUR_MS + 5)
    assert not is_hour_later(None, None)
