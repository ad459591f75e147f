"""Samples as the families of `prometheus_client`, an extra that is only imported when metrics are asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from kafka2011.errors import missing_extra
from kafka2011.metrics.histogram import Distribution
from kafka2011.metrics.metric import MetricKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client.core import Metric as Family

    from kafka2011.metrics.metric import Metric, Samples


def check_extra() -> None:
    """Raise MissingExtraError, which says what to install, unless `prometheus_client` is there."""
    try:
        import_module("prometheus_client")
    except ModuleNotFoundError as error:
        if error.name != "prometheus_client":
            raise
        raise missing_extra(error) from None


class SampleCollector:
    """A collector, as a registry of `prometheus_client` takes it: what `take` returns at the time of a scrape.

    `metrics` are all that may be among it. Raises MissingExtraError.
    """

    def __init__(self, metrics: Iterable[Metric], take: Callable[[], Samples]) -> None:
        check_extra()
        self._metrics = tuple(metrics)
        self._take = take

    def describe(self) -> Iterator[Family]:
        """Give all families without numbers: to be registered costs no look."""
        return families({metric: {} for metric in self._metrics})

    def collect(self) -> Iterator[Family]:
        """Give the families with their numbers now."""
        return families(self._take())


def families(samples: Samples) -> Iterator[Family]:
    """Yield each metric as a family, one after the other."""
    from prometheus_client.core import (  # noqa: PLC0415  # an extra
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )

    for metric, values in samples.items():
        if metric.kind is MetricKind.HISTOGRAM:
            of_times = HistogramMetricFamily(metric.name, metric.doc, labels=metric.labels)
            for labels, distribution in values.items():
                assert isinstance(distribution, Distribution)
                buckets = [
                    (_bound(at), count) for at, count in zip(distribution.bounds, distribution.at_most, strict=True)
                ]
                of_times.add_metric(labels, buckets, distribution.total)
            yield of_times
            continue
        make = CounterMetricFamily if metric.kind is MetricKind.COUNTER else GaugeMetricFamily
        family = make(metric.name, metric.doc, labels=metric.labels)
        for labels, value in values.items():
            assert not isinstance(value, Distribution)
            family.add_metric(labels, value)
        yield family


def _bound(at: float) -> str:
    return "+Inf" if at == float("inf") else str(at)
