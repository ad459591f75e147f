"""Where the partitions of a topic go: a number in all, spread evenly over brokers. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


def place(topic: str, partitions: int, brokers: Collection[int], counts: Mapping[int, int]) -> dict[int, int]:
    """Return how many partitions each of `brokers` has when the topic has this number in all.

    Brokers that have none are left out. `counts` has what brokers have already, which none of them loses. Each further
    partition goes to the broker that has fewest. Equal brokers are taken in the order of their ids, from one that
    depends on the topic, so that topics with few partitions do not all go to the same broker.
    """
    in_order = sorted(brokers)
    start = crc32(topic.encode()) % max(len(in_order), 1)
    in_order = in_order[start:] + in_order[:start]
    placed = {number: counts.get(number, 0) for number in in_order}
    for _ in range(partitions - sum(counts.values())):
        placed[min(in_order, key=placed.__getitem__)] += 1
    return {number: placed[number] for number in sorted(placed) if placed[number]}
