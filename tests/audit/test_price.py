"""What the audit of an event costs: the bytes that four tiers add to the topic `audit`."""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kafka2011.audit.encoding import AUDIT_COUNT, to_event
from kafka2011.audit.progress import Instance
from kafka2011.audit.report import AUDIT_TOPIC, Places, short_ids
from kafka2011.audit.unpublished import FOREVER_S, UnpublishedReports
from kafka2011.audit.windows import Windows
from kafka2011.events.codec import EventEncoder
from kafka2011.events.event_ids import EventIds
from kafka2011.events.schemas import KnownSchemas
from kafka2011.message.compression import Codec
from kafka2011.message.message_set import MessageSet
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafka2011.audit.progress_report import ProgressReport
    from kafka2011.audit.report import AuditReport

SECONDS = 60
PRODUCERS = 4
RATE = 1000 // PRODUCERS
BATCH = 50
PARTITIONS = [TopicPartition("views", broker, number) for broker in range(3) for number in range(2)]
START_S = 1_700_000_000
TIERS = ("live", "mirror", "warehouse")


@dataclass
class Log:
    """One partition: each message's id, when it was published, its offset, and its number in its set."""

    messages: list[tuple[str, int, int, int]] = field(default_factory=list)
    end: int = 0
    read: dict[str, tuple[int, int]] = field(default_factory=lambda: dict.fromkeys(TIERS, (0, 0)))


class AuditTopic:
    """The topic, as large as its sets."""

    def __init__(self) -> None:
        self._encoder = EventEncoder(KnownSchemas({AUDIT_TOPIC: AUDIT_COUNT}))
        self.bytes = 0

    def publish(self, said: Sequence[AuditReport | ProgressReport], now_us: int) -> None:
        if said:
            payloads = [self._encoder.encode(AUDIT_TOPIC, to_event(each, now_us, "web1.example.com")) for each in said]
            self.bytes += len(bytes(MessageSet(payloads, Codec.GZIP)))


def bytes_an_event(new_ids: Sequence[Callable[[], str]], *, in_sets: bool) -> float:
    """Pass 1000 events a second, of four producers, through four tiers for a minute; all report every ten seconds."""
    chance = random.Random(7)
    topic, logs = AuditTopic(), {where: Log() for where in PARTITIONS}
    producers = [
        UnpublishedReports(Instance("producer", f"web{n}-4711-0c0ffee0", "home"), Windows()) for n in range(PRODUCERS)
    ]
    readers = {tier: UnpublishedReports(Instance(tier, f"{tier}-4711-0c0ffee0", "home"), Windows()) for tier in TIERS}
    for producer in producers:
        topic.publish(producer.begin_source("views", START_S * 1_000_000), START_S * 1_000_000)
    for reader in readers.values():
        topic.publish(reader.begin_reader("views", START_S * 1_000_000), START_S * 1_000_000)
    for second in range(SECONDS):
        now_us = (START_S + second) * 1_000_000
        for producer, new_id in zip(producers, new_ids, strict=True):
            events = [(new_id(), now_us + number * 1_000_000 // RATE) for number in range(RATE)]
            times = np.array([at_us for _, at_us in events])
            producer.count("views", times, short_ids([each for each, _ in events]), second)
            for start in range(0, RATE, BATCH):
                write(chance, logs[chance.choice(PARTITIONS)], events[start : start + BATCH], in_sets=in_sets)
        if second % 10 == 9:
            for producer in producers:
                topic.publish(producer.take(now_us, FOREVER_S), now_us)
            for tier, reader in readers.items():
                for where, log in logs.items():
                    read(reader, tier, where, log)
                ends = {where: (0, log.end) for where, log in logs.items()}
                topic.publish(reader.take(now_us, ends={"views": (now_us // 1000, ends)}), now_us)
    return topic.bytes / (SECONDS * RATE * PRODUCERS)


def write(chance: random.Random, log: Log, events: Sequence[tuple[str, int]], *, in_sets: bool) -> None:
    for number, (event_id, at_us) in enumerate(events):
        log.messages.append((event_id, at_us, log.end, number if in_sets else 0))
        log.end += 0 if in_sets else chance.randint(150, 300)
    log.end += chance.randint(4000, 6000) if in_sets else 0


def read(reader: UnpublishedReports, tier: str, where: TopicPartition, log: Log) -> None:
    known, start = log.read[tier]
    log.read[tier] = len(log.messages), log.end
    if new := log.messages[known:]:
        ids, times, offsets, indexes = zip(*new, strict=True)
        places = Places(np.array(offsets), np.array(indexes, np.int32))
        reader.count_read(where, np.array(times), short_ids(ids), places, (start, log.end), 0.0)


@pytest.mark.parametrize(("in_sets", "most"), [(False, 6), (True, 2)])
def test_four_tiers_of_events_whose_ids_are_counted(in_sets: bool, most: float) -> None:
    """As publishers give them, to events in logs with and without compression."""
    assert bytes_an_event([EventIds(source).next for source in range(PRODUCERS)], in_sets=in_sets) < most


def test_four_tiers_of_events_with_random_ids() -> None:
    """As those have that bring their own: the ids themselves cannot be said in less than seven bytes a tier."""
    chance = random.Random(11)
    ids = [lambda: str(uuid.UUID(int=chance.getrandbits(128), version=4))] * PRODUCERS
    assert bytes_an_event(ids, in_sets=False) < 34
