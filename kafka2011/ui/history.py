"""What became of members, owners and brokers while somebody looked: spans of ownership, steps, and rebalances. Pure.

A claim is stamped by ZooKeeper's clock, kept between the two looks around it, so that clocks which are apart put
nothing in the wrong order. A release is stamped by the look that missed the node, or by the next claim if both were
seen at once.
"""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka2011.admin.snapshot.cluster_snapshot import GroupInfo, member_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafka2011.admin.snapshot.cluster_snapshot import ClusterSnapshot
    from zk.cluster import TopicPartition
    from zk.owners import Owner

MOST_STEPS = 2000
"""Of one group; older ones are forgotten."""
_QUIET_MS = 3000
"""Steps that are further apart belong to two rebalances, unless a partition waits for an owner meanwhile."""

JOINED, LEFT, CLAIMED, RELEASED = "joined", "left", "claimed", "released"
CAME, WENT, UNSEEN = "came", "went", "unseen"


class RebalanceStep(NamedTuple):
    """One thing that happened: to a member or broker `who`, and for owners, to which partition."""

    at_ms: int
    kind: str
    who: str
    where: str = ""


@dataclass(slots=True)
class OwnershipSpan:
    """A time in which a member owned a partition; `end_ms` is None while it still does."""

    partition: str
    member: str
    begin_ms: int
    end_ms: int | None = None


class Rebalance(NamedTuple):
    """Steps that belong together: what set them off, how many partitions have a new owner, the longest one had none."""

    begin_ms: int
    end_ms: int
    causes: list[str]
    moved: int
    longest_without_owner_ms: int
    waiting: int
    """How many partitions had no owner at the end."""
    steps: list[RebalanceStep]

    def document(self, *, with_steps: bool = True) -> dict[str, Any]:
        """Return it for the page."""
        return {**self._asdict(), "steps": [step._asdict() for step in self.steps] if with_steps else []}


class _GroupHistory:
    def __init__(self) -> None:
        self.steps: deque[RebalanceStep] = deque(maxlen=MOST_STEPS)
        self.spans: deque[OwnershipSpan] = deque(maxlen=MOST_STEPS)
        self.standing: dict[TopicPartition, OwnershipSpan] = {}

    def note(self, steps: list[RebalanceStep]) -> None:
        """Put new steps where they belong in time; who left did so before another claimed in the same moment."""
        first_ms = min(step.at_ms for step in steps)
        later: list[RebalanceStep] = []
        while self.steps and self.steps[-1].at_ms >= first_ms:
            later.append(self.steps.pop())
        self.steps.extend(sorted((*later[::-1], *steps), key=lambda step: (step.at_ms, step.kind == CLAIMED)))


class RebalanceHistory:
    """Compares each snapshot with the one before. For one thread."""

    def __init__(self) -> None:
        self._groups: dict[str, _GroupHistory] = {}
        self._before: ClusterSnapshot | None = None
        self._before_ms = 0
        self._earlier_ms = 0
        self.changes = 0
        """How often something was noted."""

    def note(self, seen: ClusterSnapshot, now_ms: int, *, is_first: bool = False) -> None:
        """Note a snapshot; `is_first` if nobody looked for a while before it."""
        before, self._before = self._before, seen
        before_ms, self._before_ms = self._before_ms, now_ms
        earlier_ms, self._earlier_ms = self._earlier_ms, before_ms
        for gone in self._groups.keys() - seen.groups.keys():
            del self._groups[gone]
        for name, group in seen.groups.items():
            known = self._groups.get(name)
            if before is None or known is None:
                known = self._groups[name] = _GroupHistory()
                was = GroupInfo() if before is not None else group  # a new group's members have joined it
                for where, owner in was.owners.items():
                    known.standing[where] = _begin(known, where, owner, owner.since_ms)
            else:
                was = before.groups[name]
            steps = list(_steps(known, was, group, earlier_ms, before_ms, now_ms))
            if before is not None:
                steps += _broker_steps(before, seen, before_ms, now_ms)
            if steps:
                if is_first and before is not None:
                    steps.insert(0, RebalanceStep(before_ms, UNSEEN, ""))
                known.note(steps)
                self.changes += 1

    def rebalances(self, group: str) -> list[Rebalance]:
        """Return a group's rebalances, newest first."""
        known = self._groups.get(group)
        return [] if known is None else list(rebalances_of(known.steps))[::-1]

    def last(self, group: str) -> Rebalance | None:
        """Return the newest one."""
        return next(iter(self.rebalances(group)), None)

    def document(self, group: str) -> dict[str, Any]:
        """Return a group's history for the page: who owned what when, oldest first, and rebalances, newest first."""
        known = self._groups.get(group)
        spans = [] if known is None else known.spans
        return {
            "group": group,
            "spans": [asdict(span) for span in spans],
            "rebalances": [rebalance.document() for rebalance in self.rebalances(group)],
        }


