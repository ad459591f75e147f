"""One load of one topic: from where the table's newest commit ended up to now, and one atomic commit.

    newest commit -> ranges -> Parquet files in staging -> coverage check -> quarantine -> commit

Until the commit nothing of it is in the table, so whatever dies on the way, the next load begins where this one did.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from kafka2011.events.errors import UnknownSchemaError
from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.spark.lookup import OffsetLookup
from kafka2011.spark.offset_ranges import OffsetRange
from kafka2011.spark.plan import DataLoss, plan, resolve_after
from kafka2011.spark.reader import ReadSettings
from kafka2011.warehouse.errors import CoverageError, OvertakenError, ReplacedLogError
from kafka2011.warehouse.load.coverage import Coverage, Run
from kafka2011.warehouse.load.gaps import explain
from kafka2011.warehouse.load.load_settings import TASK_BYTES
from kafka2011.warehouse.load.tasks import LoadTasks
from kafka2011.warehouse.load.watermark import WATERMARK, Watermark, is_news
from kafka2011.warehouse.load.write import read_quarantined, read_runs, session_for, write_rows
from kafka2011.warehouse.rows.decode import BatchDecoder
from kafka2011.warehouse.table.commits import Commit, LoadedRange, Operation
from kafka2011.warehouse.table.parquet.dedup import drop_repeats, recent_rows
from kafka2011.warehouse.table.parquet.parquet_table import ParquetTable
from zk.clock import SYSTEM_CLOCK
from zk.cluster import TopicPartition
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark.sql import SparkSession

    from kafka2011.spark.plan import ResolvedOffsets
    from kafka2011.warehouse.load.counting import LoadAudit
    from kafka2011.warehouse.load.coverage import Gap
    from kafka2011.warehouse.load.load_settings import LoadSettings
    from kafka2011.warehouse.load.write import QuarantinedMessage
    from kafka2011.warehouse.table.quarantine import Quarantine
    from kafka2011.warehouse.table.table import Table
    from zk.clock import Clock

logger = logging.getLogger(__name__)

PATIENCE_S = 5.0
"""A broker that has not said within this time where its logs end is left for the next load."""


class Step(StrEnum):
    """How far a load has come, as it tells `on_step`."""

    RESOLVED = "resolved"
    WRITTEN = "written"
    CHECKED = "checked"
    COUNTED = "counted"
    COMMITTING = "committing"
    COMMITTED = "committed"


@dataclass(frozen=True, slots=True)
class Loaded:
    """What one load of a topic did; `number` is None when there was nothing to load."""

    topic: str
    number: int | None = None
    rows: int = 0
    quarantined: int = 0
    log_bytes: int = 0
    lost_bytes: int = 0
    empty_bytes: int = 0
    repeats: int = 0
    seconds: float = 0.0
    away: tuple[TopicPartition, ...] = ()
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return it as what JSON can hold."""
        return {
            "topic": self.topic,
            "number": self.number,
            "rows": self.rows,
            "quarantined": self.quarantined,
            "log_bytes": self.log_bytes,
            "lost_bytes": self.lost_bytes,
            "empty_bytes": self.empty_bytes,
            "repeats": self.repeats,
            "seconds": round(self.seconds, 3),
            "away": [each.znode_name for each in self.away],
        }


