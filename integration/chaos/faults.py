"""Does to a cluster what a schedule says, and undoes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from integration.chaos.cluster import BROKER_WITH_SMALL_DISK, PRODUCERS, READY
from integration.chaos.ensemble import SERVERS
from integration.chaos.links import Mode, Way

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from integration.chaos.broker import ChaosBroker
    from integration.chaos.cluster import Client, Cluster
    from integration.chaos.schedule import Fault

    Undo = Callable[[], object]
    Begin = Callable[[Fault], "Begun | None"]
    T = TypeVar("T")

GROWING, STEADY = "growing", "steady"
FEWEST_MEMBERS, MOST_MEMBERS = 1, 8
MOST_TOPICS = 3
CLOCK_STEPS_S = (-86_400.0, -1800.0, -10.0, 10.0, 1800.0, 7200.0, 400 * 86_400.0)
MOST_BROKERS = 5
MOST_PARTITIONS = 4
SHORT_RETENTION = {"log.retention.size": 10_000, "log.cleanup.interval.mins": 0.005}


class Begun(NamedTuple):
    """A fault that has begun: whom it concerns, by name, and what ends it."""

    whom: tuple[str, ...]
    undo: Undo


def _nothing() -> None:
    pass


class Faults:
    """The faults that a cluster may suffer. What suffers one already is left alone until that is over."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._suffering: set[str] = set()
        self._kinds: dict[str, Begin] = {
            "kill member": self._kill_member,
            "kill broker": self._kill_broker,
            "kill producer": self._kill_producer,
            "kill leader": self._kill_leader,
            "pause member": lambda fault: self._pause(fault, self._cluster.live("member")),
            "pause producer": lambda fault: self._pause(fault, self._cluster.live("producer")),
            "pause broker": self._pause_broker,
            "pause zookeeper": self._pause_zookeeper,
            "ensemble down": self._ensemble_down,
            "join": self._join,
            "leave": self._leave,
            "link": self._link,
            "disk full": self._fill_disk,
            "no files": self._forbid_files,
            "bit flip": self._flip,
            "retention": self._retention,
            "clock steps": self._clock_steps,
            "topic born": self._topic_born,
            "broker added": self._broker_added,
            "partitions grow": self._partitions_grow,
            "broker moves": self._broker_moves,
        }

    def begin(self, fault: Fault) -> Begun | None:
        """Begin a fault; None when there is nobody left who could suffer it."""
        begun = self._kinds[fault.kind](fault)
        if begun is not None:
            self._suffering.update(begun.whom)
        return begun

    def end(self, begun: Begun) -> None:
        """End what was begun."""
        begun.undo()
        self._suffering.difference_update(begun.whom)

    # Processes ---------------------------------------------------------------------------------------------------

    def _kill_member(self, fault: Fault) -> Begun | None:
        member = self._choose(fault, self._cluster.live("member"))
        if member is None:
            return None
        member.kill()
        return Begun((member.name,), lambda: self._cluster.add_member(member.group, member.style))

    def _kill_producer(self, fault: Fault) -> Begun | None:
        producer = self._choose(fault, self._cluster.live("producer"))
        if producer is None:
            return None
        producer.kill()
        return Begun((producer.name,), lambda: self._cluster.add_producer(producer.style))

    def _kill_broker(self, fault: Fault) -> Begun | None:
        broker = self._choose_broker(fault)
        if broker is None:
            return None
        broker.kill()
        return Begun((broker.name,), broker.launch)

    def _pause_broker(self, fault: Fault) -> Begun | None:
        broker = self._choose_broker(fault)
        if broker is None:
            return None
        broker.pause()
        return Begun((broker.name,), broker.resume)

    def _pause(self, fault: Fault, clients: Sequence[Client]) -> Begun | None:
        client = self._choose(fault, clients)
        if client is None:
            return None
        client.pause()
        return Begun((client.name,), client.resume)

    def _kill_leader(self, fault: Fault) -> Begun | None:
        leader = self._cluster.ensemble.leader()
        if leader is None or leader.name in self._suffering:
            return None
        leader.kill()
        return Begun((leader.name,), leader.start)

    def _pause_zookeeper(self, fault: Fault) -> Begun | None:
        server = self._choose(fault, list(self._cluster.ensemble.servers.values()))
        if server is None:
            return None
        server.pause()
        return Begun((server.name,), server.resume)

    def _ensemble_down(self, fault: Fault) -> Begun | None:
        servers = list(self._cluster.ensemble.servers.values())
        names = tuple(server.name for server in servers)
        if self._suffering.intersection(names):
            return None
        for server in servers:
            server.kill()

        def undo() -> None:
            for server in servers:
                server.start()

        return Begun(names, undo)

    def revive(self) -> Iterator[tuple[str, str, bool]]:
        """Start brokers again that ended by themselves, as a supervisor would.

        Yields the name of each, its last line, and whether it had been ready: one that is started while ZooKeeper does
        not answer may give up.
        """
        for broker in self._cluster.brokers.values():
            if not broker.running and broker.name not in self._suffering:
                output = broker.output()
                broker.launch()
                yield broker.name, output.decode(errors="replace").strip().rpartition("\n")[2], READY in output

    # Logs --------------------------------------------------------------------------------------------------------

    def _fill_disk(self, fault: Fault) -> Begun | None:
        broker = self._cluster.brokers[BROKER_WITH_SMALL_DISK]
        if broker.name in self._suffering or not broker.fill_disk():
            return None

        def undo() -> None:
            broker.empty_disk()
            broker.launch()  # it ended, if something was written to it meanwhile

        return Begun((broker.name,), undo)

    def _forbid_files(self, fault: Fault) -> Begun | None:
        broker = self._choose_broker(fault)
        if broker is None:
            return None
        broker.forbid_files()
        return Begun((broker.name,), broker.allow_files)

    def _flip(self, fault: Fault) -> Begun | None:
        broker = self._choose_broker(fault)
        flip = broker.flip(fault.pick) if broker is not None else None
        if flip is None:
            return None
        self._cluster.note_flip(flip)
        return Begun((f"{flip.where} at {flip.offset}",), _nothing)

    def _retention(self, fault: Fault) -> Begun | None:
        """Have a broker keep next to nothing, while all members of a group are stopped."""
        broker = self._choose_broker(fault)
        members = self._cluster.live("member", GROWING if fault.pick < 0.5 else STEADY)
        if broker is None or self._suffering.intersection(member.name for member in members):
            return None
        broker.kill()
        broker.change(SHORT_RETENTION)
        broker.launch()
        for member in members:
            member.pause()

        def undo() -> None:
            for member in members:
                member.resume()
            broker.kill()
            broker.change({})
            broker.launch()

        return Begun((broker.name, *(member.name for member in members)), undo)

    def _clock_steps(self, fault: Fault) -> Begun | None:
        broker = self._choose_broker(fault)
        if broker is None or not broker.step_clock(_chosen(fault.pick * 7 % 1, CLOCK_STEPS_S)):
            return None
        return Begun((broker.name,), lambda: broker.step_clock(0.0))

    # Topics and brokers ------------------------------------------------------------------------------------------

    def _topic_born(self, fault: Fault) -> Begun | None:
        if len(self._cluster.topics()) >= MOST_TOPICS:
            return None
        return Begun((self._cluster.grow_topics(),), _nothing)

    def _broker_added(self, fault: Fault) -> Begun | None:
        if len(self._cluster.brokers) >= MOST_BROKERS:
            return None
        return Begun((self._cluster.add_broker().name,), _nothing)

    def _partitions_grow(self, fault: Fault) -> Begun | None:
        broker = self._choose_broker(fault)
        if broker is None or not broker.grow(MOST_PARTITIONS):
            return None
        broker.kill()
        broker.launch()
        return Begun((broker.name,), _nothing)

    def _broker_moves(self, fault: Fault) -> Begun | None:
        broker = self._choose_broker(fault)
        if broker is None:
            return None
        broker.kill()
        broker.move()
        return Begun((broker.name,), broker.launch)

    # Groups ------------------------------------------------------------------------------------------------------

    def _join(self, fault: Fault) -> Begun | None:
        if len(self._cluster.live("member", GROWING)) >= MOST_MEMBERS:
            return None
        return Begun((self._cluster.add_member(GROWING).name,), _nothing)

    def _leave(self, fault: Fault) -> Begun | None:
        members = [each for each in self._cluster.live("member", GROWING) if each.has_begun]
        member = self._choose(fault, members)
        if member is None or len(members) <= FEWEST_MEMBERS:
            return None
        member.leave()
        return Begun((member.name,), _nothing)

    # Links -------------------------------------------------------------------------------------------------------

    def _link(self, fault: Fault) -> Begun | None:
        every = self._cluster.links.every
        names = [name for name in self._links_between(fault) if name not in self._suffering]
        only_pid = None
        whom = tuple(names)
        if fault.between in {"member-broker", "producer-broker"} and names:
            client = self._choose(fault, self._cluster.live(fault.between.split("-")[0]))
            if client is None:
                return None
            only_pid = client.process.pid
            whom = (*names, client.name)
        if not names:
            return None
        ways = tuple(Way) if fault.ways == "both" else (Way(fault.ways),)
        for name in names:
            every[name].turn(Mode(fault.mode), ways, only_pid=only_pid)

        def undo() -> None:
            for name in names:
                every[name].turn(Mode.OPEN)

        return Begun(whom, undo)

    def _links_between(self, fault: Fault) -> list[str]:
        """Return the names of links: of one client to one server of ZooKeeper or to all, or to one broker."""
        ensemble = self._cluster.ensemble
        if fault.between.endswith("-broker"):
            return [f"clients to broker-{_chosen(fault.pick * 7 % 1, list(self._cluster.brokers))}"]
        if fault.between == "zookeeper-zookeeper":
            leader = ensemble.leader()
            if leader is None:
                return []
            follower = _chosen(fault.pick, [number for number in SERVERS if number != leader.number])
            return [f"zookeeper-{follower} to {leader.name}"]
        if fault.between == "broker-zookeeper":
            clients = [broker.name for broker in self._cluster.brokers.values()]
        else:
            clients = [client.name for client in self._cluster.live(fault.between.split("-")[0])]
        if not clients:
            return []
        servers = _chosen(fault.pick * len(clients) % 1, [(1,), (2,), (3,), SERVERS, SERVERS])
        return [f"{_chosen(fault.pick, clients)} to zookeeper-{number}" for number in servers]

    # Choices -----------------------------------------------------------------------------------------------------

    def _choose_broker(self, fault: Fault) -> ChaosBroker | None:
        brokers = [
            broker for broker in self._cluster.brokers.values() if broker.running and broker.name not in self._suffering
        ]
        return _chosen(fault.pick, brokers) if brokers else None

    def _choose(self, fault: Fault, among: Sequence[T]) -> T | None:
        able = [each for each in among if each.name not in self._suffering]  # type: ignore[attr-defined]
        return _chosen(fault.pick, able) if able else None


def _chosen(pick: float, among: Sequence[T]) -> T:
    return among[int(pick * len(among))]


def start_clients(cluster: Cluster) -> None:
    """Start the producers, and the first members of both groups: in the steady one, one of each style."""
    for style in PRODUCERS:
        cluster.add_producer(style)
    cluster.add_member(STEADY, "lists")
    cluster.add_member(STEADY, "pauses")
    cluster.add_member(GROWING, "one")
    cluster.add_member(GROWING, "by-hand")
