"""Three replicas of a broker id, clients, ZooKeeper and a network, of which a walk drawn from a seed says what happens.

`Referee` says what must hold at each step; when all is well again, everything must be readable, confirmed and the same
everywhere.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING

from kafka2011.replica.in_sync import LeadLostError
from kafka2011.replica.known import Known
from kafka2011.replica.serving import Answer, answer_to_fetch
from kafka2011.replica.state import Lead, Replica, ReplicaState, choose_role
from tests.models.replica.process import Disk, Process
from tests.models.replica.referee import BrokenPromiseError, Referee
from tests.models.replica.registry import Nodes, Registry
from tests.models.replica.restored import Restored
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafka2011.replica.barriers import Barrier, ClientAppends
    from kafka2011.replica.exchange import ReplicaData, ReplicaFetch

PARTITIONS = (TopicPartition("views", 0, 0), TopicPartition("views", 0, 1))
NAMES = ("a", "b", "c")
STEPS = 400
MOST_MESSAGES = 24
ROUNDS_OF_REST = 60


class StuckError(AssertionError):
    """All is well again, and replicas do not become the same, or nothing is confirmed."""


@dataclass(eq=False)
class Client:
    """One connection of a producer, with what it sent and whether that was confirmed."""

    process: Process
    life: int
    account: ClientAppends
    sent: list[tuple[TopicPartition, int, bytes]] = field(default_factory=list)
    waiting: list[tuple[Barrier, list[tuple[TopicPartition, int, bytes]]]] = field(default_factory=list)


class World:
    """Everything, with what may go wrong in this walk and how often."""

    def __init__(self, seed: int, faults: frozenset[str] = frozenset()) -> None:
        self.chance = chance = Random(seed)
        self.faults = faults
        self.copies: dict[str, list[Disk]] = {name: [] for name in NAMES}
        self.restored: Restored | None = None
        self._connections = self._draws = 0
        self.counts: Counter[str] = Counter()
        self.now_s = 0.0
        self.range_bytes = chance.choice([1, 3, 64])
        self.min_in_sync = chance.choice([1, 1, 2])
        self.partitions = PARTITIONS[: chance.choice([1, 1, 2])]
        self.referee = Referee()
        self.processes = [Process(name, self.new_disk(name), self) for name in NAMES]
        replicas = [process.me for process in self.processes]
        state = ReplicaState(0, None, frozenset(replicas[: chance.randint(1, 3)]))
        lost_answers, lag = chance.choice([0.0, 0.1, 0.4]), chance.choice([0.0, 0.2, 0.5])
        self.registry = Registry(chance, [Nodes(state)], lost_answers, lag)
        self.clients: list[Client] = []
        self.messages = 0
        self.questions: list[tuple[Process, ReplicaFetch, Process]] = []
        self.answers: list[tuple[Process, ReplicaFetch, ReplicaData]] = []
        for process in self.processes:
            process.start()
        self._weights = self._draw_weights()
        if chance.random() < 0.7:
            for _ in range(3):
                for process in self.processes:
                    self.be_well(process)

    def count(self, what: str) -> None:
        self.counts[what] += 1

    def next_connection(self) -> int:
        self._connections += 1
        return self._connections

    def draw(self) -> str:
        self._draws += 1
        return str(self._draws)

    def new_disk(self, name: str) -> Disk:
        return Disk(Known(Replica(name, f"{self.chance.getrandbits(32):08x}")))

    def _draw_weights(self) -> dict[str, float]:
        chance = self.chance
        often = chance.choice([0.3, 1.0])
        rare = [0.0, 0.2 * often, 0.5 * often]
        return {
            "look": 6,
            "ask": 6,
            "deliver": 14,
            "drop": chance.choice([0, 0.5, 2]),
            "flush": 6,
            "write": 4,
            "register": 2,
            "connect": 2,
            "produce": chance.choice([4, 8]),
            "barrier": 3,
            "confirm": 4,
            "fetch": 2,
            "wait": chance.choice([0.2, 1, 3]),
            "go_on": 2,
            "persist": chance.choice([0, 1]),
            "roll": chance.choice([0, 1, 3]),
            "retain": chance.choice([0, 2]),
            "die": chance.choice(rare),
            "lose_leader": often * chance.choice([0.0, 0.3, 0.8]),
            "lose_power": chance.choice(rare),
            "lose_all_power": chance.choice([0, 0, 0.3]),
            "start": 2,
            "wipe": often * chance.choice([0, 0.5]),
            "end_session": chance.choice(rare),
            "reconnect": chance.choice([0, 0.5]),
            "elect": chance.choice([0, 0, 8]),
            **self._draw_faults(),
        }

    def _draw_faults(self) -> dict[str, float]:
        """Return how often state goes back; nothing is drawn without these faults."""
        weights: dict[str, float] = {}
        if "copy" in self.faults:
            weights |= {"copy": self.chance.choice([1, 3]), "go_back": self.chance.choice([0.5, 1.5])}
        if "end" in self.faults:
            weights |= {"lose_end": self.chance.choice([0.5, 1.5])}
        if "zookeeper" in self.faults:
            weights |= {"restore_zookeeper": self.chance.choice([0.1, 0.4])}
        if "delete" in self.faults:
            weights |= {"delete": self.chance.choice([0.1, 0.4])}
        return {**weights, "floor": 6} if weights else weights

    # Steps

    def walk(self) -> None:
        """Take random steps."""
        names, weights = list(self._weights), list(self._weights.values())
        for name in self.chance.choices(names, weights, k=STEPS):
            getattr(self, f"_{name}")()
            self.check()

    def check(self) -> None:
        """Compare what every replica lets clients read, and what it would never cut."""
        if self.restored is not None:
            self.restored.check(self.processes)
            if self.restored.has_branched:
                return
        for process in self.processes:
            epoch = process.known.epoch if process.term is None else process.term.epoch
            self._check_deletions(process, epoch)
            if process.is_alive and epoch >= self.referee.loss_epoch:
                for where, readable in process.readable().items():
                    if where in process.disk.logs:
                        self.referee.look(where, process.disk.logs[where], readable, process.name)

    def _check_deletions(self, process: Process, epoch: int) -> None:
        """Check that a process which acts in an epoch has no log of a topic that was deleted before."""
        if process.term is None and process.following is None:
            return
        for where, log in process.disk.logs.items():
            if epoch >= self.referee.deletions[where.topic] > log.deletion:
                raise BrokenPromiseError(f"{where} was deleted, and {process.name} has it in epoch {epoch}")

    def begins(self, leader: Process, state: ReplicaState) -> None:
        """Look at what a new leader has."""
        try:
            self.referee.begins(leader.disk.logs, state.loss_epoch, leader.name)
        except BrokenPromiseError:
            if self.restored is None:
                raise
            self.restored.branches(self.referee, self.registry.now, leader)
            self.count("ZooKeeper went back: one leads that lacks something, and nobody is there who knows")
            self._forget(leader, state.loss_epoch)

    def _forget(self, leader: Process, loss_epoch: int) -> None:
        self.referee = Referee()
        self.referee.loss_epoch = loss_epoch
        self.referee.begins(leader.disk.logs, loss_epoch, leader.name)

    def _one(self, processes: Iterable[Process]) -> Process | None:
        found = list(processes)
        return self.chance.choice(found) if found else None

    def _alive(self) -> Process | None:
        return self._one(process for process in self.processes if process.is_alive)

    def _leader(self) -> Process | None:
        return self._one(process for process in self.processes if process.term is not None)

    def _look(self) -> None:
        process = self._alive()
        if process is not None:
            process.look()

    def _ask(self) -> None:
        process = self._alive()
        if process is not None:
            self._ask_of(process)

    def _ask_of(self, process: Process) -> None:
        fetch = process.ask()
        if fetch is not None and process.following is not None:
            to = next(each for each in self.processes if each.name == process.following.role.leader.name)
            self.questions.append((process, fetch, to))

    def _deliver(self) -> None:
        """Deliver one message, in no order."""
        of = self.chance.randrange(len(self.questions) + len(self.answers) + 1)
        if of < len(self.questions):
            self._hear(*self.questions.pop(of))
        elif of - len(self.questions) < len(self.answers):
            follower, fetch, data = self.answers.pop(of - len(self.questions))
            if follower.is_alive:
                follower.take(fetch, data)

    def _hear(self, follower: Process, fetch: ReplicaFetch, leader: Process) -> None:
        data = leader.answer(fetch) if leader.is_alive else None
        if data is not None:
            self.answers.append((follower, fetch, data))
        elif follower.asked is fetch:
            follower.connect_to_leader()  # the connection has ended

    def _drop(self) -> None:
        """Have a follower give up its connection, on which a question may still be under way."""
        process = self._alive()
        if process is not None:
            process.connect_to_leader()

    def _floor(self) -> None:
        process = self._leader()
        if process is not None:
            process.note_floor()

    def _flush(self) -> None:
        process = self._alive()
        if process is not None:
            process.flush(self.chance.choice(self.partitions))
            if process.term is not None:
                process.term.advance(self.now_s)

    def _write(self) -> None:
        process = self._alive()
        if process is not None:
            process.write_state()

    def _register(self) -> None:
        process = self._alive()
        if process is not None:
            process.register()

    def _wait(self) -> None:
        self.now_s += self.chance.choice([0.5, 1, 5])

    def _go_on(self) -> None:
        self.registry.go_on()

    def _persist(self) -> None:
        process = self._alive()
        if process is not None:
            process.persist()

    def _roll(self) -> None:
        process = self._leader()
        if process is not None:
            process.roll(self.chance.choice(self.partitions))

    def _retain(self) -> None:
        process = self._leader()
        if process is not None:
            process.retain(self.chance.choice(self.partitions))

    # What goes wrong

    def _die(self) -> None:
        process = self._alive()
        if process is not None:
            process.die()
            self.count("crashes")

    def _lose_leader(self) -> None:
        """Have a leader die, or its session end unnoticed."""
        process = self._leader()
        if process is not None:
            if self.chance.random() < 0.6:
                process.die()
            self.registry.end(process.session)
            self.count("leaders lost")

    def _lose_power(self) -> None:
        process = self._alive()
        if process is not None:
            self._cut_power(process)

    def _lose_all_power(self) -> None:
        for process in self.processes:
            self._cut_power(process)

    def _cut_power(self, process: Process) -> None:
        if process.is_alive:
            process.die()
            for log in process.disk.logs.values():
                log.lose_power(self.chance)
            self.count("power cuts")

    def _start(self) -> None:
        process = self._one(process for process in self.processes if not process.is_alive)
        if process is not None:
            process.start()

    def _wipe(self) -> None:
        """Replace the disk of a dead process, if another replica that is in sync keeps its own."""
        process = self._one(process for process in self.processes if not process.is_alive)
        others = {each.me for each in self.processes if each is not process}
        if process is None or "zookeeper" in self.faults or (self.faults and not self._is_one_fault(process)):
            return
        if self.registry.is_certain(lambda state: bool(state.in_sync & others)):
            process.disk = self.new_disk(process.name)
            self.count("wiped disks")

    def _copy(self) -> None:
        """Copy a disk, as a snapshot does."""
        process = self.chance.choice(self.processes)
        self.copies[process.name].append(process.disk.copy())

    def _go_back(self) -> None:
        """Put an earlier copy of its disk at a process, while that is down."""
        process = self._victim()
        copies = [] if process is None else [it for it in self.copies[process.name] if it.known.replica == process.me]
        if process is not None and copies:
            self._start_with(process, self.chance.choice(copies[-4:]).copy(), "disks put back")

    def _lose_end(self) -> None:
        """Have the disk of a process lose, while that is down, what it had said was fsynced."""
        process = self._victim()
        if process is not None and process.disk.logs:
            disk = process.disk.copy()
            disk.logs[self.chance.choice(sorted(disk.logs))].lose_end(self.chance.choice([1, 2, 4]))
            self._start_with(process, disk, "ends lost")

    def _victim(self) -> Process | None:
        """Have a process be down whose disk may be hurt: another one that is in sync has everything."""
        process = self.chance.choice(self.processes)
        if not self._is_one_fault(process):
            return None
        if process.is_alive:
            self._cut_power(process)
            if self.chance.random() < 0.7:
                self.registry.end(process.session)
        return process

    def _is_one_fault(self, victim: Process) -> bool:
        others = {it.me for it in self.processes if it is not victim and self._has_all(it.disk) and self._may_lead(it)}
        return self.registry.is_certain(lambda state: bool(state.in_sync & others))

    def _has_all(self, disk: Disk) -> bool:
        """Say, as nobody in the world can, whether a disk has all that clients may have read."""
        has = {where: log.copy_of_disk() for where, log in disk.logs.items()}
        try:
            self.referee.compare(has, "a disk")
        except BrokenPromiseError:
            return False
        return True

    def _may_lead(self, process: Process) -> bool:
        """Say whether nothing in ZooKeeper tells that its disk has gone back."""
        now = self.registry.now
        role = choose_role(
            *(process.me, process.disk.known.epoch, replace(now.state, in_sync=frozenset({process.me})), 0, None),
            is_mine=False,
            has_bytes=process.disk.has_bytes(now.state),
            draw="",
            floor=now.floor,
        )
        return isinstance(role, Lead)

    def _restore_zookeeper(self) -> None:
        """Put ZooKeeper back to a copy of before the newest few writes of the state; it was away for long."""
        if self.restored is None:
            version = self.registry.now.version
            older = [it for it in self.registry.history if version - 8 <= it.version < version]
            if older:
                self.restore_zookeeper(self.chance.choice(older))

    def restore_zookeeper(self, nodes: Nodes) -> None:
        """Put ZooKeeper back; nobody serves any more by then, as no lease is renewed."""
        for process in self.processes:
            process.lose_lease()
        self.restored = Restored(self.referee)
        self.registry.go_back(nodes)
        self.count("ZooKeeper went back")

    def _start_with(self, process: Process, disk: Disk, what: str) -> None:
        """Start a process with another disk, later than a leader has patience, and have others be lost after that."""
        before, process.disk = process.disk, disk
        in_sync = process.me in self.registry.now.state.in_sync
        if process.disk.known.epoch > self.registry.now.state.epoch or (
            in_sync and not self._has_all(disk) and self._may_lead(process)
        ):
            process.disk = before
            self.count(f"{what}: nobody can tell")
            return
        self.count(what if self._has_all(disk) else f"{what}: something is missing")
        self.now_s += self.chance.choice([5, 20])
        if self.chance.random() < 0.7:
            process.start()
            self._hurry(process)

    def _hurry(self, process: Process) -> None:
        """Have much happen between one that has just started and a leader, and perhaps lose the others then."""
        for _ in range(self.chance.choice([0, 4, 10, 20])):
            leader = self._leader()
            if leader is not None:
                leader.look()
                leader.write_state()
            process.look()
            self._ask_of(process)
            self._deliver()
            self._flush()
            self.registry.go_on()
            self.check()
        if self.chance.random() < 0.6:
            for other in self.processes:
                if other is not process:
                    self._cut_power(other)
                    self.registry.end(other.session)
            for _ in range(3):
                process.look()
                process.flush(self.partitions[0])
                self.check()

    def _delete(self) -> None:
        process = self._leader()
        if process is not None:
            process.delete(self.partitions[0].topic)

    def _end_session(self) -> None:
        if self.registry.sessions:
            self.registry.end(self.chance.choice(sorted(self.registry.sessions)))
            self.count("ended sessions")

    def _reconnect(self) -> None:
        process = self._alive()
        if process is not None:
            process.reconnect()

    def _elect(self) -> None:
        """Have an operator elect a replica when none that is in sync is there."""
        elected = None if "zookeeper" in self.faults else self._alive()
        state = self.registry.now.state
        if (
            elected is None
            or self.registry.now.leader is not None
            or elected.following is not None
            or any(each.is_alive and each.me in state.in_sync for each in self.processes)
            or not self.registry.is_certain(lambda _: True)
        ):
            return
        self.elect(elected.me)
        self.count("elections")

    def elect(self, replica: Replica) -> None:
        """Have an operator elect a replica."""
        now = self.registry.now
        seen_epoch = max(process.known.epoch for process in self.processes)
        elected = now.state.elected(replica, now.version, self.draw(), seen_epoch)
        self.registry.history.append(now.write(elected, now.version))

    # Clients

    def _connect(self) -> None:
        process = self._one(process for process in self.processes if process.is_serving)
        if process is not None and process.term is not None:
            self.clients = self.clients[-2:]
            self.clients.append(Client(process, process.life, process.term.new_client()))

    def _client(self) -> Client | None:
        """Return a client whose connection stands, as far as its end at the broker knows."""
        usable = [
            each
            for each in self.clients
            if each.process.is_alive and each.process.life == each.life and each.process.term is not None
        ]
        return self.chance.choice(usable) if usable else None

    def _produce(self) -> None:
        client = self._client()
        if client is not None and self.messages < MOST_MESSAGES:
            self.send(client, self.chance.choice(self.partitions))

    def send(self, client: Client, where: TopicPartition, message: bytes | None = None) -> None:
        """Send a message."""
        term = client.process.term
        if term is None or not term.takes_produces():
            self.clients.remove(client)
            return
        message = message or self._message()
        try:
            offset = client.process.produce(where, message)
            client.account.appended(where, offset + len(message))
        except LeadLostError:
            self.clients.remove(client)
            return
        client.sent.append((where, offset, message))

    def _message(self) -> bytes:
        """Return a new message; now and then one that was sent before, perhaps for the same place."""
        if self.chance.random() < 0.7:
            self.messages += 1
        return b"m%c" % self.chance.choice([self.messages, max(self.messages - 1, 1)])

    def _barrier(self) -> None:
        client = self._client()
        if client is not None and client.sent:
            try:
                client.waiting.append((client.account.barrier(), list(client.sent)))
            except LeadLostError:
                self.clients.remove(client)

    def _confirm(self) -> None:
        self.confirm()

    def confirm(self) -> None:
        """Tell a client what is safe, if that is due."""
        client = self._client()
        if client is None or not client.waiting or client.process.term is None:
            return
        barrier, sent = client.waiting[0]
        try:
            if not barrier.is_due(client.process.term.readable):
                return
        except LeadLostError:
            self.clients.remove(client)
            return
        client.waiting.pop(0)
        self.check()
        is_old = client.process.term.epoch < max(self.referee.deletions.values(), default=0)
        if not is_old and (self.restored is None or not self.restored.has_branched):
            for where, offset, message in sent:
                self.referee.is_confirmed(where, offset, message)
        client.sent = client.sent[len(sent) :]
        client.waiting = [(each, waiting[len(sent) :]) for each, waiting in client.waiting]
        self.count("confirmed")

    def _fetch(self) -> None:
        process = self._one(process for process in self.processes if process.is_serving)
        where = self.chance.choice(self.partitions)
        if process is not None:
            self.fetch(process, where)

    def fetch(self, process: Process, where: TopicPartition) -> None:
        """Have a consumer that has read everything ask for more."""
        if process.term is None or where not in process.disk.logs:
            return
        if self.referee.is_deleted(where, process.disk.logs[where]):
            return
        log, readable = process.disk.logs[where], process.term.readable(where)
        answer = answer_to_fetch(
            self.referee.ends[where],
            log.start_offset,
            readable,
            log.appended_end_offset,
            is_leading=process.has_lease(),
        )
        if answer is Answer.OUT_OF_RANGE:
            self.referee.is_out_of_range(where, process.name)
        self.count(f"fetches: {answer.name.lower()}")

    # Rest

    def rest(self) -> None:
        """Let all be well, and see that everybody comes to have the same, and that a message is confirmed."""
        self.registry.lost_answers = self.registry.lag = 0.0
        self.questions.clear()
        self.answers.clear()
        while self.registry.is_busy:
            self.registry.go_on()
        for session in sorted(self.registry.sessions):
            self.registry.end(session)
        for process in self.processes:
            if not process.is_alive:
                process.start()
            process.connect_to_leader()
        self._choose_line()
        alive = {process.me for process in self.processes}
        if not alive & self.registry.now.state.in_sync:
            return  # all disks of those in sync are gone: an operator has to say what then
        client = None
        for _ in range(ROUNDS_OF_REST * (2 if self.faults else 1)):  # one that has gone back waits before it follows
            self.now_s += 0.1
            for process in self.processes:
                self.be_well(process)
            leader = next((process for process in self.processes if process.is_serving), None)
            if leader is not None and leader.term is not None and client is None:
                self.clients.clear()
                if leader.term.takes_produces():
                    client = Client(leader, leader.life, leader.term.new_client())
                    self.clients.append(client)
                    self.send(client, self.partitions[0])
                    self._barrier()
            self.check()
        self._is_well(client)

    def _choose_line(self) -> None:
        """Have an operator elect one, if ZooKeeper went back and that is needed."""
        if self.restored is None:
            return
        for _ in range(10):
            self.now_s += 0.1
            for process in self.processes:
                self.be_well(process)
            self.check()
        elected = self.restored.elected(self.registry.now, self.processes)
        if elected is None:
            self.count("ZooKeeper went back: nobody is needed")
            return
        best, outcome = elected
        self.count(f"ZooKeeper went back: {outcome}")
        self.elect(best)
        self.restored, self.referee = None, Referee()

    def be_well(self, process: Process) -> None:
        """Have a process do all that it has to do, with answers."""
        process.look()
        self._ask_of(process)
        while self.questions:
            self._hear(*self.questions.pop())
        while self.answers:
            follower, fetch, data = self.answers.pop()
            follower.take(fetch, data)
        for where in self.partitions:
            process.flush(where)
        if process.term is not None:
            process.term.advance(self.now_s)
        process.write_state()
        while self.registry.is_busy:
            self.registry.go_on()
        process.write_state()
        process.note_floor()
        process.register()

    def _is_well(self, client: Client | None) -> None:
        state = self.registry.now.state
        if state.in_sync != {process.me for process in self.processes}:
            raise StuckError(f"in sync are only {state.in_sync}")
        if client is None or not client.waiting:
            raise StuckError("nothing could be sent")
        before = self.counts["confirmed"]
        self.confirm()
        if self.counts["confirmed"] != before + 1:
            raise StuckError("what was sent is not confirmed")
        leader = client.process
        for where, log in leader.disk.logs.items():
            if leader.readable()[where] != log.appended_end_offset:
                raise StuckError(f"{where} can be read to {leader.readable()[where]} of {log.appended_end_offset}")
            for process in self.processes:
                copy = process.disk.logs[where]
                from_offset = max(log.start_offset, copy.start_offset)
                if copy.since(from_offset) != log.since(from_offset):
                    raise StuckError(f"{where}: {copy.now} at {process.name}, not {log.now}")


def calm() -> World:
    """Return a world in which nothing goes wrong by itself: all three are in sync and have a message, and one leads."""
    world = World(0)
    world.registry.lost_answers = world.registry.lag = 0.0
    world.partitions = PARTITIONS[:1]
    world.min_in_sync = 1
    state = ReplicaState(world.registry.now.state.epoch, None, frozenset(process.me for process in world.processes))
    for process in world.processes:
        process.die()
        world.registry.end(process.session)
    world.registry.history.append(Nodes(state, world.registry.now.version + 1))
    for process in world.processes:
        process.start()
    for number in range(12):
        for process in world.processes:
            world.be_well(process)
            if number == 4 and process.term is not None:
                client = Client(process, process.life, process.term.new_client())
                world.clients = [client]
                world.send(client, world.partitions[0], b"s0")
    world.clients.clear()
    world.check()
    return world


def walk(seed: int, *faults: str) -> World:
    """Take one walk, let all be well at its end, and return what there is then.

    Of `faults`, "copy" puts disks back to earlier copies, "end" loses the end of what was fsynced, and "zookeeper" puts
    that back.
    """
    world = World(seed, frozenset(faults))
    try:
        world.walk()
        world.rest()
    except Exception as why:
        why.add_note(f"seed {seed}")
        raise
    return world
