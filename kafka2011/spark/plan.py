"""From options to explicit offsets to tasks: which partitions are read, from where to where, and in how many pieces.

Runs on the driver. It asks ZooKeeper and brokers only through an OffsetLookup.
"""

from __future__ import annotations

import contextlib
import logging
from bisect import bisect_right
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.errors import BrokerConnectionError, ConfigError, KafkaError, OffsetOutOfRangeError
from kafka2011.spark.errors import BrokerAwayError, DataLossError, UnknownTopicError
from kafka2011.spark.offset_ranges import OffsetRange, cuts, next_boundary, share_bytes, share_tasks, to_json
from kafka2011.spark.options import BatchOptions, check_complete, times_of
from kafka2011.spark.reader import PlannedRange
from kafka2011.wire.protocol import EARLIEST, LATEST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafka2011.spark.cluster_lookup import Cluster
    from kafka2011.spark.lookup import Answers, OffsetLookup
    from kafka2011.spark.offset_ranges import LogBounds, Offsets
    from kafka2011.spark.options import OffsetSpec, ReadOptions, StreamOptions
    from zk.cluster import TopicPartition

logger = logging.getLogger(__name__)

_SPECIAL = "-2 is the earliest offset, -1 the latest"
MAX_THREADS = 16
"""How many brokers are read from at once to cut ranges."""


class ReplacedLog(NamedTuple):
    """A partition whose log ends before the offset where reading is to go on: its disk was replaced."""

    partition: TopicPartition
    stored: int
    earliest: int
    latest: int


@dataclass(frozen=True, slots=True)
class ResolvedOffsets:
    """Holds what a batch would read now, as fixed offsets.

    The last three are of reads that go on `after` stored offsets: partitions whose brokers are away, which have empty
    ranges; what was removed from logs before it was read, each range of which ends where that partition's range
    begins; logs that end too early, which have no range.
    """

    ranges: tuple[OffsetRange, ...]
    away: tuple[TopicPartition, ...] = ()
    lost: tuple[OffsetRange, ...] = ()
    replaced: tuple[ReplacedLog, ...] = ()

    @property
    def starting_offsets(self) -> str:
        """Return the value for startingOffsets."""
        return to_json({offset_range.topic_partition: offset_range.start for offset_range in self.ranges})

    @property
    def ending_offsets(self) -> str:
        """Return the value for endingOffsets, for `commit_offsets`, and for startingOffsets of the next read."""
        return to_json({offset_range.topic_partition: offset_range.end for offset_range in self.ranges})

    @property
    def size_bytes(self) -> int:
        """Return how many bytes of the logs the batch reads."""
        return sum(offset_range.size_bytes for offset_range in self.ranges)


def resolve_offsets(
    options: Mapping[str, object], after: Mapping[TopicPartition, int] | None = None
) -> ResolvedOffsets:
    """Turn a batch's options into explicit offsets, so that several reads of it give the same rows.

    Spark plans a `load()` again for each DataFrame made of it, and `latest` moves meanwhile. Asks ZooKeeper and
    brokers from the driver. With `after`, the offsets where the last read ended, the ranges are those from there to
    now, and from the earliest offset in partitions that it does not name; nobody waits for a broker that is away.
    Raises ConfigError, DataLossError, BrokerAwayError, KafkaError for a topic that nobody has.
    """
    from kafka2011.spark.lookup import OffsetLookup  # noqa: PLC0415 (executors import this module too)

    read = BatchOptions.from_options({key: str(value) for key, value in options.items()})
    with OffsetLookup(read) as lookup:
        if after is not None:
            return resolve_after(read, lookup, after)
        return ResolvedOffsets(tuple(resolve_batch(read, lookup)))


class DataLoss:
    """Stops when data is lost, or logs it and goes on, as failOnDataLoss says."""

    def __init__(self, options: ReadOptions) -> None:
        self._fail = options.fail_on_data_loss

    def report(self, what: str) -> None:
        """Take note of a loss. Raises DataLossError."""
        if self._fail:
            raise DataLossError(
                f"{what}. Some data may have been missed: it was removed before it was read, by retention, with its"
                " topic or with a disk. To go on with what there is, set failOnDataLoss to false"
            )
        logger.warning("data loss: %s", what)

    def report_away(self, away: Mapping[TopicPartition, BrokerAwayError]) -> None:
        """Take note of partitions whose brokers did not come back in time. Raises BrokerAwayError."""
        if not away:
            return
        what = f"{', '.join(str(partition) for partition in sorted(away))} cannot be read: {next(iter(away.values()))}"
        if self._fail:
            raise BrokerAwayError(f"{what}. To go on with what there is, set failOnDataLoss to false")
        logger.warning("data loss: %s", what)


