"""What a broker tells Prometheus, read when it asks from what is there anyway: no request pays for it."""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import TYPE_CHECKING, Protocol

from kafka2011.broker.monitoring.replica_metrics import REPLICA_METRICS, replica_samples
from kafka2011.metrics.metric import counter, gauge, histogram

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from kafka2011.broker.monitoring.replica_metrics import ReplicaFacts
    from kafka2011.broker.requests.request_times import RequestTimes
    from kafka2011.log.log import Log
    from kafka2011.log.log_times import LogTimes
    from kafka2011.log.retention_clock import RetentionClock
    from kafka2011.log.scrub_record import DamagedRange, DifferingRange, ScrubRecord
    from kafka2011.metrics.metric import Metric, Samples, Values

_BY_PARTITION = ("broker", "topic", "partition")
_BY_TOPIC = ("broker", "topic")

LOG_START = gauge("broker_log_start_offset_bytes", "The offset of the first byte that is kept.", *_BY_PARTITION)
LOG_END = gauge("broker_log_end_offset_bytes", "The offset after the last byte that can be read.", *_BY_PARTITION)
LOG_APPENDED = gauge(
    "broker_log_appended_end_offset_bytes",
    "The offset after the last byte that was appended, readable or not.",
    *_BY_PARTITION,
)
LOG_SIZE = gauge("broker_log_size_bytes", "Bytes that can be read.", *_BY_PARTITION)
LOG_SEGMENTS = gauge("broker_log_segments", "Segment files.", *_BY_PARTITION)

TOPIC_BYTES = counter(
    "broker_topic_appended_bytes", "Bytes that were appended to a topic, as they are in its logs.", *_BY_TOPIC
)
TOPIC_MESSAGES = counter(
    "broker_topic_appended_messages",
    "Messages that were appended to a topic, those in compressed sets too.",
    *_BY_TOPIC,
)
TOPIC_FETCHED = counter(
    "broker_topic_fetched_bytes", "Bytes of a topic that answers to fetches held, as they are in its logs.", *_BY_TOPIC
)

INFO = gauge("broker_info", "Always 1.", "broker")
SERVING = gauge(
    "broker_serving", "1 if it is registered and serves, or follows the replica that does, as `/healthz` says; else 0."
)
ZOOKEEPER = gauge("broker_zookeeper_connected", "1 with a session in ZooKeeper, else 0; absent with no ZooKeeper.")
TOPICS = gauge("broker_topics", "Topics that have a log here.")
PARTITIONS = gauge("broker_partitions", "Partitions that have a log here.")
LEFT_OUT = gauge(
    "broker_partitions_left_out",
    "Partitions that no metrics by partition are shown of, as there are more than metrics.max.partitions.",
)
UNFLUSHED = gauge("broker_unflushed_messages", "Messages that wait for a flush, and cannot be read yet.")
FAILED_LOGS = gauge(
    "broker_failed_logs", "Logs that could not be written to, flushed or deleted from; the broker stops for one."
)
RETENTION_BY_AGE = gauge(
    "broker_retention_by_age",
    "1 if retention goes by age, 0 while the wall clock is in doubt; absent for a replica that does not lead.",
)
CLOCK_AHEAD = gauge(
    "broker_clock_ahead_seconds",
    "How far the wall clock is ahead of ZooKeeper's, below 0 behind; absent before they were compared.",
)
WRONG_TIMES = gauge(
    "broker_segments_with_wrong_times",
    "Segments whose files have a time that is wrong, in the last pass by age.",
)
DAMAGED = gauge(
    "broker_log_damaged_ranges",
    "Ranges of a log without a good message, as far as the scrub has found them; absent for a log without any.",
    *_BY_PARTITION,
)
DIFFERING = gauge(
    "broker_log_differing_segments",
    "Segments that differ from the leader's although all messages of both are good; absent for a log without any.",
    *_BY_PARTITION,
)
SCRUB_FINISHED = gauge(
    "broker_scrub_finished_timestamp_seconds",
    "When all closed segments had last been checked, since the epoch; absent before that.",
)
DISK_FREE = gauge("broker_disk_free_bytes", "What is free for the broker where log.dir is.")
DISK_SIZE = gauge("broker_disk_size_bytes", "The size of the file system of log.dir.")
CONNECTIONS_OPEN = gauge("broker_connections", "Connections that are open.")
MEMORY_HELD = gauge("broker_request_memory_held_bytes", "What requests hold of queued.max.bytes.")
MEMORY_PEAK = gauge("broker_request_memory_peak_bytes", "The most that requests have held of it.")
MEMORY_LIMIT = gauge("broker_request_memory_limit_bytes", "queued.max.bytes.")
PARKED_NOW = gauge("broker_parked_requests", "Fetches that wait at the end of a log, answered later.")

