"""Settling: how long after each fault a group is behind with what was confirmed. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from integration.chaos.evidence import Evidence, Happened

IN_TIME_S = 1.0
"""A group is behind while something that was confirmed longer ago than this has not come."""


class Behind(NamedTuple):
    """A time during which a group was behind."""

    begin_s: float
    end_s: float


class Settled(NamedTuple):
    """How long after the end of a fault a group went on being behind."""

    happened: Happened
    group: str
    seconds: float


def behind(evidence: Evidence, group: str) -> list[Behind]:
    """Return the times during which a group was behind, in order."""
    received_s: dict[object, float] = {}
    for receipt in evidence.receipts_of(group):
        received_s.setdefault(receipt.message, receipt.stamp_s)
    gone = evidence.gone()
    late = sorted(
        (sent.ended_s + IN_TIME_S, received_s.get(sent.message, evidence.ended_s))
        for sent in evidence.confirmed()
        if received_s.get(sent.message, evidence.ended_s) > sent.ended_s + IN_TIME_S
        and (sent.message in received_s or sent.message not in gone)
    )
    found: list[Behind] = []
    for begin_s, end_s in late:
        if found and begin_s <= found[-1].end_s:
            found[-1] = Behind(found[-1].begin_s, max(end_s, found[-1].end_s))
        else:
            found.append(Behind(begin_s, end_s))
    return found


def settle_times(evidence: Evidence) -> list[Settled]:
    """Return for each fault and group how long it was still behind after the fault's end."""
    found = []
    for group in evidence.groups:
        times = behind(evidence, group)
        for happened in evidence.happened:
            if happened.whom:
                ends = [each.end_s for each in times if each.begin_s <= happened.ended_s + IN_TIME_S < each.end_s]
                found.append(Settled(happened, group, max(ends) - happened.ended_s if ends else 0.0))
    return found
