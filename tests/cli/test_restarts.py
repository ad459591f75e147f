"""When what ended by itself is started again."""

from __future__ import annotations

from kafka2011.cli.restarts import FIRST_PAUSE_S, MOST_RESTARTS, WITHIN_S, Restarts


def test_pauses_double_until_it_ended_too_often() -> None:
    """Others do not count, and neither does an end of long ago."""
    restarts, now_s, pauses = Restarts(), 100.0, []
    for _ in range(MOST_RESTARTS):
        pause_s = restarts.ended("a", now_s)
        assert pause_s is not None
        pauses.append(pause_s)
        now_s += pause_s
        restarts.started("a")
    assert pauses == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, 4 * FIRST_PAUSE_S]
    assert restarts.ended("a", now_s) is None
    assert restarts.ended("b", now_s) == FIRST_PAUSE_S
    assert restarts.ended("a", now_s + WITHIN_S) == FIRST_PAUSE_S


def test_it_is_due_when_its_pause_is_over() -> None:
    """Looks in between put nothing off, and do not count as ends."""
    restarts = Restarts()
    assert [restarts.ended("a", 10 + 0.25 * look) for look in range(4)] == [0.5, 0.25, 0, 0]
