"""How fast followers that are not in sync get what they lack."""

from __future__ import annotations

from kafka2011.broker.replication.catch_up import STEP_S, CatchUp
from kafka2011.replica.state import Replica

A, B = Replica("a", "1"), Replica("b", "2")


def test_a_follower_gets_so_many_bytes_a_second() -> None:
    """However much it is given at once, and independently of others."""
    catch_up = CatchUp(1000)
    now_s = given = 0.0
    while now_s < 10:
        turn = catch_up.turn(A, now_s)
        assert turn is not None
        assert turn.wait_s <= STEP_S
        now_s += turn.wait_s
        size = min(turn.max_bytes, 250)
        given += size
        catch_up.given(A, size, now_s)
    assert 9_500 <= given <= 10_500
    turn = catch_up.turn(B, now_s)
    assert turn is not None
    assert turn.wait_s == 0


def test_a_message_that_is_larger_is_paid_for_afterwards() -> None:
    """Answers go on meanwhile, without bytes: the follower says what it has, and the leader that it lives."""
    catch_up = CatchUp(1000)
    catch_up.given(A, 3000, 0.0)
    assert catch_up.turn(A, 0.0) == (STEP_S, 0)
    assert catch_up.turn(A, 2.9) == (3.0 - 2.9, 250)
    assert catch_up.turn(A, 9.0) == (0, 250)


def test_without_a_limit_nobody_waits() -> None:
    catch_up = CatchUp(0)
    catch_up.given(A, 10**9, 0.0)
    assert catch_up.turn(A, 0.0) is None