def resolve_batch(
    options: BatchOptions, lookup: OffsetLookup, keep: Callable[[TopicPartition], bool] = lambda _: True
) -> list[OffsetRange]:
    """Return the range of each partition that a batch reads and that is to be kept, sorted, empty ones too."""
    loss = DataLoss(options)
    cluster = lookup.cluster()
    for topic in unknown_topics(options, cluster):
        raise KafkaError(f"topic {topic} is unknown: no broker has ever registered it")
    _check_named(options, "startingOffsets", options.starting_offsets)
    _check_named(options, "endingOffsets", options.ending_offsets)
    partitions = set(filter(keep, _awaited(options, lookup, cluster, keep, loss)))
    bounds = {partition: lookup.bounds(partition) for partition in partitions}
    starts = _starting_offsets(options, lookup, bounds)
    ends = _ending_offsets(options, lookup, bounds)
    return [
        _within(bounds[partition], partition, starts[partition], ends[partition], loss)
        for partition in sorted(partitions)
    ]


def resolve_after(options: ReadOptions, lookup: OffsetLookup, after: Mapping[TopicPartition, int]) -> ResolvedOffsets:
    """Return the ranges from where the last read ended to now; see `resolve_offsets`. Raises DataLossError, KafkaError.

    A broker that is away, or does not answer within the lookup's patience, is not waited for: its partitions keep their
    offsets. So does a partition that a live broker does not have (yet): nothing can be read there.
    """
    loss = DataLoss(options)
    cluster = lookup.cluster()
    stored = {partition: offset for partition, offset in after.items() if options.reads(partition)}
    for topic in unknown_topics(options, cluster):
        if all(partition.topic != topic for partition in stored):
            raise UnknownTopicError(f"topic {topic} is unknown: no broker has ever registered it")
    ends = answered(lookup.ends(cluster.partitions))
    begins = births(lookup, ends)
    ranges: list[OffsetRange] = []
    away: list[TopicPartition] = []
    lost: list[OffsetRange] = []
    replaced: list[ReplacedLog] = []
    for partition in sorted(stored.keys() | set(cluster.partitions)):
        start = stored.get(partition)
        if partition not in begins:
            away.append(partition)
            if start is not None:
                ranges.append(OffsetRange(partition, start, start))
            continue
        earliest, latest = begins[partition], max(ends[partition], begins[partition])
        if start is None:
            start = earliest
        elif start > latest:
            replaced.append(ReplacedLog(partition, start, earliest, latest))
            continue
        elif start < earliest:
            loss.report(f"{partition} was read up to offset {start}, but begins at {earliest} now")
            lost.append(OffsetRange(partition, start, earliest))
            start = earliest
        ranges.append(OffsetRange(partition, start, latest))
    if away:
        logger.warning("these partitions are not read now, since their brokers are down: %s", ", ".join(map(str, away)))
    return ResolvedOffsets(tuple(ranges), tuple(away), tuple(lost), tuple(replaced))


def unknown_topics(options: ReadOptions, cluster: Cluster) -> list[str]:
    """Return the topics that are named and that nobody has ever registered."""
    return [topic for topic in options.topics if topic not in cluster.topics]


def resolve_stream_start(options: StreamOptions, lookup: OffsetLookup) -> Offsets:
    """Return where a new query begins, by time, by group or by startingOffsets.

    What a group or JSON gives as an offset holds whether or not its broker is there. A partition whose broker is away
    and that has no such offset is left out: it appears later, see `OffsetLookup.birth`. It waits only for an end that
    JSON asks for by name. Raises ConfigError, DataLossError, BrokerAwayError.
    """
    loss = DataLoss(options)
    cluster = lookup.cluster()
    present = set(cluster.partitions)
    if (times := options.times(present)) is not None:
        return _by_time(options, lookup, times)
    spec = options.starting_offsets
    assert spec is not None
    named = spec if isinstance(spec, Mapping) else {}
    _check_named(options, "startingOffsets", spec)
    given = {partition: offset for partition, offset in named.items() if offset >= 0}
    if options.groupid:
        given |= lookup.committed(sorted({*options.topics, *filter(options.wants, cluster.topics)}))
    for partition in sorted({*named, *given, *options.assign} - present):
        if partition.broker_id in cluster.brokers:
            loss.report(_no_such_partition(partition))
            given.pop(partition, None)
    rest = present - given.keys()
    if isinstance(spec, Mapping):
        check_complete("startingOffsets", rest - spec.keys(), _SPECIAL)
        ends, away = lookup.await_ends(
            partition for partition in named.keys() - given.keys() if named[partition] == LATEST
        )
        loss.report_away(away)
        return given | ends | births(lookup, rest - ends.keys() - away.keys())
    if spec == LATEST:
        return given | answered(lookup.ends(rest))
    return given | births(lookup, rest)


