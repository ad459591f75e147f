"""One load of one topic: from where the table's newest commit ended up to now, and one atomic commit.

    newest commit -> ranges -> tasks write Parquet files -> quarantine -> coverage check -> counts for the audit
    -> commit of these files -> report to the audit

Until the commit nothing of it is in the table, so whatever dies on the way, the next load begins where this one did.
"""

from __future__ import annotations

import heapq
import logging
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from kafka2011.audit.cluster_clock import earlier_ms
from kafka2011.errors import KafkaError
from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.spark.cluster_lookup import RegistryLookup
from kafka2011.spark.log_check import checks_to_json
from kafka2011.spark.lookup import OffsetLookup
from kafka2011.spark.plan import DataLoss, plan
from kafka2011.spark.reader import ReadSettings
from kafka2011.warehouse.errors import CoverageError, GivenUpError, OvertakenError, WarehouseError
from kafka2011.warehouse.loading.coverage import Coverage
from kafka2011.warehouse.loading.decoding import decoder_for
from kafka2011.warehouse.loading.gaps import explain
from kafka2011.warehouse.loading.load_job import LoadJob, UnansweredTask
from kafka2011.warehouse.loading.load_settings import SMALL_BYTES, TASK_BYTES
from kafka2011.warehouse.loading.place import WorkPlace
from kafka2011.warehouse.loading.resolving import LOG_CHECKS, in_our_words, once_registered, resolve
from kafka2011.warehouse.loading.table_reports import TimedEnds
from kafka2011.warehouse.loading.watermark import Watermark, is_news
from kafka2011.warehouse.table.commits import WATERMARK, Commit, LoadedRange, Operation
from kafka2011.warehouse.table.line import complete_before, line_of
from kafka2011.warehouse.table.rewriting import widen
from kafka2011.warehouse.table.topic_table import attempt_of
from zk.audit import AuditNodes
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kafka2011.events.columns.held_columns import Widening
    from kafka2011.events.schema_registry import Answers
    from kafka2011.events.schemas import EventSchema
    from kafka2011.spark.log_check import LogCheck
    from kafka2011.spark.offset_ranges import OffsetRange
    from kafka2011.spark.plan import ResolvedOffsets
    from kafka2011.spark.reader import PlannedRange
    from kafka2011.warehouse.loading.counting import LoadAccount, LoadAudit
    from kafka2011.warehouse.loading.engine import Engine
    from kafka2011.warehouse.loading.load_job import LoadTask, TaskResult
    from kafka2011.warehouse.loading.load_settings import LoadSettings
    from kafka2011.warehouse.loading.resolving import Begun
    from kafka2011.warehouse.table.data_files import DataFile
    from kafka2011.warehouse.table.quarantine import Quarantine
    from kafka2011.warehouse.table.topic_table import TopicTable
    from zk.client import ZkClient
    from zk.clock import Clock
    from zk.cluster import TopicPartition

logger = logging.getLogger(__name__)

_MOST_OTHERS = 1000
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
    REPORTED = "reported"


