"""Where searches begin, and what may happen in each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.models.group.group import OF_MEMBERS, Scenario
from tests.models.group.referee import IDS, OWNERS

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tests.models.group.ensemble import Request
    from tests.models.group.group import Action, GroupModel


def joined(*names: str, reads: int = 0) -> Callable[[GroupModel], None]:
    """Begin with members that have settled, one after the other, and have read so many messages each."""

    def begin(group: GroupModel) -> None:
        for name in names:
            group.join(name)
            group.go_on()
            run(group)
        for name in names:
            for _ in range(reads):
                group.do(("read", name))

    return begin


def run(group: GroupModel, name: str | None = None, until: Callable[[GroupModel], bool] = lambda _: False) -> None:
    """Let members go on, or one alone, until they have nothing to do, or something is so."""
    while not until(group):
        of_members = [each for each in group.actions() if each[0] in OF_MEMBERS and name in {None, each[1]}]
        if not of_members:
            break
        group.do(of_members[0])


def then(*steps: Callable[[GroupModel], None]) -> Callable[[GroupModel], None]:
    """Begin with one thing after the other."""

    def begin(group: GroupModel) -> None:
        for step in steps:
            step(group)

    return begin


def do(*actions: Action) -> Callable[[GroupModel], None]:
    """Begin with these events."""

    def begin(group: GroupModel) -> None:
        for action in actions:
            group.do(action)

    return begin


def starting(name: str, answers: int = 0) -> Callable[[GroupModel], None]:
    """Begin with a member that finds where to start, and has got so many answers to what it asks for that."""

    def begin(group: GroupModel) -> None:
        group.join(name)
        run(group, name, lambda _: "find starts" in group.members[name].running)
        for _ in range(answers):
            group.do(("serve", name))

    return begin


def claiming(name: str) -> Callable[[GroupModel], None]:
    """Begin with a member that is about to claim what it takes for its own."""

    def begin(group: GroupModel) -> None:
        group.join(name)
        run(
            group,
            name,
            lambda _: any(asked.kind == "create" and asked.path.startswith(OWNERS) for asked in asks(group)),
        )

    def asks(group: GroupModel) -> list[Request]:
        return [result.request for result in group.members[name].client.outbox]

    return begin


def registering(name: str) -> Callable[[GroupModel], None]:
    """Begin with a member that is about to register."""

    def asks(group: GroupModel) -> bool:
        requests = [result.request for result in group.members[name].client.outbox]
        return any(each.kind == "create" and each.path.startswith(IDS) for each in requests)

    return lambda group: run(group, name, asks)


def fallen_silent(name: str) -> Callable[[GroupModel], None]:
    """Begin with a member whose application does not come back from what it has in hand, and that has left for it."""

    def begin(group: GroupModel) -> None:
        group.do(("fall silent", name))
        while f"{IDS}{name}" in group.ensemble.leader.tree:
            run(group)
            group.do(_SECOND)
        run(group)

    return begin


def given_up(number: int) -> Callable[[GroupModel], None]:
    """Begin at the moment when the owner of a partition has given it up."""

    def begin(group: GroupModel) -> None:
        path = f"{OWNERS}0-{number}"
        before = group.ensemble.leader.tree[path]
        for _ in range(_ROUNDS):
            run(group, until=lambda group: group.ensemble.leader.tree.get(path) is not before)
            if group.ensemble.leader.tree.get(path) is not before:
                break
            group.do(_SECOND)

    return begin


def entered(name: str) -> Callable[[GroupModel], None]:
    """Begin with a member that has settled, while the others stand still."""

    def begin(group: GroupModel) -> None:
        group.join(name)
        run(group, name)

    return begin


_ROUNDS = 10
_ONE = {0: 1}
_STILL: dict[Action, int] = {("second",): 8, ("stop", "a"): 1, ("go on", "a"): 1, ("read", "a"): 1}
_LATER: dict[Action, int] = {("second",): 6, ("read", "a"): 1}
_SECOND: Action = ("second",)
_LATE: list[Action] = [("freeze", "a", "in"), _SECOND, ("freeze", "a"), *[_SECOND] * 3, ("thaw", "a", "in")]
_CUT_OFF: list[Action] = [("renew", "a"), ("cut", 1)]

SCENARIOS = {
    "two join at once": Scenario({"a": 0, "b": 0}, begin=then(do(("join", "a"), ("join", "b")))),
    "a member joins one that reads": Scenario(
        {"a": 0, "b": 0}, {("join", "b"): 1, ("read", "a"): 2, ("commit", "a"): 1}, begin=joined("a", reads=1)
    ),
    "a member joins while another looks who has joined": Scenario(
        {"a": 0, "b": 0, "c": 0}, {("join", "a"): 1}, _ONE, begin=then(joined("b"), entered("c"))
    ),
    "a member claims while another finds its start": Scenario(
        {"a": 0, "b": 0}, {("work", "b"): 1}, _ONE, begin=then(starting("b"), claiming("a"))
    ),
    **{
        f"an owner node is taken away after {answers} answers about the start": Scenario(
            {"a": 0, "b": 0},
            {("work", "a"): 1},
            _ONE,
            begin=then(do(("join", "a")), starting("b", answers), do(("take away", 0, 0))),
        )
        for answers in range(3)
    },
    "an owner node is taken away during a commit": Scenario(
        {"a": 0, "b": 0},
        {("take away", 0, 0): 1, ("read", "b"): 1, ("commit", "b"): 1},
        _ONE,
        begin=then(joined("b", reads=2), do(("join", "a"))),
    ),
    "answers are lost": Scenario(
        {"a": 0, "b": 0},
        {("lose answers", "b"): 1, ("reconnect", "b"): 1},
        _ONE,
        begin=then(joined("b", reads=2), do(("join", "a"))),
    ),
    "a connection is lost": Scenario(
        {"a": 0, "b": 0},
        {("drop", "b"): 1, ("reconnect", "b"): 1},
        _ONE,
        begin=then(joined("b", reads=4), entered("a")),
    ),
    "answers to a claim were lost": Scenario(
        {"a": 0, "b": 0, "c": 0},
        {("lose answers", "b"): 1, ("reconnect", "b"): 1},
        _ONE,
        begin=then(joined("c"), claiming("b"), do(("lose answers", "b"), ("reconnect", "b"), ("join", "a"))),
    ),
    "a session ends": Scenario(
        {"a": 0, "b": 0},
        {("expire", "a"): 1, ("read", "b"): 2, ("commit", "b"): 1},
        begin=then(joined("a", "b", reads=2)),
    ),
    "a member leaves": Scenario(
        {"a": 0, "b": 0}, {("leave", "a"): 1, ("read", "a"): 1}, begin=joined("a", "b", reads=2)
    ),
    "a follower lags": Scenario(
        {"a": 1, "b": 0},
        {("lag", 1): 1, ("catch up", 1): 1, ("join", "b"): 1, ("read", "a"): 1},
        followers=1,
        begin=joined("a", reads=1),
    ),
    "an application falls silent, and comes back": Scenario(
        {"a": 0, "b": 0},
        {("fall silent", "a"): 1, ("come back", "a"): 1, ("read", "a"): 1, ("read", "b"): 1},
        begin=joined("a", "b", reads=2),
    ),
    "an application is silent when its session ends": Scenario(
        {"a": 0, "b": 0},
        {("expire", "a"): 1, ("come back", "a"): 1, ("read", "b"): 1},
        begin=then(joined("a", "b", reads=2), fallen_silent("a")),
    ),
    "an application falls silent, and answers are lost": Scenario(
        {"a": 0, "b": 0},
        {("lose answers", "a"): 1, ("reconnect", "a"): 1, ("come back", "a"): 1},
        _ONE,
        begin=then(joined("a", "b", reads=2), do(("fall silent", "a"))),
    ),
    "an application comes back unheard, and falls silent again": Scenario(
        {"a": 0, "b": 0},
        {("reconnect", "a"): 1},
        _ONE,
        begin=then(
            joined("a", "b", reads=2),
            fallen_silent("a"),
            do(("come back", "a"), ("try", "a")),
            registering("a"),
            do(("lose answers", "a"), ("fall silent", "a")),
        ),
    ),
    "a member joins one of today": Scenario(
        {"a": 0, "b": 0},
        {("join", "b"): 1, ("read", "a"): 2, ("heartbeat", "a"): 1, ("commit", "a"): 1},
        of_today=frozenset("a"),
        begin=joined("a", reads=1),
    ),
    "a client of today reads on while a member joins": Scenario(
        {"a": 0, "b": 0},
        {("join", "b"): 1, ("read", "a"): 4, ("second",): 2},
        of_today=frozenset("a"),
        begin=joined("a"),
        is_atomic=True,
    ),
    "a client of today reads on while a gateway's session ends": Scenario(
        {"a": 0, "b": 0},
        {("expire", "b"): 1, ("join", "a"): 1, ("read", "b"): 3, ("second",): 2},
        of_today=frozenset("b"),
        begin=joined("b"),
        is_atomic=True,
    ),
    "a member of today joins": Scenario(
        {"a": 0, "b": 0},
        {("join", "b"): 1, ("read", "a"): 1, ("read", "b"): 1},
        of_today=frozenset("b"),
        begin=joined("a", reads=1),
    ),
    "a member of today joins one that keeps what it can": Scenario(
        {"a": 0, "b": 0},
        {("join", "b"): 1, ("read", "a"): 2, ("heartbeat", "a"): 1},
        of_today=frozenset("ab"),
        keep=frozenset("a"),
        begin=joined("a", reads=1),
    ),
    "a member of today is among those of 0.7": Scenario(
        {"a": 0, "b": 0},
        {("join", "b"): 1, ("read", "a"): 1, ("read", "b"): 1, ("commit", "a"): 1},
        of_today=frozenset("a"),
        of_07=frozenset("b"),
        begin=joined("a", reads=1),
    ),
    "a member of 0.7 waits for a client of today": Scenario(
        {"a": 0, "b": 0},
        {("join", "b"): 1, ("read", "a"): 1},
        of_today=frozenset("a"),
        of_07=frozenset("b"),
        begin=then(joined("a"), do(("nap", "a"))),
    ),
    "a client of today that keeps what it can gives a partition up": Scenario(
        {"a": 0, "b": 0},
        {("read", "a"): 3},
        of_today=frozenset("a"),
        keep=frozenset("a"),
        begin=then(joined("a"), do(("join", "b")), given_up(1)),
    ),
    "a client of today counts as gone": Scenario(
        {"a": 0, "b": 0},
        {("expel", "a"): 1, ("read", "a"): 1, ("read", "b"): 1},
        of_today=frozenset("a"),
        begin=joined("a", "b", reads=1),
    ),
    "a gateway's session ends": Scenario(
        {"a": 0, "b": 0},
        {("expire", "a"): 1, ("read", "a"): 1, ("read", "b"): 1, ("commit", "a"): 1, ("heartbeat", "a"): 1},
        of_today=frozenset("a"),
        begin=joined("a", "b", reads=1),
    ),
    "a member joins while a gateway's session ends": Scenario(
        {"a": 0, "b": 0},
        {("expire", "b"): 1, ("join", "a"): 1, ("read", "a"): 1, ("read", "b"): 2, ("commit", "b"): 1},
        of_today=frozenset("b"),
        begin=joined("b", reads=1),
    ),
    "a gateway dies": Scenario(
        {"a": 0, "b": 0},
        {("kill", "a"): 1, ("read", "b"): 1, ("second",): 8},
        of_today=frozenset("a"),
        begin=joined("a", "b", reads=1),
    ),
    "a client of today leaves": Scenario(
        {"a": 0, "b": 0},
        {("leave", "a"): 1, ("read", "b"): 1},
        of_today=frozenset("ab"),
        keep=frozenset("b"),
        begin=joined("a", "b", reads=1),
    ),
    "a member joins one of 0.7": Scenario(
        {"a": 0, "b": 0},
        {("join", "a"): 1, ("read", "b"): 1, ("commit", "b"): 1},
        of_07=frozenset("b"),
        begin=joined("b", reads=1),
    ),
    "one of 0.7 joins a member": Scenario(
        {"a": 0, "b": 0},
        {("join", "a"): 1, ("read", "b"): 1, ("commit", "b"): 1},
        of_07=frozenset("a"),
        begin=joined("b", reads=1),
    ),
    "two join at once and divide fairly": Scenario(
        {"a": 0, "b": 0}, fair=frozenset("ab"), begin=then(do(("join", "a"), ("join", "b")))
    ),
    "one that divides fairly ends while another looks who does": Scenario(
        {"a": 0, "b": 0, "c": 0},
        {("kill", "b"): 1},
        {0: 1, 1: 2},
        fair=frozenset("abc"),
        begin=then(joined("a", "b"), entered("c")),
    ),
    "one of two that divide fairly leaves": Scenario(
        {"a": 0, "b": 0, "c": 0},
        {("leave", "b"): 1, ("join", "c"): 1},
        {0: 3},
        fair=frozenset("abc"),
        begin=joined("a", "b", reads=1),
    ),
    "a member that divides as 0.7 does joins two that do not": Scenario(
        {"a": 0, "b": 0, "c": 0},
        {("join", "c"): 1, ("read", "a"): 1, ("kill", "c"): 1},
        fair=frozenset("ab"),
        begin=joined("a", "b", reads=1),
    ),
    "one of 0.7 joins one that divides fairly": Scenario(
        {"a": 0, "b": 0},
        {("join", "a"): 1, ("read", "b"): 1, ("commit", "b"): 1, ("kill", "a"): 1},
        {0: 3},
        of_07=frozenset("a"),
        fair=frozenset("b"),
        begin=joined("b", reads=1),
    ),
    "a process stands still": Scenario(
        {"a": 1, "b": 0}, _STILL, _ONE, followers=1, begin=joined("a", "b"), is_atomic=True
    ),
    "a link freezes": Scenario(
        {"a": 1, "b": 0},
        {
            ("second",): 8,
            **dict.fromkeys([("freeze", "a"), ("thaw", "a"), ("renew", "a"), ("cut", 1), ("read", "a")], 1),
        },
        _ONE,
        followers=1,
        begin=joined("a", "b"),
        is_atomic=True,
    ),
    "a follower is cut off right after an answer": Scenario(
        {"a": 1, "b": 0},
        _LATER,
        _ONE,
        followers=1,
        begin=then(joined("a", "b"), do(("freeze", "a"), *[_SECOND] * 3, ("thaw", "a"), *_CUT_OFF)),
        is_atomic=True,
    ),
    "an answer comes late": Scenario(
        {"a": 1, "b": 0}, _LATER, _ONE, followers=1, begin=then(joined("a", "b"), do(*_LATE)), is_atomic=True
    ),
    "an answer comes late, and is proven": Scenario(
        {"a": 1, "b": 0},
        _LATER,
        _ONE,
        followers=1,
        begin=then(joined("a", "b"), do(*_LATE, _SECOND, _SECOND, ("thaw", "a"), *_CUT_OFF)),
        is_atomic=True,
    ),
}
"""The scenarios of the exhaustive search, by what happens in them."""


def _silences(random: Random, names: list[str]) -> dict[Action, int]:
    events: dict[Action, int] = {}
    for name in names:
        if random.random() < 0.15:
            events |= {("fall silent", name): 1, ("come back", name): random.randrange(2)}
    return events


def anything(random: Random) -> Scenario:
    """Make a scenario of up to three members, three partitions and two brokers in which much may happen."""
    followers = random.randrange(3)
    names = ["a", "b", "c"][: random.choice([1, 2, 2, 3, 3, 3])]
    members = {name: random.randrange(1 + followers) for name in names}
    partitions = random.choice([{0: 1}, {0: 2}, {0: 3}, {0: 1, 1: 1}, {0: 1, 1: 2}])
    events: dict[Action, int] = {("second",): random.choice([0, 4, 16])}
    for name in names:
        events |= {("join", name): 1, ("read", name): 6, ("commit", name): 2, ("renew", name): 2}
        faults: list[Action] = [
            ("expire", name),
            ("drop", name),
            ("lose answers", name),
            ("stop", name),
            ("freeze", name),
            ("leave", name),
            ("kill", name),
        ]
        events |= dict.fromkeys(random.sample(faults, random.randrange(3)), 1)
        events |= {("go on", name): 1, ("thaw", name): 1, ("thaw", name, "in"): 1, ("reconnect", name): 2}
    for number in range(1, 1 + followers):
        if random.random() < 0.5:
            events |= {("lag", number): 1, ("catch up", number): 1}
        if random.random() < 0.3:
            events |= {("cut", number): 1, ("heal", number): 1}
    if random.random() < 0.2:
        events["take away", 0, 0] = 1
    if random.random() < 0.2:
        events |= {("partitions", 0, 2): 1, ("partitions", 0, 3): 1}
    if random.random() < 0.1 and len(partitions) > 1:
        events |= {("partitions", 1, 0): 1, ("partitions", 1, 1): 1}
    of_07 = frozenset(random.sample(names, 1)) if random.random() < 0.25 else frozenset()
    events |= _silences(random, [name for name in names if name not in of_07])
    fair = frozenset({*names} - of_07 if random.random() < 0.7 else random.sample(names, 1)) - of_07
    of_today = frozenset(name for name in names if name not in of_07 and random.random() < 0.3)
    for name in of_today:
        events |= {("heartbeat", name): 2, ("expel", name): random.randrange(2)}
    return Scenario(
        members,
        events,
        of_07=of_07,
        of_today=of_today,
        keep=frozenset(name for name in of_today if random.random() < 0.5),
        fair=fair - of_today if random.random() < 0.5 else frozenset(),
        partitions=partitions,
        followers=followers,
        begin=joined(*names[: random.randrange(2)], reads=1),
        delays_callbacks=random.random() < 0.3,
    )
