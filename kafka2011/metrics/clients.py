"""Metrics of consumers and producers, which an application registers beside its own.

They are read when Prometheus asks, from counters that are there anyway: sending and reading cost the same without them.

    prometheus_client.REGISTRY.register(ConsumerCollector(consumer))
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Protocol

from kafka2011.metrics.exposition import SampleCollector
from kafka2011.metrics.metric import counter, gauge, histogram

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafka2011.metrics.histogram import Distribution
    from kafka2011.metrics.metric import Metric, Samples
    from zk.cluster import TopicPartition

_GROUP = "group"

CONSUMED_OFFSET = gauge(
    "consumer_consumed_offset_bytes",
    "Where the group goes on in a partition that is owned here.",
    *(_GROUP, "topic", "broker", "partition"),
)
OWNED_PARTITIONS = gauge("consumer_owned_partitions", "Partitions that are owned here.", _GROUP)
CONNECTED = gauge("consumer_zookeeper_connected", "1 with a session in ZooKeeper, else 0; the least of all.", _GROUP)
LEASE = gauge(
    "consumer_lease_remaining_seconds",
    "How long the session is certain to live, the least of all; at 0 nothing is handed out until ZooKeeper answers.",
    _GROUP,
)
REBALANCE_TIMES = histogram(
    "consumer_rebalance_seconds", "How long rebalances took that changed what is owned, all attempts together.", _GROUP
)

_OF_CONSUMERS = {
    "messages": counter("consumer_messages", "Messages that were handed out.", _GROUP),
    "fetched_bytes": counter("consumer_fetched_bytes", "Bytes that came from brokers.", _GROUP),
    "fetch_errors": counter("consumer_fetch_errors", "Fetches that failed.", _GROUP),
    "resets": counter("consumer_resets", "Offsets out of range, after which autooffset.reset applied.", _GROUP),
    "tries": counter("consumer_rebalance_tries", "Rebalances that were begun.", _GROUP),
    "rebalances": counter("consumer_rebalances", "Rebalances that ended well.", _GROUP),
    "failed_rebalances": counter("consumer_failed_rebalances", "Rebalances that were given up, to try again.", _GROUP),
    "claim_conflicts": counter(
        "consumer_claim_conflicts", "Partitions that another member still owned when they were claimed.", _GROUP
    ),
    "sessions_lost": counter("consumer_sessions_lost", "ZooKeeper sessions that ended before the member left.", _GROUP),
    "zookeeper_reconnects": counter(
        "consumer_zookeeper_reconnects", "Times that the connection to ZooKeeper was lost and there was one.", _GROUP
    ),
    "malformed_members": counter("consumer_malformed_members", "Members of the group that were ignored.", _GROUP),
    "listener_errors": counter("consumer_listener_errors", "Exceptions of the rebalance listener.", _GROUP),
    "silent_applications": counter(
        "consumer_silent_applications",
        "Times that partitions were given up as the application had not come back for max.poll.interval.ms.",
        _GROUP,
    ),
    "commits": counter("consumer_commits", "Offsets that were written to ZooKeeper.", _GROUP),
    "conflicts": counter("consumer_commit_conflicts", "Commits that found another offset than expected.", _GROUP),
    "dropped_commits": counter(
        "consumer_dropped_commits", "Commits that were refused, as another member has the partition by now.", _GROUP
    ),
    "moved_offsets": counter("consumer_moved_offsets", "Offsets that somebody else has moved.", _GROUP),
    "unfinished_releases": counter(
        "consumer_unfinished_releases", "Partitions given up with a message in hand, which comes again.", _GROUP
    ),
}

CONSUMER_METRICS: tuple[Metric, ...] = (
    *(CONSUMED_OFFSET, OWNED_PARTITIONS, CONNECTED, LEASE, REBALANCE_TIMES),
    *_OF_CONSUMERS.values(),
)

_OF_PRODUCERS = {
    "messages_sent": counter(
        "producer_messages_sent", "Messages that were written to a connection or, with confirm=true, confirmed."
    ),
    "messages_failed": counter("producer_messages_failed", "Messages that were given up."),
    "sets_sent": counter("producer_sets_sent", "Sets that were sent: what goes to one partition in one request."),
    "sets_resent": counter("producer_sets_resent", "Every sending of a set after its first."),
    "sets_moved": counter("producer_sets_moved", "Sets that went to another broker, as theirs was gone."),
    "sets_refused": counter("producer_sets_refused", "Sets that a broker refused."),
    "broken_connections": counter("producer_broken_connections", "Connections that we did not close ourselves."),
}

PRODUCER_METRICS: tuple[Metric, ...] = tuple(_OF_PRODUCERS.values())


class _Config(Protocol):
    @property
    def groupid(self) -> str: ...


class _Consumer(Protocol):
    """What is read of a ConsumerConnector."""

    @property
    def config(self) -> _Config: ...
    @property
    def is_connected(self) -> bool: ...
    def counts(self) -> Mapping[str, int]: ...
    def lease_s(self) -> float | None: ...
    def rebalance_times(self) -> Distribution: ...
    def owned_partitions(self) -> list[TopicPartition]: ...
    def consumed_offsets(self) -> Mapping[TopicPartition, int]: ...


class _Producer(Protocol):
    """What is read of a Producer."""

    @property
    def counts(self) -> Callable[[], Mapping[str, int]]: ...


class ConsumerCollector(SampleCollector):
    """Shows the numbers of ConsumerConnectors to Prometheus; those of one group are added up.

    One for all consumers of a registry, since a registry takes each name once. Raises MissingExtraError.
    """

    def __init__(self, *consumers: _Consumer) -> None:
        super().__init__(CONSUMER_METRICS, lambda: consumer_samples(consumers))


class ProducerCollector(SampleCollector):
    """Shows the numbers of Producers to Prometheus, all added up.

    One for all producers of a registry, since a registry takes each name once. Raises MissingExtraError.
    """

    def __init__(self, *producers: _Producer) -> None:
        super().__init__(PRODUCER_METRICS, lambda: producer_samples(producers))


def consumer_samples(consumers: Iterable[_Consumer]) -> Samples:
    """Return what consumers say of themselves now."""
    added = {metric: Counter[tuple[str, ...]]() for metric in (*_OF_CONSUMERS.values(), OWNED_PARTITIONS)}
    offsets: dict[tuple[str, ...], float] = {}
    least: dict[Metric, dict[tuple[str, ...], float]] = {CONNECTED: {}, LEASE: {}}
    times: dict[tuple[str, ...], Distribution] = {}
    for consumer in consumers:
        group = (consumer.config.groupid,)
        counts = consumer.counts()
        for name, metric in _OF_CONSUMERS.items():
            added[metric][group] += counts.get(name, 0)
        added[OWNED_PARTITIONS][group] += len(consumer.owned_partitions())
        for where, offset in consumer.consumed_offsets().items():
            offsets[*group, where.topic, str(where.broker_id), str(where.partition)] = offset
        for metric, value in ((CONNECTED, float(consumer.is_connected)), (LEASE, consumer.lease_s())):
            if value is not None:
                least[metric][group] = min(value, least[metric].get(group, value))
        took = consumer.rebalance_times()
        times[group] = times[group].plus(took) if group in times else took
    return {CONSUMED_OFFSET: offsets, **least, REBALANCE_TIMES: times, **added}


def producer_samples(producers: Iterable[_Producer]) -> Samples:
    """Return what producers say of themselves now."""
    total: Counter[str] = Counter()
    for producer in producers:
        total.update(producer.counts())
    return of_producers(total)


def of_producers(counts: Mapping[str, int]) -> Samples:
    """Return what a producer's counts say."""
    return {metric: {(): counts.get(name, 0)} for name, metric in _OF_PRODUCERS.items()}