@dataclass(frozen=True, slots=True)
class Loaded:
    """Tells what one load of a topic did; `number` is None when there was nothing to load."""

    topic: str
    number: int | None = None
    rows: int = 0
    quarantined: int = 0
    log_bytes: int = 0
    lost_bytes: int = 0
    empty_bytes: int = 0
    seconds: float = 0.0
    away: tuple[TopicPartition, ...] = ()
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the same as values that JSON can hold."""
        away = [partition.znode_name for partition in self.away]
        fields = {**asdict(self), "seconds": round(self.seconds, 3), "away": away}
        del fields["offsets"]
        return fields


@dataclass(frozen=True, slots=True)
class _Work:
    """What one load has to do: with which session and look at the brokers, from which offsets, behind which commit."""

    client: ZkClient
    lookup: OffsetLookup
    resolved: ResolvedOffsets
    stored: Mapping[TopicPartition, int]
    newest: Commit | None
    account: LoadAccount | None

    @property
    def number(self) -> int:
        """The number of the commit that it makes."""
        return 1 if self.newest is None else self.newest.number + 1


class TopicLoad:
    """Loads one topic into its table. For one thread; `load` may be called again and again.

    `client` is a session to use; without it each load has one of its own.
    """

    def __init__(
        self,
        engine: Engine,
        table: TopicTable,
        quarantine: Quarantine,
        settings: LoadSettings,
        *,
        audit: LoadAudit | None = None,
        client: ZkClient | None = None,
        on_step: Callable[[Step], None] = lambda _: None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._engine = engine
        self._table = table
        self._topic = table.topic
        self._quarantine = quarantine
        self._settings = settings
        self._options = settings.read_options(table.topic)
        self._on_step = on_step
        self._clock = clock
        self._audit = audit
        self._client = client
        self._registry = None if client is None else SchemaRegistry(client)
        self._others: dict[str, EventSchema] = {}  # schemas of other topics that events have named, by fingerprint
        self.place = WorkPlace()
        self._wider: Mapping[str, Widening] = {}  # what the table is to become before it takes what was written last

    @in_our_words()
    def load(self) -> Loaded:
        """Load what is new. Raises KafkaError of many kinds; nothing is in the table then.

        OvertakenError: another loader was faster. ReplacedLogError, DataLossError: a log lacks what was to be loaded.
        CoverageError: what was written is not all there is. UnknownSchemaError: the topic has no schema.
        """
        began_s = self._clock.monotonic_s()
        self.place = WorkPlace()
        with ExitStack() as stack:
            client = self._client or stack.enter_context(self._settings.connect())
            account = None if self._audit is None else stack.enter_context(self._audit.begin(client, self._table))
            newest = self._table.newest() if account is None else account.newest
            before_ms = self._complete_before(newest) if account is None else account.before_ms
            stored = dict(self._settings.begin_at if newest is None else newest.offsets)
            partitions = RegistryLookup(client, is_shared=True)
            lookup = stack.enter_context(OffsetLookup(self._options, partitions, patience_s=PATIENCE_S))
            seen_ms = int(self._clock.wall_s() * 1000)
            if account is not None:
                seen_ms = earlier_ms(seen_ms, AuditNodes(client).clock_ms())
            resolved, checks = self._resolve(lookup, newest, stored)
            self._on_step(Step.RESOLVED)
            watermark = Watermark.after(newest, resolved, seen_ms, before_ms)
            ends: dict[TopicPartition, int | None] = {
                to_load.topic_partition: to_load.end for to_load in resolved.ranges
            }
            ends.update(dict.fromkeys(resolved.away))
            if not resolved.size_bytes and not resolved.lost:
                if account is not None and account.is_due:
                    read_by = None if newest is None else (newest.number, newest.attempt)
                    account.report(TimedEnds(seen_ms, ends, read_by))
                if newest is None or not is_news(watermark.through_ms(account), newest.complete_through_ms):
                    return Loaded(
                        self._topic, seconds=self._clock.monotonic_s() - began_s, away=resolved.away, offsets=stored
                    )
            commit = self._commit(_Work(client, lookup, resolved, stored, newest, account), watermark, checks)
            self._on_step(Step.COMMITTED)
            if account is not None:
                account.report(TimedEnds(seen_ms, ends))
                self._on_step(Step.REPORTED)
        return self._loaded(commit, resolved.away, began_s)

    def _complete_before(self, newest: Commit | None) -> int | None:
        """Return up to when the table is complete, for a load that does not count."""
        if newest is None or newest.complete_through_ms is None:
            return None
        history = self._table.seen()
        return None if history is None else complete_before(newest, line_of(history, 0))

    def _loaded(self, commit: Commit, away: tuple[TopicPartition, ...], began_s: float) -> Loaded:
        return Loaded(
            self._topic,
            commit.number,
            commit.rows,
            commit.quarantined,
            sum(loaded.end - loaded.start for loaded in commit.ranges),
            sum(loaded.lost_bytes for loaded in commit.ranges),
            sum(loaded.empty_bytes for loaded in commit.ranges),
            self._clock.monotonic_s() - began_s,
            away,
            commit.offsets,
        )

    def _commit(self, work: _Work, watermark: Watermark, checks: Mapping[TopicPartition, LogCheck]) -> Commit:
        """Write what a load has to read, count it, and commit it; return the commit."""
        self.place.commit = work.number
        staging, account = self._table.begin(), work.account
        if account is not None:
            account.begin(work.number, attempt_of(staging))
        try:
            commit, files = self._write(work, staging)
            extra: dict[str, Any] = {LOG_CHECKS: checks_to_json(checks)}
            if account is not None:
                commit = replace(commit, counts=account.counted())
                self._on_step(Step.COUNTED)
                extra[WATERMARK] = watermark.to_json()
            through_ms = watermark.through_ms(account)
            if account is not None:
                extra |= account.audit_ends()
            commit = replace(commit, extra=extra, complete_through_ms=through_ms)
        except BaseException as error:
            self._clean(work.number, staging, account)
            if isinstance(error, OSError) and not isinstance(error, KafkaError):
                raise WarehouseError(f"topic {self._topic}: {error}") from error
            raise
        self._on_step(Step.COMMITTING)
        try:
            widen(self._table, self._wider)
            self._table.commit(staging, commit, files)
        except (OvertakenError, GivenUpError):  # after any other error it may have been committed all the same
            self._clean(commit.number, staging, account)
            raise
        return replace(commit, attempt=attempt_of(staging))

    def _resolve(self, lookup: OffsetLookup, newest: Commit | None, stored: Mapping[TopicPartition, int]) -> Begun:
        def ask() -> Begun:
            return resolve(self._options, lookup, newest, stored, restart_replaced=self._settings.restart_replaced)

        return ask() if newest is not None else once_registered(ask)

    def _write(self, work: _Work, staging: str) -> tuple[Commit, Sequence[DataFile]]:
        """Write rows and quarantine of the ranges, check that they are all there is, and return commit and files."""
        resolved, account = work.resolved, work.account
        registry = self._registry or SchemaRegistry(work.client)
        schemas = registry.of_topic(self._topic)
        self.place.schema = schemas.newest_number
        known = schemas.known(self._topic).with_answers(self._others.values(), ())
        decoder = decoder_for(self._table, work.newest, known, work.number)
        self._wider = decoder.widened
        output = self._table.output(staging)
        offsets = {
            **work.stored,
            **{offset_range.topic_partition: offset_range.end for offset_range in resolved.ranges},
        }
        job = LoadJob(
            self._topic,
            ReadSettings.of(self._options),
            decoder,
            output,
            self._settings.held_bytes,
            is_counted=account is not None,
        )
        coverage = Coverage(self._topic)
        files: list[DataFile] = []
        refused_files: list[str] = []
        tasks = self._tasks(work.lookup, resolved.ranges)
        are_small = len(tasks) < 2 and resolved.size_bytes <= SMALL_BYTES
        for result in self._results(registry, job, tasks, are_small=are_small):
            result.cover(coverage)
            files += result.files
            refused_files += filter(None, [result.refused_file])
            if account is not None:
                account.count(result.counts)
        self._on_step(Step.WRITTEN)
        lines = (line for name in refused_files for line in output.lines(name))
        self._quarantine.write(work.number, attempt_of(staging), lines)
        for name in refused_files:
            output.delete(name)
        ranges = self._account(work.lookup, resolved, coverage)
        self._on_step(Step.CHECKED)
        commit = Commit(
            topic=self._topic,
            number=work.number,
            operation=Operation.LOAD,
            written_at_ms=int(self._clock.wall_s() * 1000),
            offsets=offsets,
            ranges=ranges,
            rows=sum(loaded.rows for loaded in ranges),
            quarantined=sum(loaded.quarantined for loaded in ranges),
            schema=schemas.newest_number,
        )
        return commit, files

    def _results(
        self, registry: SchemaRegistry, job: LoadJob, tasks: Sequence[LoadTask], *, are_small: bool
    ) -> Iterator[TaskResult]:
        """Run tasks, and again those whose events name schemas that are none of the topic's, once these are looked up.

        Raises ZkUnavailable: no event goes to quarantine because nobody could ask.
        """
        while tasks:
            again: list[UnansweredTask] = []
            for result in self._engine.run(job, tasks, are_small=are_small):
                if isinstance(result, UnansweredTask):
                    again.append(result)
                else:
                    yield result
            if not again:
                return
            answers = registry.answers(frozenset().union(*(unanswered.fingerprints for unanswered in again)))
            self._keep(answers)
            job, tasks = job.with_answers(answers), [unanswered.task for unanswered in again]

    def _keep(self, answers: Answers) -> None:
        """Keep schemas of other topics for the next loads, as long as there are not too many."""
        self._others.update((schema.fingerprint, schema) for schema in answers.found)
        if len(self._others) > _MOST_OTHERS:
            self._others.clear()

    def _tasks(self, lookup: OffsetLookup, ranges: Iterable[OffsetRange]) -> list[LoadTask]:
        full = [offset_range for offset_range in ranges if offset_range.size_bytes]
        size_bytes = sum(offset_range.size_bytes for offset_range in full)
        wanted = size_bytes // TASK_BYTES
        if size_bytes > SMALL_BYTES:
            wanted = max(wanted, self._engine.parallelism)
        wanted = max(wanted, self._options.min_partitions)
        return together(plan(lookup, full, wanted, DataLoss(self._options)), wanted)

    def _account(self, lookup: OffsetLookup, resolved: ResolvedOffsets, coverage: Coverage) -> tuple[LoadedRange, ...]:
        """Explain what is left open, and return what was read of each partition that moved."""
        lost = {lost_range.topic_partition: lost_range.size_bytes for lost_range in resolved.lost}
        empty: dict[TopicPartition, int] = {}
        gaps = (
            gap
            for offset_range in resolved.ranges
            for gap in coverage.gaps(offset_range.topic_partition, offset_range.start, offset_range.end)
        )
        for gap in gaps:
            explained = explain(
                gap,
                lookup.bounds(gap.partition).earliest,
                partial(lookup.fetch, gap.partition),
                self._options.max_message_bytes,
            )
            if explained.lost_bytes and self._options.fail_on_data_loss:
                raise CoverageError(
                    f"{gap.partition}: {explained.lost_bytes} bytes from offset {gap.start} on were removed from"
                    " the log while it was read"
                )
            lost[gap.partition] = lost.get(gap.partition, 0) + explained.lost_bytes
            empty[gap.partition] = empty.get(gap.partition, 0) + explained.empty_bytes
            logger.warning(
                "%s: offsets %d to %d have no rows: %d bytes are lost, %d are of empty sets", *gap, *explained
            )
        ranges = []
        for offset_range in resolved.ranges:
            where = offset_range.topic_partition
            start = offset_range.start - sum(gone.size_bytes for gone in resolved.lost if gone.topic_partition == where)
            if start < offset_range.end:
                counts = coverage.counts(where)
                ranges.append(
                    LoadedRange(where, start, offset_range.end, *counts, lost.get(where, 0), empty.get(where, 0))
                )
        return tuple(ranges)

    def _clean(self, number: int, staging: str, account: LoadAccount | None) -> None:
        """Remove what a load that failed has written, as far as that can be done."""
        attempt = attempt_of(staging)
        try:
            self._quarantine.remove(number, attempt)
            if account is not None:
                account.abandon()
            self._table.abandon(staging)
        except Exception:  # the error that matters is on its way
            logger.exception("topic %s: what attempt %s has written could not be removed", self._topic, attempt)


def together(ranges: Sequence[PlannedRange], tasks: int) -> list[LoadTask]:
    """Put ranges together, so that so many tasks, one at least, have about the same to read."""
    heap: list[tuple[int, int, list[PlannedRange]]] = [(0, number, []) for number in range(max(1, tasks))]
    for planned_range in sorted(ranges, key=lambda planned: -planned.offset_range.size_bytes):
        size_bytes, number, its = heap[0]
        its.append(planned_range)
        heapq.heapreplace(heap, (size_bytes + planned_range.offset_range.size_bytes, number, its))
    return [its for _, _, its in heap if its]
