"""Membership alone: its threads outlive whatever is raised in them, and leaving waits for the last rebalance."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from typing import TYPE_CHECKING, cast

import pytest

from kafka2011.config import ConsumerConfig
from kafka2011.consumer.membership import Membership
from kafka2011.consumer.offset_committer import ContendedOffsetError, OffsetCommitter
from tests.support.waiting import eventually
from zk.clock import SYSTEM_CLOCK
from zk.errors import ConnectionLost, NodeHeld, NotConnected

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka2011.consumer.feed import PartitionFeed
    from kafka2011.consumer.rebalancer import Rebalancer
    from zk.sessions import SessionEvents

WAIT_S = 20
CONFIG = ConsumerConfig.of(
    {"groupid": "g", "zk.connect": "h:1", "rebalance.backoff.ms": 1, "autocommit.interval.ms": 1}
)


class Faults:
    """What is raised by calls of a name, each once or for as long as it lasts; and how often each was made."""

    def __init__(self) -> None:
        self.waiting: dict[str, BaseException] = {}
        self.lasting: dict[str, BaseException] = {}
        self.calls: Counter[str] = Counter()

    def call(self, name: str) -> None:
        self.calls[name] += 1
        error = self.waiting.pop(name, None) or self.lasting.get(name)
        if error is not None:
            raise error


class ScriptedLease:
    """Raises what the test wants."""

    until_s = float("inf")
    renew_interval_s = 0.001

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    def renew(self) -> None:
        self._faults.call("lease")


class ScriptedSession:
    """A session of which only the lease is of interest."""

    session_id = 1

    def __init__(self, faults: Faults) -> None:
        self.lease = ScriptedLease(faults)


class ScriptedRebalancer:
    """Stands in for the rebalance; `gate` holds up a try."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.session = ScriptedSession(faults)
        self.counts: Counter[str] = Counter()
        self.gate = threading.Event()
        self.gate.set()
        self.is_trying = False

    @property
    def owned(self) -> dict[object, object]:
        self.faults.call("commit")
        return {}

    def enter(self) -> None:
        self.faults.call("enter")

    def try_once(self) -> bool:
        self.is_trying = True
        self.faults.call("rebalance")
        assert self.gate.wait(WAIT_S)
        self.is_trying = False
        return False

    def leave(self, *, commit: bool) -> None:
        assert not self.is_trying
        self.faults.call("leave")


class Events:
    """A connection that is there."""

    session_id: int | None = 1

    def wait(self, timeout_s: float) -> bool:
        return False


class Rig:
    """A membership of scripted parts."""

    def __init__(self, config: ConsumerConfig = CONFIG) -> None:
        self.faults = Faults()
        self.rebalancer = ScriptedRebalancer(self.faults)
        self.events = Events()
        self.membership = Membership(
            "g_m",
            cast("Rebalancer[PartitionFeed]", self.rebalancer),
            OffsetCommitter(),
            config=config,
            events=cast("SessionEvents", self.events),
            wake=threading.Event(),
            clock=SYSTEM_CLOCK,
        )

    def goes_on(self, name: str) -> None:
        """Wait until a thread has taken two more turns."""
        wanted = self.faults.calls[name] + 2
        eventually(lambda: self.faults.calls[name] >= wanted)


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    rig.rebalancer.gate.set()
    rig.membership.stop()


@pytest.mark.parametrize("name", ["rebalance", "lease", "commit"])
def test_a_thread_outlives_any_error(rig: Rig, name: str, caplog: pytest.LogCaptureFixture) -> None:
    """A member whose lease nobody renews would keep its partitions and hand out nothing: logged, counted, and on."""
    rig.membership.enter(0)
    with caplog.at_level(logging.ERROR):
        rig.faults.waiting[name] = RuntimeError("xids do not match")
        rig.goes_on(name)
    assert f"g_m: an unexpected error in its {name} thread" in caplog.text
    assert "xids do not match" in caplog.text
    assert rig.membership.counts[f"{name}_errors"] == 1


