"""When a leader tells its watchdog that it goes on, and when it does not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafka2011.broker.replication.hang_watch import NEVER_MS, HangWatch

WITHIN_MS = 700
MAX_DISK_S = 4.0


class Watched:
    """A leader, its disk, and what its watchdog hears."""

    def __init__(self) -> None:
        self.leading: Any = SimpleNamespace(has_other_in_sync=True)
        self.disk_waits_s = 0.0
        self.heard: list[int] = []
        config: Any = SimpleNamespace(replica_hang_timeout_ms=WITHIN_MS, replica_lag_time_max_ms=MAX_DISK_S * 1000)
        self.watch = HangWatch(config, self.heard.append, lambda: self.leading, lambda: self.disk_waits_s)

    def hears(self) -> list[int]:
        self.heard.clear()
        self.watch.look()
        return self.heard


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_a_leader_beats_while_it_goes_on(watched: Watched) -> None:
    assert watched.hears() == [WITHIN_MS]


def test_a_disk_that_hangs_is_a_hang(watched: Watched) -> None:
    """As long as a follower may have: nothing more can be confirmed or read with it."""
    watched.disk_waits_s = MAX_DISK_S
    assert watched.hears() == [WITHIN_MS]
    watched.disk_waits_s = MAX_DISK_S + 0.1
    assert watched.hears() == []


@pytest.mark.parametrize("leading", [None, SimpleNamespace(has_other_in_sync=False)])
def test_nobody_is_killed_whose_place_nobody_takes(watched: Watched, leading: Any) -> None:
    """Neither a follower nor the only one in sync; a disk that hangs changes nothing about that."""
    watched.leading = leading
    watched.disk_waits_s = MAX_DISK_S + 0.1
    assert watched.hears() == [NEVER_MS]


def test_a_stop_may_take_its_time(watched: Watched) -> None:
    """Nobody is killed meanwhile."""
    watched.watch.start()
    watched.watch.stop()
    watched.watch.stop()
    assert watched.heard[-1:] == [NEVER_MS]
