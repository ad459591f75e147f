"""Faults come only where they can be suffered, and what they explain is not held against a process."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from integration.chaos.cluster import READY
from integration.chaos.faults import NO_SPACE, Faults
from integration.chaos.schedule import Fault

if TYPE_CHECKING:
    from integration.chaos.cluster import Cluster


class Broker:
    """A broker that does as if."""

    name = "broker-0"

    def __init__(self, output: bytes, *, running: bool) -> None:
        self._output = output
        self.running = running
        self.has_files = True

    def output(self) -> bytes:
        return self._output

    def launch(self) -> None:
        self.running = True

    def forbid_files(self) -> None:
        self.has_files = False

    def allow_files(self) -> None:
        self.has_files = True


def faults_of(broker: Broker) -> Faults:
    return Faults(cast("Cluster", SimpleNamespace(brokers={0: broker})))


def test_a_broker_that_ended_by_itself() -> None:
    """It is started again, and named; but not when it had no space: it may end after there is space again."""
    for output, expected in (
        (b"starting\n", [("broker-0", "starting", False)]),
        (b"0" + READY + b"here\nthe end\n", [("broker-0", "the end", True)]),
        (b"0" + READY + b"here\ncannot write: " + NO_SPACE + b"\nthe end\n", []),
    ):
        broker = Broker(output, running=False)
        assert list(faults_of(broker).revive()) == expected
        assert broker.running


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
