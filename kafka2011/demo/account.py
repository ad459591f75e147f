"""The demo's account: what became of every line, from what lies in the logs and what a reader was given. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafka2011.demo.records import MessagePlace, ReceivedLine
    from zk.cluster import TopicPartition

SENT_AGAIN = "sent again by the producer, unconfirmed when a broker was killed"
DELIVERED_AGAIN = "not committed when the group's partitions were divided anew"


@dataclass(frozen=True, slots=True)
class PipelineAccount:
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


def account_for(of: str, sent: int, lines: Iterable[ReceivedLine]) -> PipelineAccount:
    """Account for lines in the order in which they were read; of each partition the first copies must go forward."""
    places: set[MessagePlace] = set()
    numbers: set[int] = set()
    last: dict[TopicPartition, tuple[int, int, int]] = {}  # offset, index in set, line number
    repeats: Counter[str] = Counter()
    out_of_order = 0
    for place, number in lines:
        if place in places:
            repeats[DELIVERED_AGAIN] += 1
            continue
        places.add(place)
        if number in numbers:
            repeats[SENT_AGAIN] += 1
            continue
        numbers.add(number)
        partition, *position = place
        before = last.get(partition, (-1, 0, 0))
        out_of_order += tuple(position) < before[:2] or number < before[2]
        last[partition] = (place.offset, place.index_in_set, number)
    missing = tuple(number for number in range(1, sent + 1) if number not in numbers)
    return PipelineAccount(of, sent, len(numbers), missing, dict(repeats), out_of_order)