REQUEST_TIMES = histogram(
    "broker_request_seconds",
    "How long requests took to be handled and answered, measured for one in fifteen; but for waits at the end of a log"
    " and because of a quota. Produces that are appended together each take as long as all of them.",
    "type",
)
FLUSH_TIMES = histogram("broker_flush_seconds", "How long it took to bring a log to disk.")
READABLE_TIMES = histogram(
    "broker_append_to_readable_seconds",
    "From an append until it could be read: one observation a flush, of the first message that it covers.",
)
REQUESTS = counter("broker_requests", "Requests that were handled; a multiproduce counts as its produces.", "type")
FETCH_ERRORS = counter("broker_fetch_errors", "Fetches, and parts of them, answered with this error.", "code")
NOT_ALLOWED = counter("broker_not_allowed", "Requests of clients that may not do this by allow.file.", "what")
THROTTLED = counter("broker_throttled_seconds", "Time that clients waited because of quota.file.", "what")
CLOSED = counter("broker_connections_closed", "Connections that did not end as they should, by the reason.", "reason")
PARKED_ENDS = counter("broker_parked_ended", "Parked fetches by why they ended.", "reason")

_TYPES = ("produce", "fetch", "multifetch", "offsets")
_REASONS = {
    "refused": "refused",
    "refused_per_address": "too_many_of_address",
    "refused_idle": "idle",
    "failed_handshakes": "no_tls",
    "broken_connections": "broken",
    "handler_errors": "internal_error",
}
_ENDS = ("ready", "late", "gone", "more", "stopped")

_TOTALS = {
    "connections": counter("broker_connections_accepted", "Connections that were accepted, those closed at once too."),
    "bytes_in": counter("broker_received_bytes", "Bytes that came over connections, once decrypted."),
    "bytes_out": counter("broker_sent_bytes", "Bytes that went over connections, before they were encrypted."),
    "sendfile_bytes": counter("broker_sendfile_bytes", "Those of them that went by sendfile."),
    "disk_read_bytes": counter("broker_disk_read_bytes", "Those of them that memory had no room for."),
    "zookeeper_sessions": counter(
        "broker_zookeeper_sessions", "Sessions that the broker has registered in; each but the first follows a loss."
    ),
    "zookeeper_reconnects": counter(
        "broker_zookeeper_reconnects", "Times that the connection to ZooKeeper was lost and there was one again."
    ),
    "messages_in": counter("broker_messages", "Messages that were appended to logs."),
    "dropped_sets": counter("broker_dropped_sets", "Sets with a payload over max.message.size, dropped as 0.7 does."),
    "flushes": counter("broker_flushes", "How often a log was brought to disk."),
    "deleted_segments": counter("broker_deleted_segments", "Segments that retention has deleted."),
    "waits_for_files": counter("broker_waits_for_files", "Times that no more files could be opened for a log."),
    "refused_topics": counter(
        "broker_refused_topics", "Requests that would have made a topic for whose logs there are too few open files."
    ),
    "scrubbed_bytes": counter("broker_scrubbed_bytes", "Bytes of closed segments that were checked for damage."),
    "repaired_segments": counter(
        "broker_repaired_segments", "Damaged segments that were replaced by what another replica has."
    ),
    "clock_jumps": counter("broker_clock_jumps", "Passes of retention while the wall clock was not to be trusted."),
    "memory_refused": counter("broker_memory_refused", "Connections closed because there was no memory for requests."),
    "parked": counter("broker_parked", "Fetches that were parked at the end of a log."),
    "parked_refused": counter("broker_parked_refused", "Fetches answered at once, as there was no room to park them."),
}

