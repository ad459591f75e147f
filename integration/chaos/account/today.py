"""What today's clients were told and read through gateways, apart from what 0.7's bytes say. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from integration.chaos.evidence import Violation
from integration.gateway.today import wrong_offsets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from integration.chaos.evidence import Evidence
    from integration.chaos.records import MessageId
    from zk.cluster import TopicPartition

LOST = "a client of today does not read a record that a gateway acknowledged"
MISSED = "a client of today does not read a confirmed message of 0.7"
MISPLACED = "a client of today reads a record twice, or not where its producer was told"
DISORDER = "a client of today reads a producer's records in another order than they were sent in"


def find_wrong_for_today(evidence: Evidence) -> Iterator[Violation]:
    """Yield what is missing, doubled or in disorder for today's clients."""
    if not evidence.read_today:
        return
    read = {message for records in evidence.read_today.values() for _, message in records}
    places = evidence.places()
    gone = {logged.message for logged in evidence.logged if logged.gone}  # what is acknowledged was flushed
    for message, (topic, partition, offset) in evidence.told.items():
        if message not in read and message not in gone:
            yield Violation(LOST, f"{message} at {offset} of {topic} {partition}")
    for sent in evidence.confirmed():
        is_there = any(not logged.gone for logged in places.get(sent.message, ()))
        if sent.message not in evidence.told and is_there and sent.message not in read:
            yield Violation(MISSED, str(sent.message))
    for where, records in evidence.read_today.items():
        yield from _find_misplaced(evidence, where, records)


def _find_misplaced(
    evidence: Evidence, where: tuple[str, int, TopicPartition], records: list[tuple[int, MessageId | None]]
) -> Iterator[Violation]:
    topic, partition, lies = where
    at = {message: offset for offset, message in records}
    told = {
        str(message).encode(): -1 if _has_jumped(evidence, lies, offset, at.get(message, -1)) else offset
        for message, (told_topic, told_partition, offset) in evidence.told.items()
        if (told_topic, told_partition) == (topic, partition)
    }
    today = [(offset, message) for offset, message in records if message is not None and message.is_of_today]
    named = [(offset, str(message).encode()) for offset, message in today]
    for text in wrong_offsets(named, {name: told.get(name, -1) for _, name in named}):
        yield Violation(MISPLACED, f"{lies}: {text}")
    last: dict[str, int] = {}
    for offset, message in today:
        if message.number <= last.get(message.producer, -1):
            yield Violation(DISORDER, f"{lies}: {message} at {offset}, after {last[message.producer]}")
        last[message.producer] = message.number


def _has_jumped(evidence: Evidence, where: TopicPartition, told: int, offset: int) -> bool:
    """Say whether retention explains that a record has a higher number than was told.

    The gateway that took over could not count what had been removed before it read the log.
    """
    removals = (each for each in evidence.happened if each.fault.kind == "retention")
    return offset > told >= 0 and any(f"broker-{where.broker_id}" in each.whom for each in removals)


def count_jumped(evidence: Evidence) -> int:
    """Return how many records that were acknowledged have other numbers now, because of retention."""
    return sum(
        _has_jumped(evidence, lies, evidence.told[message][2], offset)
        for (_, _, lies), records in evidence.read_today.items()
        for offset, message in records
        if message in evidence.told
    )
