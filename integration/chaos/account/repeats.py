"""Repeats: everything that lies twice, or was handed out twice, with the fault that explains it. Pure."""

from __future__ import annotations

import bisect
from collections import Counter
from typing import TYPE_CHECKING

from integration.chaos.account import faults
from integration.chaos.evidence import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from integration.chaos.evidence import Evidence, Happened
    from integration.chaos.records import Place, Receipt, Sent, Tenure
    from zk.cluster import TopicPartition

LIES_TWICE = "a message lies twice in the logs, and nothing explains it"
CAME_TWICE = "a group was handed a message twice, and nothing explains it"

SENT_AGAIN = "sent again by its producer"
KILLED = "not committed when its member was killed"
SESSION_ENDED = "not committed when its member's session ended"
NOT_ANSWERED = "its commit was not answered"
IN_HAND = "still in hand when its partition was given up"
LEFT_BY_HAND = "not committed by a member that commits by hand when it left"
AFTER_ERROR = "fetched again after an error"
LONGEST_SEND_S = 130.0


def repeats_in_logs(evidence: Evidence) -> tuple[Counter[str], list[Violation]]:
    """Count what lies more than once, and return what no fault explains."""
    sent = {each.message: each for each in evidence.sent}
    counted: Counter[str] = Counter()
    wrong = []
    for message, logged in evidence.places().items():
        if len(logged) == 1:
            continue
        resent = next(filter(None, (_resent(evidence, sent[message], each.place) for each in logged)), None)
        if resent is not None:
            counted[f"{SENT_AGAIN}: {resent.fault.kind}"] += len(logged) - 1
        else:
            wrong.append(Violation(LIES_TWICE, f"{message} at {', '.join(str(each.place) for each in logged)}"))
    return counted, wrong


def _resent(evidence: Evidence, sent: Sent, place: Place) -> Happened | None:
    """Return the fault for which a message may have been sent again after it had come to a place."""
    if sent.outcome == "written" or (sent.outcome == "confirmed" and not sent.resends):
        return None
    suspects = list(faults.at(evidence, sent.sent_s, sent.ended_s or sent.sent_s + LONGEST_SEND_S))
    suffered = faults.of_broker(suspects, place.where.broker_id) or faults.of_process(suspects, sent.message.producer)
    return suffered or (faults.of_gateway(suspects) if sent.message.is_of_today else None)


def repeats_in_group(evidence: Evidence, group: str) -> tuple[Counter[str], list[Violation]]:
    """Count what a group was handed more than once, by cause, and return what nothing explains."""
    counted: Counter[str] = Counter()
    wrong = []
    latest: dict[Place, Receipt] = {}
    in_hand = set(_in_hand(evidence, group))
    for receipt in evidence.receipts_of(group):
        before = latest.get(receipt.place)
        latest[receipt.place] = receipt
        if before is None:
            continue
        cause = _cause(evidence, before, receipt, in_hand)
        if cause:
            counted[cause] += 1
        else:
            text = (
                f"{group}: {receipt.place} by {before.member} at {before.stamp_s:.2f} and by {receipt.member}"
                f" at {receipt.stamp_s:.2f}"
            )
            wrong.append(Violation(CAME_TWICE, text))
    return counted, wrong


def _cause(evidence: Evidence, before: Receipt, receipt: Receipt, in_hand: set[tuple[Place, float]]) -> str:
    """Return why a message came again; empty when nothing explains it."""
    member = before.member
    file = evidence.members[member]
    ended = _end_of_tenure(evidence, before)
    trouble = faults.of_session(faults.at(evidence, before.stamp_s, receipt.stamp_s), member)
    if ended is None:
        return _cause_without_end(evidence, before, receipt, trouble)
    if ended.what == "revoked":
        if (before.place, before.stamp_s) in in_hand:
            return IN_HAND
        has_left = ended is file.tenures[-1] and any(kind == "X" for kind, _, _ in file.others)
        if evidence.styles[member] == "by-hand" and has_left:
            return LEFT_BY_HAND
    if trouble is None:
        return ""
    return f"{SESSION_ENDED if ended.what == 'lost' else NOT_ANSWERED}: {trouble.fault.kind}"


def _cause_without_end(evidence: Evidence, before: Receipt, receipt: Receipt, trouble: Happened | None) -> str:
    """Return the cause where the member did not tell that it gave the partition up."""
    member = before.member
    killed_s = evidence.killed_s.get(member)
    if killed_s is not None and killed_s <= receipt.stamp_s:
        return KILLED
    if killed_s is not None and trouble is not None:  # before it could tell that its session had ended
        return f"{SESSION_ENDED}: {trouble.fault.kind}"
    errors = (stamp_s for kind, stamp_s, _ in evidence.members[member].others if kind == "E")
    has_error = any(before.stamp_s <= stamp_s <= receipt.stamp_s for stamp_s in errors)
    return AFTER_ERROR if member == receipt.member and has_error else ""


def _end_of_tenure(evidence: Evidence, receipt: Receipt) -> Tenure | None:
    """Return how the tenure ended in which something was handed out."""
    where = receipt.place.where
    for tenure in evidence.members[receipt.member].tenures:
        if tenure.stamp_s >= receipt.stamp_s and tenure.what != "assigned" and where in tenure.partitions:
            return tenure
    return None


def _in_hand(evidence: Evidence, group: str) -> Iterator[tuple[Place, float]]:
    """Yield what was in hand when a partition was given up: the last hand-out of each tenure, and its whole set."""
    for member in evidence.groups[group]:
        file = evidence.members[member]
        by_partition: dict[TopicPartition, list[Receipt]] = {}
        for receipt in file.receipts:
            by_partition.setdefault(receipt.place.where, []).append(receipt)
        for tenure in file.tenures:
            for where in tenure.partitions if tenure.what != "assigned" else ():
                own = by_partition.get(where, [])
                end = bisect.bisect_right(own, tenure.stamp_s, key=lambda receipt: receipt.stamp_s)
                for each in reversed(own[:end]):
                    if each.stamp_s != own[end - 1].stamp_s and each.place.offset != own[end - 1].place.offset:
                        break
                    yield each.place, each.stamp_s