BROKER_METRICS: tuple[Metric, ...] = (
    *(LOG_START, LOG_END, LOG_APPENDED, LOG_SIZE, LOG_SEGMENTS, TOPIC_BYTES, TOPIC_MESSAGES, TOPIC_FETCHED),
    *(INFO, SERVING, ZOOKEEPER, TOPICS, PARTITIONS, LEFT_OUT, UNFLUSHED, FAILED_LOGS, DISK_FREE, DISK_SIZE),
    *(RETENTION_BY_AGE, CLOCK_AHEAD, WRONG_TIMES),
    *(DAMAGED, DIFFERING, SCRUB_FINISHED),
    *(REQUEST_TIMES, FLUSH_TIMES, READABLE_TIMES),
    *(CONNECTIONS_OPEN, CLOSED, REQUESTS, FETCH_ERRORS, NOT_ALLOWED, THROTTLED),
    *(MEMORY_HELD, MEMORY_PEAK, MEMORY_LIMIT, PARKED_NOW, PARKED_ENDS),
    *_TOTALS.values(),
    *REPLICA_METRICS,
)


class Logs(Protocol):
    """What is read of a LogManager."""

    @property
    def log_dir(self) -> Path:
        """Where the logs are."""

    @property
    def times(self) -> LogTimes:
        """How long they take."""

    @property
    def retention_clock(self) -> RetentionClock:
        """What their retention goes by."""

    @property
    def scrubbed(self) -> ScrubRecord:
        """What checks for damage have found."""

    def logs(self) -> list[Log]:
        """Return all logs there are now."""


class Memory(Protocol):
    """What is read of a MemoryBudget."""

    @property
    def held_bytes(self) -> int:
        """What is held now."""

    @property
    def max_bytes(self) -> int:
        """What may be held."""


class Measured(Protocol):
    """What is read of a broker."""

    @property
    def logs(self) -> Logs:
        """Its logs."""

    @property
    def budget(self) -> Memory:
        """The memory of requests."""

    @property
    def request_times(self) -> RequestTimes:
        """How long requests take."""

    @property
    def obstacle(self) -> str | None:
        """Why it does not serve, or is not registered; None if it is well."""

    @property
    def is_connected(self) -> bool | None:
        """Whether it has a session in ZooKeeper; None if it is to have none."""

    @property
    def open_connections(self) -> int:
        """How many there are."""

    @property
    def replica(self) -> ReplicaFacts | None:
        """What it is among the replicas of its id; None if it has none."""

    def counts(self) -> Mapping[str, int]:
        """Return what was counted since the start."""


def broker_samples(broker: Measured, broker_id: int, max_partitions: int) -> Samples:
    """Return what a broker says of itself now, but for its disk. Does not wait."""
    logs, replica = broker.logs.logs(), broker.replica
    counts = broker.counts()
    samples: dict[Metric, Values] = {
        **_of_logs(logs, str(broker_id), max_partitions),
        **scrub_samples(broker.logs.scrubbed, str(broker_id)),
        INFO: {(str(broker_id),): 1},
        REQUEST_TIMES: {(kind,): times.distribution() for kind, times in broker.request_times.by_type().items()},
        FLUSH_TIMES: {(): broker.logs.times.flush.distribution()},
        READABLE_TIMES: {(): broker.logs.times.readable.distribution()},
        CLOSED: {(reason,): counts.get(name, 0) for name, reason in _REASONS.items()},
        REQUESTS: {(kind,): counts.get(kind, 0) for kind in _TYPES},
        FETCH_ERRORS: _named(counts, r"fetch_error_(-?\d+)"),
        NOT_ALLOWED: _named(counts, "not_allowed_(.+)"),
        THROTTLED: {what: ms / 1000 for what, ms in _named(counts, "throttled_ms_(.+)").items()},
        PARKED_ENDS: {(end,): counts.get(f"parked_{end}", 0) for end in _ENDS},
    }
    single: dict[Metric, float] = {
        SERVING: broker.obstacle is None,
        CONNECTIONS_OPEN: broker.open_connections,
        MEMORY_HELD: broker.budget.held_bytes,
        MEMORY_PEAK: counts.get("memory_peak_bytes", 0),
        MEMORY_LIMIT: broker.budget.max_bytes,
        PARKED_NOW: counts.get("parked", 0) - sum(counts.get(f"parked_{end}", 0) for end in _ENDS),
        **{metric: counts.get(name, 0) for name, metric in _TOTALS.items()},
    }
    single.update(_of_clock(broker.logs.retention_clock, leads=replica is None or replica.followers is not None))
    if broker.is_connected is not None:
        single[ZOOKEEPER] = broker.is_connected
    if replica is not None:
        samples.update(replica_samples(replica, str(broker_id)))
    return samples | {metric: {(): float(value)} for metric, value in single.items()}


