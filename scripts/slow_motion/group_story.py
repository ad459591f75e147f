"""Two consumers share three partitions, as the model of the group runs them over the shipped rebalance and commits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.consumer.rebalance import assign
from kafka2011.lab import paper
from scripts.slow_motion.recording import Branch, Frame, Panels, Place, Story
from scripts.slow_motion.tracing import innermost
from tests.models.group.group import OF_MEMBERS, GroupModel, Scenario
from tests.models.group.member import ModelMember
from tests.models.group.referee import GROUP, IDS, OFFSETS, OWNERS, TOPIC, TOPICS
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafka2011.lab.paper import Sentence
    from tests.models.group.ensemble import Request
    from tests.models.group.group import Action

NAMES = ("a", "b")
_SHIPPED = ("kafka2011/consumer",)
_SECOND: Action = ("second",)
_MOST_S = 12
_TASKS = {
    "try": "rebalances",
    "renew": "renews its lease",
    "commit": "commits",
    "find starts": "looks where to begin",
    "leave": "leaves",
}
_EVENTS: dict[Action, int] = {_SECOND: 99} | {
    (what, name): 99
    for name in NAMES
    for what in ("join", "read", "commit", "work", "stop", "go on", "freeze", "thaw", "drop", "reconnect")
}


def scenario() -> Scenario:
    """Return a group of two on one broker with three partitions, of three messages each."""
    return Scenario(dict.fromkeys(NAMES, 0), _EVENTS, {0: 3})


def literal(partitions: list[TopicPartition], consumers: list[str]) -> dict[TopicPartition, str]:
    """Divide as the paper's Algorithm 1 is printed: N = |P|/|C| without the rest."""
    share = len(partitions) // len(consumers) if consumers else 0
    return {where: each for j, each in enumerate(consumers) for where in partitions[j * share : (j + 1) * share]}


def divisions(most_partitions: int = 12, most_consumers: int = 8) -> list[list[list[list[int]]]]:
    """Return, by numbers of partitions and of consumers, the consumer of each partition: as shipped, and as printed.

    -1 is nobody.
    """
    return [
        [_division(partitions, consumers) for consumers in range(1, most_consumers + 1)]
        for partitions in range(1, most_partitions + 1)
    ]


def _division(partitions: int, consumers: int) -> list[list[int]]:
    every = sorted((TopicPartition(TOPIC, 0, number) for number in range(partitions)), key=lambda it: it.znode_name)
    names = sorted(f"c{number}" for number in range(consumers))
    shipped = {where: name for name, share in assign(every, names).items() for where in share}
    printed = literal(every, names)
    return [[names.index(owners[where]) if where in owners else -1 for where in every] for owners in (shipped, printed)]


# What is shown -------------------------------------------------------------------------------------------------------


def panels_of(group: GroupModel, away: Mapping[str, str]) -> Panels:
    """Return members, registry and partitions; `away` says what befell a member."""
    return {
        **{f"Consumer {name}": _member(group, name, away.get(name, "")) for name in NAMES},
        "Below /consumers/readers in ZooKeeper": _registry(group),
        "Partitions": _partitions(group),
    }


def _member(group: GroupModel, name: str, away: str) -> dict[str, str]:
    member = group.members.get(name)
    if member is None:
        return {"process": "not started"}
    assert isinstance(member, ModelMember)
    if member.is_gone:
        return {"process": away}
    session, now_s = member.registries.session, group.clock.now_s
    lease_s = 0 if session is None else session.lease.until_s - now_s
    asked = member.client.outbox[0].request if member.client.outbox else None
    doing = [_TASKS[task] for task in sorted(member.running) if task in _TASKS]
    message = member.in_hand
    return {
        "process": away or "runs",
        "session": "none" if member.client.last_session is None else str(member.client.last_session),
        "lease": f"{lease_s:g} s more" if lease_s > 0 else "over",
        "does": ", ".join(doing) or "nothing",
        "waits for": "" if asked is None else shown(asked.path),
        "believes to own": ", ".join(sorted(where.znode_name for where in member.owned)),
        "application has": "" if message is None else f"0-{message.partition} at {message.offset}",
    }


def shown(path: str) -> str:
    """Return a path with names that say more than those of the model."""
    parts = path.split("/")
    if parts[1:2] == ["consumers"] and parts[2:3] == [GROUP]:
        parts[2] = "readers"
    if parts[-2:-1] in (["owners"], ["offsets"], ["topics"]) and parts[-1] == TOPIC:
        parts[-1] = "views"
    elif len(parts) > 2 and parts[-2] == TOPIC:
        parts[-2] = "views"
    return "/".join(parts)


