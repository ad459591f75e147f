"""By when ends were seen, as loads hand it on to one another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.spark.offset_ranges import OffsetRange
from kafka2011.spark.plan import ResolvedOffsets
from kafka2011.warehouse.loading.watermark import HOUR_MS, Watermark, is_news
from kafka2011.warehouse.table.commits import WATERMARK, Commit, Operation
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

ONE, TWO, THREE = (TopicPartition("views", number, 0) for number in range(3))
OFFSETS = {ONE: 10, TWO: 20}


class Asked:
    """An account that says what it is told to."""

    def __init__(self, answer: int | None) -> None:
        self.answer = answer
        self.asked: tuple[int, int | None] | None = None

    def through_ms(self, seen_ms: int, before_ms: int | None) -> int | None:
        self.asked = (seen_ms, before_ms)
        return self.answer


def commit(seen: Mapping[str, int], through_ms: int | None = None) -> Commit:
    return Commit("views", 1, Operation.LOAD, 1, OFFSETS, complete_through_ms=through_ms, extra={WATERMARK: seen})


def resolved(*away: TopicPartition) -> ResolvedOffsets:
    return ResolvedOffsets((OffsetRange(ONE, 10, 15), OffsetRange(TWO, 20, 20)), away=away)


def test_all_ends_are_seen_now() -> None:
    watermark = Watermark.after(None, resolved(), 1000)
    assert watermark.to_json() == {"0-0": 1000, "1-0": 1000}
    account = Asked(500)
    assert watermark.through_ms(account) == 500
    assert account.asked == (1000, None)


def test_the_end_of_a_broker_that_is_away_was_seen_earlier() -> None:
    """So nothing later is complete; and nothing at all is while an end was never seen."""
    account = Asked(None)
    watermark = Watermark.after(commit({"0-0": 700, "1-0": 700}), resolved(TWO), 1000)
    assert watermark.to_json() == {"0-0": 1000, "1-0": 700}
    watermark.through_ms(account)
    assert account.asked == (700, None)
    watermark = Watermark.after(commit({"0-0": 700, "1-0": 700}), resolved(TWO, THREE), 1000)
    watermark.through_ms(account)
    assert account.asked == (0, None)


def test_what_was_complete_stays_complete_until_it_is_taken_back() -> None:
    """When the audit cannot be asked, what an earlier commit has said holds; what it knows better does not."""
    watermark = Watermark.after(commit({}), resolved(), 1000, 800)
    assert [watermark.through_ms(Asked(answer)) for answer in (None, 700, 900)] == [800, 700, 900]
    assert watermark.through_ms(None) == 800


def test_only_whole_hours_and_what_is_taken_back_are_worth_a_commit() -> None:
    assert is_news(HOUR_MS, None)
    assert is_news(3 * HOUR_MS, 2 * HOUR_MS + 5)
    assert not is_news(2 * HOUR_MS + 9, 2 * HOUR_MS + 5)
    assert not is_news(None, None)
    assert is_news(2 * HOUR_MS + 4, 2 * HOUR_MS + 5)
    assert is_news(0, 5)