def answered(answers: Answers) -> Offsets:
    """Return the answers that are no errors."""
    return {partition: answer for partition, answer in answers.items() if isinstance(answer, int)}


def births(lookup: OffsetLookup, partitions: Iterable[TopicPartition], since_ms: int | None = None) -> Offsets:
    """Return where to begin with partitions that have appeared, as far as their brokers answer."""
    offsets: Offsets = {}
    for partition in answered(lookup.ends(partitions)):
        with contextlib.suppress(BrokerConnectionError):  # gone since: it will appear again
            offsets[partition] = lookup.birth(partition, since_ms)
    return offsets


def _by_time(options: StreamOptions, lookup: OffsetLookup, times: Mapping[TopicPartition, int]) -> Offsets:
    """Return where to begin with the partitions of a stream, each by its time, as far as their brokers answer."""
    ends = answered(lookup.ends(times))
    offsets: Offsets = {}
    for time_ms in sorted(set(times.values())):
        offsets |= births(lookup, [partition for partition in times if times[partition] == time_ms], time_ms)
    _check_written_since(options, times, offsets, ends)
    return offsets


def _check_written_since(
    options: ReadOptions,
    times: Mapping[TopicPartition, int],
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> None:
    """Raise KafkaError for a partition in which nothing was written since its time, if that is asked for."""
    if options.starting_strategy == "error":
        for partition, begin in sorted(begins.items()):
            if begin >= ends.get(partition, begin + 1):
                raise KafkaError(
                    f"nothing was written to {partition} since {times[partition]} ms. To begin at its end, set"
                    " startingOffsetsByTimestampStrategy to latest"
                )


def _starting_offsets(
    options: BatchOptions, lookup: OffsetLookup, bounds: Mapping[TopicPartition, LogBounds]
) -> dict[TopicPartition, int]:
    """Return where to begin with each partition: by time, by group, or by startingOffsets. May lie out of bounds."""
    if (times := options.times(bounds)) is not None:
        begins = {where: lookup.segment_at(where, bounds[where], time_ms)[0] for where, time_ms in times.items()}
        _check_written_since(options, times, begins, {partition: bounds[partition].latest for partition in bounds})
        return begins
    committed: dict[TopicPartition, int] = {}
    if options.groupid:
        committed = lookup.committed(sorted({partition.topic for partition in bounds}))
    rest = [partition for partition in bounds if partition not in committed]
    assert options.starting_offsets is not None
    chosen = _by_spec("startingOffsets", options.starting_offsets, rest, bounds)
    return {partition: committed.get(partition, chosen.get(partition, 0)) for partition in bounds}


def _ending_offsets(
    options: BatchOptions, lookup: OffsetLookup, bounds: Mapping[TopicPartition, LogBounds]
) -> dict[TopicPartition, int]:
    times = times_of("endingOffsetsByTimestamp", options.ending_times, bounds)
    if options.ending_timestamp >= 0:
        times = dict.fromkeys(bounds, options.ending_timestamp)
    if times is not None:
        return {where: lookup.segment_at(where, bounds[where], time_ms)[1] for where, time_ms in times.items()}
    return _by_spec("endingOffsets", options.ending_offsets, bounds, bounds)


def _by_spec(
    key: str,
    spec: OffsetSpec,
    partitions: Mapping[TopicPartition, object] | list[TopicPartition],
    bounds: Mapping[TopicPartition, LogBounds],
) -> dict[TopicPartition, int]:
    chosen: dict[TopicPartition, int] = {}
    if not isinstance(spec, int):
        check_complete(key, set(partitions) - spec.keys(), _SPECIAL)
    for partition in partitions:
        offset = spec if isinstance(spec, int) else spec[partition]
        if offset == EARLIEST:
            chosen[partition] = bounds[partition].earliest
        else:
            chosen[partition] = bounds[partition].latest if offset == LATEST else offset
    return chosen


def _check_named(options: ReadOptions, key: str, spec: OffsetSpec | None) -> None:
    if isinstance(spec, Mapping):
        for topic in sorted({partition.topic for partition in spec}):
            if not options.wants(topic):
                raise ConfigError(f"{key} names topic {topic}, which is not subscribed to")
        for partition in sorted(spec):
            if not options.reads(partition):
                raise ConfigError(f"{key} names {partition}, which is not assigned")


def _no_such_partition(partition: TopicPartition) -> str:
    return f"{partition} is not there: broker {partition.broker_id} has no such partition"


def _named(options: BatchOptions) -> set[TopicPartition]:
    """Return the partitions that the options name, whose brokers may be away."""
    specs: list[object] = [options.ending_offsets, dict(options.starting_times), dict(options.ending_times)]
    if options.starting_timestamp < 0 and not options.starting_times and not options.groupid:
        specs.append(options.starting_offsets)
    named = {partition for spec in specs if isinstance(spec, Mapping) for partition in spec}
    return {*options.assign, *filter(options.reads, named)}


def _awaited(
    options: BatchOptions,
    lookup: OffsetLookup,
    cluster: Cluster,
    keep: Callable[[TopicPartition], bool],
    loss: DataLoss,
) -> set[TopicPartition]:
    """Return the partitions to read. Waits for brokers that are known to have some."""
    present = set(cluster.partitions)
    wanted = set(_named(options))
    if options.groupid:
        topics = [topic for topic in cluster.topics if options.wants(topic)]
        wanted |= lookup.committed(topics).keys()
    wanted = set(filter(keep, wanted))
    for partition, error in lookup.await_brokers(wanted - present).items():
        loss.report(f"{partition} is not there: {error}")
    _report_missing_brokers(options, lookup, set(filter(keep, lookup.remembered())) - wanted, loss)
    cluster = lookup.cluster()
    present = set(cluster.partitions)
    for partition in sorted(wanted - present):
        if partition.broker_id in cluster.brokers:
            loss.report(_no_such_partition(partition))
    for topic in options.topics:
        if all(partition.topic != topic for partition in present):
            present |= _await_topic(lookup, topic)
    return present


def _report_missing_brokers(
    options: BatchOptions, lookup: OffsetLookup, remembered: Iterable[TopicPartition], loss: DataLoss
) -> None:
    """Take note of brokers that are away and that, by a group or broker.list, had a wanted topic.

    The registry itself forgets a broker when its session ends. Waits only where going on without them is not allowed.
    """
    brokers = lookup.cluster().brokers
    missing = {partition for partition in remembered if partition.broker_id not in brokers}
    if options.fail_on_data_loss:
        missing = set(lookup.await_brokers(missing))
    if missing:
        ids = sorted({partition.broker_id for partition in missing})
        topics = sorted({partition.topic for partition in missing})
        loss.report(
            f"brokers {', '.join(map(str, ids))} are away, and offsets of consumer groups, or broker.list, name"
            f" partitions of {', '.join(topics)} there"
        )


def _await_topic(lookup: OffsetLookup, topic: str) -> set[TopicPartition]:
    """Wait for a topic that was registered before, but that no live broker has."""

    def ask() -> set[TopicPartition]:
        of_topic = {partition for partition in lookup.cluster().partitions if partition.topic == topic}
        if not of_topic:
            raise BrokerConnectionError(f"no live broker has topic {topic}")
        return of_topic

    return lookup.persist(ask)


def _within(bounds: LogBounds, partition: TopicPartition, start: int, end: int, loss: DataLoss) -> OffsetRange:
    """Return the part of a range that is still there."""
    if start < bounds.earliest:
        loss.report(f"{partition} was to be read from offset {start}, but begins at {bounds.earliest}")
        start = bounds.earliest
    if max(start, end) > bounds.latest:
        loss.report(f"{partition} was to be read from {start} to {end}, but ends at {bounds.latest}")
        start, end = min(start, bounds.latest), min(end, bounds.latest)
    if end < start:
        raise ConfigError(f"{partition}: the ending offset {end} lies before the starting offset {start}")
    return OffsetRange(partition, start, end)


def plan(
    lookup: OffsetLookup, ranges: Iterable[OffsetRange], min_partitions: int, loss: DataLoss, max_bytes: int = 0
) -> list[PlannedRange]:
    """Return the tasks that read the ranges; more than one for a range where `min_partitions` wants so many.

    With `max_bytes` a task reads about so many at most.
    Ranges whose brokers do not come back in time are lost.
    """
    full = [offset_range for offset_range in ranges if offset_range.size_bytes]
    away = lookup.await_brokers(offset_range.topic_partition for offset_range in full)
    loss.report_away(away)
    there = [offset_range for offset_range in full if offset_range.topic_partition not in away]
    sizes = [offset_range.size_bytes for offset_range in there]
    tasks = share_tasks(sizes, min_partitions)
    if max_bytes:
        tasks = [max(count, -(-size // max_bytes)) for count, size in zip(tasks, sizes, strict=True)]
    parts = _cut_all(lookup, dict(zip(there, tasks, strict=True)))
    return [
        PlannedRange(part, lookup.broker(offset_range.topic_partition))
        for offset_range in there
        for part in parts[offset_range]
    ]


def _cut_all(lookup: OffsetLookup, tasks: Mapping[OffsetRange, int]) -> dict[OffsetRange, list[OffsetRange]]:
    """Cut each range for its tasks, in parallel for different brokers, since cutting may mean reading."""
    by_broker: dict[int, list[OffsetRange]] = {}
    for offset_range, count in tasks.items():
        if count > 1:
            by_broker.setdefault(offset_range.topic_partition.broker_id, []).append(offset_range)

    def cut(ranges: list[OffsetRange]) -> dict[OffsetRange, list[OffsetRange]]:
        return {offset_range: _cut(lookup, offset_range, tasks[offset_range]) for offset_range in ranges}

    parts = {offset_range: [offset_range] for offset_range in tasks}
    if by_broker:
        with ThreadPoolExecutor(min(len(by_broker), MAX_THREADS)) as threads:
            for of_broker in threads.map(cut, by_broker.values()):
                parts.update(of_broker)
    return parts


def _cut(lookup: OffsetLookup, whole: OffsetRange, tasks: int) -> list[OffsetRange]:
    """Cut what is still there of a range; what is gone stays with the first part, whose task says so."""
    partition = whole.topic_partition
    try:
        bounds = lookup.bounds(partition)
    except BrokerAwayError:  # it is registered: a task waits for it longer
        return [whole]
    start = max(whole.start, bounds.earliest)
    if start >= whole.end:
        return [whole]

    def scan(base: int, target: int) -> int:
        try:
            return lookup.walk(partition, base, target).offset
        except OffsetOutOfRangeError:  # retention came in between
            return base

    known = [offset for offset in bounds.boundaries if start <= offset < whole.end]
    return whole.cut(cuts(OffsetRange(partition, start, whole.end), tasks, known, scan))


def admit(
    lookup: OffsetLookup,
    begin: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    max_bytes: int,
    loss: DataLoss,
) -> dict[TopicPartition, int]:
    """Return where to end in each partition in which there is more than may be read.

    `begin` and `end` are boundaries. Partitions share `max_bytes` in proportion to what waits in them. Each gets one
    message or compressed set at least, however large, so that no partition falls behind.
    """
    lags = {partition: end[partition] - start for partition, start in begin.items() if end[partition] > start}
    shares = share_bytes(lags, max_bytes)
    return {
        partition: _admit_one(lookup, partition, begin[partition], end[partition], share, loss)
        for partition, share in shares.items()
        if share < lags[partition]
    }


def _admit_one(
    lookup: OffsetLookup, partition: TopicPartition, start: int, end: int, share_bytes: int, loss: DataLoss
) -> int:
    """Return the last boundary within a partition's share, found by reading on from the nearest one that is known."""
    bounds = lookup.bounds(partition)
    if start < bounds.earliest:
        loss.report(f"{partition} was read up to {start}, but begins at {bounds.earliest} now")
        start = bounds.earliest
        if start >= end:
            return end
    target = min(start + share_bytes, end)
    before = bisect_right(bounds.boundaries, target)
    base = max(start, bounds.boundaries[before - 1])
    try:
        boundary = lookup.walk(partition, base, max(target, base + 1))
    except OffsetOutOfRangeError:  # retention came in between: the next micro-batch finds out
        return start
    if boundary.offset > start:
        return boundary.offset
    # Not even one message fits. If its length makes no sense, go to the next known boundary.
    certain = next_boundary(bounds.boundaries, start) or end
    return min(boundary.following or certain, certain, end)
