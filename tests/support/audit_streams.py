"""Made-up streams of one topic through several tiers, and an account of them that uses nothing of the audit."""

from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kafka2011.audit.report import Places, short_ids
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from kafka2011.audit.report import AuditReport
    from kafka2011.audit.window_counts import WindowCounts

TOPIC = "views"
WINDOW_MS = 10


class Copy(NamedTuple):
    """One message in a partition's log."""

    id: str
    published_at_us: int
    where: TopicPartition
    offset: int
    in_set: int


@dataclass
class Seen:
    """What a tier has seen of each window, counted by hand: messages, and where each of them was."""

    ids: dict[int, set[str]] = field(default_factory=dict)
    total: Counter[int] = field(default_factory=Counter)
    places: set[tuple[object, ...]] = field(default_factory=set)

    def note(self, message_id: str, published_at_us: int, place: tuple[object, ...] | None = None) -> None:
        window = published_at_us // (WINDOW_MS * 1000) * WINDOW_MS
        self.ids.setdefault(window, set()).add(message_id)
        if place is None or place not in self.places:
            self.total[window] += 1
        if place is not None:
            self.places.add(place)


def new_id(chance: random.Random) -> str:
    return str(uuid.UUID(int=chance.getrandbits(128), version=4))


def count_sent(counts: WindowCounts, seen: Seen, sent: Sequence[tuple[str, int]], now_s: float = 0.0) -> None:
    """Count what a producer has sent: ids with the times when they were published."""
    if not sent:
        return
    counts.add(TOPIC, np.array([at for _, at in sent]), short_ids([each for each, _ in sent]), now_s)
    for message_id, at in sent:
        seen.note(message_id, at)


def count_read(counts: WindowCounts, seen: Seen, copies: Sequence[Copy], now_s: float = 0.0) -> None:
    """Count what was read from one partition."""
    if not copies:
        return
    places = Places(
        np.array([copy.offset for copy in copies], np.int64), np.array([copy.in_set for copy in copies], np.int32)
    )
    times = np.array([copy.published_at_us for copy in copies])
    read = (copies[0].offset, copies[-1].offset + 1)
    ids = short_ids([copy.id for copy in copies])
    counts.add(TOPIC, times, ids, now_s, where=copies[0].where, places=places, read=read)
    for copy in copies:
        seen.note(copy.id, copy.published_at_us, (copy.where, copy.offset, copy.in_set))


def write_log(chance: random.Random, messages: Sequence[tuple[str, int]], partitions: int = 2) -> list[list[Copy]]:
    """Write messages into partitions, some of them as compressed sets, whose messages have one offset."""
    logs: list[list[Copy]] = [[] for _ in range(partitions)]
    ends = [0] * partitions
    rest = list(messages)
    while rest:
        number = chance.randrange(partitions)
        size = chance.choice((1, 1, 1, 4))
        where = TopicPartition(TOPIC, number, 0)
        logs[number] += [Copy(each, at, where, ends[number], i) for i, (each, at) in enumerate(rest[:size])]
        ends[number] += chance.randrange(20, 100)
        del rest[:size]
    return logs


def shuffled(chance: random.Random, reports: Sequence[AuditReport]) -> list[AuditReport]:
    """Return reports as the topic may have them: in any order, and some twice."""
    found = [*reports, *(report for report in reports if chance.random() < 0.2)]
    chance.shuffle(found)
    return found
