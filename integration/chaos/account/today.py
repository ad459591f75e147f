"""What today's clients were told and read through gateways, apart from what 0.7's bytes say. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from integration.chaos.account import faults
from integration.chaos.evidence import Violation
from integration.chaos.records import JAVA
from integration.gateway.endless import repeated
from integration.gateway.today import wrong_offsets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from integration.chaos.evidence import Evidence
    from integration.chaos.records import MessageId
    from zk.cluster import TopicPartition

LOST = "a client of today does not read a record that a gateway acknowledged"
MISSED = "a client of today does not read a confirmed message of 0.7"
MISPLACED = "a client of today reads a record twice, or not where its producer was told"
UNPLACED = "an idempotent record was acknowledged without an offset"
MISSED_BY_JAVA = "a Java consumer that never ends has not read a message"
AGAIN_TO_JAVA = "a Java consumer that never ends has read again what it had committed"
ALTERED_TO_JAVA = "a Java consumer that never ends has read bytes that nobody sent"
DISORDER = "a client of today reads a producer's records in another order than they were sent in"


def find_wrong_for_today(evidence: Evidence) -> Iterator[Violation]:
    """Yield what is missing, doubled or in disorder for today's clients."""
    if not evidence.read_today:
        return
    read = {message for records in evidence.read_today.values() for _, message in records}
    places = evidence.places()
    gone = {logged.message for logged in evidence.logged if logged.gone}  # what is acknowledged was flushed
    guessed = set(_guessed(evidence))
    for message, (topic, partition, offset) in evidence.told.items():
        if offset < 0 and not (message in guessed and message in read):
            yield Violation(UNPLACED, f"{message} in {topic} {partition}")
        if message not in read and message not in gone:
            yield Violation(LOST, f"{message} at {offset} of {topic} {partition}")
    for sent in evidence.confirmed():
        is_there = any(not logged.gone for logged in places.get(sent.message, ()))
        if sent.message not in evidence.told and is_there and sent.message not in read:
            yield Violation(MISSED, str(sent.message))
    for where, records in evidence.read_today.items():
        yield from _find_misplaced(evidence, where, records)
    for topic in evidence.endless:
        yield from _find_wrong_for_java(evidence, topic)


def _guessed(evidence: Evidence) -> Iterator[MessageId]:
    """Yield the records of which librdkafka may have got no answer, because a gateway or a broker had a fault.

    It takes them for stored once a later record of their partition is. A gateway stores that one only behind them, as a
    broker of Kafka does. The Java producer guesses nothing: an offset of -1 was in an answer.
    """
    for sent in evidence.sent:
        if sent.message in evidence.told and sent.message.producer != JAVA:
            suspects = list(faults.at(evidence, sent.sent_s, sent.ended_s))
            if not evidence.happened or faults.of_gateway(suspects) or faults.of_any_broker(suspects):
                yield sent.message


def count_guessed(evidence: Evidence) -> int:
    """Return how many records librdkafka took for stored without an answer that had their offset."""
    return sum(offset < 0 for _, _, offset in evidence.told.values())


def _find_wrong_for_java(evidence: Evidence, topic: str) -> Iterator[Violation]:
    """Yield what a Java consumer lacks of a topic, or has read again. What lies twice, or is gone, is left out."""
    lines = sorted(evidence.endless[topic])
    found = {
        str(number): {str(message).encode(): offset for offset, message in records if message is not None}
        for (of_topic, number, _), records in evidence.read_today.items()
        if of_topic == topic
    }
    times = Counter(value for values in found.values() for value in values)
    got = {line.value for line in lines if line.what == b"got"}
    for value in sorted(times.keys() - got):
        yield Violation(MISSED_BY_JAVA, value.decode())
    if unsent := got - {str(logged.message).encode() for logged in evidence.logged}:
        yield Violation(ALTERED_TO_JAVA, ", ".join(sorted(value.decode() for value in unsent)))
    lies_twice = {str(message).encode() for message, logged in evidence.places().items() if len(logged) > 1}
    for number, values in found.items():
        order = {value: (number, at, at) for value, at in values.items() if value not in lies_twice}
        own = [line for line in lines if line.partition == number and (line.what == b"has" or line.value in order)]
        for text in repeated(number, own, order, {line.client: "java" for line in own}):
            yield Violation(AGAIN_TO_JAVA, text)


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