def rebalances_of(steps: Iterable[RebalanceStep]) -> Iterator[Rebalance]:
    """Divide steps, in the order of time, into rebalances."""
    its: list[RebalanceStep] = []
    waiting: set[str] = set()
    for step in steps:
        if its and not waiting and step.at_ms - its[-1].at_ms > _QUIET_MS:
            yield _rebalance(its)
            its = []
        its.append(step)
        if step.kind == RELEASED:
            waiting.add(step.where)
        elif step.kind in {CLAIMED, UNSEEN}:
            waiting.discard(step.where)
        elif step.kind == WENT:  # its partitions wait for nobody
            waiting = {where for where in waiting if f"/{step.who}-" not in where}
    if its:
        yield _rebalance(its)


def _rebalance(steps: list[RebalanceStep]) -> Rebalance:
    causes = [_cause(step) for step in steps if step.kind in {JOINED, LEFT, CAME, WENT, UNSEEN}]
    released_by: dict[str, RebalanceStep] = {}
    waiting: dict[str, int] = {}
    longest_ms = 0
    moved: set[str] = set()
    for step in steps:
        if step.kind == RELEASED:
            released_by[step.where] = step
            waiting[step.where] = step.at_ms
        elif step.kind == CLAIMED:
            longest_ms = max(longest_ms, step.at_ms - waiting.pop(step.where, step.at_ms))
            if step.where not in released_by or released_by[step.where].who != step.who:
                moved.add(step.where)
    return Rebalance(steps[0].at_ms, steps[-1].at_ms, causes, len(moved), longest_ms, len(waiting), steps)


def _cause(step: RebalanceStep) -> str:
    texts = {
        JOINED: f"member {step.who} joined",
        LEFT: f"member {step.who} left",
        CAME: f"broker {step.who} registered",
        WENT: f"broker {step.who} is no longer registered",
        UNSEEN: "not observed before this",
    }
    return texts[step.kind]


def _steps(
    known: _GroupHistory, was: GroupInfo, group: GroupInfo, earlier_ms: int, before_ms: int, now_ms: int
) -> Iterator[RebalanceStep]:
    of_owners = list(_owner_steps(known, was, group, before_ms, now_ms))
    for member in sorted(was.members.keys() - group.members.keys()):
        # Its nodes go with it, so it had left when another claimed what it owned, even if that was seen at once. The
        # look before may have read the members before the session ended, and the owners after the next claim.
        lost_ms = (
            step.at_ms
            for step in (*_newest(known.steps, earlier_ms), *of_owners)
            if step.kind == RELEASED and member_of(step.who) == member
        )
        yield RebalanceStep(min(lost_ms, default=now_ms), LEFT, member)
    for member in sorted(group.members.keys() - was.members.keys()):
        yield RebalanceStep(_between(before_ms, group.members[member].since_ms, now_ms), JOINED, member)
    yield from of_owners


def _newest(steps: deque[RebalanceStep], after_ms: int) -> Iterable[RebalanceStep]:
    return takewhile(lambda step: step.at_ms > after_ms, reversed(steps))


def _owner_steps(
    known: _GroupHistory, was: GroupInfo, group: GroupInfo, before_ms: int, now_ms: int
) -> Iterator[RebalanceStep]:
    for where in sorted(was.owners.keys() | group.owners.keys()):
        owner, before = group.owners.get(where), was.owners.get(where)
        if _is_same(owner, before):
            continue
        claimed_ms = now_ms if owner is None else _between(before_ms, owner.since_ms, now_ms)
        if before is not None:
            yield RebalanceStep(claimed_ms, RELEASED, before.stream_id, str(where))
            if where in known.standing:
                known.standing.pop(where).end_ms = claimed_ms
        if owner is not None:
            yield RebalanceStep(claimed_ms, CLAIMED, owner.stream_id, str(where))
            known.standing[where] = _begin(known, where, owner, claimed_ms)


def _is_same(owner: Owner | None, before: Owner | None) -> bool:
    if owner is None or before is None:
        return owner is before
    return (owner.stream_id, owner.session_id, owner.since_ms) == (
        before.stream_id,
        before.session_id,
        before.since_ms,
    )


def _begin(known: _GroupHistory, where: TopicPartition, owner: Owner, begin_ms: int) -> OwnershipSpan:
    span = OwnershipSpan(str(where), member_of(owner.stream_id), begin_ms)
    known.spans.append(span)
    return span


def _broker_steps(
    before: ClusterSnapshot, seen: ClusterSnapshot, before_ms: int, now_ms: int
) -> Iterator[RebalanceStep]:
    for number in sorted(before.brokers.keys() - seen.brokers.keys()):
        yield RebalanceStep(now_ms, WENT, str(number))
    for number in sorted(seen.brokers.keys() - before.brokers.keys()):
        yield RebalanceStep(_between(before_ms, seen.brokers[number].since_ms, now_ms), CAME, str(number))


def _between(before_ms: int, stamp_ms: int, now_ms: int) -> int:
    return min(max(before_ms, stamp_ms), now_ms)
