"""Metrics of mirrors and collectors, and the port that shows them."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from kafka2011.collect.counts import CollectCounts
from kafka2011.errors import KafkaError
from kafka2011.metrics.serving import shown_metrics
from kafka2011.metrics.tiers import COLLECT_METRICS, MIRROR_METRICS, collect_samples, mirror_samples
from kafka2011.mirror.forwarder import ForwardCounts

if TYPE_CHECKING:
    from kafka2011.metrics.metric import Metric, Samples


def by_name(samples: Samples) -> dict[tuple[str, ...], Any]:
    return {
        (metric.name.removeprefix("kafka2011_"), *labels): value
        for metric, numbers in samples.items()
        for labels, value in numbers.items()
    }


def test_a_mirror_by_source_and_its_target() -> None:
    """All that a forwarder counts is shown, and the producer of the target by its own names."""
    forwarded = ForwardCounts()
    forwarded.add(**dict.fromkeys(forwarded(), 1))
    counts = {"east": {**forwarded(), "commits": 3}, "west": {}, "target": {"messages_sent": 5}}
    samples = mirror_samples(counts, "target")
    assert set(samples) == set(MIRROR_METRICS)
    found = by_name(samples)
    assert sum(value for (name, *labels), value in found.items() if labels == ["east"]) == len(forwarded()) + 3
    assert found["mirror_messages_total", "east"] == 1
    assert found["mirror_messages_total", "west"] == 0
    assert found["producer_messages_sent_total",] == 5
    assert not [name for name in found if "target" in name]


def test_all_that_a_collector_counts_is_shown() -> None:
    """A count that is added later is not forgotten here."""
    counts = CollectCounts()
    counts.add(**dict.fromkeys(counts(), 1))
    samples = collect_samples(counts())
    assert set(samples) == set(COLLECT_METRICS)
    assert len(samples) == len(counts())
    assert set(by_name(samples).values()) == {1}


def test_a_port_says_whether_all_is_well() -> None:
    """At /healthz: 200, or 503 with the reason."""
    why: str | None = None

    def ask(port: int) -> tuple[int, bytes]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=20) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    with shown_metrics("127.0.0.1", 0, COLLECT_METRICS, lambda: collect_samples({}), lambda: why) as port:
        assert ask(port) == (200, b"ok\n")
        why = "no session in ZooKeeper"
        assert ask(port) == (503, b"no session in ZooKeeper\n")


def test_a_port_shows_what_is_the_case_then_and_closes() -> None:
    """Numbers are taken at each scrape; after the block nobody listens. A port that is taken is named."""
    lines = 0

    def take() -> Samples:
        return collect_samples({"lines_sent": lines})

    def scrape(port: int) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
            text: str = answer.read().decode()
            return text

    metrics: tuple[Metric, ...] = COLLECT_METRICS
    with shown_metrics("127.0.0.1", 0, metrics, take) as port:
        assert "\nkafka2011_collect_lines_sent_total 0.0\n" in scrape(port)
        lines = 7
        assert "\nkafka2011_collect_lines_sent_total 7.0\n" in scrape(port)
        with (
            pytest.raises(KafkaError, match=f"cannot listen on 127.0.0.1:{port} for metrics"),
            shown_metrics("127.0.0.1", port, metrics, take),
        ):
            pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=20)
