"""A whole group in memory that goes on one event at a time, and can be brought to rest."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafka2011.message import MessageSet
from tests.models.group.client import ModelClient
from tests.models.group.ensemble import Change, Ensemble
from tests.models.group.member import ModelMember
from tests.models.group.member_of_07 import MemberOf07
from tests.models.group.referee import GROUP, OFFSETS, OWNERS, TOPIC, TOPICS, Referee, Violation
from tests.models.group.tasks import Tasks
from tests.support.clocks import ManualClock
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from kafka2011.message import Message

Action = tuple[str | int, ...]
_ROUNDS = 200
_MOST_PARTITIONS = 3  # of a broker, now or later


@dataclass(frozen=True)
class Scenario:
    """Where a search begins, and what may happen in it, each so many times at most.

    `members` says which server each is connected to; those `of_07` behave as Kafka 0.7 does. `is_atomic`: what a member does is not interrupted, so that only
    the order of events is searched.
    """

    members: Mapping[str, int]
    events: Mapping[Action, int] = field(default_factory=dict)
    of_07: frozenset[str] = frozenset()
    partitions: Mapping[int, int] = field(default_factory=lambda: {0: 2})
    followers: int = 0
    messages: int = 3
    begin: Callable[[GroupModel], None] = lambda _: None
    is_atomic: bool = False
    delays_callbacks: bool = False  # of watches that fired


class GroupModel:
    """All members of a group, the ensemble, and the logs that are read. `do` takes one step; the referee judges it."""

    compressed = False

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.clock = ManualClock(now_s=100)
        self.tasks = Tasks(self.clock)
        self.ensemble = Ensemble(self.clock, scenario.followers, _tree(scenario.partitions))
        self.members: dict[str, ModelMember | MemberOf07] = {}
        self.referee = Referee(self.ensemble, self._member_of, scenario.of_07)
        self.logs: dict[TopicPartition, bytes] = {}
        for broker_id in scenario.partitions:
            for number in range(_MOST_PARTITIONS):
                self._produce(TopicPartition(TOPIC, broker_id, number), scenario.messages)
        self.left: Counter[Action] = Counter()
        self.steps = 0
        scenario.begin(self)
        self.left = Counter(dict(scenario.events))

    def _member_of(self, session_id: int) -> str:
        return next((name for name, member in self.members.items() if session_id in member.client.sessions), "")

    def _produce(self, where: TopicPartition, messages: int) -> None:
        sets = [bytes(MessageSet([b"%d" % number])) for number in range(messages)]
        ends = [len(sets[0]) * number for number in range(messages + 1)]
        self.logs[where] = b"".join(sets)
        self.referee.offsets[where] = tuple(ends[:-1])
        self.referee.ends[where] = ends[-1]

    # What may happen -------------------------------------------------------------------------------------------------

    def actions(self) -> list[Action]:
        """List what may happen next."""
        found: list[Action] = []
        for name, member in self.members.items():
            if member.client.is_stopped:
                continue
            if member.client.can_be_served:
                found.append(("serve", name))
            if member.is_due and "try" not in member.running:
                found.append(("try", name))
            if member.client.callbacks:
                found.append(("call back", name))
        found.extend(action for action, count in self.left.items() if count > 0 and self._is_possible(action))
        return found

    def _is_possible(self, action: Action) -> bool:
        match action:
            case ("join", str(name)):
                return name not in self.members
            case ("lag" | "cut", int(number)):
                server = self.ensemble.servers[number]
                return not (server.lags if action[0] == "lag" else server.is_cut)
            case ("catch up" | "heal", int(number)):
                server = self.ensemble.servers[number]
                return server.lags if action[0] == "catch up" else server.is_cut
            case ("take away", int(broker_id), int(number)):
                owner = self.referee.owner_of(TopicPartition(TOPIC, broker_id, number))
                return owner is not None and self._member_of(owner) not in self.scenario.of_07
            case (str(what), str(name), *_):
                member = self.members.get(name)
                return member is not None and not member.is_gone and self._is_possible_for(what, member)
        return True

    def _is_possible_for(self, what: str, member: ModelMember | MemberOf07) -> bool:
        client = member.client
        match what:
            case "go on":
                return client.is_stopped
            case "thaw":
                return client.is_frozen_in or client.is_frozen_out
            case "freeze":
                return client.is_connected and not client.is_frozen_out
            case "reconnect":
                return not client.is_connected and not client.is_stopped
            case "drop" | "lose answers":
                return client.is_connected and (what == "drop" or client.can_be_served)
            case "read":
                return not client.is_stopped and (member.in_hand is not None or bool(member.owned))
            case "commit" | "renew" | "leave":
                return not client.is_stopped and not member.is_leaving and what not in member.running
        return True

    def do(self, action: Action) -> None:
        """Let one thing happen."""
        self.steps += 1
        if action in self.left:
            self.left[action] -= 1
        match action:
            case ("second",):
                self._second()
            case ("join", str(name)):
                self.join(name)
            case ("lag" | "catch up", int(number)):
                self.ensemble.lag(number, lags=action[0] == "lag")
            case ("cut" | "heal", int(number)):
                self.ensemble.cut(number, is_cut=action[0] == "cut")
            case ("take away", int(broker_id), int(number)):
                self._take_away(TopicPartition(TOPIC, broker_id, number))
            case ("partitions", int(broker_id), int(count)):
                self._set_partitions(broker_id, count)
            case (str(what), str(name), *rest):
                self._do(what, self.members[name], rest)
            case _:
                raise AssertionError(f"{action} is no action")
        self._go_on()

    def _do(self, what: str, member: ModelMember | MemberOf07, rest: list[str | int]) -> None:
        client = member.client
        match what:
            case "serve":
                client.serve()
            case "call back":
                client.call_back()
            case "read":
                member.read()
            case "kill":
                member.kill()
            case "stop" | "go on":
                client.is_stopped = what == "stop"
                (self.tasks.stopped.add if client.is_stopped else self.tasks.stopped.discard)(member.name)
                client.receive()
            case "freeze":
                client.is_frozen_out = client.is_frozen_in = True
            case "thaw":
                client.is_frozen_out = client.is_frozen_out and rest == ["in"]
                client.is_frozen_in = False
                client.receive()
            case "drop":
                client.disconnect()
            case "lose answers":
                client.is_frozen_in = True
                while client.can_be_served:
                    client.serve()
                client.disconnect()
            case "reconnect":
                client.connect(client.server if not rest else int(rest[0]))
            case "expire":
                self._expire(member)
            case _:
                member.start(what)

    def _go_on(self) -> None:
        """Let everybody go on as far as nothing else is to be decided."""
        self.tasks.run_ready()
        is_idle = False
        while not is_idle:
            is_idle = True
            for member in list(self.members.values()):
                client = member.client
                if client.is_stopped or member.is_gone:
                    continue
                if member.lacks_start and self.clock.now_s >= member.fetch_at_s:
                    member.start("find starts")
                while client.can_be_served and (self.scenario.is_atomic or self._is_quiet(client)):
                    is_idle = False
                    client.serve()
                    self.tasks.run_ready()
            self.referee.note_division()

    def _is_quiet(self, client: ModelClient) -> bool:
        """Whether a request only reads what nobody writes here: its place among others' does not matter."""
        request = client.outbox[0].request
        if request.kind == "create":
            return request.path in self.ensemble.leader.tree and not request.path.startswith(OWNERS)
        return request.path.startswith("/brokers") and request.kind != "sync"

    # Events ----------------------------------------------------------------------------------------------------------

    def join(self, name: str) -> None:
        """Start a member's process."""
        client = ModelClient(self.ensemble, self.tasks, self.scenario.members[name])
        client.delays_callbacks = self.scenario.delays_callbacks
        client.connect(client.server)
        self.members[name] = (
            MemberOf07(name, client, self.tasks, self.referee)
            if name in self.scenario.of_07
            else ModelMember(name, client, self.tasks, self.referee, self)
        )

    def _second(self) -> None:
        """Let a second pass: clients ping, members renew their leases, followers report, and sessions end."""
        self.clock.now_s += 1
        for member in self.members.values():
            member.client.tick()
        self.ensemble.tick()
        self.tasks.run_ready()
        for member in self.members.values():
            if not member.client.is_stopped and member.client.is_connected:
                member.start("renew")

    def _expire(self, member: ModelMember | MemberOf07) -> None:
        """End a session after a silence in which its lease ran out, and all others did what kept theirs."""
        client = member.client
        assert client.last_session is not None
        member.lose_lease()
        self.ensemble.end(client.last_session)
        if not client.is_connected:  # as soon as its server knows
            client.connect(client.server)

    def _take_away(self, where: TopicPartition) -> None:
        """Delete an owner node by its path, as a stranger may."""
        self.ensemble.commit(Change("delete", f"{OWNERS}{where.znode_name}", 0))

    def _set_partitions(self, broker_id: int, count: int) -> None:
        path = f"{TOPICS}{broker_id}"
        if count and path not in self.ensemble.leader.tree:
            self.ensemble.commit(Change("create", path, 0, b"%d" % count))
        elif count:
            self.ensemble.commit(Change("set", path, 0, b"%d" % count))
        elif path in self.ensemble.leader.tree:
            self.ensemble.commit(Change("delete", path, 0))

    # Rest ------------------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Mend everything, let no more events happen, and see that the group comes to rest and loses nothing."""
        self._mend()
        for _ in range(_ROUNDS):
            if not self._round():
                break
        else:
            raise Violation("the group does not come to rest")
        self._check_at_rest()
        for _ in range(_ROUNDS):
            if not self._alive() or not (left := self._undone()):
                break
            if not any([member.read() for member in self._alive()]):
                self._second()
                self._go_on()
            for member in self._alive():
                member.start("commit")
            while self._round():
                pass
        else:
            raise Violation(f"never came to an end: {left}")
        self._check_at_rest()

    def _alive(self) -> list[ModelMember | MemberOf07]:
        return [member for member in self.members.values() if not member.is_gone]

    def _mend(self) -> None:
        for number in range(len(self.ensemble.servers)):
            self.ensemble.cut(number, is_cut=False)
            self.ensemble.lag(number, lags=False)
        for member in self._alive():
            client = member.client
            client.is_frozen_in = client.is_frozen_out = client.is_stopped = False
            client.receive()
            if not client.is_connected:
                client.connect(client.server)
        self.tasks.stopped.clear()

    def _round(self) -> bool:
        """Let each go on; when nobody can, let a second pass if somebody waits for it. False when nobody does."""
        is_busy = False
        for member in self._alive():
            client = member.client
            if not client.is_connected:
                client.connect(client.server)
            client.call_back()
            if member.is_due and "try" not in member.running:
                member.start("try")
                is_busy = True
            if member.in_hand is not None and member.running:
                member.read()
            while client.can_be_served:
                is_busy = True
                client.serve()
                self.tasks.run_ready()
        self._go_on()
        if not is_busy and any(
            member.running or member.lacks_start or member.try_at_s < float("inf") for member in self._alive()
        ):
            is_busy = True
            self._second()
            self._go_on()
        return is_busy

    def _check_at_rest(self) -> None:
        tree = self.ensemble.leader.tree
        owners = {
            TopicPartition(TOPIC, *map(int, path[len(OWNERS) :].split("-"))): (node.data or b"").decode()
            for path, node in tree.items()
            if path.startswith(OWNERS)
        }
        if owners != self.referee.division():
            raise Violation(f"owners at rest are {owners}, not {self.referee.division()}")
        for member in self._alive():
            mine = {where for where, stream in owners.items() if stream == f"{member.name}-0"}
            if member.owned != mine:
                raise Violation(f"{member.name} believes to own {member.owned}, not {mine}")
            member.check()

    def _undone(self) -> list[object]:
        """List what is left to consume and to commit of the partitions that there are."""
        live = self.referee.division()
        committed = {where: self.ensemble.leader.tree.get(f"{OFFSETS}{where.znode_name}") for where in live}
        ends = self.referee.ends
        return [
            *(key for key in self.referee.unconsumed() if key.where in live),
            *((where, node) for where, node in committed.items() if node is None or int(node.data or b"") != ends[where]),
        ]

    # Where it stands -------------------------------------------------------------------------------------------------

    def position(self) -> int:
        """Hash all that the further course depends on: two groups of the same position go on in the same way."""
        now_s = self.clock.now_s
        ensemble, referee = self.ensemble, self.referee
        servers = tuple(
            (
                frozenset(server.tree.items()),
                len(ensemble.log) - server.applied,
                server.lags,
                server.is_cut,
                frozenset(server.touched),
                frozenset(
                    (key, tuple(id_of(self, each) for each in clients)) for key, clients in server.watches.items()
                ),
            )
            for server in ensemble.servers
        )
        return hash(
            (
                servers,
                tuple((session_id, expires_s - now_s) for session_id, expires_s in ensemble.expires_s.items()),
                tuple(member.position for member in self.members.values()),
                tuple(_link_position(member.client, now_s) for member in self.members.values()),
                tuple(
                    (key, tuple(task.history), now_s - task.began_s, task.deadline_s - now_s)
                    for key, task in self.tasks.by_key.items()
                ),
                tuple((where, frozenset(offsets)) for where, offsets in referee.consumed.items()),
                frozenset(referee.deliveries.items()),
                frozenset(referee.written_by.items()),
                frozenset(referee.positions.items()),
                frozenset(referee.excused),
                frozenset(self.left.items()),
            )
        )


