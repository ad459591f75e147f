"""The demo's faults, and how a group recovered from each, judged by the lines that there were to read. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from kafka2011.demo.account import Logged
    from kafka2011.demo.records import Receipt
    from zk.cluster import TopicPartition

FLOW_AFTER_S = 10.0
"""How long after a takeover messages must still flow."""
GIVING_UP_MS = 2000
"""What was sent this shortly before a partition moved may be delivered by its next owner."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that happened to the cluster while messages flowed. `broker_id` or `member` is whom it happened to."""

    what: str
    at_ms: int
    member: str | None = None
    broker_id: int | None = None

    @property
    def whom(self) -> str:
        """The member or broker, by its name."""
        return self.member or f"broker {self.broker_id}"


@dataclass(frozen=True, slots=True)
class Takeover:
    """How a group recovered from a fault: when its partitions were read again, and whether they still were later.

    `seconds` is None when they were not, or nothing was sent to them any more (`is_owed` is false then). `flows_after`
    is None when nothing was sent to them later.
    """

    fault: Fault
    group: str
    seconds: float | None
    flows_after: bool | None
    is_owed: bool = True

    @property
    def is_good(self) -> bool:
        """Say whether messages, if there were any, flowed again and still did some time later."""
        return not self.is_owed or (self.seconds is not None and self.flows_after is not False)


class Owned(NamedTuple):
    """From this time on, until the next one, these members owned these partitions."""

    at_ms: int
    owners: Mapping[TopicPartition, str]

    def of(self, member: str) -> set[TopicPartition]:
        """Return what a member owned."""
        return {where for where, owner in self.owners.items() if owner == member}


def takeover_of(
    fault: Fault, group: str, receipts: Collection[Receipt], logged: Iterable[Logged], ownership: Sequence[Owned]
) -> Takeover:
    """Find out how a group recovered from a fault, from its receipts, the logs, and who owned what.

    A killed broker: of each of its partitions something is delivered that was sent later. A killed member: the same for
    each partition that it owned, by another member. A new member: it delivers something of the partitions that it got.
    A partition to which nothing was sent meanwhile owes nothing.
    """
    if fault.broker_id is None and not fault.what.startswith("kill"):
        return _start_of_member(fault, group, receipts, logged, ownership)
    sent = [(each.place.partition, each.sent_ms) for each in logged if each.sent_ms >= fault.at_ms]
    if fault.broker_id is not None:
        concerned = {where for where, _ in sent if where.broker_id == fault.broker_id}
    else:
        before = [owned for owned in ownership if owned.at_ms < fault.at_ms]
        concerned = before[-1].of(fault.member or "") & {where for where, _ in sent} if before else set()
    if not concerned:
        return Takeover(fault, group, None, None, is_owed=False)
    read_ms: dict[TopicPartition, int] = {}
    for receipt in sorted(receipts, key=lambda r: r.received_ms):
        where = receipt.place.partition
        if where in concerned and receipt.sent_ms >= fault.at_ms and receipt.member != fault.member:
            read_ms.setdefault(where, receipt.received_ms)
    taken_ms = None if concerned - read_ms.keys() else max(read_ms.values())
    return _judged(fault, group, taken_ms, concerned, receipts, sent)


def _start_of_member(
    fault: Fault, group: str, receipts: Collection[Receipt], logged: Iterable[Logged], ownership: Sequence[Owned]
) -> Takeover:
    times = _times_of(fault.member or "", ownership)
    if not times:
        return Takeover(fault, group, None, None)  # with more partitions than members, each must get some
    sent = [(each.place.partition, each.sent_ms) for each in logged if each.sent_ms >= fault.at_ms]
    owed = {
        where
        for where, sent_ms in sent
        if any(begin <= sent_ms < end - GIVING_UP_MS for begin, end in times.get(where, ()))
    }
    if not owed:
        return Takeover(fault, group, None, None, is_owed=False)
    own_ms = [r.received_ms for r in receipts if r.member == fault.member]
    return _judged(fault, group, min(own_ms, default=None), owed, receipts, sent)


def _times_of(member: str, ownership: Sequence[Owned]) -> Mapping[TopicPartition, list[tuple[int, float]]]:
    """Return from when to when a member owned each partition."""
    found: dict[TopicPartition, list[tuple[int, float]]] = {}
    ends = [*(owned.at_ms for owned in ownership[1:]), float("inf")]
    for owned, end in zip(ownership, ends, strict=True):
        for where in owned.of(member):
            found.setdefault(where, []).append((owned.at_ms, end))
    return found


def _judged(
    fault: Fault,
    group: str,
    taken_ms: int | None,
    concerned: Collection[TopicPartition],
    receipts: Iterable[Receipt],
    sent: Iterable[tuple[TopicPartition, int]],
) -> Takeover:
    """Add whether messages flowed some time after the takeover."""
    if taken_ms is None:
        return Takeover(fault, group, None, flows_after=False)
    later_ms = taken_ms + FLOW_AFTER_S * 1000
    flows_after: bool | None = None
    if any(where in concerned and sent_ms >= later_ms for where, sent_ms in sent):
        flows_after = any(r.sent_ms >= later_ms and r.place.partition in concerned for r in receipts)
    return Takeover(fault, group, (taken_ms - fault.at_ms) / 1000, flows_after)
