"""What a monitor shows of groups and of the audit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from kafka2011.admin.snapshot.cluster_snapshot import GroupPartition, Pace
from kafka2011.cli.monitor_metrics import MONITOR_METRICS, PollCounts, audit_samples, group_samples, poll_samples
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from kafka2011.metrics.metric import Samples

HERE, THERE = TopicPartition("views", 0, 1), TopicPartition("views", 2, 0)


def by_name(samples: Samples) -> dict[tuple[str, ...], Any]:
    assert set(samples) <= set(MONITOR_METRICS)
    assert all(len(labels) == len(metric.labels) for metric, numbers in samples.items() for labels in numbers)
    return {
        (metric.name.removeprefix("kafka2011_monitor_"), *labels): value
        for metric, numbers in samples.items()
        for labels, value in numbers.items()
    }


def test_groups_by_partition() -> None:
    """Lag where it is known, and how many partitions nobody owns, or nobody can tell of."""
    members = {"reports": 2, "idle": 0}
    here = GroupPartition(HERE, "a-0", 30, 100, pace=Pace(lag_s=1.5))
    partitions = {"reports": [here, GroupPartition(THERE, None, None, None)], "idle": []}
    found = by_name(group_samples(members, partitions, 2))
    assert found["group_lag_bytes", "reports", "views", "0", "1"] == 70
    assert found["group_lag_seconds", "reports", "views", "0", "1"] == 1.5
    assert ("group_lag_bytes", "reports", "views", "2", "0") not in found
    assert (found["group_members", "reports"], found["group_members", "idle"]) == (2, 0)
    assert found["group_unowned_partitions", "reports"] == found["group_unknown_partitions", "reports"] == 1
    assert found["group_unowned_partitions", "idle"] == 0
    assert found["partitions_left_out",] == 0
    fewer = by_name(group_samples(members, partitions, 1))
    assert not [name for name in fewer if name[0].startswith("group_lag")]
    assert fewer["partitions_left_out",] == 2
    assert fewer["group_unowned_partitions", "reports"] == 1


def account(topic: str, **missing: int) -> SimpleNamespace:
    return SimpleNamespace(
        topic=topic, tiers=[SimpleNamespace(tier=tier, missing=number) for tier, number in missing.items()]
    )


def test_an_audit() -> None:
    """Gaps and doubts by topic, what is missing by tier, and who was not heard of, each once."""
    well, gap = account("views", producer=0, mirror=0), account("clicks", producer=0, mirror=3)
    unknowns = [
        ("clicks", SimpleNamespace(accept="web-1")),
        ("views", SimpleNamespace(accept="web-1")),
        ("views", SimpleNamespace(accept="")),
    ]
    verdict: Any = SimpleNamespace(accounts=[well, gap], gaps=[gap], unknowns=unknowns, settled_ms=5000)
    found = by_name(audit_samples(verdict))
    assert (found["audit_gap_windows", "clicks"], found["audit_gap_windows", "views"]) == (1, 0)
    assert found["audit_missing_messages", "clicks", "mirror"] == 3
    assert found["audit_missing_messages", "views", "mirror"] == 0
    assert (found["audit_doubts", "views"], found["audit_doubts", "clicks"]) == (2, 1)
    assert found["audit_unheard",] == 1
    assert found["audit_complete_timestamp_seconds",] == 5
    unsettled: Any = SimpleNamespace(accounts=[], gaps=[], unknowns=[], settled_ms=None)
    assert ("audit_complete_timestamp_seconds",) not in by_name(audit_samples(unsettled))


def test_looks() -> None:
    """When nothing was seen yet there is no time of it."""
    found = by_name(poll_samples({"groups": PollCounts(4, 1, 10.5), "audit": PollCounts(1, 1, None)}))
    assert (found["looks_total", "groups"], found["failed_looks_total", "groups"]) == (4, 1)
    assert found["look_timestamp_seconds", "groups"] == 10.5
    assert ("look_timestamp_seconds", "audit") not in found
