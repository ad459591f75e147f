"""Metrics of loads into a warehouse: how much came, how fresh it is, and what failed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Protocol

from kafka2011.metrics.histogram import UP_TO_MINUTES, Histogram
from kafka2011.metrics.metric import counter, gauge, histogram

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafka2011.metrics.metric import Metric, Samples
    from zk.cluster import TopicPartition

_TOPIC = "topic"

_OF_LOADED = {
    "rows": counter("load_rows", "Rows that were committed.", _TOPIC),
    "quarantined": counter("load_quarantined_messages", "Messages that were set aside, as they are no rows.", _TOPIC),
    "log_bytes": counter("load_read_bytes", "Bytes of the logs that were loaded.", _TOPIC),
    "lost_bytes": counter("load_lost_bytes", "Bytes that were removed from the logs before they were loaded.", _TOPIC),
}
OFFSETS = gauge("load_offset_bytes", "Where the next load of a partition begins.", *(_TOPIC, "broker", "partition"))
FRESH = gauge(
    "load_complete_timestamp_seconds",
    "What could be read at this time is in the table, but for partitions whose broker was away.",
    _TOPIC,
)
AWAY = gauge("load_away_partitions", "Partitions that the last load left out, as their broker was away.", _TOPIC)
FAILED = gauge("load_topic_failed", "1 if the last load of a topic failed, else 0.", _TOPIC)
ROUNDS = counter("load_rounds", "Loads of all topics that have ended.")
TIMES = histogram("load_round_seconds", "How long loads of all topics took.")

LOAD_METRICS: tuple[Metric, ...] = (*_OF_LOADED.values(), OFFSETS, FRESH, AWAY, FAILED, ROUNDS, TIMES)


class _Loaded(Protocol):
    """What is read of a topic's load."""

    @property
    def topic(self) -> str: ...
    @property
    def away(self) -> Sequence[object]: ...
    @property
    def offsets(self) -> Mapping[TopicPartition, int]: ...


class _Round(Protocol):
    """What is read of a load of all topics."""

    @property
    def loaded(self) -> Sequence[_Loaded]: ...
    @property
    def failed(self) -> Mapping[str, object]: ...


class LoadProgress:
    """Adds up loads. One thread notes; any may ask for samples."""

    def __init__(self) -> None:
        self._added = {metric: Counter[tuple[str, ...]]() for metric in _OF_LOADED.values()}
        self._offsets: dict[tuple[str, ...], float] = {}
        self._fresh: dict[tuple[str, ...], float] = {}
        self._away: dict[tuple[str, ...], float] = {}
        self._failed: dict[tuple[str, ...], float] = {}
        self._rounds = 0
        self._times = Histogram(UP_TO_MINUTES)
        self._samples = self._taken()

    @property
    def obstacle(self) -> str | None:
        """Which topics the last load did not load; None if it is well."""
        failed = [topic for (topic,), is_failed in self._samples[FAILED].items() if is_failed]
        return f"not loaded: {', '.join(failed)}" if failed else None

    def note(self, done: _Round, began_s: float, seconds: float) -> None:
        """Note a load that began at a time, in seconds since 1970, and took so long."""
        for topic_load in done.loaded:
            topic = (topic_load.topic,)
            for name, metric in _OF_LOADED.items():
                self._added[metric][topic] += getattr(topic_load, name)
            for where, offset in topic_load.offsets.items():
                self._offsets[*topic, str(where.broker_id), str(where.partition)] = offset
            self._fresh[topic] = began_s
            self._away[topic] = len(topic_load.away)
            self._failed[topic] = 0
        self._failed.update({(topic,): 1 for topic in done.failed})
        self._rounds += 1
        self._times.observe(seconds)
        self._samples = self._taken()  # at once, as others read it meanwhile

    def samples(self) -> Samples:
        """Return what was noted up to the last load that ended."""
        return self._samples

    def _taken(self) -> Samples:
        return {
            **{metric: dict(values) for metric, values in self._added.items()},
            OFFSETS: dict(self._offsets),
            FRESH: dict(self._fresh),
            AWAY: dict(self._away),
            FAILED: dict(self._failed),
            ROUNDS: {(): self._rounds},
            TIMES: {(): self._times.distribution()},
        }
