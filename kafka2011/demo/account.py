"""The demo's account: what became of every line, from what lies in the logs and what members noted. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafka2011.demo.records import Place, Receipt
    from zk.cluster import TopicPartition

SENT_AGAIN = "sent again by the producer, unconfirmed when a broker was killed"
IN_A_REBALANCE = "still in hand when its partition was given up"


def after_kill(member: str) -> str:
    """Return the cause of a repeat that follows the kill -9 of a member."""
    return f"not committed when {member} was killed"


class Logged(NamedTuple):
    """A line as it lies in a partition's log."""

    place: Place
    number: int
    sent_ms: int


@dataclass(frozen=True, slots=True)
class Account:
    """What became of the lines, in the logs or in one group."""

    of: str
    sent: int
    received: int
    missing: tuple[int, ...]
    repeats: Mapping[str, int]
    out_of_order: int

    @property
    def repeated(self) -> int:
        """How many deliveries were not the first of their line."""
        return sum(self.repeats.values())

    def is_good(self, *, exactly_once: bool) -> bool:
        """Say whether nothing is missing or out of order or, if that is wanted, repeated."""
        return not self.missing and not self.out_of_order and not (exactly_once and self.repeated)


def account_of_logs(sent: int, logged: Iterable[Logged]) -> Account:
    """Account for what was read back from every partition, each in the order of its offsets."""
    seen: set[int] = set()
    last: dict[TopicPartition, int] = {}
    repeats = out_of_order = 0
    for place, number, _ in logged:
        if number in seen:
            repeats += 1
            continue
        seen.add(number)
        partition = place.partition
        out_of_order += number < last.get(partition, 0)
        last[partition] = number
    missing = tuple(number for number in range(1, sent + 1) if number not in seen)
    return Account("logs", sent, len(seen), missing, {SENT_AGAIN: repeats} if repeats else {}, out_of_order)


def account_of_group(group: str, sent: int, receipts: Sequence[Receipt], killed: Iterable[str]) -> Account:
    """Account for the deliveries of one group; `killed` names the members that ended by kill -9."""
    was_killed = set(killed)
    numbers: set[int] = set()
    latest: dict[Place, Receipt] = {}
    last: dict[TopicPartition, tuple[int, int, int]] = {}  # offset, index in set, line number
    repeats: Counter[str] = Counter()
    out_of_order = 0
    for receipt in sorted(receipts, key=lambda r: r.received_ms):
        place = receipt.place
        before = latest.get(place)
        latest[place] = receipt
        if before is not None:
            repeats[after_kill(before.member) if before.member in was_killed else IN_A_REBALANCE] += 1
            continue
        if receipt.number in numbers:
            repeats[SENT_AGAIN] += 1
            continue
        numbers.add(receipt.number)
        partition = place.partition
        offset, index, number = last.get(partition, (-1, 0, 0))
        out_of_order += (place.offset, place.index_in_set) < (offset, index) or receipt.number < number
        last[partition] = (place.offset, place.index_in_set, receipt.number)
    missing = tuple(number for number in range(1, sent + 1) if number not in numbers)
    return Account(f"group {group}", sent, len(numbers), missing, dict(repeats), out_of_order)


def latency_percentiles_ms(receipts: Iterable[Receipt]) -> dict[str, int]:
    """Return median, 99th percentile and maximum of the time from sending to first delivery; nothing without any."""
    first: dict[int, int] = {}
    for receipt in receipts:
        latency_ms = receipt.received_ms - receipt.sent_ms
        first[receipt.number] = min(latency_ms, first.get(receipt.number, latency_ms))
    ordered = sorted(first.values())
    if not ordered:
        return {}
    return {
        "p50_ms": ordered[len(ordered) // 2],
        "p99_ms": ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)],
        "max_ms": ordered[-1],
    }
