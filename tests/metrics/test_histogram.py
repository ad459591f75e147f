"""How often something took how long, as Prometheus wants it."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from kafka2011.metrics.exposition import SampleCollector
from kafka2011.metrics.histogram import Histogram
from kafka2011.metrics.metric import histogram


def test_a_bound_counts_what_is_at_most_it() -> None:
    """Counts add up from bound to bound, and the last has all; observations that were alike are counted together."""
    times = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 7.0):
        times.observe(value)
    times.observe(2.0, 3)
    found = times.distribution()
    assert found.bounds == (1.0, 2.0, float("inf"))
    assert found.at_most == (2, 6, 7)
    assert found.total == 0.5 + 1.0 + 1.5 + 7.0 + 3 * 2.0


def test_two_are_one() -> None:
    """What two have counted is added up, bound by bound."""
    one, two = Histogram((1.0,)), Histogram((1.0,))
    one.observe(0.25)
    two.observe(3.0)
    both = one.distribution().plus(two.distribution())
    assert both.at_most == (1, 2)
    assert both.total == 3.25


def test_what_prometheus_reads() -> None:
    """Buckets by their bounds, their number and their sum, by the values of labels."""
    metric = histogram("broker_waits_seconds", "Waits.", "type")
    times = Histogram((0.1, 1.0))
    times.observe(0.5, 4)
    registry = CollectorRegistry()
    registry.register(SampleCollector([metric], lambda: {metric: {("fetch",): times.distribution()}}))

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"kafka2011_broker_waits_seconds_{name}", {"type": "fetch", **labels})

    assert [value("bucket", le=le) for le in ("0.1", "1.0", "+Inf")] == [0, 4, 4]
    assert (value("count"), value("sum")) == (4, 2)
