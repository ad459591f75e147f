"""A stream: how far each micro-batch goes, and what Spark asks on the driver and on executors.

What a micro-batch reads must depend only on the offsets that Spark wrote to the checkpoint before it; only then does a
restart give exactly the same rows. So every offset returned here is pinned there before data is read by it. Spark does
not record the initial offset that it is given. So that is NEW_QUERY, and the first micro-batch has no rows; its end
says where the query begins. Likewise, a partition that appears later first gets the offset that it begins at, without
rows.

Beside the offsets are checks of the bytes before them, by which a topic is noticed that was deleted and created again
(`log_check`). A log in the place of the one that was read is begun like a partition that appears: first by its offset,
without rows.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, SupportsTriggerAvailableNow

from kafka2011.errors import BrokerConnectionError, KafkaError
from kafka2011.outages import Outages
from kafka2011.spark.errors import BrokerAwayError
from kafka2011.spark.log_check import check_now, compare_now, flatten_checks, nest_checks
from kafka2011.spark.offset_ranges import NEW_QUERY, OffsetRange, flatten, log_checks_of, mark, nest, since_ms_of
from kafka2011.spark.plan import DataLoss, admit, answered, births, plan, resolve_stream_start, unknown_topics
from kafka2011.spark.reader import ReadSettings, read_partition
from kafka2011.wire.protocol import LATEST
from zk.clock import SYSTEM_CLOCK
from zk.errors import GroupInUse, ZkError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit

    from kafka2011.spark.cluster_lookup import Cluster
    from kafka2011.spark.log_check import LogCheck
    from kafka2011.spark.lookup import OffsetLookup
    from kafka2011.spark.offset_ranges import Nested, Offsets
    from kafka2011.spark.options import StreamOptions
    from kafka2011.spark.reader import PlannedRange
    from zk.clock import Clock
    from zk.cluster import TopicPartition

logger = logging.getLogger(__name__)

LOOK_INTERVAL_S = 0.1
"""The shortest time between two looks at logs whose brokers do not say when there is more: Spark asks some 80 times a
second while nothing happens."""
DISCOVER_INTERVAL_S = 1.0
"""The shortest time between two reads of the registry, and two looks at logs whose brokers do say it."""


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's side of a stream: offsets are `{"topic": {"0-1": 123}}`. The StreamPlanner decides what they are.

    One object lives as long as the query, in its own planner process; others are pickled to executors to read.
    """

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._settings = ReadSettings.of(options)
        self._planner: StreamPlanner | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's names, here and below)
        """Return an offset that is never in a checkpoint, and so marks a query without one."""
        return NEW_QUERY

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return how much a micro-batch may read."""
        if self._options.max_bytes_per_trigger:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return where the micro-batch that begins at `start` ends."""
        return self._planning().end(start, limit.max_bytes if isinstance(limit, ReadMaxBytes) else None)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Note where the logs end now; the query goes no further."""
        self._planning().stop_at_latest()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return where the logs ended when last looked at, for the query's progress."""
        return self._planning().latest()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a micro-batch."""
        return [InputPartition(task) for task in self._planning().tasks(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one task's range."""
        return read_partition(partition, self._settings)

    def commit(self, end: dict[str, Any]) -> None:
        """Commit to the consumer group, if one was given, that everything before `end` was processed."""
        if self._options.commit_offsets:
            self._planning().commit(end)

    def stop(self) -> None:
        """Close what planning has open, as the end of its process does too."""
        if self._planner is not None:
            self._planner.close()
            self._planner = None

    def _planning(self) -> StreamPlanner:
        from kafka2011.spark.lookup import OffsetLookup  # noqa: PLC0415 (not on executors)

        if self._planner is None:
            self._planner = StreamPlanner(self._options, OffsetLookup(self._options))
        return self._planner


