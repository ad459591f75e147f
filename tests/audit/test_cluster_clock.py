"""ZooKeeper's time, carried on by a steady clock."""

from __future__ import annotations

import os
import signal
import threading

from kafka2011.audit.cluster_clock import AGAIN_S, ClusterClock
from tests.support.clocks import ManualClock
from zk.errors import ZkUnavailable


def test_an_answer_is_carried_on_and_asked_for_again() -> None:
    """As of when it was asked for, so that it is never too early; if no answer comes, the one before still counts."""
    clock, answers, asked = ManualClock(100), [5000, None, 9000], list[float]()

    def ask() -> int:
        asked.append(clock.now_s)
        clock.now_s += 1  # the answer takes a second
        answer = answers.pop(0)
        if answer is None:
            raise ZkUnavailable("nobody answers")
        return answer

    found = ClusterClock(ask, clock)
    assert found.now_ms() == 6000
    clock.now_s += 2
    assert found.now_ms() == 8000
    clock.now_s = 100 + AGAIN_S
    assert found.now_ms() == 5000 + (AGAIN_S + 1) * 1000
    clock.now_s = 100 + 2 * AGAIN_S
    assert found.now_ms() == 10_000
    assert asked == [100, 100 + AGAIN_S, 100 + 2 * AGAIN_S]


def test_a_time_that_was_never_known_is_none() -> None:
    def ask() -> int:
        raise ZkUnavailable("nobody answers")

    assert ClusterClock(ask, ManualClock(0)).now_ms() is None


def test_a_child_that_was_forked_while_zookeeper_was_asked_asks_again() -> None:
    """The thread that was asking holds the lock in the parent alone."""
    asking, answer = threading.Event(), threading.Event()
    answers: list[int] = []

    def ask() -> int:
        asking.set()
        assert answer.wait(20)
        return 5

    clock = ClusterClock(ask)
    thread = threading.Thread(target=lambda: answers.append(clock.now_ms() or 0))
    thread.start()
    assert asking.wait(20)
    child = os.fork()
    if not child:
        answer.set()
        signal.alarm(20)
        os._exit((clock.now_ms() or 0) < 5)
    assert os.waitpid(child, 0)[1] == 0
    answer.set()
    thread.join(20)
    assert answers[0] >= 5
