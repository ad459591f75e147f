"""What a replica tells Prometheus of itself and, while it leads, of the others."""

from __future__ import annotations

from kafka2011.broker.monitoring.replica_metrics import REPLICA_METRICS, ReplicaFacts, replica_samples
from kafka2011.replica.standing import Standing
from kafka2011.replica.state import Replica

NEAR = Standing(Replica("b", "0b"), is_in_sync=True, bytes_behind=0, seconds_behind=0.1)
FAR = Standing(Replica("c", "0c"), is_in_sync=False, bytes_behind=700, seconds_behind=30.0)


def values(facts: ReplicaFacts) -> dict[tuple[str, ...], object]:
    samples = replica_samples(facts, "3")
    assert set(samples) == set(REPLICA_METRICS)
    assert all(len(labels) == len(metric.labels) for metric, found in samples.items() for labels in found)
    return {
        (metric.name.removeprefix("kafka2011_broker_replica_"), *labels): value
        for metric, found in samples.items()
        for labels, value in found.items()
    }


def test_a_leader_tells_of_all_that_are_alive() -> None:
    """One that has not asked for anything is not in sync, and how far it is behind is not known."""
    found = values(ReplicaFacts("a", 7, 2, 0, {"b": NEAR, "c": FAR, "d": None}))
    assert found["leads", "3", "a"] == 1
    assert found["epoch", "3", "a"] == 7
    assert found["takeovers_total", "3", "a"] == 2
    assert [found["in_sync", "3", name] for name in "abcd"] == [1, 1, 0, 0]
    assert [found.get(("behind_bytes", "3", name)) for name in "abcd"] == [None, 0, 700, None]
    assert [found.get(("behind_seconds", "3", name)) for name in "abcd"] == [None, 0.1, 30.0, None]


def test_who_does_not_lead_tells_of_itself_alone() -> None:
    """What it knew of others while it led is told by another now."""
    found = values(ReplicaFacts("b", 8, 0, 512, None, 2, is_in_trouble=True))
    assert found == {
        ("leads", "3", "b"): 0,
        ("epoch", "3", "b"): 8,
        ("takeovers_total", "3", "b"): 0,
        ("cut_bytes_total", "3", "b"): 512,
        ("stopped_partitions", "3", "b"): 2,
        ("in_trouble", "3", "b"): 1,
    }
