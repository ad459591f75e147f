"""How fast groups are, and how far behind, from what was seen of them."""

from __future__ import annotations

import pytest

from kafka2011.admin.snapshot.cluster_snapshot import GroupPartition, Pace
from kafka2011.admin.snapshot.lag_history import SPAN_S, LagHistory
from zk.cluster import TopicPartition

WHERE = TopicPartition("views", 0, 0)


def look(history: LagHistory, now_s: float, committed: int | None, end: int | None, group: str = "g") -> Pace:
    return history.note(group, GroupPartition(WHERE, None, committed, end), now_s)


def test_rates_are_known_from_the_second_look_on() -> None:
    """Of the log and of the group; a group that has read all is not behind at any time."""
    history = LagHistory()
    assert look(history, 10, 0, 100) == Pace()
    assert look(history, 12, 50, 200) == Pace(50.0, 25.0, 3.0)
    assert look(LagHistory(), 0, 7, 7) == Pace(lag_s=0.0)


def test_the_lag_is_since_when_the_log_ended_where_the_group_is() -> None:
    """Though it has grown faster since then."""
    history = LagHistory()
    for now_s, end in ((0, 0), (10, 100), (20, 1100)):
        pace = look(history, now_s, 0, end)
    assert pace.lag_s == 20
    assert look(history, 30, 50, 2000).lag_s == pytest.approx(25)
    assert look(history, 40, 600, 2000).lag_s == pytest.approx(25)
    assert look(history, 50, 2000, 2000).lag_s == 0


def test_a_group_that_is_behind_from_the_beginning_is_estimated_by_the_rate() -> None:
    """Without one, as when the topic gets nothing now, nobody can tell."""
    history = LagHistory()
    look(history, 0, 0, 1000)
    assert look(history, 10, 0, 1000).lag_s is None
    assert look(history, 20, 0, 1200).lag_s == pytest.approx(20 + 100)


def test_it_looks_a_minute_back() -> None:
    """A log that was idle for that long has no rate."""
    history = LagHistory()
    look(history, 0, 0, 0)
    look(history, 10, 100, 100)
    assert look(history, 10 + SPAN_S, 100, 100) == Pace(0.0, 0.0, 0.0)


def test_offsets_that_go_back_begin_anew() -> None:
    """They were moved, or the log is another; so does a partition whose broker was away."""
    history = LagHistory()
    look(history, 0, 100, 200)
    assert look(history, 10, 50, 200) == Pace()
    assert look(history, 20, 50, 100) == Pace()
    assert look(history, 30, 50, None) == Pace()
    assert look(history, 40, None, 100) == Pace()
    assert look(history, 50, 60, 200) == Pace()
    assert look(history, 60, 60, 300).appended_bytes_per_s == 10


def test_groups_are_apart() -> None:
    """In the same partition."""
    history = LagHistory()
    look(history, 0, 0, 100, "a")
    look(history, 0, 100, 100, "b")
    assert look(history, 10, 100, 200, "a").committed_bytes_per_s == 10
    assert look(history, 10, 100, 200, "b").committed_bytes_per_s == 0
