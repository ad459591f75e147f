"""Defects that a run may be given, to see that its account names them: changes to shipped code, in one kind of process.

Only the programs of a run plant them, and only if the environment says so: nothing shipped knows of them.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from integration.chaos.account import commits, deletions, messages, order, ownership, repeats
from tests.planted.patches import read_defects
from tests.planted.planting import planted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.planted.patches import Defect

VARIABLE = "CHAOS_DEFECT"
"""Names the defect that the processes of a run have."""


class Planting(NamedTuple):
    """Which processes have a defect (`broker`, `member`, `producer`), and the rules any of which names it.

    One that is rare was not named within ten minutes.
    """

    process: str
    rules: tuple[str, ...]
    is_rare: bool = False


PLANTINGS: Mapping[str, Planting] = {
    "a barrier is answered before the sets before it are written": Planting("broker", (messages.LOST,)),
    "recovery cuts the last good message": Planting("broker", (messages.LOST, messages.GONE)),
    "what is not on disk can be read": Planting("broker", (messages.GONE,)),
    "a clock that has jumped decides what is old": Planting("broker", (deletions.DELETED,)),
    "a commit comes before the hand-out": Planting("member", (commits.TOO_FAR,)),
    "a partition is released without its commit": Planting("member", (repeats.CAME_TWICE,)),
    "the lease is not checked": Planting("member", (ownership.TWO_OWNERS, commits.WITHOUT_A_LEASE)),
    "a partition is taken from who still owns it": Planting(
        "member", (ownership.TWO_OWNERS, commits.NOT_THE_OWNER, commits.WITHOUT_A_LEASE)
    ),
    "sets in doubt count as confirmed": Planting("producer", (messages.LOST,)),
    # Two sets of one key must be lost before the broker has had either; the model of the producer finds it.
    "what is sent again goes behind what is newer": Planting("producer", (order.BY_KEY,), is_rare=True),
    "a set for a named partition goes to another": Planting("producer", (messages.MISDIRECTED,)),
}
"""The defects of tests/planted/chaos.toml."""


LOSING: tuple[str, ...] = (
    "a replica flushes nothing",
    "a disk with less than the floor leads",
    "a disk that has not seen a settled epoch leads",
    "a longer disk of another line leads",
    "a leader does not know which connection a follower asks by",
    "a request of one who went away since is heard",
    "what one who went away has said still counts",
    "what a follower said by an older connection still counts",
    "a request of an older connection is heard",
    "a deletion is carried out again",
    "an epoch is not stored before it is acted on",
    "a state that went back is acted on",
    "a topic is deleted again for the same request",
    "one that has gone back follows before it is put out",
    "who has less than can be read stays in sync",
    "the readable end moves before all in sync are known to have the epoch",
    "what clients may have read is cut where it differs",
    "a follower deletes segments by itself",
    "a follower does not check what its leader gives",
)
"""Of the defects that replicas may have, those that can lose or change what was confirmed.

They are of state that goes back, and of the order of what a broker does. Not among them is what another rule still
prevents: a leader that takes sends without its lease cannot confirm them, since no follower hears it in a later epoch.
"""


def plant(process: str) -> None:
    """Have the defect that the environment names, for good, if it is one of this kind of process."""
    name = os.environ.get(VARIABLE, "")
    if name in PLANTINGS and PLANTINGS[name].process == process:
        planted_defects.enter_context(planted(read_defects("chaos")[name]))


def replica_defects() -> dict[str, Defect]:
    """Return the defects that replicas may have: those of their model, and those of the order of what a broker does."""
    return read_defects("replica") | read_defects("order")


def plant_in_replica() -> None:
    """Have the defect that the environment names, for good, if it is one that replicas may have."""
    defect = replica_defects().get(os.environ.get(VARIABLE, ""))
    if defect is not None:
        planted_defects.enter_context(planted(defect))


planted_defects = ExitStack()


@contextmanager
def announced(name: str) -> Iterator[None]:
    """Have the processes that are started in this block have a defect."""
    os.environ[VARIABLE] = name
    try:
        yield
    finally:
        del os.environ[VARIABLE]
