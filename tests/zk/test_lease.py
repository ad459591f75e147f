"""The arithmetic of the session lease."""

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


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(now_s=100.0)


@pytest.fixture
def lease(clock: ManualClock) -> SessionLease:
    return SessionLease(SimpleNamespace(session_timeout_ms=2000), 1, clock)  # type: ignore[arg-type]


def answer_with(monkeypatch: pytest.MonkeyPatch, answer: Callable[[], None]) -> None:
    monkeypatch.setattr(Nodes, "sync", lambda self: answer())


def test_a_slow_answer_shortens_the_lease(
    lease: SessionLease, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ZooKeeper counts from when it got the question, so the clock is read before asking."""

    def slowly() -> None:
        clock.now_s += 1.5

    answer_with(monkeypatch, slowly)
    lease.renew()
    assert lease.until_s == clock.now_s + 0.5


def test_a_question_without_an_answer_leaves_the_lease_as_it_was(
    lease: SessionLease, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs on until its end."""

    def never() -> None:
        raise ConnectionLost("gone")

    answer_with(monkeypatch, lambda: None)
    lease.renew()
    clock.now_s += 1
    answer_with(monkeypatch, never)
    with pytest.raises(ConnectionLost):
        lease.renew()
    assert lease.until_s == clock.now_s + 1


def test_an_answer_that_was_overtaken_does_not_shorten_the_lease(
    lease: SessionLease, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two threads may ask at once."""

    def overtaken() -> None:
        answer_with(monkeypatch, lambda: None)
        clock.now_s += 1
        lease.renew()

    answer_with(monkeypatch, overtaken)
    lease.renew()
    assert lease.until_s == clock.now_s + 2
