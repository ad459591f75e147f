"""The names of metrics keep to Prometheus's conventions, and to one another."""

from __future__ import annotations

import re

import pytest

from kafka2011.broker.monitoring.metrics import BROKER_METRICS
from kafka2011.cli.monitor_metrics import MONITOR_METRICS
from kafka2011.metrics.clients import CONSUMER_METRICS, PRODUCER_METRICS
from kafka2011.metrics.loads import LOAD_METRICS
from kafka2011.metrics.metric import Metric, MetricKind
from kafka2011.metrics.tiers import COLLECT_METRICS, MIRROR_METRICS

OF = {
    "broker": BROKER_METRICS,
    "consumer": CONSUMER_METRICS,
    "producer": PRODUCER_METRICS,
    "mirror": [metric for metric in MIRROR_METRICS if metric not in PRODUCER_METRICS],
    "collect": COLLECT_METRICS,
    "load": LOAD_METRICS,
    "monitor": MONITOR_METRICS,
}
EVERY = [metric for metrics in OF.values() for metric in metrics]


@pytest.mark.parametrize("metric", EVERY, ids=lambda metric: metric.name)
def test_a_name_says_unit_and_kind(metric: Metric) -> None:
    """Base units only, `_total` for what only grows, and a sentence on what it is."""
    assert re.fullmatch("kafka2011_(broker|consumer|producer|mirror|collect|load|monitor)_[a-z_]+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER)
    assert not re.search("_(ms|millis|kb|mb|minutes|hours)(_|$)", metric.name)
    assert metric.doc.endswith(".")
    assert len(metric.doc) > 5


def test_each_name_is_there_once() -> None:
    """A registry takes each name once."""
    assert len({metric.name for metric in EVERY}) == len(EVERY)
    for who, metrics in OF.items():
        assert all(metric.name.startswith(f"kafka2011_{who}_") for metric in metrics)
