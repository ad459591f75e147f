"""Faults come only where they can be suffered, and what they explain is not held against a process."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from integration.chaos.cluster import READY
from integration.chaos.cluster_faults import ClusterFaults
from integration.chaos.faults import NO_SPACE, now_s
from integration.chaos.records import MessageId
from integration.chaos.schedule import Fault

if TYPE_CHECKING:
    from integration.chaos import cluster as chaos
    from integration.chaos.power_cut import Tail


class Clock:
    """A clock that notes how far it is off."""

    can_step = True
    off_s = 0.0

    def step(self, seconds: float) -> None:
        self.off_s = seconds


class Process:
    """A process that does as if."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.clock = Clock()


class Broker(Process):
    """A broker that does as if. Each start makes another process."""

    def __init__(
        self, output: bytes, *, running: bool, vanishing: set[MessageId] | None = None, name: str = "broker-0"
    ) -> None:
        super().__init__(name)
        self._output = output
        self._vanishing = vanishing
        self.running = running
        self.has_files = True
        self.has_room = True
        self.process = object()

    def output(self) -> bytes:
        return self._output

    def kill(self) -> None:
        self.running = False

    def launch(self) -> None:
        if not self.running:
            self.running = True
            self.process = object()

    def cut_power(self, tail: Tail) -> set[MessageId] | None:
        self.running = self._vanishing is None
        return self._vanishing

    def fill_disk(self) -> bool:
        self.has_room = False
        return True

    def empty_disk(self) -> None:
        self.has_room = True

    def forbid_files(self) -> None:
        self.has_files = False

    def allow_files(self) -> None:
        self.has_files = True


class Cluster:
    """A broker and two clients."""

    def __init__(self, broker: Broker) -> None:
        self.brokers = {0: broker}
        self.gateways: list[Broker] = []
        self.processes = [broker, Process("member-1"), Process("producer-1")]
        self.vanished: set[MessageId] = set()

    def live(self, kind: str) -> list[Process]:
        return [each for each in self.processes if each.name.startswith(kind)]


def faults_of(broker: Broker) -> ClusterFaults:
    return ClusterFaults(cast("chaos.Cluster", Cluster(broker)))


def test_a_gateway_is_killed_and_started_again() -> None:
    """Also one that ended by itself, which is named; without any, nothing happens."""
    cluster = Cluster(Broker(b"", running=True))
    faults = ClusterFaults(cast("chaos.Cluster", cluster))
    kill = Fault(0.0, "kill gateway", 1.0, 0.5)
    assert faults.begin(kill) is None

    gateway = Broker(b"0" + READY + b"here\nthe end\n", running=True, name="gateway-1")
    cluster.gateways.append(gateway)
    begun = faults.begin(kill)
    assert begun is not None
    assert begun.whom == ("gateway-1",)
    assert not gateway.running
    assert list(faults.revive()) == []
    faults.end(begun)
    assert gateway.running
    gateway.running = False
    assert list(faults.revive()) == [("gateway-1", "the end", True)]


NO_ROOM = b"0" + READY + b"here\ncannot write: " + NO_SPACE + b"\nthe end\n"


def test_a_broker_that_ended_by_itself() -> None:
    """It is started again, and named, whatever it says of a disk that was not full."""
    for output, expected in (
        (b"starting\n", ("broker-0", "starting", False)),
        (b"0" + READY + b"here\nthe end\n", ("broker-0", "the end", True)),
        (NO_ROOM, ("broker-0", "the end", True)),
    ):
        broker = Broker(output, running=False)
        assert list(faults_of(broker).revive()) == [expected]
        assert broker.running


