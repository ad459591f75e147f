"""Commits and leases, held against ZooKeeper's own record of owners and offsets. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from integration.chaos.account.ownership import TOLERANCE_S, handed_out
from integration.chaos.evidence import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from integration.chaos.evidence import Evidence
    from zk.cluster import TopicPartition

NOT_THE_OWNER = "an offset was written by a session that did not own the partition"
TOO_FAR = "an offset was committed beyond what was handed out"
WITHOUT_A_LEASE = "a member handed out a partition after its session had ended, or before it owned it"
_CLOCKS_APART_S = 0.05


def find_wrong_commits(evidence: Evidence) -> Iterator[Violation]:
    """Yield commits that a former owner made, and those beyond what the group was handed by then."""
    for group in evidence.groups:
        handed = evidence.receipts_of(group)
        read = 0
        reached: dict[TopicPartition, int] = {}
        for commit in evidence.registry.commits:
            if commit.group != group:
                continue
            text = f"{group}: {commit.where} at {commit.offset} in session {commit.session_id:#x}"
            if commit.session_id != commit.owner_id:
                yield Violation(NOT_THE_OWNER, f"{text}, while {commit.owner_id:#x} owned it")
            while read < len(handed) and handed[read].stamp_s <= commit.stamp_s + _CLOCKS_APART_S:
                where, next_offset = handed[read].place.where, handed[read].next_offset
                reached[where] = max(reached.get(where, 0), next_offset)
                read += 1
            is_start = commit.offset in evidence.starts.get(commit.where, ())
            if commit.offset > reached.get(commit.where, 0) and not is_start:
                yield Violation(TOO_FAR, f"{text}, handed out up to {reached.get(commit.where, 0)}")


def find_missing_leases(evidence: Evidence) -> Iterator[Violation]:
    """Yield what a member handed out while no owner node of its stood."""
    times: dict[tuple[str, TopicPartition], list[tuple[float, float]]] = {}
    for owned in evidence.registry.owned:
        times.setdefault((owned.member, owned.where), []).append((owned.begin_s, owned.end_s))
    for group, members in evidence.groups.items():
        for member in members:
            for receipt, handed_out_s in handed_out(evidence, member):
                own = times.get((member, receipt.place.where), [])
                if not any(begin_s - _CLOCKS_APART_S <= handed_out_s <= end_s + TOLERANCE_S for begin_s, end_s in own):
                    before_s = max((end_s for _, end_s in own if end_s < handed_out_s), default=0.0)
                    text = f"{group}: {member} handed out {receipt.place} at {handed_out_s:.2f}"
                    yield Violation(WITHOUT_A_LEASE, f"{text}, {handed_out_s - before_s:.2f} s after its node had gone")
