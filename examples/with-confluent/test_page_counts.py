"""Tests of the application with a real log: the fixture comes with kafka2011, the clients are confluent-kafka's."""

from __future__ import annotations

import time
from itertools import count
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from page_counts import GROUP, PageCounter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka2011 import LocalCluster

PARTITIONS = 4
TIMEOUT_S = 30.0
_names = count()


@pytest.fixture(scope="session")
def servers(kafka2011_gateway_cluster: LocalCluster) -> str:
    """Return the value for bootstrap.servers."""
    return kafka2011_gateway_cluster.bootstrap_servers


@pytest.fixture
def topic(servers: str) -> Iterator[str]:
    """Create a topic for one test, and leave no group behind."""
    name = f"views-{next(_names)}"
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(name, PARTITIONS)])[name].result(TIMEOUT_S)
    yield name
    admin.delete_consumer_groups([GROUP])[GROUP].result(TIMEOUT_S)


def view(servers: str, topic: str, *pages: str) -> None:
    """Produce one view of each page."""
    producer = Producer({"bootstrap.servers": servers})
    for page in pages:
        producer.produce(topic, b"", key=page)
    assert producer.flush(TIMEOUT_S) == 0


def poll_until(condition: Callable[[], bool], *counters: PageCounter) -> None:
    """Let members poll until the condition holds. Fails when that takes too long."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline_s, [counter.counts for counter in counters]
        for counter in counters:
            counter.poll(0.05)


def test_views_are_counted(servers: str, topic: str) -> None:
    """Each page has a count of its own."""
    view(servers, topic, "home", "news", "home")
    with PageCounter(servers, topic) as counter:
        poll_until(lambda: counter.counts.total() == 3, counter)
        assert counter.counts == {"home": 2, "news": 1}


def test_a_restart_counts_nothing_twice(servers: str, topic: str) -> None:
    """The next member continues behind what was committed."""
    view(servers, topic, *["home"] * 10)
    with PageCounter(servers, topic) as first:
        poll_until(lambda: first.counts.total() == 10, first)
    view(servers, topic, "news")
    with PageCounter(servers, topic) as second:
        poll_until(lambda: bool(second.counts), second)
        assert second.counts == {"news": 1}


def test_members_share_the_partitions(servers: str, topic: str) -> None:
    """Together they count every view once."""
    quick = {"heartbeat.interval.ms": 100}  # members learn of others with their heartbeats, by default every 3 s
    with PageCounter(servers, topic, **quick) as one, PageCounter(servers, topic, **quick) as other:
        poll_until(lambda: len(one.partitions) == len(other.partitions) == PARTITIONS // 2, one, other)
        assert one.partitions | other.partitions == set(range(PARTITIONS))
        pages = [f"page-{number}" for number in range(100)]
        view(servers, topic, *pages)
        poll_until(lambda: (one.counts + other.counts).total() == len(pages), one, other)
        assert set(one.counts + other.counts) == set(pages)
