"""A whole group in memory that goes on one event at a time, and can be brought to rest."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafka2011.consumer.fair_assignment import RULE
from kafka2011.message.message_set import MessageSet
from tests.models.group.client import ModelClient
from tests.models.group.ensemble import Change, Ensemble
from tests.models.group.member import ModelMember
from tests.models.group.member_of_07 import MemberOf07
from tests.models.group.member_of_today import MemberOfToday
from tests.models.group.referee import GROUP, OFFSETS, OWNERS, RULES, TOPIC, TOPICS, Referee
from tests.models.group.tasks import Tasks
from tests.support.clocks import ManualClock
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Action = tuple[str | int, ...]
"""What happens, and to whom: a member by its name, a server by its number, a partition by its two numbers."""
Member = ModelMember | MemberOf07 | MemberOfToday
OF_MEMBERS = {"serve", "try", "call back"}
"""What members do by themselves."""
_MOST_PARTITIONS = 3  # of a broker, now or later


@dataclass(frozen=True)
class Scenario:
    """Where a search begins, and what may happen in it, each so many times at most.

    `members` says which server each is connected to; those `of_07` behave as Kafka 0.7 does, those `of_today` are
    clients behind gateways, of which those that `keep` give up only what they must; those that are `fair` say that they
    divide fairly. `is_atomic`: what a member does is not interrupted, so that only the order of events is
    searched.
    """

    members: Mapping[str, int]
    events: Mapping[Action, int] = field(default_factory=dict)
    partitions: Mapping[int, int] = field(default_factory=lambda: {0: 2})
    of_07: frozenset[str] = frozenset()
    of_today: frozenset[str] = frozenset()
    keep: frozenset[str] = frozenset()
    fair: frozenset[str] = frozenset()
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
        self.ensemble = Ensemble(self.clock, scenario.followers, _tree(scenario))
        self.members: dict[str, Member] = {}
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
            case ("lag" | "catch up", int(number)):
                return self.ensemble.servers[number].lags == (action[0] == "catch up")
            case ("cut" | "heal", int(number)):
                return self.ensemble.servers[number].is_cut == (action[0] == "heal")
            case ("take away", int(broker_id), int(number)):
                owner = self.referee.owner_of(TopicPartition(TOPIC, broker_id, number))
                return owner is not None and self._member_of(owner) not in self.scenario.of_07
            case (str(what), str(name), *_):
                member = self.members.get(name)
                return member is not None and not member.is_gone and _is_possible_for(what, member)
        return True

    def do(self, action: Action) -> None:
        """Let one thing happen."""
        self.steps += 1
        if action in self.left:
            self.left[action] -= 1
        match action:
            case ("second",):
                self.second()
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
        self.go_on()

    def _do(self, what: str, member: Member, rest: list[str | int]) -> None:
        client = member.client
        acts: dict[str, Callable[[], object]] = {
            "serve": client.serve,
            "call back": client.call_back,
            "read": member.read,
            "work": member.work,
            "kill": member.kill,
            "fall silent": lambda: member.take_part(takes_part=False),
            "come back": lambda: member.take_part(takes_part=True),
            "stop": lambda: self._stop(member, is_stopped=True),
            "go on": lambda: self._stop(member, is_stopped=False),
            "freeze": lambda: client.freeze(inward_only=rest == ["in"]),
            "thaw": lambda: client.thaw(inward_only=rest == ["in"]),
            "drop": client.disconnect,
            "lose answers": client.lose_answers,
            "reconnect": lambda: client.connect(client.server),
            "expire": lambda: self._expire(member),
        }
        acts.get(what, lambda: member.start(what))()

    def go_on(self) -> None:
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
        scenario, member = self.scenario, (name, client, self.tasks, self.referee)
        if name in scenario.of_07:
            self.members[name] = MemberOf07(*member)
        elif name in scenario.of_today:
            self.members[name] = MemberOfToday(*member, keeps=name in scenario.keep)
        else:
            self.members[name] = ModelMember(*member, self, RULE if name in scenario.fair else None)

    def second(self) -> None:
        """Let a second pass: clients ping, members renew their leases, followers report, and sessions end."""
        self.clock.now_s += 1
        for member in self.members.values():
            member.client.tick()
        self.ensemble.tick()
        self.tasks.run_ready()
        for member in self.members.values():
            if not member.client.is_stopped and member.client.is_connected:
                member.start("renew")

    def _stop(self, member: Member, *, is_stopped: bool) -> None:
        """Have a process stand still, or go on."""
        member.client.is_stopped = is_stopped
        (self.tasks.stopped.add if is_stopped else self.tasks.stopped.discard)(member.name)
        member.client.receive()

    def _expire(self, member: Member) -> None:
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


def _is_possible_for(what: str, member: Member) -> bool:
    client = member.client
    if what in {"read", "work", "commit", "renew", "leave"} and client.is_stopped:
        return False
    if what in {"commit", "leave"} and member.is_leaving:
        return False
    possible: dict[str, bool] = {
        "go on": client.is_stopped,
        "stop": not client.is_stopped,
        "freeze": client.is_connected and not client.is_frozen_out,
        "thaw": client.is_frozen_in or client.is_frozen_out,
        "drop": client.is_connected,
        "lose answers": client.can_be_served,
        "reconnect": not client.is_connected and not client.is_stopped,
        "read": member.in_hand is not None or bool(member.owned),
        "work": bool(member.owned),
        "fall silent": member.takes_part,
        "come back": not member.takes_part,
    }
    return possible.get(what, what not in member.running)


def _tree(scenario: Scenario) -> dict[str, bytes | None]:
    """Lay out brokers and the group's persistent parents, as they are when a group is not the first ever."""
    group = f"/consumers/{GROUP}"
    tree: dict[str, bytes | None] = dict.fromkeys(
        ("/brokers", "/brokers/ids", "/brokers/topics", f"/brokers/topics/{TOPIC}")
    )
    tree |= dict.fromkeys(("/consumers", group, f"{group}/ids", f"{group}/owners", f"{group}/offsets"))
    tree |= dict.fromkeys((OWNERS.rstrip("/"), OFFSETS.rstrip("/")))
    if scenario.of_today:
        tree |= dict.fromkeys(("/gateway", "/gateway/members", f"/gateway/members/{GROUP}"))
    if scenario.fair:
        tree[RULES.rstrip("/")] = None
    for broker_id, count in scenario.partitions.items():
        tree[f"/brokers/ids/{broker_id}"] = b"h-%d:h:%d" % (broker_id, 9000 + broker_id)
        tree[f"{TOPICS}{broker_id}"] = b"%d" % count
    return tree
