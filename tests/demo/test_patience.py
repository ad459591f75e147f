"""How long the demo waits."""

from __future__ import annotations

from kafka2011.demo.patience import Patience, how_busy


def test_whatever_moves_is_waited_for() -> None:
    """However long it takes; it is over when nothing has moved for so long, and not a moment before."""
    now_s, position = 0.0, 0
    patience = Patience(lambda: position, still_s=10, clock_s=lambda: now_s)
    for _ in range(100):
        now_s, position = now_s + 9, position + 1
        assert not patience.is_over()
    now_s += 10
    assert not patience.is_over()
    now_s += 0.1
    assert patience.is_over()
    position -= 1  # a way back is a movement too
    assert not patience.is_over()


def test_how_busy_the_machine_is_can_be_said() -> None:
    """With the number that it should be compared with."""
    assert " processes wanted to run in the last minute, on " in how_busy()
