"""What became of owners and offsets, by ZooKeeper's own record: who owned what when, and who committed what. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from integration.chaos.zk_log import Write
    from zk.clock import Clock

_NODE = re.compile(r"/consumers/([^/]+)/(owners|offsets)/([^/]+)/([0-9]+)-([0-9]+)")
FOREVER_S = float("inf")
_LOOKS = 100
"""On a busy machine much may lie between two looks at a clock."""


class Owned(NamedTuple):
    """A time during which a partition's owner node stood. `member` is named as in its consumerid."""

    group: str
    where: TopicPartition
    member: str
    session_id: int
    begin_s: float
    end_s: float


class Commit(NamedTuple):
    """A write to an offset node: by whose session, and whose the owner node was just then (0: there was none)."""

    stamp_s: float
    group: str
    where: TopicPartition
    offset: int
    session_id: int
    owner_id: int


@dataclass(slots=True)
class RegistryHistory:
    """The history of all groups' owners and offsets."""

    owned: list[Owned] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)


def wall_to_lease_s(clock: Clock) -> float:
    """Return what to add to the wall clock to have the lease's, by the closest of many looks at both."""

    def look() -> tuple[float, float]:
        before_s, wall_s, after_s = clock.monotonic_s(), clock.wall_s(), clock.monotonic_s()
        return after_s - before_s, before_s - wall_s

    return min(look() for _ in range(_LOOKS))[1]


def history_of(writes: Iterable[Write], wall_to_lease_s: float) -> RegistryHistory:
    """Replay all writes. `wall_to_lease_s` is what to add to the wall clock to have the lease's."""
    history = RegistryHistory()
    standing: dict[tuple[str, TopicPartition], Owned] = {}

    def end(key: tuple[str, TopicPartition], stamp_s: float) -> None:
        owned = standing.pop(key, None)
        if owned is not None:
            history.owned.append(owned._replace(end_s=stamp_s))

    for write in writes:
        stamp_s = write.time_ms / 1000 + wall_to_lease_s
        if write.kind == "close":
            for key in [key for key, owned in standing.items() if owned.session_id == write.session_id]:
                end(key, stamp_s)
            continue
        match = _NODE.fullmatch(write.path)
        if match is None:
            continue
        group, what, topic, broker_id, partition = match.groups()
        where = TopicPartition(topic, int(broker_id), int(partition))
        key = (group, where)
        if what == "offsets" and write.kind != "delete":
            owner_id = standing[key].session_id if key in standing else 0
            history.commits.append(Commit(stamp_s, group, where, int(write.data), write.session_id, owner_id))
        elif write.kind == "create":
            member = write.data.decode().rpartition("-")[0].removeprefix(f"{group}_")
            standing[key] = Owned(group, where, member, write.session_id, stamp_s, FOREVER_S)
        elif write.kind == "delete":
            end(key, stamp_s)
    history.owned += standing.values()
    return history
