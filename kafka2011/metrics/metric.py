"""What a metric is: its name, kind, labels and meaning. Tables of them are what docs/reference/metrics.md is made from.

Nothing here needs the package `prometheus_client`, so that names can be listed without it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from kafka2011.metrics.histogram import Distribution


class MetricKind(enum.Enum):
    """How a metric behaves over time."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. Names follow Prometheus's conventions: base units come last, and `_total` after them in a counter."""

    name: str
    kind: MetricKind
    doc: str
    labels: tuple[str, ...] = ()


def gauge(name: str, doc: str, *labels: str) -> Metric:
    """Return a metric that goes up and down."""
    return Metric(f"kafka2011_{name}", MetricKind.GAUGE, doc, labels)


def counter(name: str, doc: str, *labels: str) -> Metric:
    """Return a metric that only grows, until its process ends."""
    return Metric(f"kafka2011_{name}_total", MetricKind.COUNTER, doc, labels)


def histogram(name: str, doc: str, *labels: str) -> Metric:
    """Return a metric of how often something was how much."""
    return Metric(f"kafka2011_{name}", MetricKind.HISTOGRAM, doc, labels)


Values = Mapping[tuple[str, ...], float | Distribution]
"""The numbers of one metric by the values of its labels: Distributions of a histogram, of others one each."""

Samples = Mapping[Metric, Values]
"""Metrics, each with its numbers at one time."""
