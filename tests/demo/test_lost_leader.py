"""What the demo says of replicas that lose something."""

from __future__ import annotations

from pathlib import Path

from kafka2011.demo.account import PipelineAccount
from kafka2011.demo.live_cluster import DemoResult
from kafka2011.demo.lost_leader import LostLeader, within


def result(missing: tuple[int, ...], *, is_same: bool) -> DemoResult:
    account = PipelineAccount("replicas", 3, 3 - len(missing), missing, {}, 0)
    lost = LostLeader("a", "b", 0.1, account, account, is_same=is_same)
    return DemoResult(Path(), 3, 1.0, accounts=[account], lost_leader=lost)


def test_the_demo_fails_when_replicas_lose_something_or_differ() -> None:
    """It names them."""
    assert result((), is_same=True).is_good
    assert result((2,), is_same=True).failures() == ["replicas: 1 missing, 0 out of order, 0 repeated"]
    assert result((), is_same=False).failures() == ["replicas a and b do not hold the same bytes"]


def test_what_is_sent_is_bounded() -> None:
    """Of long lines those that fit in so many bytes are sent, one at least."""
    assert within([b"x" * 10] * 9, 35) == [b"x" * 10] * 3
    assert within([b"x" * 10] * 2, 35) == [b"x" * 10] * 2
    assert within([b"x" * 100, b"y"], 35) == [b"x" * 100]
