"""Where searches begin, and what may happen in each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.models.group.group import Scenario

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tests.models.group.group import Action, GroupModel


def joined(*names: str, reads: int = 0) -> Callable[[GroupModel], None]:
    """Begin with members that have settled, one after the other, and have read so many messages each."""

    def begin(group: GroupModel) -> None:
        for name in names:
            group.join(name)
            run(group)
        for name in names:
            for _ in range(reads):
                group.do(("read", name))

    return begin


def run(group: GroupModel) -> None:
    """Let members go on, one after another, until they have nothing to do."""
    while actions := [each for each in group.actions() if each[0] in {"serve", "try", "call back"}]:
        group.do(actions[0])


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
    return Scenario(
        members,
        events,
        of_07=of_07,
        partitions=partitions,
        followers=followers,
        begin=joined(*names[: random.randrange(2)], reads=1),
        delays_callbacks=random.random() < 0.3,
    )