class StreamPlanner:
    """Plans one query, and owns its lookup. Not thread-safe: Spark asks one thing after another."""

    def __init__(
        self,
        options: StreamOptions,
        lookup: OffsetLookup,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._options = options
        self._lookup = lookup
        self._clock = clock
        self._loss = DataLoss(options)
        self._begun: dict[str, Any] | None = None  # start offsets of a new query
        self._planned: tuple[Mapping[str, Any], Mapping[str, Any]] | None = None  # the last micro-batch
        self._target: Offsets | None = None  # where an AvailableNow query stops
        self._given_up: set[TopicPartition] = set()  # which had no end to stop at
        self._latest: Offsets = {}
        self._looked_s = -LOOK_INTERVAL_S
        self._planned_s = -math.inf  # when a micro-batch with something to read was planned last
        self._cluster: Cluster | None = None
        self._discovered_s = -DISCOVER_INTERVAL_S
        self._away_since_s: dict[TopicPartition, float] = {}
        self._left: set[str] = set()  # topics that are no longer subscribed to
        self._shut_out = Outages(logger, later=logging.DEBUG)  # while the group has members, nothing can be committed

    def end(self, start: Mapping[str, Any], max_bytes: int | None) -> dict[str, Any]:
        """Return where a micro-batch from `start` ends, or `start` when there is nothing new."""
        if start == NEW_QUERY:
            if self._begun is None:
                self._begun = self._begin()
            return self._begun
        begin, since_ms = flatten(start), since_ms_of(start)
        checks = flatten_checks(log_checks_of(start), begin)
        wanted = self._wanted(begin)
        latest = self._look(wanted)
        bounded = latest if self._target is None else self._targets(wanted)
        end = {**begin, **{partition: bounded[partition] for partition in wanted if partition in bounded}}
        shorter = {partition for partition in begin if end[partition] < begin[partition]}
        if not shorter and self._is_early(begin, end):
            return dict(start)
        end |= self._restarts(shorter, begin, end, checks)
        if max_bytes is not None:
            end |= admit(self._lookup, begin, end, max_bytes, self._loss)
        end |= births(self._lookup, bounded.keys() - begin.keys(), since_ms)
        planned = self._pin(begin, end, checks, since_ms)
        self._planned = start, planned
        return planned

    def _restarts(
        self,
        shorter: set[TopicPartition],
        begin: Offsets,
        end: Offsets,
        checks: Mapping[TopicPartition, LogCheck],
    ) -> Offsets:
        """Return where to go on with partitions whose log is not the one that was read up to `begin`.

        That is the first offset of the new log. Partitions whose broker is down now stay where they are.
        """
        grown = [partition for partition, offset in begin.items() if end[partition] > offset]
        compared = compare_now(
            self._lookup, [(partition, checks[partition]) for partition in grown if partition in checks]
        )
        restarts = {partition: begin[partition] for partition in compared.unanswered}
        for partition in sorted(compared.others | shorter):
            self._loss.report(_replacement(partition, begin[partition], end[partition]))
            try:
                restarts[partition] = self._lookup.birth(partition, None)
            except BrokerConnectionError:  # its next answer is taken
                restarts[partition] = begin[partition]
        return restarts

    def _pin(
        self, begin: Offsets, end: Offsets, checks: Mapping[TopicPartition, LogCheck], since_ms: int | None
    ) -> dict[str, Any]:
        """Return the end of a micro-batch as the checkpoint has it, with a check for each offset that has moved.

        Partitions whose broker is down now stay where they are.
        """
        moved = {partition: offset for partition, offset in end.items() if begin.get(partition) != offset}
        made = check_now(self._lookup, moved)
        staying = {partition: begin[partition] for partition in made.unanswered if partition in begin}
        kept = {
            partition: check for partition, check in checks.items() if partition not in moved.keys() - staying.keys()
        }
        return mark(nest(end | staying), since_ms, nest_checks(kept | made.checks))

    def _is_early(self, begin: Offsets, end: Offsets) -> bool:
        """Say whether a micro-batch waits for more, as minBytesPerTrigger and maxTriggerDelay ask."""
        waiting_bytes = sum(end[partition] - offset for partition, offset in begin.items() if end[partition] > offset)
        now_s = self._clock.monotonic_s()
        options = self._options
        is_late = now_s - self._planned_s >= options.max_trigger_delay_ms / 1000
        if waiting_bytes < options.min_bytes_per_trigger and self._target is None and not is_late:
            return True
        if waiting_bytes:
            self._planned_s = now_s
        return False

    def stop_at_latest(self) -> None:
        """Let the query end where the logs end now. Raises KafkaError for a topic that nobody has ever had."""
        cluster = self._discover()
        for topic in unknown_topics(self._options, cluster):
            raise KafkaError(f"topic {topic} is unknown: no broker has ever registered it")
        self._target = {}
        self._target = self._targets(cluster.partitions)

    def latest(self) -> Nested | None:
        """Return where the logs ended when they were last looked at, as far as brokers answered."""
        return nest(self._latest) or None

    def tasks(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[PlannedRange]:
        """Return the tasks of the micro-batch from `start` to `end`.

        A partition that is not in `start` begins with the next micro-batch. One that ends before it starts has nothing
        to read: another log is in its place, which was reported. Raises DataLossError and BrokerAwayError.
        """
        begin, stop = flatten(start), flatten(end)
        ranges = [
            OffsetRange(partition, begin[partition], stop[partition])
            for partition in sorted(stop)
            if begin.get(partition, stop[partition]) < stop[partition]
        ]
        if self._planned != (start, end):  # an earlier process of this query has planned it
            checks = [
                flatten_checks(log_checks_of(nested), offsets) for nested, offsets in ((start, begin), (end, stop))
            ]
            ranges = self._still_there(ranges, checks)
        max_bytes = self._options.max_bytes_per_partition
        return plan(self._lookup, ranges, self._options.min_partitions, self._loss, max_bytes)

    def _still_there(
        self, ranges: list[OffsetRange], checks: list[dict[TopicPartition, LogCheck]]
    ) -> list[OffsetRange]:
        """Return the ranges whose logs are those that were planned to be read; waits for their brokers."""
        away = self._lookup.await_brokers(each.topic_partition for each in ranges)
        self._loss.report_away(away)
        ranges = [each for each in ranges if each.topic_partition not in away]
        wanted = [
            (each.topic_partition, stored[each.topic_partition])
            for each in ranges
            for stored in checks
            if each.topic_partition in stored
        ]
        others = compare_now(self._lookup, wanted).others
        for each in ranges:
            if each.topic_partition in others:
                self._loss.report(
                    f"{each.topic_partition} was to be read from {each.start} to {each.end}, but its log is another one"
                    " now: the topic was deleted and created again, or its disk was replaced"
                )
        return [each for each in ranges if each.topic_partition not in others]

    def commit(self, end: Mapping[str, Any]) -> None:
        """Commit offsets to the group. While that is impossible, the query goes on: a later commit covers it."""
        try:
            self._lookup.commit(flatten(end))
            self._shut_out.over()
        except GroupInUse as error:
            self._shut_out.failed(
                "nothing is committed to group %s while it is in use: %s", self._options.groupid, error
            )
        except ZkError as error:
            logger.warning("offsets of group %s were not committed: %s", self._options.groupid, error)

    def close(self) -> None:
        """Close all connections."""
        self._lookup.close()

    def _begin(self) -> dict[str, Any]:
        """Return where a new query begins."""
        options = self._options
        since_ms = None
        if options.starting_timestamp >= 0:
            since_ms = options.starting_timestamp
        elif options.starting_times:
            since_ms = min(time_ms for _, time_ms in options.starting_times)  # for those whose brokers are away now
        elif options.starting_offsets == LATEST:
            since_ms = int(self._clock.wall_s() * 1000)  # before brokers are asked: what comes from now on is read
        for topic in unknown_topics(options, self._discover()):
            logger.warning("topic %s is unknown: no broker has ever registered it; the query waits for it", topic)
        return self._pin({}, resolve_stream_start(options, self._lookup), {}, since_ms)

    def _wanted(self, begin: Offsets) -> Offsets:
        """Leave out topics that are no longer subscribed to: they keep their offsets, in case they come back."""
        wanted = {partition: offset for partition, offset in begin.items() if self._options.reads(partition)}
        left = {partition.topic for partition in begin.keys() - wanted.keys()}
        if left - self._left:
            logger.warning("topics no longer subscribed to, and no longer read: %s", ", ".join(sorted(left)))
            self._left = left
        return wanted

    def _discover(self) -> Cluster:
        """Return the present brokers and partitions, or the last known ones while ZooKeeper is away."""
        now_s = self._clock.monotonic_s()
        if self._cluster is None or now_s - self._discovered_s >= DISCOVER_INTERVAL_S:
            self._cluster = self._lookup.cluster() if self._cluster is None else self._lookup.last_cluster()
            self._discovered_s = now_s
        return self._cluster

    def _look(self, wanted: Offsets) -> Offsets:
        """Return where the logs of the query's partitions and of new ones end; those that are away are left out."""
        partitions = {*wanted, *self._discover().partitions}
        now_s = self._clock.monotonic_s()
        has_news = self._lookup.has_news()
        pause_s = DISCOVER_INTERVAL_S if self._lookup.is_watching(partitions) else LOOK_INTERVAL_S
        if has_news or now_s - self._looked_s >= pause_s:
            self._latest = self._ask_latest(partitions)
            self._looked_s = self._clock.monotonic_s()
            if self._target is None:
                self._lookup.watch(self._latest)
        return self._latest

    def _ask_latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        answers = self._lookup.ends(sorted(partitions))
        for partition, answer in answers.items():
            if isinstance(answer, Exception):
                self._note_away(partition, answer)
            elif self._away_since_s.pop(partition, None) is not None:
                logger.warning("%s is back", partition)
        return answered(answers)

    def _note_away(self, partition: TopicPartition, error: Exception) -> None:
        """Tolerate a broker that is away for as long as the options allow, while other partitions go on."""
        now_s = self._clock.monotonic_s()
        since_s = self._away_since_s.get(partition)
        if since_s is None:
            logger.warning("%s waits for its broker: %s", partition, error)
            self._away_since_s[partition] = now_s
            return
        limit_ms = self._options.retries * self._options.retry_interval_ms
        if (now_s - since_s) * 1000 <= limit_ms:
            return
        if self._options.fail_on_data_loss:
            raise BrokerAwayError(
                f"the broker of {partition} was unavailable for {limit_ms} ms"
                f" (fetchOffset.numRetries times fetchOffset.retryIntervalMs): {error}"
            ) from error

    def _targets(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return how far an AvailableNow query goes; it waits for a partition that was away when it began."""
        assert self._target is not None
        open_ends = set(partitions) - self._target.keys() - self._given_up
        ends, away = self._lookup.await_ends(open_ends)
        self._loss.report_away(away)
        self._given_up |= away.keys()
        self._target |= ends
        return self._target


def _replacement(partition: TopicPartition, read_to: int, end: int) -> str:
    """Return what has become of a partition's log that is not the one that was read."""
    if end < read_to:
        return f"{partition} ends at {end}, but was read up to {read_to}"
    return (
        f"{partition} was read up to {read_to}, but its log has other bytes before that offset now: the topic was"
        " deleted and created again, or its disk was replaced"
    )
