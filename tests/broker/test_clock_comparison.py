"""When a broker's clock is compared with ZooKeeper's, and what of it stands in ZooKeeper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from kafka2011.broker.clock_comparison import BEFORE_PASS_S, COMPARE_S, ClockComparison
from kafka2011.log.clock_trust import DIFFERS
from tests.support.clocks import ManualClock
from tests.support.logs import new_log_manager
from tests.support.zk_in_memory import ZkClientInMemory
from zk import paths
from zk.broker_clocks import BrokerClock, BrokerClockRegistry, ComparedClock
from zk.errors import ConnectionLost

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafka2011.log.log_manager import LogManager

AHEAD_MS = 400 * 86_400_000


class Registrar:
    """A registrar whose ZooKeeper is `behind_ms` behind, or does not answer."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.behind_ms: float | None = 0
        self.is_registered = True
        self.noted: list[tuple[float, str]] = []

    def note_clock(self, wall_ms: float, obstacle: str) -> int:
        self.noted.append((wall_ms, obstacle))
        if self.behind_ms is None:
            raise ConnectionLost("away")
        return int(self._clock.wall_s() * 1000 - self.behind_ms)


class Registration:
    """A registration whose registrar comes and goes."""

    registrar: Registrar | None = None


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(now_s=1000, wall_lead_s=1.7e9)


@pytest.fixture
def logs(tmp_path: Path, clock: ManualClock) -> Iterator[LogManager]:
    with new_log_manager(tmp_path / "logs", clock=clock, is_clock_compared=True) as manager:
        yield manager


@pytest.fixture
def registration() -> Registration:
    return Registration()


@pytest.fixture
def comparison(logs: LogManager, registration: Registration, clock: ManualClock) -> ClockComparison:
    return ClockComparison(logs.retention_clock, cast("Any", registration), clock)


def test_only_a_registered_broker_is_compared(
    comparison: ClockComparison, registration: Registration, logs: LogManager, clock: ManualClock
) -> None:
    comparison.compare_before_pass()
    registration.registrar = registrar = Registrar(clock)
    registrar.is_registered = False
    comparison.compare_before_pass()
    assert registrar.noted == []
    registrar.is_registered = True
    comparison.compare_before_pass()
    assert logs.retention_clock.difference_ms == 0


def test_once_a_minute_and_before_a_pass(
    comparison: ClockComparison, registration: Registration, clock: ManualClock
) -> None:
    """And at once when another registrar has registered the broker: a replica leads anew."""
    registration.registrar = registrar = Registrar(clock)
    for count, after_s, before_pass in (
        (1, 0.0, False),
        (1, COMPARE_S - 1, False),
        (2, 1.0, False),
        (2, BEFORE_PASS_S - 1, True),
        (3, 1.0, True),
    ):
        clock.now_s += after_s
        if before_pass:
            comparison.compare_before_pass()
        else:
            comparison.compare_when_due()
        assert len(registrar.noted) == count
    registration.registrar = other = Registrar(clock)
    comparison.compare_when_due()
    assert len(other.noted) == 1


def test_a_difference_is_noted_with_the_next_comparison(
    comparison: ClockComparison, registration: Registration, logs: LogManager, clock: ManualClock
) -> None:
    registration.registrar = registrar = Registrar(clock)
    registrar.behind_ms = AHEAD_MS
    comparison.compare_when_due()
    assert logs.retention_clock.is_known_wrong
    clock.now_s += COMPARE_S
    comparison.compare_when_due()
    (first_ms, first), (_, second) = registrar.noted
    assert first_ms == clock.wall_s() * 1000 - COMPARE_S * 1000
    assert not first
    assert "34560000 s ahead of ZooKeeper's" in second


def test_a_zookeeper_that_does_not_answer_is_asked_again(
    comparison: ClockComparison, registration: Registration, logs: LogManager, clock: ManualClock
) -> None:
    registration.registrar = registrar = Registrar(clock)
    registrar.behind_ms = None
    comparison.compare_when_due()
    assert logs.retention_clock.difference_ms is None
    registrar.behind_ms = AHEAD_MS
    comparison.compare_when_due()
    obstacle = logs.retention_clock.obstacle
    assert obstacle is not None
    assert obstacle.kind == DIFFERS


def test_the_node_is_made_and_written_and_its_time_is_zookeepers() -> None:
    """It is the session's own, and made again in the next one; malformed ones of others are told of."""
    client = ZkClientInMemory()
    registry = BrokerClockRegistry(cast("Any", client))
    client.now_ms = 5000
    assert registry.note(3, BrokerClock(7000, "why")) == 5000
    assert registry.clocks() == {3: ComparedClock(BrokerClock(7000, "why"), 5000)}
    assert registry.clocks()[3].ahead_ms == 2000
    client.now_ms = 6000
    assert registry.note(3, BrokerClock(7000)) == 6000
    assert client.tree[paths.broker_clock(3)].owner == client.session_id
    del client.tree[paths.broker_clock(3)]
    assert registry.note(3, BrokerClock(7000)) == 6000
    for text in ("", "{}", "[]", '{"wall_ms": "1", "obstacle": ""}', '{"wall_ms": 1, "obstacle": 1}'):
        client.set_async(paths.broker_clock(3), text.encode())
        assert registry.clocks() == {}
        assert paths.broker_clock(3) in registry.malformed.texts[0]
