"""Every message: in the log, byte for byte and where it was read, and received by every group. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from integration.chaos.evidence import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from integration.chaos.evidence import Evidence

LOST = "a confirmed message is not in the log"
ALTERED = "a log holds bytes that nobody sent"
ALTERED_ON_THE_WAY = "a member was handed bytes that nobody sent"
GONE = "a message that was read, and so was flushed, is no longer where it was"
NOT_RECEIVED = "a group has not received a confirmed message"
MISDIRECTED = "a message sent to a named partition lies elsewhere"


def find_wrong_logs(evidence: Evidence) -> Iterator[Violation]:
    """Yield what the logs lack or hold wrongly."""
    places = evidence.places()
    for sent in evidence.sent:
        if sent.outcome == "confirmed" and sent.message not in places and sent.message not in evidence.vanished:
            yield Violation(LOST, f"{sent.message} to {sent.topic}")
        for logged in places.get(sent.message, []) if sent.named else []:
            if logged.place.where.znode_name != sent.named:
                yield Violation(MISDIRECTED, f"{sent.message} for {sent.named} at {logged.place}")
    for logged in evidence.logged:
        if logged.message is None and not logged.gone:
            yield Violation(ALTERED, str(logged.place))


def find_wrong_receipts(evidence: Evidence) -> Iterator[Violation]:
    """Yield what members were handed that is not, or no longer, what lies there."""
    at = {logged.place: logged.message for logged in evidence.logged}
    for name, file in evidence.members.items():
        for receipt in file.receipts:
            if receipt.message is None:
                yield Violation(ALTERED_ON_THE_WAY, f"{name} at {receipt.place}")
            elif at.get(receipt.place) != receipt.message:
                yield Violation(GONE, f"{receipt.message}, read by {name} at {receipt.place}")


def find_not_received(evidence: Evidence) -> Iterator[Violation]:
    """Yield what groups have missed."""
    places = evidence.places()
    for group in evidence.groups:
        received = {receipt.message for receipt in evidence.receipts_of(group)}
        for sent in evidence.confirmed():
            lies = places.get(sent.message, [])
            is_gone = all(logged.gone for logged in lies) if lies else sent.message in evidence.vanished
            if sent.message not in received and not is_gone:
                where = ", ".join(str(logged.place) for logged in lies)
                yield Violation(NOT_RECEIVED, f"{group}: {sent.message}, which lies at {where or 'no place'}")


def count_missed(evidence: Evidence, group: str) -> Counter[str]:
    """Count the confirmed messages that a group missed because they were gone before, by what removed them."""
    places = evidence.places()
    missed = places.keys() - {receipt.message for receipt in evidence.receipts_of(group)}
    lies = (places[sent.message] for sent in evidence.confirmed() if sent.message in missed)
    return Counter(each[0].gone for each in lies if all(logged.gone for logged in each))


def count_vanished(evidence: Evidence) -> int:
    """Return how many confirmed messages power cuts took before they were flushed: that much nobody promised."""
    places = evidence.places()
    return sum(sent.message in evidence.vanished and sent.message not in places for sent in evidence.confirmed())


def count_lost_unconfirmed(evidence: Evidence) -> int:
    """Return how many messages that were only written are not in the log: nobody promised them."""
    places = evidence.places()
    return sum(sent.outcome == "written" and sent.message not in places for sent in evidence.sent)
