"""The time by a cluster's ZooKeeper, for those whose own clock may be off: asked now and then, and carried on."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from kafka2011.errors import KafkaError
from kafka2011.outages import Outages
from zk import forks
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable

    from zk.clock import Clock

logger = logging.getLogger(__name__)

AGAIN_S = 60.0
"""How long a known time is carried on by the machine's steady clock before it is asked for again."""


def earlier_ms(own_ms: int, cluster_ms: int | None) -> int:
    """Return the time at which something was looked up: the earlier of the own clock's and ZooKeeper's, in ms.

    By a clock that is ahead alone, what comes after the look would count as there before it, and so as missing until it
    is read. A ZooKeeper that does not tell the time, None, leaves the own clock.
    """
    return own_ms if cluster_ms is None else min(own_ms, cluster_ms)


class ClusterClock:
    """Tells ZooKeeper's time, never too early: an answer counts from when it was asked for. May be shared by threads.

    `ask` returns ms since 1970, and raises KafkaError if ZooKeeper does not answer.
    """

    def __init__(self, ask: Callable[[], int], clock: Clock = SYSTEM_CLOCK) -> None:
        self._ask = ask
        self._clock = clock
        self._lock = threading.Lock()
        self._known: tuple[int, float] | None = None
        self._asked_s: float | None = None
        self._outages = Outages(logger)
        forks.register(self)

    def forget_after_fork(self) -> None:
        """In a forked child: a thread that was asking is not there, and holds no lock."""
        self._lock = threading.Lock()
        self._asked_s = None

    def now_ms(self) -> int | None:
        """Return the time in ms since 1970; None while ZooKeeper has never answered."""
        with self._lock:
            now_s = self._clock.monotonic_s()
            if self._asked_s is None or now_s - self._asked_s >= AGAIN_S:
                self._asked_s = now_s
                self._look(now_s)
            if self._known is None:
                return None
            known_ms, known_s = self._known
            return known_ms + int((self._clock.monotonic_s() - known_s) * 1000)

    def _look(self, now_s: float) -> None:
        try:
            self._known = self._ask(), now_s
        except KafkaError as error:
            self._outages.failed("ZooKeeper's time is not known now: %s", error)
        else:
            self._outages.over()