def _registry(group: GroupModel) -> dict[str, str]:
    rows: dict[str, str] = {}
    for path, node in sorted(group.ensemble.leader.tree.items()):
        if path.startswith((IDS, OWNERS, OFFSETS)):
            owner = f", session {node.owner}" if node.owner else ""
            text = "member" if path.startswith(IDS) else (node.data or b"").decode()
            rows[shown(path).removeprefix("/consumers/readers/")] = f"{text}{owner}"
    return rows


def _partitions(group: GroupModel) -> dict[str, str]:
    tree, referee = group.ensemble.leader.tree, group.referee
    every = sorted((TopicPartition(TOPIC, 0, number) for number in range(_count(group))), key=lambda it: it.znode_name)
    printed = literal(every, sorted(f"{path[len(IDS) :]}-0" for path in tree if path.startswith(IDS)))
    rows: dict[str, str] = {}
    for where in every:
        owner = tree.get(f"{OWNERS}{where.znode_name}")
        rows |= {
            f"{where.znode_name}, owner": "none" if owner is None else (owner.data or b"").decode(),
            f"{where.znode_name}, as shipped": referee.division().get(where, "nobody"),
            f"{where.znode_name}, as printed": printed.get(where, "nobody"),
            f"{where.znode_name}, read": _read(group, where),
        }
    return rows


def _read(group: GroupModel, where: TopicPartition) -> str:
    offsets = group.referee.offsets[where]
    consumed = group.referee.consumed.get(where, set())
    again = sum(group.referee.deliveries[key] > 1 for key in group.referee.deliveries if key.where == where)
    return f"{len(consumed)} of {len(offsets)}" + (f", {again} of them twice" if again else "")


def _count(group: GroupModel) -> int:
    return int(group.ensemble.leader.tree[f"{TOPICS}0"].data or b"0")


# What a step says ----------------------------------------------------------------------------------------------------


class _Meaning(NamedTuple):
    """What requests of some kinds mean, below a path; the text may have the path's last part, and what is written."""

    kinds: frozenset[str]
    path: str
    text: str
    sentence: Sentence = paper.NONE


_WRITES, _READS = frozenset({"create", "set"}), frozenset({"get", "exists", "children"})
_MEANINGS = (
    _Meaning(_WRITES, IDS, "registers as a member", paper.REGISTER),
    _Meaning(_READS, IDS, "reads who is a member", paper.ALGORITHM),
    _Meaning(_WRITES, OWNERS, "claims partition {name}", paper.OWNERSHIP),
    _Meaning(frozenset({"delete"}), OWNERS, "releases partition {name}", paper.RELEASE),
    _Meaning(_READS, OWNERS, "reads who owns what", paper.OWNERSHIP),
    _Meaning(_WRITES, OFFSETS, "writes offset {data} of partition {name}", paper.OFFSET_REGISTRY),
    _Meaning(_READS, OFFSETS, "reads up to where the partitions were consumed", paper.OFFSET_REGISTRY),
    _Meaning(_READS, "/brokers/", "reads which partitions there are", paper.REGISTER),
    _Meaning(frozenset({"sync"}), "/", "asks its server to catch up with the leader"),
)


def _request_text(request: Request) -> tuple[str, Sentence]:
    """Return what is asked for, and the paper's sentence."""
    for kinds, path, text, sentence in _MEANINGS:
        if request.kind in kinds and f"{request.path}/".startswith(path):
            name, data = request.path.rpartition("/")[2], (request.data or b"").decode()
            return text.format(name=name, data=data), sentence
    raise AssertionError(f"nobody has said what this means: {request}")


_OUTCOMES = {
    "NodeExistsError": "and is told that it exists",
    "NoNodeError": "and is told that there is none",
    "BadVersionError": "and is refused: it has changed since",
}


