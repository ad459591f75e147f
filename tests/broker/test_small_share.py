"""What connections hold beside the budget: the beginnings of requests, and who has to go when it is used up."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kafka2011.broker.memory.small_share import FREE_BYTES, SmallClaim, SmallShare

if TYPE_CHECKING:
    import pytest


class Clients:
    """Connections as the share sees them, by number; those that were evicted are listed."""

    def __init__(self, max_bytes: int, patience_s: float = 0) -> None:
        self.share = SmallShare(max_bytes, patience_s)
        self.evicted: list[str] = []

    def add(self, name: str) -> SmallClaim:
        return self.share.claim(name, lambda: self.evicted.append(name))

    def unfinished(self, name: str, size: int) -> SmallClaim:
        """Add one that has sent so many bytes of a request."""
        claim = self.add(name)
        claim.begin()
        assert claim.hold(size) == 0
        return claim


def test_a_connection_has_room_for_its_first_bytes() -> None:
    """The rest is the budget's; all that it held is there again when it is handled."""
    clients = Clients(10 * FREE_BYTES)
    claim = clients.add("a")
    assert [claim.hold(size) for size in (1, FREE_BYTES, FREE_BYTES + 5)] == [0, 0, 5]
    assert clients.share.held_bytes == FREE_BYTES
    assert claim.hold(0) == clients.share.held_bytes == 0


def test_the_one_that_is_unfinished_for_longest_has_to_go(caplog: pytest.LogCaptureFixture) -> None:
    """Whether bytes of it still come or not; it is logged and counted."""
    clients = Clients(100)
    oldest, _second = clients.unfinished("oldest", 40), clients.unfinished("second", 40)
    assert oldest.hold(45) == 0
    with caplog.at_level(logging.WARNING):
        assert clients.add("third").hold(50) == 0
    assert clients.evicted == ["oldest"]
    assert clients.share.held_bytes == 90
    assert clients.share.refused == 1
    assert "closing oldest" in caplog.text
    assert "with 45 bytes there (1 closed so far)" in caplog.text
    assert oldest.hold(0) == 0
    oldest.finish()
    assert clients.share.held_bytes == 90


def test_a_request_that_came_to_its_end_is_young_again() -> None:
    """The next one on that connection is as old as its own first byte."""
    clients = Clients(100)
    busy = clients.unfinished("busy", 40)
    clients.unfinished("slow", 40)
    busy.finish()
    busy.begin()
    assert clients.add("third").hold(50) == 0
    assert clients.evicted == ["slow"]


def test_nobody_goes_who_is_young_or_has_nothing_unfinished() -> None:
    """What has no room is left to the budget, and no more than the share is ever held."""
    clients = Clients(100, patience_s=3600)
    clients.unfinished("young", 40)
    handled = clients.add("handled")
    assert handled.hold(50) == 0
    third = clients.add("third")
    assert third.hold(30) == 20
    assert (third.held_bytes, clients.share.held_bytes) == (10, 100)
    assert handled.hold(0) == 0
    assert third.hold(30) == 0
    assert clients.evicted == []


def test_one_goes_at_a_time() -> None:
    """Who wants much does not clear away many who hold little."""
    clients = Clients(100)
    for number in range(100):
        clients.unfinished(str(number), 1)
    claim = clients.add("large")
    assert claim.hold(50) == 49
    assert claim.hold(50) == 48
    assert clients.evicted == ["0", "1"]
    assert clients.share.held_bytes == 100


def test_one_may_be_the_oldest_itself() -> None:
    """Then it goes, and is given nothing more here."""
    clients = Clients(100)
    alone = clients.unfinished("alone", 60)
    clients.add("other").hold(40)
    alone.hold(80)
    assert clients.evicted == ["alone"]
    assert clients.share.held_bytes <= 100
