"""The arithmetic of the session lease: sessions of six seconds, so questions two seconds apart prove one another."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from tests.support.clocks import ManualClock
from zk.errors import ConnectionLost
from zk.nodes import Nodes
from zk.sessions import SessionLease

if TYPE_CHECKING:
    from collections.abc import Callable

    from zk.client import ZkClient

CONNECTED_S = 100.0
SESSION = 1


class Asking:
    """A lease whose questions are answered as the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = ManualClock(now_s=CONNECTED_S)
        self.client = SimpleNamespace(session_timeout_ms=6000, clock=self.clock, connect_asked=(SESSION, CONNECTED_S))
        client: ZkClient = self.client  # type: ignore[assignment]
        self.lease = SessionLease(client, SESSION)
        self.answer: Callable[[], object] = lambda: None
        monkeypatch.setattr(Nodes, "sync", lambda _: self.answer())

    def renew_at(self, now_s: float, *, answered_after_s: float = 0.0) -> None:
        self.clock.now_s = now_s

        def answer() -> None:
            self.clock.now_s += answered_after_s

        self.answer = answer
        self.lease.renew()

    @property
    def remaining_s(self) -> float:
        return self.lease.until_s - self.clock.now_s

    @property
    def is_held(self) -> bool:
        return self.remaining_s > 0

    @property
    def counts_from_s(self) -> float:
        return self.lease.until_s - 6


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> Asking:
    return Asking(monkeypatch)


def test_a_new_session_counts_from_its_connect(asking: Asking) -> None:
    """That reached the leader; nothing else has been proven yet."""
    assert not asking.is_held
    asking.renew_at(101)
    assert asking.counts_from_s == CONNECTED_S
    assert asking.remaining_s == 5
    asking.clock.now_s = 106
    assert not asking.is_held


def test_a_question_counts_once_a_later_one_is_answered(asking: Asking) -> None:
    """The leader's ping came between them, and the follower told it of the first one."""
    asking.renew_at(103)
    assert asking.counts_from_s == CONNECTED_S
    asking.renew_at(105)
    assert asking.counts_from_s == 103
    asking.renew_at(106)
    assert asking.counts_from_s == 103
    asking.renew_at(107)
    assert asking.counts_from_s == 105


def test_questions_in_quick_succession_prove_nothing(asking: Asking) -> None:
    """No ping need have come between them; and however many there are, few are remembered."""
    asking.renew_at(104)
    for number in range(1000):
        asking.renew_at(104 + number / 1000)
    assert asking.counts_from_s == CONNECTED_S
    assert len(asking.lease.answered) < 10
    asking.renew_at(106)
    assert asking.counts_from_s == 104


def test_a_slow_answer_is_counted_from_its_question_and_proves_from_its_answer(asking: Asking) -> None:
    """The server heard of us some time between the two."""
    asking.renew_at(103, answered_after_s=1.5)
    asking.renew_at(106)
    assert asking.counts_from_s == CONNECTED_S
    asking.renew_at(106.5)
    assert asking.counts_from_s == 103


def test_a_lease_that_is_renewed_as_often_as_it_asks_for_never_runs_out(asking: Asking) -> None:
    """A third of the session timeout is left at every moment, also when answers are slow."""
    now_s = 100.0
    for _ in range(100):
        asking.renew_at(now_s, answered_after_s=0.3)
        now_s += asking.lease.renew_interval_s
        asking.clock.now_s = now_s
        assert asking.remaining_s >= 6 / 3 - 0.4


def test_a_session_that_came_back_counts_from_its_connect(asking: Asking) -> None:
    """A follower asks the leader about it at once."""
    asking.renew_at(103)
    asking.client.connect_asked = (SESSION, 103.5)
    asking.renew_at(104)
    assert asking.counts_from_s == 103.5


def test_the_connect_of_another_session_counts_for_nothing(asking: Asking) -> None:
    """Not even if a question got through in ours, just before."""
    asking.client.connect_asked = (SESSION + 1, 103.5)
    asking.renew_at(104)
    assert not asking.is_held


def test_a_question_without_an_answer_leaves_the_lease_as_it_was(asking: Asking) -> None:
    """It runs on until its end, and proves nothing later."""

    def never() -> None:
        raise ConnectionLost("gone")

    asking.renew_at(101)
    asking.clock.now_s, asking.answer = 102, never
    with pytest.raises(ConnectionLost):
        asking.lease.renew()
    asking.renew_at(104)
    assert asking.counts_from_s == 101
    asking.clock.now_s = 107
    assert not asking.is_held


def test_an_answer_that_was_overtaken_does_not_shorten_the_lease(asking: Asking) -> None:
    """Two threads may ask at once."""
    asking.renew_at(102)

    def overtaken() -> None:
        asking.renew_at(104)

    asking.clock.now_s, asking.answer = 103, overtaken
    asking.lease.renew()
    assert asking.counts_from_s == 102


def test_a_lease_that_ended_is_not_renewed(asking: Asking) -> None:
    """Though the session lives."""
    asking.lease.end()
    asking.renew_at(101)
    assert not asking.is_held