@dataclass
class Recorder:
    """Takes a group from step to step and keeps a frame of each; `order` is what was done, to be done again."""

    group: GroupModel
    frames: list[Frame]
    order: list[Action]
    away: dict[str, str]

    @classmethod
    def of(cls, order: Iterable[Action] = ()) -> Recorder:
        """Return one that has taken an order of steps."""
        recorder = cls(GroupModel(scenario()), [], [], {})
        for action in order:
            recorder.group.do(action)
            recorder.order.append(action)
        return recorder

    def do(self, action: Action, text: str = "", sentence: Sentence = paper.NONE, place: Place | None = None) -> None:
        """Take one step; steps of the same text are one."""
        who = str(action[1]) if len(action) > 1 else ""
        if action[0] == "serve":
            text, sentence, place = self._served(who)
        self.group.do(action)
        self.order.append(action)
        self.note(who, text, sentence, place)

    def note(self, who: str, text: str, sentence: Sentence = paper.NONE, place: Place | None = None) -> None:
        """Keep a frame of how it is now."""
        frame = Frame(who, text, panels_of(self.group, self.away), place, sentence)
        last = self.frames[-1] if self.frames else None
        if last is not None and (last.who, last.text) == (who, text) and text.startswith(("reads", "A second")):
            self.frames[-1] = frame
        else:
            self.frames.append(frame)

    def _served(self, who: str) -> tuple[str, Sentence, Place | None]:
        client = self.group.members[who].client
        result = client.outbox[0]
        text, sentence = _request_text(result.request)
        tree = self.group.ensemble.leader.tree
        path, kind = result.request.path, result.request.kind
        if kind == "create" and path in tree:
            text += f", {_OUTCOMES['NodeExistsError']}"
        elif kind in {"set", "delete"} and path not in tree:
            text += f", {_OUTCOMES['NoNodeError']}"
        elif kind in {"set", "delete"} and result.request.version not in {-1, tree[path].version}:
            text += f", {_OUTCOMES['BadVersionError']}"
        return text, sentence, self._place(who)

    def _place(self, who: str) -> Place | None:
        """Return where the member's task stands that waits for ZooKeeper."""
        tasks = self.group.tasks.of(who)
        for name in ("try", "commit", "find starts", "renew", "leave"):
            if name in tasks:
                place = innermost(tasks[name].greenlet.gr_frame, *_SHIPPED)
                if place is not None:
                    return place
        return None

    # How it goes on --------------------------------------------------------------------------------------------------

    def run(self, only: str | None = None, until: Callable[[GroupModel], bool] = lambda _: False) -> None:
        """Let members go on by turns, or one alone, until they have nothing to do, or something is so."""
        last = ""
        while not until(self.group):
            ways = [each for each in self.group.actions() if each[0] in OF_MEMBERS and only in {None, each[1]}]
            if not ways:
                return
            others = [each for each in ways if each[1] != last]
            action = (others or ways)[0]
            last = str(action[1])
            self.do(action, *_BY_THEMSELVES.get(str(action[0]), ("", paper.NONE)))

    def wait(self, until: Callable[[GroupModel], bool]) -> None:
        """Let seconds pass, and members go on in each, until something is so."""
        self.run()
        for _ in range(_MOST_S):
            if until(self.group):
                return
            self.do(_SECOND, "A second passes.")
            self.run()
        raise AssertionError(f"it did not come to that: {self.order}")

    def read(self, name: str, times: int = 1) -> None:
        """Have an application ask for messages."""
        for _ in range(times):
            self.do(("read", name), "asks for a message")
            message = self.group.members[name].in_hand
            got = (
                "gets nothing"
                if message is None
                else f"gets message {message.offset} of partition 0-{message.partition}"
            )
            self.frames[-1].text = f"{got}: its application has asked for a message"

    def work(self, name: str) -> None:
        """Have an application read all that there is, and commit."""
        self.do(("work", name), "reads all that there is, and commits", paper.OFFSET_REGISTRY)
        self.run(name)


_BY_THEMSELVES: dict[str, tuple[str, Sentence]] = {
    "try": ("begins to rebalance", paper.ALGORITHM),
    "call back": ("is told by ZooKeeper that something has changed", paper.NONE),
}


# The story -----------------------------------------------------------------------------------------------------------


def _owner_names(group: GroupModel) -> dict[str, str]:
    tree = group.ensemble.leader.tree
    return {path[len(OWNERS) :]: (node.data or b"").decode() for path, node in tree.items() if path.startswith(OWNERS)}


def _is_settled(group: GroupModel) -> bool:
    want = {where.znode_name: stream for where, stream in group.referee.division().items()}
    alive = [member for member in group.members.values() if not member.is_gone and not member.client.is_stopped]
    is_idle = not any(member.is_due or "try" in member.running for member in alive if member.client.is_connected)
    return bool(want) and _owner_names(group) == want and is_idle


