"""Ownership: nobody hands out a partition once another member has it. Pure.

A member writes down when partitions are assigned to it, which is after it claimed them and before anything of them is
handed out. So whatever a former owner hands out after that was handed out without a lease.
"""

from __future__ import annotations

import bisect
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from integration.chaos.evidence import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from integration.chaos.evidence import Evidence
    from integration.chaos.records import Receipt
    from zk.cluster import TopicPartition

TWO_OWNERS = "two members handed out one partition"
NOT_OWNED = "a member handed out a partition that it was not assigned"
TOLERANCE_S = 0.3
"""A message is written down a moment after it was handed out, and on a busy machine that may take a while."""
WAKING_S = 1.0
"""How soon a process that was stopped writes down what it had just been handed."""


class _Assigned(NamedTuple):
    stamp_s: float
    member: str


def find_double_ownership(evidence: Evidence) -> Iterator[Violation]:
    """Yield every hand-out of a partition that came after another member had begun with it."""
    for group, members in evidence.groups.items():
        assigned: dict[TopicPartition, list[_Assigned]] = {}
        for member in members:
            for tenure in evidence.members[member].tenures:
                for where in tenure.partitions if tenure.what == "assigned" else ():
                    assigned.setdefault(where, []).append(_Assigned(tenure.stamp_s, member))
        for each in assigned.values():
            each.sort()
        for member in members:
            for receipt, handed_out_s in handed_out(evidence, member):
                where = receipt.place.where
                begun = assigned.get(where, [])
                until = bisect.bisect_right(begun, _Assigned(handed_out_s, "\U0010ffff"))
                mine = next((n for n in reversed(range(until)) if begun[n].member == member), None)
                if mine is None:
                    yield Violation(NOT_OWNED, f"{group}: {member} at {receipt.place}")
                    continue
                other = next((each for each in begun[mine + 1 : until] if each.member != member), None)
                if other is not None and handed_out_s - other.stamp_s > TOLERANCE_S:
                    late_s = handed_out_s - other.stamp_s
                    text = f"{group}: {member} handed out {receipt.place} {late_s:.2f} s after {other.member} had it"
                    yield Violation(TWO_OWNERS, text)


def handed_out(evidence: Evidence, member: str) -> Iterator[tuple[Receipt, float]]:
    """Yield a member's receipts with the earliest time at which each can have been handed out.

    Whoever is stopped may have been handed something that it writes down only after it was let go on: one hand-out,
    whose messages have one stamp, of a partition that it has had since before.
    """
    file = evidence.members[member]
    stops = deque(
        sorted((each.begun_s, each.ended_s) for each in evidence.happened if each.stops_clients and member in each.whom)
    )
    stamp_s = stopped_s = 0.0
    for receipt in file.receipts:
        if receipt.stamp_s != stamp_s:
            stamp_s = stopped_s = receipt.stamp_s
            while stops and stops[0][0] <= stamp_s:
                begun_s, ended_s = stops.popleft()
                if stamp_s <= ended_s + WAKING_S:
                    stopped_s = min(stopped_s, begun_s)
        if stopped_s < stamp_s:
            assigned_s = (
                tenure.stamp_s
                for tenure in file.tenures
                if tenure.what == "assigned" and receipt.place.where in tenure.partitions and tenure.stamp_s <= stamp_s
            )
            yield receipt, max(stopped_s, *assigned_s, 0.0)
        else:
            yield receipt, stamp_s
