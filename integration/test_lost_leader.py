"""The act of the demo in which a leader is lost with its disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.demo.lost_leader import lose_a_leader

if TYPE_CHECKING:
    from pathlib import Path

LINES = [b"line %d" % number for number in range(3000)]


def test_nothing_confirmed_is_lost_with_the_leader_s_disk(zk_connect: str, tmp_path: Path) -> None:
    """Every line is in the other replica's log, in order, and then in both logs; a group has read them meanwhile."""
    said: list[str] = []
    lost = lose_a_leader(zk_connect, tmp_path, LINES, said.append)
    assert (lost.led, lost.leads) == ("a", "b")
    assert lost.took_over_s > 0
    assert lost.is_same
    assert (lost.account.of, lost.account.sent, lost.account.received) == ("replicas", len(LINES), len(LINES))
    assert lost.account.is_good(exactly_once=False)
    assert (lost.read_on.of, lost.read_on.received) == ("group copies", len(LINES))
    assert lost.read_on.is_good(exactly_once=False)
    assert any("its disk is gone" in each for each in said)