def test_a_broker_whose_disk_was_full() -> None:
    """It may end after there is room again, for that reason alone; the one that is started after it has no excuse."""
    for output, expected in ((NO_ROOM, []), (b"0" + READY + b"here\nthe end\n", [("broker-0", "the end", True)])):
        broker = Broker(output, running=True)
        faults = faults_of(broker)
        begun = faults.begin(Fault(1.0, "disk full", 1.0, 0.5))
        assert begun is not None
        assert not broker.has_room
        broker.running = False
        assert list(faults.revive()) == [], "it is left alone while its disk is full"
        faults.end(begun)
        assert broker.has_room
        assert list(faults.revive()) == expected
        broker.running = False
        assert list(faults.revive()) == [("broker-0", "the end", True)]


@pytest.mark.parametrize("vanished", [{MessageId("keyed.1", 7)}, None])
def test_a_power_cut_for_whoever_is_ready(vanished: set[MessageId] | None) -> None:
    """What it took is known to the account; where that cannot be known, none comes."""
    fault = Fault(1.0, "power cut", 1.0, 0.5)
    assert faults_of(Broker(b"starting", running=True)).begin(fault) is None
    broker = Broker(b"0" + READY + b"here\n", running=True, vanishing=vanished)
    cluster = Cluster(broker)
    faults = ClusterFaults(cast("chaos.Cluster", cluster))
    begun = faults.begin(fault)
    assert (begun is None) == (vanished is None)
    assert cluster.vanished == (vanished or set())
    if begun is not None:
        assert not broker.running
        faults.end(begun)
        assert broker.running


def test_clocks_of_one_process_of_each_kind() -> None:
    """They step by the same and come back; a broker that is only starting would take its clock for right."""
    fault = Fault(1.0, "clock steps", 1.0, 0.13)
    broker = Broker(b"0" + READY + b"here\n", running=True)
    cluster = Cluster(broker)
    faults = ClusterFaults(cast("chaos.Cluster", cluster))
    begun = faults.begin(fault)
    assert begun is not None
    assert begun.whom == ("broker-0", "member-1", "producer-1")
    assert [each.clock.off_s for each in cluster.processes] == [400 * 86_400.0] * 3
    faults.end(begun)
    assert [each.clock.off_s for each in cluster.processes] == [0.0] * 3
    starting = faults_of(Broker(b"starting", running=True)).begin(fault)
    assert starting is not None
    assert starting.whom == ("member-1", "producer-1")


def test_no_files_for_whoever_is_ready() -> None:
    """Without a file Python itself does not start, which is not the broker's fault."""
    fault = Fault(1.0, "no files", 1.0, 0.5)
    assert faults_of(Broker(b"starting", running=True)).begin(fault) is None
    broker = Broker(b"0" + READY + b"here\n", running=True)
    faults = faults_of(broker)
    begun = faults.begin(fault)
    assert begun is not None
    assert not broker.has_files
    faults.end(begun)
    assert broker.has_files


def test_a_pick_may_be_anything_from_0_to_1() -> None:
    """Schedules keep four digits of it."""
    for pick in (0.0, 0.9999, 1.0):
        broker = Broker(b"0" + READY + b"here\n", running=True)
        assert faults_of(broker).begin(Fault(1.0, "no files", 1.0, pick)) is not None


def test_faults_begin_and_end_when_their_time_has_come() -> None:
    """Each is told when it has begun, and when it is over; what still lasts in the end is ended."""
    broker = Broker(b"0" + READY + b"here\n", running=True)
    faults = faults_of(broker)
    drawn = [Fault(0.02, "no files", 0.02, 0.5), Fault(0.03, "no files", 0.0, 0.5), Fault(0.06, "no files", 60.0, 0.5)]
    began_s = now_s()
    moments = []
    for moment in faults.live_through(drawn, began_s):
        moments += [] if moment is None else [moment]
        if len(moments) == 4:
            break
    assert [(moment.fault, moment.begun is not None, moment.is_over) for moment in moments] == [
        (drawn[0], True, False),
        (drawn[1], False, False),
        (drawn[0], True, True),
        (drawn[2], True, False),
    ]
    assert all(moment.began_s - began_s >= moment.fault.at_s for moment in moments)
    assert not broker.has_files
    faults.end_all()
    assert broker.has_files
    assert not faults.suffering
