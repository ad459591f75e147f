"""Collectors of consumers and producers, in registries of `prometheus_client`."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from kafka2011 import Counts
from kafka2011.metrics import ConsumerCollector, ProducerCollector
from kafka2011.metrics.histogram import UP_TO_MINUTES, Distribution, Histogram
from zk.cluster import TopicPartition

ROOT = Path(__file__).parents[2]


@dataclass
class Config:
    groupid: str


@dataclass
class Consumer:
    config: Config
    counted: dict[str, int] = field(default_factory=dict)
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    owned: list[TopicPartition] = field(default_factory=list)
    is_connected: bool = True
    lease: float | None = None
    took_s: tuple[float, ...] = ()

    def lease_s(self) -> float | None:
        return self.lease

    def rebalance_times(self) -> Distribution:
        times = Histogram(UP_TO_MINUTES)
        for each in self.took_s:
            times.observe(each)
        return times.distribution()

    def counts(self) -> dict[str, int]:
        return self.counted

    def owned_partitions(self) -> list[TopicPartition]:
        return self.owned

    def consumed_offsets(self) -> dict[TopicPartition, int]:
        return self.offsets


@dataclass
class Producer:
    counts: Counts


def test_a_consumer_shows_its_counts_and_where_it_is() -> None:
    """Numbers are those of the time of the scrape, by group; a start that is not known yet is not shown."""
    here, there = TopicPartition("views", 0, 1), TopicPartition("views", 2, 0)
    consumer = Consumer(Config("g"), {"messages": 3, "rebalances": 1}, {here: 40}, [here, there])
    registry = CollectorRegistry(auto_describe=True)
    registry.register(ConsumerCollector(consumer))

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"kafka2011_consumer_{name}", {"group": "g", **labels})

    assert value("messages_total") == 3
    assert value("commits_total") == 0
    assert value("owned_partitions") == 2
    assert value("consumed_offset_bytes", topic="views", broker="0", partition="1") == 40
    assert value("consumed_offset_bytes", topic="views", broker="2", partition="0") is None
    consumer.counted["messages"] = 5
    consumer.offsets = {there: 7}
    assert value("messages_total") == 5
    assert value("consumed_offset_bytes", topic="views", broker="0", partition="1") is None


def test_members_of_one_group_are_added_up_and_groups_are_not() -> None:
    """One collector shows all consumers of a process."""
    one, two, other = (Consumer(Config(group), {"messages": 2}) for group in ("g", "g", "h"))
    registry = CollectorRegistry()
    registry.register(ConsumerCollector(one, two, other))
    assert registry.get_sample_value("kafka2011_consumer_messages_total", {"group": "g"}) == 4
    assert registry.get_sample_value("kafka2011_consumer_messages_total", {"group": "h"}) == 2


def test_the_worst_of_a_group_is_shown_and_rebalances_are_added_up() -> None:
    """A lease that is about to end is not hidden by another; before a member has one there is none."""
    one = Consumer(Config("g"), lease=4.0, took_s=(0.5, 20.0))
    two = Consumer(Config("g"), lease=0.0, is_connected=False, took_s=(2.0,))
    new = Consumer(Config("new"))
    registry = CollectorRegistry()
    registry.register(ConsumerCollector(one, two, new))

    def value(name: str, group: str = "g", **labels: str) -> float | None:
        return registry.get_sample_value(f"kafka2011_consumer_{name}", {"group": group, **labels})

    assert value("lease_remaining_seconds") == 0
    assert value("lease_remaining_seconds", "new") is None
    assert (value("zookeeper_connected"), value("zookeeper_connected", "new")) == (0, 1)
    assert (value("rebalance_seconds_count"), value("rebalance_seconds_sum")) == (3, 22.5)
    assert value("rebalance_seconds_bucket", le="2.5") == 2
    assert value("rebalance_seconds_count", "new") == 0


def test_producers_are_added_up() -> None:
    """What a producer has counted, by the names of its counts."""
    producers = [Producer(Counts()), Producer(Counts())]
    registry = CollectorRegistry()
    registry.register(ProducerCollector(*producers))
    for producer in producers:
        producer.counts.add(messages_sent=10, sets_sent=1)
    producers[0].counts.add(messages_failed=1)
    assert registry.get_sample_value("kafka2011_producer_messages_sent_total") == 20
    assert registry.get_sample_value("kafka2011_producer_sets_sent_total") == 2
    assert registry.get_sample_value("kafka2011_producer_messages_failed_total") == 1
    assert b"# TYPE kafka2011_producer_sets_resent_total counter" in generate_latest(registry)


def test_all_that_a_producer_counts_is_shown() -> None:
    """A count that is added later is not forgotten here."""
    counts = Counts()
    counts.add(**dict.fromkeys(counts(), 1))
    registry = CollectorRegistry()
    registry.register(ProducerCollector(Producer(counts)))
    samples = [sample for family in registry.collect() for sample in family.samples]
    assert len(samples) == len(counts())
    assert all(sample.value == 1 for sample in samples)


def test_a_second_collector_is_refused_by_the_registry_before_it_collects() -> None:
    """So that nobody finds out at the first scrape."""
    registry = CollectorRegistry()
    registry.register(ConsumerCollector())
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        registry.register(ConsumerCollector())


def test_without_the_extra_an_error_says_what_to_install() -> None:
    """And the package itself can be imported."""
    code = """
import sys
sys.modules["prometheus_client"] = None
from kafka2011.metrics import ConsumerCollector
try:
    ConsumerCollector()
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.startswith("prometheus_client is not installed: pip install ")
    assert "[metrics]" in done.stdout
