"""What chaos with replicas does and looks at, without processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from integration.chaos.links import Mode
from integration.chaos.records import NO_KEY, MessageId, Place, payload_of
from integration.chaos.replica_faults import GATEWAY_WEIGHTS, LASTS_S, WEIGHTS, ReplicaFaults
from integration.chaos.replicas import stored
from integration.chaos.schedule import GATEWAY_LINK, Fault
from kafka2011.message.message_set import MessageSet
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from integration.chaos.replica_set import ReplicaSet


class Replica:
    """A replica that does as if."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.running = True
        self.has_disk = True

    def kill(self) -> None:
        self.running = False

    def launch(self) -> None:
        self.running = True

    def lose_disk(self) -> None:
        self.has_disk = False


class Link:
    """A link that does as if."""

    def __init__(self) -> None:
        self.mode = Mode.OPEN

    def turn(self, mode: Mode, _ways: object = None, *, only_pid: int | None = None) -> None:
        assert only_pid is None
        self.mode = mode


class Links:
    """The links of a gateway."""

    def __init__(self) -> None:
        self.every = {"gateway-1 to zookeeper": Link()}


class Replicas:
    """Two replicas that do as if, led by a."""

    def __init__(self) -> None:
        self.links = Links()
        self.all = {name: Replica(name) for name in "ab"}
        self.are_in_sync = {"a", "b"}
        self.gateways: list[Replica] = []

    def leader(self) -> str:
        return "a"

    def in_sync(self) -> set[str]:
        return self.are_in_sync

    def read_in_sync(self) -> set[str]:
        return self.are_in_sync

    def sound(self) -> set[str]:
        return self.are_in_sync


def faults_of(replicas: Replicas) -> ReplicaFaults:
    unused = cast("Any", None)
    return ReplicaFaults(cast("ReplicaSet", replicas), unused, unused, unused, unused, unused)


def test_every_kind_of_fault_is_known() -> None:
    """And lasts for a time of its own."""
    assert faults_of(Replicas()).kinds.keys() == GATEWAY_WEIGHTS.keys()
    assert {kind.split()[0] for kind in WEIGHTS} == LASTS_S.keys()


def test_a_disk_is_lost_if_another_has_all_of_it() -> None:
    """Not that of the only one in sync, which is killed all the same."""
    replicas = Replicas()
    replicas.are_in_sync = {"a"}
    faults = faults_of(replicas)
    begun = faults.begin(Fault(0, "wipe", 1, 0.1))
    assert (begun is not None and begun.whom, replicas.all["a"].running) == (("a",), False)
    assert replicas.all["a"].has_disk
    assert begun is not None
    faults.end(begun)
    assert replicas.all["a"].running
    replicas.are_in_sync = {"a", "b"}
    faults.begin(Fault(0, "wipe", 1, 0.1))
    assert [each.has_disk for each in replicas.all.values()] == [False, True]


def test_who_suffers_is_left_alone() -> None:
    """By further faults, and by whoever starts again what ended by itself."""
    replicas = Replicas()
    faults = faults_of(replicas)
    faults.begin(Fault(0, "kill", 1, 0.1))
    other = faults.begin(Fault(0, "kill", 1, 0.1))
    assert other is not None
    assert other.whom == ("b",)
    assert faults.begin(Fault(0, "kill", 1, 0.1)) is None
    assert list(faults.revive()) == []
    assert not any(each.running for each in replicas.all.values())


def test_gateways_suffer_beside_replicas() -> None:
    """Whatever they suffer, replicas are well, and may suffer several things at once."""
    replicas = Replicas()
    replicas.gateways.append(Replica("gateway-1"))
    faults = faults_of(replicas)
    killed = faults.begin(Fault(0, "kill gateway", 1, 0.1))
    assert killed is not None
    assert (killed.whom, faults.role_of(killed), faults.are_well()) == (("gateway-1",), "", True)
    assert faults.begin(Fault(0, "link", 1, 0.1, GATEWAY_LINK, "cut", "both")) is None
    faults.end(killed)
    assert replicas.gateways[0].running
    cut = faults.begin(Fault(0, "link", 1, 0.1, GATEWAY_LINK, "cut", "both"))
    assert cut is not None
    link = replicas.links.every["gateway-1 to zookeeper"]
    assert (cut.whom, link.mode, faults.are_well()) == (("gateway-1",), Mode.CUT, True)
    faults.end(cut)
    assert link.mode is Mode.OPEN
    faults.begin(Fault(0, "kill", 1, 0.1))
    assert not faults.are_well()


def test_what_lies_in_the_logs_is_known_by_its_bytes() -> None:
    """No id for what nobody sent."""
    message = MessageId("p0", 7)
    data = bytes(MessageSet([payload_of(message, NO_KEY), b"another"]))
    where = TopicPartition("chaos-1", 0, 2)
    found = dict(stored({"chaos-1-2/00000000000000000100.kafka": data}))
    second = 100 + len(bytes(MessageSet([payload_of(message, NO_KEY)])))
    assert found == {Place(where, 100, 0): message, Place(where, second, 0): None}
