"""A stream: how far each micro-batch goes, and what Spark asks on the driver and on executors.

What a micro-batch reads must follow from the offsets that Spark wrote to the checkpoint before it, and from nothing
else; only so does a restart give exactly the same rows. So every offset that this gives out is pinned there before
data is read by it: a new partition first appears with the offset that it begins at, and a query that begins at `latest`
has a first micro-batch without rows, which writes down what latest was.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, SupportsTriggerAvailableNow

from kafka2011.errors import BrokerConnectionError
from kafka2011.protocol import LATEST
from kafka2011.spark.errors import BrokerAwayError
from kafka2011.spark.offsets import OffsetRange, flatten, nest
from kafka2011.spark.plan import DataLoss, admit, plan, starting_offsets
from kafka2011.spark.reader import ReadSettings, read_partition
from zk.clock import SYSTEM_CLOCK
from zk.errors import GroupInUse, ZkError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.streaming.datasource import ReadLimit

    from kafka2011.spark.lookup import OffsetLookup
    from kafka2011.spark.offsets import Nested, Offsets
    from kafka2011.spark.options import StreamOptions
    from kafka2011.spark.reader import RangePartition
    from zk.clock import Clock
    from zk.cluster import TopicPartition

logger = logging.getLogger(__name__)

LOOK_INTERVAL_S = 0.1
"""Spark asks some 80 times a second while nothing happens; logs are looked at no oftener than this."""
DISCOVER_INTERVAL_S = 1.0
"""The registry is read no oftener than this."""


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's side of a stream: offsets are `{"topic": {"0-1": 123}}`. What they are is the StreamPlanner's business.

    One object lives as long as the query, in a planner process of its own; others are pickled to executors to read.
    """

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._settings = ReadSettings.of(options)
        self._planner: StreamPlanner | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's names, here and below)
        """Return where a new query begins."""
        return self._planning().initial()

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
        return self._planning().tasks(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one task's range."""
        return read_partition(partition, self._settings)

    def commit(self, end: dict[str, Any]) -> None:
        """Commit to the consumer group, where one was given, that all before `end` was processed."""
        if self._options.commit_offsets:
            self._planning().commit(end)

    def stop(self) -> None:
        """Close what planning has open; the end of its process does so too."""
        if self._planner is not None:
            self._planner.close()
            self._planner = None

    def _planning(self) -> StreamPlanner:
        from kafka2011.spark.lookup import OffsetLookup  # noqa: PLC0415 (not on executors)

        if self._planner is None:
            self._planner = StreamPlanner(self._options, OffsetLookup(self._options))
        return self._planner


class StreamPlanner:
    """Decides for one query, and owns its lookup. Not thread-safe: Spark asks one thing after another."""

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
        self._initial: Offsets | None = None
        self._pinned = False  # whether the first micro-batch has written down what latest was
        self._target: Offsets | None = None  # where an AvailableNow query stops
        self._latest: Offsets = {}
        self._looked_s = -LOOK_INTERVAL_S
        self._partitions: tuple[TopicPartition, ...] = ()
        self._discovered_s = -DISCOVER_INTERVAL_S
        self._away_since_s: dict[TopicPartition, float] = {}

    def initial(self) -> Nested:
        """Return where the query begins; the same whenever it is asked."""
        if self._initial is None:
            bounds = {partition: self._lookup.bounds(partition) for partition in self._discover()}
            self._initial = starting_offsets(self._options, self._lookup, bounds)
        return nest(self._initial)

    def end(self, start: Mapping[str, object], max_bytes: int | None) -> Nested:
        """Return where a micro-batch from `start` ends, or `start` when there is nothing new."""
        begin = flatten(start)
        if self._is_unpinned(begin):
            return nest(begin)
        latest = self._look(begin)
        bounded = latest if self._target is None else self._targets(begin)
        end = {**begin, **{each: bounded[each] for each in begin if each in bounded}}
        for each in begin:
            if end[each] < begin[each]:
                self._loss.report(f"{each} ends at {end[each]}, but was read up to {begin[each]}")
        if max_bytes is not None:
            end |= admit(self._lookup, begin, end, max_bytes, self._loss)
        end |= {each: self._lookup.bounds(each).earliest for each in bounded if each not in begin}
        return nest(end)

    def stop_at_latest(self) -> None:
        """Let the query end where the logs end now."""
        self._target = {each: self._lookup.bounds(each).latest for each in self._discover()}

    def latest(self) -> Nested | None:
        """Return where the logs ended when they were last looked at."""
        return nest(self._latest) or None

    def tasks(self, start: Mapping[str, object], end: Mapping[str, object]) -> list[RangePartition]:
        """Return the tasks of the micro-batch from `start` to `end`.

        A partition that is not in `start` begins with the next one. One that ends before it starts has nothing to
        read: its log was lost and has begun anew, and was reported, or a first micro-batch is planned again that began
        at what was latest then.
        """
        begin, stop = flatten(start), flatten(end)
        ranges = [
            OffsetRange(each, begin[each], stop[each])
            for each in sorted(stop)
            if begin.get(each, stop[each]) < stop[each]
        ]
        return plan(self._lookup, ranges, self._options.min_partitions)

    def commit(self, end: Mapping[str, object]) -> None:
        """Commit offsets to the group. Raises GroupInUse; while ZooKeeper is away the next commit covers it."""
        from kafka2011.spark.group import commit_offsets  # noqa: PLC0415 (not on executors)

        try:
            commit_offsets(self._options.zk_connect, self._options.groupid, nest(flatten(end)))
        except GroupInUse:
            raise
        except ZkError as error:
            logger.warning("group %s was not committed: %s", self._options.groupid, error)

    def close(self) -> None:
        """Close all connections."""
        self._lookup.close()

    def _is_unpinned(self, begin: Offsets) -> bool:
        """Say whether this is the first micro-batch of a query that begins at what is latest now."""
        spec = self._options.starting_offsets
        moves = spec == LATEST or (isinstance(spec, Mapping) and LATEST in spec.values())
        if self._pinned or not moves or begin != self._initial:
            return False
        self._pinned = True
        return True

    def _discover(self) -> tuple[TopicPartition, ...]:
        now_s = self._clock.monotonic_s()
        if now_s - self._discovered_s >= DISCOVER_INTERVAL_S:
            self._partitions = self._lookup.cluster().partitions
            self._discovered_s = now_s
        return self._partitions

    def _look(self, begin: Offsets) -> Offsets:
        """Return where the logs end, of the query's partitions and of new ones; those that are away stay out."""
        now_s = self._clock.monotonic_s()
        if now_s - self._looked_s < LOOK_INTERVAL_S and self._latest.keys() >= begin.keys():
            return self._latest
        self._latest = {**begin, **self._ask_latest({*begin, *self._discover()})}
        self._looked_s = self._clock.monotonic_s()
        return self._latest

    def _ask_latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        found: Offsets = {}
        for partition in sorted(partitions):
            try:
                found[partition] = self._lookup.latest(partition)
            except BrokerConnectionError as error:
                self._note_away(partition, error)
            else:
                if self._away_since_s.pop(partition, None) is not None:
                    logger.warning("%s is back", partition)
        return found

    def _note_away(self, partition: TopicPartition, error: Exception) -> None:
        """Bear with a broker that is away, as long as the options allow, while other partitions go on."""
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
                f"the broker of {partition} was away for {limit_ms} ms"
                f" (fetchOffset.numRetries times fetchOffset.retryIntervalMs): {error}"
            ) from error

    def _targets(self, begin: Offsets) -> Offsets:
        """Return how far an AvailableNow query goes; a partition that was away when it began is waited for."""
        assert self._target is not None
        for partition in begin:
            if partition not in self._target:
                try:
                    self._target[partition] = self._lookup.bounds(partition).latest
                except BrokerAwayError as error:
                    self._loss.report(f"{partition} is not there: {error}")
                    self._target[partition] = begin[partition]
        return self._target