def _of_clock(clock: RetentionClock, *, leads: bool) -> dict[Metric, float]:
    values: dict[Metric, float] = {WRONG_TIMES: clock.times.wrong}
    if leads:
        values[RETENTION_BY_AGE] = clock.obstacle is None
    if clock.difference_ms is not None:
        values[CLOCK_AHEAD] = clock.difference_ms / 1000
    return values


def disk_samples(directory: Path) -> Samples:
    """Return what a file system has and had room for; nothing while it cannot tell. May wait for the disk."""
    try:
        space = os.statvfs(directory)
    except OSError:
        return {}
    return {
        DISK_FREE: {(): float(space.f_bavail * space.f_frsize)},
        DISK_SIZE: {(): float(space.f_blocks * space.f_frsize)},
    }


def _of_logs(logs: Iterable[Log], broker: str, max_partitions: int) -> Samples:
    by_partition = {(broker, log.topic, str(log.partition)): log for log in logs}
    topics: dict[tuple[str, ...], list[Log]] = {}
    for log in by_partition.values():
        topics.setdefault((broker, log.topic), []).append(log)
    shown = by_partition if len(by_partition) <= max_partitions else {}
    shown_topics = topics if len(topics) <= max_partitions else {}
    return {
        LOG_START: {where: log.start_offset for where, log in shown.items()},
        LOG_END: {where: log.end_offset for where, log in shown.items()},
        LOG_APPENDED: {where: log.appended_end_offset for where, log in shown.items()},
        LOG_SIZE: {where: log.size_bytes for where, log in shown.items()},
        LOG_SEGMENTS: {where: len(log.segment_offsets) for where, log in shown.items()},
        TOPIC_BYTES: {topic: sum(log.appended_bytes for log in of) for topic, of in shown_topics.items()},
        TOPIC_MESSAGES: {topic: sum(log.appended_messages for log in of) for topic, of in shown_topics.items()},
        TOPIC_FETCHED: {topic: sum(log.fetched_bytes for log in of) for topic, of in shown_topics.items()},
        TOPICS: {(): len(topics)},
        PARTITIONS: {(): len(by_partition)},
        LEFT_OUT: {(): len(by_partition) - len(shown)},
        UNFLUSHED: {(): sum(log.unflushed_messages for log in by_partition.values())},
        FAILED_LOGS: {(): sum(log.failure is not None for log in by_partition.values())},
    }


def scrub_samples(record: ScrubRecord, broker: str) -> dict[Metric, Values]:
    """Return what a broker says of checks for damage."""

    def by_partition(found: Iterable[DamagedRange | DifferingRange]) -> Values:
        counts = Counter((broker, each.segment.topic, str(each.segment.partition)) for each in found)
        return {where: float(count) for where, count in counts.items()}

    finished: Values = {} if record.finished_s is None else {(): record.finished_s}
    return {
        DAMAGED: by_partition(record.damage()),
        DIFFERING: by_partition(record.differing()),
        SCRUB_FINISHED: finished,
    }


def _named(counts: Mapping[str, int], pattern: str) -> dict[tuple[str, ...], float]:
    """Return those counts whose whole name a pattern fits, by its group."""
    by_name: Counter[tuple[str, ...]] = Counter()
    for name, count in counts.items():
        match = re.fullmatch(pattern, name)
        if match is not None:
            by_name[match.groups()] += count
    return dict(by_name)