class TopicLoad:
    """Loads one topic into its table. For one thread; `load` may be called again and again."""

    def __init__(
        self,
        spark: SparkSession,
        table: Table,
        quarantine: Quarantine,
        settings: LoadSettings,
        *,
        audit: LoadAudit | None = None,
        on_step: Callable[[Step], None] = lambda _: None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._spark = spark
        self._table = table
        self._topic = table.topic
        self._quarantine = quarantine
        self._settings = settings
        self._options = settings.read_options(table.topic)
        self._on_step = on_step
        self._clock = clock
        self._session = session_for(spark, settings.target_file_bytes)
        self._audit = audit

    def load(self) -> Loaded:
        """Load what is new. Raises KafkaError of many kinds; nothing is in the table then.

        OvertakenError: another loader was faster. ReplacedLogError, DataLossError: a log lacks what was to be loaded.
        CoverageError: what was written is not all there is. UnknownSchemaError: the topic has no schema.
        """
        began_s = self._clock.monotonic_s()
        newest = self._table.newest()
        stored = dict(self._settings.begin_at if newest is None else newest.offsets)
        number = 1 if newest is None else newest.number + 1
        with OffsetLookup(self._options, patience_s=PATIENCE_S) as lookup, ExitStack() as stack:
            account = None if self._audit is None else stack.enter_context(self._audit.begin())
            if account is not None:
                account.read(stored, None if newest is None else newest.complete_through_ms)
            seen_ms = int(self._clock.wall_s() * 1000)
            resolved = self._resolve(lookup, stored)
            self._on_step(Step.RESOLVED)
            watermark = Watermark.after(newest, resolved, seen_ms)
            ends: dict[TopicPartition, int | None] = {each.topic_partition: each.end for each in resolved.ranges}
            ends.update(dict.fromkeys(resolved.away))
            if not resolved.size_bytes and not resolved.lost:
                through_ms = watermark.through_ms(account)
                if account is not None:
                    account.tell(ends, seen_ms)
                if newest is None or not is_news(through_ms, newest.complete_through_ms):
                    return Loaded(
                        self._topic, seconds=self._clock.monotonic_s() - began_s, away=resolved.away, offsets=stored
                    )
            staging = self._table.begin()
            attempt = staging.rpartition("/")[2]
            try:
                commit = self._write(lookup, resolved, stored, number, staging)
                if account is not None:
                    account.count(self._session, staging, commit, ends, seen_ms)
                    self._on_step(Step.COUNTED)
                    commit = replace(commit, extra={WATERMARK: watermark.to_json()})
                commit = self._without_repeats(staging, commit)
                commit = replace(commit, complete_through_ms=watermark.through_ms(account))
            except BaseException:
                self._clean(number, staging, attempt)
                raise
            self._on_step(Step.COMMITTING)
            self._commit(staging, commit)
        self._on_step(Step.COMMITTED)
        return Loaded(
            self._topic,
            number,
            commit.rows,
            commit.quarantined,
            sum(each.end - each.start for each in commit.ranges),
            sum(each.lost_bytes for each in commit.ranges),
            sum(each.empty_bytes for each in commit.ranges),
            sum(each.repeats for each in commit.ranges),
            self._clock.monotonic_s() - began_s,
            resolved.away,
            commit.offsets,
        )

    def _without_repeats(self, staging: str, commit: Commit) -> Commit:
        """Leave out repeats of events, if that is wanted; the audit has counted them."""
        window_s = self._settings.dedup_window_s
        if window_s is None:
            return commit
        assert isinstance(self._table, ParquetTable), "checked by the loader"
        since_ms = commit.written_at_ms - int(window_s * 1000)
        return drop_repeats(staging, commit, recent_rows(self._table, since_ms))

    def _commit(self, staging: str, commit: Commit) -> None:
        try:
            self._table.commit(staging, commit)
        except OvertakenError:  # after any other error it may have been committed all the same
            self._clean(commit.number, staging, staging.rpartition("/")[2])
            raise

    def _resolve(self, lookup: OffsetLookup, stored: Mapping[TopicPartition, int]) -> ResolvedOffsets:
        resolved = resolve_after(self._options, lookup, stored)
        if not resolved.replaced:
            return resolved
        if not self._settings.restart_replaced:
            first = resolved.replaced[0]
            more = f", and {len(resolved.replaced) - 1} more partitions are like it" if resolved.replaced[1:] else ""
            raise ReplacedLogError(
                f"{first.partition} was loaded up to offset {first.stored}, but its log ends at {first.latest}{more}:"
                " the disk was replaced. Either bring the old log back, or start that broker with an id that was never"
                " used, or load the new log from its beginning (--restart-replaced); its offsets then come again in the"
                " table, told apart by kafka2011_load_id"
            )
        for each in resolved.replaced:
            logger.warning("%s: a new log is loaded from offset %d on", each.partition, each.earliest)
        return resolve_after(
            self._options, lookup, {**stored, **{each.partition: each.earliest for each in resolved.replaced}}
        )

    def _write(
        self,
        lookup: OffsetLookup,
        resolved: ResolvedOffsets,
        stored: Mapping[TopicPartition, int],
        number: int,
        staging: str,
    ) -> Commit:
        """Write rows and quarantine of the ranges, check that they are all there is, and return the commit."""
        with connect(self._options.zk_connect, self._options.zk_sessiontimeout_ms) as client:
            registry = SchemaRegistry(client)
            known = registry.schemas(self._topic)
            if not known:
                raise UnknownSchemaError.of_topic(self._topic)
            decoder = BatchDecoder(self._topic, registry.snapshot(), number)
        session = self._session
        work = self._tasks(lookup, resolved.ranges, decoder)
        if work.tasks:
            write_rows(session, work, staging, self._settings.partition_by)
        self._on_step(Step.WRITTEN)
        coverage = Coverage(self._topic)
        for run in read_runs(session, self._topic, staging):
            coverage.add(run)
        gaps = _gaps(coverage, resolved.ranges)
        if gaps:
            again = self._tasks(lookup, _spans(gaps), decoder)
            attempt = staging.rpartition("/")[2]
            if again.tasks:
                self._quarantine.write(
                    number, attempt, _covering(coverage, self._topic, read_quarantined(session, again))
                )
            gaps = _gaps(coverage, resolved.ranges)
        ranges = self._account(lookup, resolved, coverage, gaps)
        self._on_step(Step.CHECKED)
        return Commit(
            topic=self._topic,
            number=number,
            operation=Operation.LOAD,
            written_at_ms=int(self._clock.wall_s() * 1000),
            offsets={**stored, **{each.topic_partition: each.end for each in resolved.ranges}},
            ranges=ranges,
            rows=sum(each.rows for each in ranges),
            quarantined=sum(each.quarantined for each in ranges),
            schema=known[-1].number,
        )

    def _tasks(self, lookup: OffsetLookup, ranges: Iterable[OffsetRange], decoder: BatchDecoder) -> LoadTasks:
        full = [each for each in ranges if each.size_bytes]
        size_bytes = sum(each.size_bytes for each in full)
        wanted = size_bytes // TASK_BYTES
        if size_bytes > TASK_BYTES // 8:  # it is worth a task for each core
            wanted = max(wanted, self._spark.sparkContext.defaultParallelism)
        tasks = plan(lookup, full, max(wanted, self._options.min_partitions), DataLoss(self._options))
        return LoadTasks(self._topic, tasks, ReadSettings.of(self._options), decoder)

    def _account(
        self, lookup: OffsetLookup, resolved: ResolvedOffsets, coverage: Coverage, gaps: list[Gap]
    ) -> tuple[LoadedRange, ...]:
        """Explain what is left open, and return what was read of each partition that moved."""
        lost = {each.topic_partition: each.size_bytes for each in resolved.lost}
        empty: dict[TopicPartition, int] = {}
        for gap in gaps:
            found = explain(
                gap,
                lookup.bounds(gap.partition).earliest,
                partial(lookup.fetch, gap.partition),
                self._options.max_message_bytes,
            )
            if found.lost_bytes and self._options.fail_on_data_loss:
                raise CoverageError(
                    f"{gap.partition}: {found.lost_bytes} bytes from offset {gap.start} on were removed from the log"
                    " while it was read"
                )
            lost[gap.partition] = lost.get(gap.partition, 0) + found.lost_bytes
            empty[gap.partition] = empty.get(gap.partition, 0) + found.empty_bytes
            logger.warning(
                "%s: of offsets %d to %d there are no rows: %d bytes are lost, %d are of empty sets", *gap, *found
            )
        ranges = []
        for each in resolved.ranges:
            where = each.topic_partition
            start = each.start - sum(gone.size_bytes for gone in resolved.lost if gone.topic_partition == where)
            if start < each.end:
                counts = coverage.counts(where)
                ranges.append(LoadedRange(where, start, each.end, *counts, lost.get(where, 0), empty.get(where, 0)))
        return tuple(ranges)

    def _clean(self, number: int, staging: str, attempt: str) -> None:
        """Remove what a load that failed has written, as far as that can be done."""
        try:
            self._quarantine.remove(number, attempt)
            self._table.abandon(staging)
        except Exception:  # the error that matters is on its way
            logger.exception("topic %s: what attempt %s has written could not be removed", self._topic, attempt)


def _gaps(coverage: Coverage, ranges: Iterable[OffsetRange]) -> list[Gap]:
    return [gap for each in ranges for gap in coverage.gaps(each.topic_partition, each.start, each.end)]


def _spans(gaps: Iterable[Gap]) -> list[OffsetRange]:
    """Return one range for each partition that has gaps, from the first to the last."""
    spans: dict[TopicPartition, OffsetRange] = {}
    for gap in gaps:
        before = spans.get(gap.partition)
        spans[gap.partition] = OffsetRange(gap.partition, gap.start if before is None else before.start, gap.end)
    return list(spans.values())


def _covering(coverage: Coverage, topic: str, refused: Iterable[QuarantinedMessage]) -> Iterator[str]:
    """Yield the lines of what was refused, and count it as covered."""
    for each in refused:
        if each.corrupt:
            coverage.add_corrupt(TopicPartition(topic, each.broker_id, each.partition), each.start, each.end)
        else:
            coverage.add(Run.of_one(*each[:5]), quarantined=True)
        yield each.line
