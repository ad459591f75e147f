"""Order: by key and by named partition in the logs, and by offset in what every group was handed. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from integration.chaos.account import faults
from integration.chaos.evidence import Violation
from integration.chaos.records import NO_KEY

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from integration.chaos.evidence import Evidence
    from integration.chaos.records import MessageId, Sent
    from zk.cluster import TopicPartition

BY_KEY = "messages of one key lie in another order than they were sent in"
BY_PARTITION = "messages of one producer lie in another order than they were sent in, and their brokers were up"
DELIVERED = "a group was handed a partition's messages in another order than the log's"


def find_disorder_in_logs(evidence: Evidence) -> Iterator[Violation]:
    """Yield what lies in the logs too late. Where a message lies twice, only its first place counts."""
    sent = {each.message: each for each in evidence.sent}
    seen: set[tuple[TopicPartition, MessageId]] = set()
    last: dict[Hashable, int] = {}
    for logged in evidence.logged:
        where, message = logged.place.where, logged.message
        if message is None or (where, message) in seen or message not in sent:
            continue
        seen.add((where, message))
        mine = sent[message]
        strict = logged.key != NO_KEY or mine.named
        line = (where, message.producer, logged.key, bool(mine.named))
        if message.number > last.get(line, -1):
            last[line] = message.number
        elif strict:
            yield Violation(BY_KEY, f"{message} at {logged.place}, after {last[line]} (key {logged.key})")
        elif not _could_move(evidence, mine):
            yield Violation(BY_PARTITION, f"{message} at {logged.place}, after {last[line]}")


def _could_move(evidence: Evidence, sent: Sent) -> bool:
    """Say whether some broker could not be reached meanwhile: then batches without a key may go to another."""
    meanwhile = evidence, sent.sent_s, sent.ended_s or sent.sent_s
    return any("broker" in name for each in faults.at(*meanwhile) for name in each.whom) or any(
        "broker" in name or name == sent.message.producer
        for each in faults.refusing_certificates(*meanwhile)
        for name in each.whom
    )


def find_disorder_in_groups(evidence: Evidence) -> Iterator[Violation]:
    """Yield first deliveries that came after those of later messages of their partition."""
    for group in evidence.groups:
        seen = set()
        last: dict[TopicPartition, tuple[int, int]] = {}
        for receipt in evidence.receipts_of(group):
            place = receipt.place
            if place in seen:
                continue
            seen.add(place)
            at = (place.offset, place.index_in_set)
            if at < last.get(place.where, (-1, 0)):
                offset = last[place.where][0]
                yield Violation(DELIVERED, f"{group}: {receipt.member} was handed {place} only after offset {offset}")
            else:
                last[place.where] = at
