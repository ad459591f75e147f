"""Does to a cluster what a schedule says, and undoes it."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

from integration.chaos.cluster import BROKER_WITH_SMALL_DISK, MOST_BROKERS, PRODUCERS, READY
from integration.chaos.ensemble import SERVERS, names_of_links
from integration.chaos.faults import Begun, Faults, Named, chosen
from integration.chaos.links import Mode, Way
from integration.chaos.power_cut import TAILS
from integration.chaos.records import TODAY
from integration.chaos.schedule import GATEWAY_LINK, SHORT_RETENTION_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from integration.chaos.broker import ChaosBroker
    from integration.chaos.cluster import Client, Cluster
    from integration.chaos.ensemble import ZooKeeperServer
    from integration.chaos.schedule import Fault

    ToServer = Callable[[ZooKeeperServer], None]

GROWING, STEADY = "growing", "steady"
FEWEST_MEMBERS, MOST_MEMBERS = 1, 8
MOST_TOPICS = 3
CLOCK_STEPS_S = (-86_400.0, -1800.0, -10.0, 10.0, 1800.0, 7200.0, 10 * 86_400.0, 400 * 86_400.0)
MOST_PARTITIONS = 4
_AGAINST = {Way.FORTH: Way.BACK, Way.BACK: Way.FORTH}
SHORT_RETENTION = {"log.retention.size": SHORT_RETENTION_BYTES, "log.cleanup.interval.mins": 0.005}


def _nothing() -> None:
    pass


class ClusterFaults(Faults):
    """The faults that a cluster may suffer."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        kinds = {
            "kill member": self._kill_member,
            "kill broker": lambda fault: self.ended(self._choose_broker(fault), lambda broker: broker.kill()),
            "kill producer": self._kill_producer,
            "kill leader": self._kill_leader,
            "pause member": lambda fault: self.paused(self._choose(fault, cluster.live("member"))),
            "pause producer": lambda fault: self.paused(self._choose(fault, cluster.live("producer"))),
            "pause broker": lambda fault: self.paused(self._choose_broker(fault)),
            "pause zookeeper": lambda fault: self.paused(self._choose(fault, list(cluster.ensemble.servers.values()))),
            "pause ensemble": self._pause_ensemble,
            "ensemble down": self._ensemble_down,
            "join": self._join,
            "leave": self._leave,
            "link": self._link,
            "power cut": self._cut_power,
            "disk full": lambda _: self.filled([cluster.brokers[BROKER_WITH_SMALL_DISK]]),
            "no files": self._forbid_files,
            "bit flip": self._flip,
            "retention": self._retention,
            "clock steps": self._clock_steps,
            "topic born": self._topic_born,
            "broker added": self._broker_added,
            "partitions grow": self._partitions_grow,
            "broker moves": self._broker_moves,
        }
        super().__init__(kinds, cluster.brokers.values(), cluster.gateways)

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

    def _kill_leader(self, fault: Fault) -> Begun | None:
        leader = self._cluster.ensemble.leader()
        if leader is None or leader.name in self.suffering:
            return None
        leader.kill()
        return Begun((leader.name,), leader.start)

    def _pause_ensemble(self, fault: Fault) -> Begun | None:
        return self._every_server(lambda server: server.pause(), lambda server: server.resume())

    def _ensemble_down(self, fault: Fault) -> Begun | None:
        return self._every_server(lambda server: server.kill(), lambda server: server.start())

    def _every_server(self, do: ToServer, undo: ToServer) -> Begun | None:
        servers = list(self._cluster.ensemble.servers.values())
        names = tuple(server.name for server in servers)
        if self.suffering.intersection(names):
            return None

        def each(act: ToServer) -> None:
            for server in servers:
                act(server)

        each(do)
        return Begun(names, lambda: each(undo))

    # Logs --------------------------------------------------------------------------------------------------------

    def _cut_power(self, fault: Fault) -> Begun | None:
        broker = self._choose_broker(fault)
        if broker is None or READY not in broker.output():  # what it had cut before may not have been recovered
            return None
        vanished = broker.cut_power(chosen(fault.pick * 7 % 1, TAILS))
        if vanished is None:
            return None
        self._cluster.vanished |= vanished
        return Begun((broker.name,), broker.launch)

    def _forbid_files(self, fault: Fault) -> Begun | None:
        broker = self._choose_broker(fault)
        if broker is None or READY not in broker.output():  # Python itself may not have started
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
        if broker is None or self.suffering.intersection(member.name for member in members):
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
        """Set the wall clocks of a broker, a member and a producer off by the same.

        One that starts meanwhile takes its clock for right, so a broker has to be ready.
        """
        cluster = self._cluster
        brokers = [each for each in cluster.brokers.values() if each.running and READY in each.output()]
        kinds: list[Sequence[ChaosBroker | Client]] = [brokers, cluster.live("member"), cluster.live("producer")]
        able = ([each for each in kind if each.clock.can_step] for kind in kinds)
        stepping = [each for kind in able if (each := self._choose(fault, kind)) is not None]
        for each in stepping:
            each.clock.step(chosen(fault.pick * 7 % 1, CLOCK_STEPS_S))

        def undo() -> None:
            for each in stepping:
                each.clock.step(0.0)

        return Begun(tuple(each.name for each in stepping), undo) if stepping else None

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
        ways_of = {name: ways for name, ways in self._links_between(fault).items() if name not in self.suffering}
        only_pid = None
        whom = tuple(ways_of)
        if fault.between in {"member-broker", "producer-broker"} and ways_of:
            client = self._choose(fault, self._cluster.live(fault.between.split("-")[0]))
            if client is None:
                return None
            only_pid = client.process.pid
            whom = (*ways_of, client.name)
        if not ways_of:
            return None
        for name, ways in ways_of.items():
            every[name].turn(Mode(fault.mode), ways, only_pid=only_pid)

        def undo() -> None:
            for name in ways_of:
                every[name].turn(Mode.OPEN)

        return Begun(whom, undo)

    def _links_between(self, fault: Fault) -> dict[str, tuple[Way, ...]]:
        """Return the links that fail, by name, and which way: of a client to servers, to one broker; of two servers."""
        ways = tuple(Way) if fault.ways == "both" else (Way(fault.ways),)
        if fault.between.endswith("-broker"):
            return {f"clients to broker-{chosen(fault.pick * 7 % 1, list(self._cluster.brokers))}": ways}
        if fault.between == "zookeeper-zookeeper":
            one, other = chosen(fault.pick, list(permutations(SERVERS, 2)))
            back = tuple(_AGAINST[way] for way in ways)
            return dict.fromkeys(names_of_links(one, other), ways) | dict.fromkeys(names_of_links(other, one), back)
        if fault.between == "broker-zookeeper":
            clients = [broker.name for broker in self._cluster.brokers.values()]
        elif fault.between == GATEWAY_LINK:
            clients = [gateway.name for gateway in self._cluster.gateways]
        else:
            clients = [client.name for client in self._cluster.live(fault.between.split("-")[0])]
        if not clients:
            return {}
        servers = chosen(fault.pick * len(clients) % 1, [(1,), (2,), (3,), SERVERS, SERVERS])
        return {f"{chosen(fault.pick, clients)} to zookeeper-{number}": ways for number in servers}

    # Choices -----------------------------------------------------------------------------------------------------

    def _choose_broker(self, fault: Fault) -> ChaosBroker | None:
        brokers = [broker for broker in self.able(self._cluster.brokers.values()) if broker.running]
        return chosen(fault.pick, brokers) if brokers else None

    def _choose(self, fault: Fault, among: Sequence[Named]) -> Named | None:
        able = self.able(among)
        return chosen(fault.pick, able) if able else None


def start_clients(cluster: Cluster) -> None:
    """Start the producers, with gateways one of today too, and the first members of both groups.

    In the steady one, there is one of each style.
    """
    for style in (*PRODUCERS, *([TODAY] if cluster.gateways else [])):
        cluster.add_producer(style)
    cluster.add_member(STEADY, "lists")
    cluster.add_member(STEADY, "pauses")
    cluster.add_member(GROWING, "one")
    cluster.add_member(GROWING, "by-hand")