def record() -> Story:
    """Record the main line, and what follows when a member is killed, stopped or cut off at each mark."""
    story = Story("A rebalance", ABOUT)
    main = Recorder.of()
    main.note("", "Consumers a and b will share the topic views: three partitions on broker 0. Nobody has started yet.")
    marks: list[tuple[int, int, str]] = []

    def mark(title: str) -> None:
        marks.append((len(main.frames) - 1, len(main.order), title))

    main.do(("join", "a"), "starts", paper.REGISTER)
    main.wait(_is_settled)
    main.note("", "Consumer a is alone and owns all three partitions.", paper.UNIT)
    main.read("a", 2)
    main.do(("join", "b"), "starts", paper.REGISTER)
    main.run("b", lambda group: f"{IDS}b" in group.ensemble.leader.tree)
    mark("b has just registered")
    main.run(until=lambda group: len(_owner_names(group)) < 3)
    mark("a has released a partition")
    main.run(until=lambda group: "b-0" in _owner_names(group).values())
    mark("b has just claimed it")
    main.wait(_is_settled)
    main.note("", "Every partition has one owner again.", paper.UNIT)
    main.read("a")
    main.read("b")
    mark("both have read what is not committed yet")
    for name in NAMES:
        main.work(name)
    main.note("", "All messages were read, and all offsets are committed.", paper.OFFSET_REGISTRY)
    story.frames = main.frames
    for after, taken, title in marks:
        for name in NAMES:
            for fault, befall in _FAULTS.items():
                story.branches.append(Branch(after, title, fault.format(name), befall(main.order[:taken], name)))
    story.also = {"divisions": divisions()}
    return story


def _others_settle(recorder: Recorder, name: str) -> None:
    """Let seconds pass until the session of a member is over, and the other one owns everything."""
    other = next(each for each in NAMES if each != name)
    recorder.wait(
        lambda group: (
            set(_owner_names(group).values()) == {f"{other}-0"}
            and len(_owner_names(group)) == 3
            and not group.members[other].is_due
            and "try" not in group.members[other].running
        )
    )
    recorder.note("", f"Consumer {other} owns all partitions.", paper.EPHEMERAL)


def _finish(recorder: Recorder) -> list[Frame]:
    for name, member in recorder.group.members.items():
        if not member.is_gone:
            recorder.work(name)
    recorder.wait(_is_settled)
    recorder.note("", "What was not committed is read twice, and nothing is missing.", paper.AT_LEAST_ONCE)
    return recorder.frames


def _kill(order: list[Action], name: str) -> list[Frame]:
    recorder = Recorder.of(order)
    member = recorder.group.members[name]
    recorder.away[name] = "killed"
    # The model's own kill ends the session at once, as a client that is shut down does.
    member.is_gone = True
    recorder.group.tasks.drop(name)
    member.client.disconnect()
    recorder.note(name, "is killed with kill -9: nobody ends its session", paper.EPHEMERAL)
    _others_settle(recorder, name)
    return _finish(recorder)


def _stand_still(order: list[Action], name: str) -> list[Frame]:
    recorder = Recorder.of(order)
    recorder.away[name] = "stopped"
    recorder.do(("stop", name), "is stopped with kill -STOP: it keeps all that it believes")
    _others_settle(recorder, name)
    del recorder.away[name]
    recorder.do(("go on", name), "goes on with kill -CONT, and does not know how long it stood still")
    recorder.read(name)
    return _come_back(recorder, name)


def _cut_off(order: list[Action], name: str) -> list[Frame]:
    recorder = Recorder.of(order)
    recorder.away[name] = "cut off from ZooKeeper"
    recorder.do(("freeze", name), "is cut off from ZooKeeper: nothing passes in either direction")
    _others_settle(recorder, name)
    recorder.read(name)
    del recorder.away[name]
    if recorder.group.members[name].client.is_connected:
        recorder.do(("thaw", name), "is connected again")
    return _come_back(recorder, name)


def _come_back(recorder: Recorder, name: str) -> list[Frame]:
    if not recorder.group.members[name].client.is_connected:
        recorder.do(("reconnect", name), "connects to ZooKeeper again, in a new session")
    recorder.wait(_is_settled)
    recorder.note("", "Both are members again.", paper.UNIT)
    return _finish(recorder)


_FAULTS: dict[str, Callable[[list[Action], str], list[Frame]]] = {
    "kill {}": _kill,
    "stop {} for a while": _stand_still,
    "cut {} off for a while": _cut_off,
}
ABOUT = (
    "Two consumers of one group, one broker with three partitions, three messages in each. Every step is one request "
    "to ZooKeeper, or one thing that an application does. Between two steps, anything may happen to anybody."
)
