"""Metrics that `kafka2011 monitor` shows: how groups stand, and what the audit says of the tiers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.metrics.metric import counter, gauge

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafka2011.admin.snapshot.cluster_snapshot import GroupPartition
    from kafka2011.audit.verdict import Verdict
    from kafka2011.metrics.metric import Metric, Samples
    from zk.cluster import TopicPartition

_GROUP = "group"
_BY_PARTITION = (_GROUP, "topic", "broker", "partition")

GROUP_LAG = gauge(
    "monitor_group_lag_bytes", "What can be read and the group has not committed, in bytes of the log.", *_BY_PARTITION
)
GROUP_LAG_SECONDS = gauge(
    "monitor_group_lag_seconds",
    "About how long ago the log ended where the group is, as was seen, or else as the log's rate suggests.",
    *_BY_PARTITION,
)
GROUP_MEMBERS = gauge("monitor_group_members", "Members of a group.", _GROUP)
GROUP_UNOWNED = gauge(
    "monitor_group_unowned_partitions",
    "Partitions that a group has an offset of or subscribes to, and that no member owns.",
    _GROUP,
)
GROUP_UNKNOWN = gauge(
    "monitor_group_unknown_partitions", "Those of which no broker tells the end, or no offset is committed.", _GROUP
)
LEFT_OUT = gauge(
    "monitor_partitions_left_out",
    "Partitions of groups that no metrics by partition are shown of, as there are more than --max-partitions.",
)

AUDIT_GAPS = gauge("monitor_audit_gap_windows", "Windows in which messages are missing for sure.", "topic")
AUDIT_MISSING = gauge("monitor_audit_missing_messages", "Messages that are missing in them, by tier.", "topic", "tier")
AUDIT_DOUBTS = gauge("monitor_audit_doubts", "Reasons why nobody can tell whether all has arrived.", "topic")
AUDIT_UNHEARD = gauge(
    "monitor_audit_unheard", "Instances, partitions, clusters and brokers that were not heard of, in those reasons."
)
AUDIT_COMPLETE = gauge(
    "monitor_audit_complete_timestamp_seconds",
    "All that was published before this time is accounted for; absent while that is true of nothing.",
)

LOOKS = counter("monitor_looks", "How often it was looked at the groups, or the audit.", "at")
FAILED_LOOKS = counter("monitor_failed_looks", "Those that failed.", "at")
LOOKED = gauge("monitor_look_timestamp_seconds", "When the last look ended that did not fail.", "at")

MONITOR_METRICS: tuple[Metric, ...] = (
    *(GROUP_LAG, GROUP_LAG_SECONDS, GROUP_MEMBERS, GROUP_UNOWNED, GROUP_UNKNOWN, LEFT_OUT),
    *(AUDIT_GAPS, AUDIT_MISSING, AUDIT_DOUBTS, AUDIT_UNHEARD, AUDIT_COMPLETE),
    *(LOOKS, FAILED_LOOKS, LOOKED),
)


def group_samples(
    members: Mapping[str, int], partitions: Mapping[str, Sequence[GroupPartition]], max_partitions: int
) -> Samples:
    """Return metrics of groups, from how many members and which partitions each has.

    With more partitions than `max_partitions` none of them by itself.
    """
    every = [((group, *_labels(row.where)), row) for group, rows in partitions.items() for row in rows]
    shown = every if len(every) <= max_partitions else []
    return {
        GROUP_LAG: {labels: row.lag_bytes for labels, row in shown if row.lag_bytes is not None},
        GROUP_LAG_SECONDS: {labels: row.lag_s for labels, row in shown if row.lag_s is not None},
        GROUP_MEMBERS: {(group,): count for group, count in members.items()},
        GROUP_UNOWNED: {(group,): sum(row.owner is None for row in rows) for group, rows in partitions.items()},
        GROUP_UNKNOWN: {(group,): sum(row.lag_bytes is None for row in rows) for group, rows in partitions.items()},
        LEFT_OUT: {(): len(every) - len(shown)},
    }


def audit_samples(verdict: Verdict) -> Samples:
    """Return what an audit has found; topics without a gap, of which nothing is unknown, are there with 0."""
    topics = {account.topic for account in verdict.accounts}
    gaps, unknowns = Counter[str](), Counter[str]()
    missing: Counter[tuple[str, ...]] = Counter()
    for account in verdict.accounts:
        missing.update({(account.topic, count.tier): 0 for count in account.tiers})
    for account in verdict.gaps:
        gaps[account.topic] += 1
        missing.update({(account.topic, count.tier): count.missing for count in account.tiers})
    for topic, _ in verdict.unknowns:
        unknowns[topic] += 1
    return {
        AUDIT_GAPS: {(topic,): gaps[topic] for topic in sorted(topics)},
        AUDIT_MISSING: missing,
        AUDIT_DOUBTS: {(topic,): unknowns[topic] for topic in sorted(topics | unknowns.keys())},
        AUDIT_UNHEARD: {(): len({unknown.accept for _, unknown in verdict.unknowns if unknown.accept})},
        AUDIT_COMPLETE: {} if verdict.settled_ms is None else {(): verdict.settled_ms / 1000},
    }


class PollCounts(NamedTuple):
    """How often something was polled, how often in vain, and when last with success, in seconds since 1970."""

    polls: int
    failed: int
    at_s: float | None


def poll_samples(counts: Mapping[str, PollCounts]) -> Samples:
    """Return how polling went, by what was polled."""
    return {
        LOOKS: {(at,): polled.polls for at, polled in counts.items()},
        FAILED_LOOKS: {(at,): polled.failed for at, polled in counts.items()},
        LOOKED: {(at,): polled.at_s for at, polled in counts.items() if polled.at_s is not None},
    }


def _labels(where: TopicPartition) -> tuple[str, str, str]:
    return where.topic, str(where.broker_id), str(where.partition)