@pytest.mark.parametrize("name", ["rebalance", "lease", "commit"])
def test_a_thread_waits_while_zookeeper_is_away(rig: Rig, name: str) -> None:
    """That is no unexpected error."""
    rig.membership.enter(0)
    rig.faults.waiting[name] = NotConnected("away")
    rig.goes_on(name)
    assert rig.membership.counts[f"{name}_errors"] == 0


def test_a_rebalance_waits_while_offsets_are_contended(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """Nor is it one when an offset cannot be written: servers of ZooKeeper may disagree about it for a while."""
    with caplog.at_level(logging.WARNING):
        rig.membership.enter(0)
        for _ in range(4):
            rig.faults.waiting["rebalance"] = ContendedOffsetError("others keep writing the offset of t/0-0")
            rig.goes_on("rebalance")
    assert rig.membership.counts["rebalance_errors"] == 0
    assert "unexpected" not in caplog.text


def test_a_lease_that_is_not_renewed_is_reported_once(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """It is tried many times a second; trouble after that is reported again."""
    with caplog.at_level(logging.INFO):
        rig.membership.enter(0)
        for times in (1, 2):
            rig.faults.lasting["lease"] = NotConnected("away")
            rig.goes_on("lease")
            rig.goes_on("lease")
            assert caplog.text.count("the lease is not renewed") == times
            del rig.faults.lasting["lease"]
            rig.goes_on("lease")


def test_tries_in_a_row_are_counted_as_one_failure_of_the_rebalance(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """After rebalance.retries.max; it goes on trying."""
    with caplog.at_level(logging.WARNING):
        rig.membership.enter(0)
        eventually(lambda: rig.membership.counts["failed_rebalances"] >= 2)
    assert "no rebalance after 4 attempts, still trying: another member still owns a partition" in caplog.text


def test_leaving_waits_for_the_last_rebalance(rig: Rig) -> None:
    """Two threads in one rebalancer could claim what was just given up; and none begins after that."""
    rig.rebalancer.gate.clear()
    rig.membership.enter(0)
    eventually(lambda: rig.rebalancer.is_trying)
    rig.membership.begin_leave()
    leaving = threading.Thread(target=rig.membership.leave, daemon=True)
    leaving.start()
    tries = rig.faults.calls["rebalance"]
    rig.rebalancer.gate.set()
    leaving.join(WAIT_S)
    assert not leaving.is_alive()
    assert rig.faults.calls["leave"] == 1
    assert rig.faults.calls["rebalance"] == tries


def test_a_last_commit_that_was_not_answered_is_tried_again_before_leaving(caplog: pytest.LogCaptureFixture) -> None:
    """A connection that breaks just then costs nothing, but a session that ended is not waited for."""
    rig = Rig(ConsumerConfig.of({"groupid": "g", "zk.connect": "h:1", "rebalance.backoff.ms": 60_000}))
    rig.faults.waiting["leave"] = ConnectionLost("gone")
    rig.membership.leave()
    assert rig.faults.calls["leave"] == 2
    assert "leaves without" not in caplog.text
    rig.faults.waiting["leave"] = NotConnected("another session")
    rig.events.session_id = 2
    rig.membership.leave()
    assert rig.faults.calls["leave"] == 3
    assert "g_m leaves without having committed everything: another session" in caplog.text


def test_a_fixed_name_waits_for_its_dead_predecessor(rig: Rig) -> None:
    """Whose node stays until its session has ended; for ever it does not wait."""
    held = NodeHeld("/consumers/g/ids/g_m", b"", 7)
    rig.faults.waiting["enter"] = held
    rig.membership.enter(WAIT_S)
    assert rig.faults.calls["enter"] == 2
    other = Rig()
    other.faults.waiting["enter"] = held
    with pytest.raises(NodeHeld):
        other.membership.enter(0)