def id_of(group: GroupModel, connection: object) -> str:
    return next(name for name, member in group.members.items() if member.client is connection)


def _link_position(client: ModelClient, now_s: float) -> Hashable:
    return (
        client.server,
        client.last_session,
        client.connect_asked[1] - now_s,
        (client.is_connected, client.is_stopped, client.is_frozen_in, client.is_frozen_out),
        tuple(each.request for each in client.outbox),
        tuple((what if isinstance(what, tuple) else what.request, repr(told)) for what, told in client.inbox),
        len(client.callbacks),
        frozenset((key, len(watches)) for key, watches in client.watches.items()),
    )


def _tree(partitions: Mapping[int, int]) -> dict[str, bytes | None]:
    """Lay out brokers and the group's persistent parents, as they are when a group is not the first ever."""
    group = f"/consumers/{GROUP}"
    tree: dict[str, bytes | None] = dict.fromkeys(
        ("/brokers", "/brokers/ids", "/brokers/topics", f"/brokers/topics/{TOPIC}")
    )
    tree |= dict.fromkeys(("/consumers", group, f"{group}/ids", f"{group}/owners", f"{group}/offsets"))
    tree |= dict.fromkeys((OWNERS.rstrip("/"), OFFSETS.rstrip("/")))
    for broker_id, count in partitions.items():
        tree[f"/brokers/ids/{broker_id}"] = b"h-%d:h:%d" % (broker_id, 9000 + broker_id)
        tree[f"{TOPICS}{broker_id}"] = b"%d" % count
    return tree
