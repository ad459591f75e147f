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
    told = {str(message).encode(): at[2] for message, at in evidence.told.items() if at[:2] == (topic, partition)}
    today = [(offset, message) for offset, message in records if message is not None and message.is_of_today]
    named = [(offset, str(message).encode()) for offset, message in today]
    for text in wrong_offsets(named, {name: told.get(name, -1) for _, name in named}):
        yield Violation(MISPLACED, f"{lies}: {text}")
    last: dict[str, int] = {}
    for offset, message in today:
        if message.number <= last.get(message.producer, -1):
            yield Violation(DISORDER, f"{lies}: {message} at {offset}, after {last[message.producer]}")
        last[message.producer] = message.number
