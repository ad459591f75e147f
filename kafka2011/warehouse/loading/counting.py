"""The loader as a tier of the audit: it counts a load's rows, and says up to what time the topic is complete.

Counts are part of the commit: they are in files that it names. The audit hears of them once the commit is there, see
`reporting`.
"""

from __future__ import annotations

import logging
import tempfile
from collections import deque
from contextlib import ExitStack
from typing import TYPE_CHECKING, BinaryIO, Self, cast

from kafka2011.audit.compare import Ledger
from kafka2011.audit.complete import watermark
from kafka2011.audit.counts_file import reports_of
from kafka2011.audit.reader import AuditReader, has_audit
from kafka2011.audit.received import ReceivedReports
from kafka2011.audit.report import AUDIT_TOPIC, AuditReport
from kafka2011.audit.run import expect
from kafka2011.audit.scan import AGAIN_MS
from kafka2011.audit.table_report import CommitKey, ListedCommit
from kafka2011.audit.windows import Windows
from kafka2011.errors import KafkaError
from kafka2011.warehouse.errors import TierTakenError, WarehouseError
from kafka2011.warehouse.loading.reporting import TableReporter
from kafka2011.warehouse.loading.row_counts import RowCounts
from kafka2011.warehouse.loading.table_reports import as_committed
from kafka2011.warehouse.table.commits import AUDIT_ENDS
from kafka2011.warehouse.table.counted import Line
from kafka2011.warehouse.table.counts_store import CountsStore
from kafka2011.warehouse.table.line import complete_before, line_of
from zk.clock import SYSTEM_CLOCK
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafka2011.audit.counts_file import CountedPart
    from kafka2011.audit.pipeline import Pipeline
    from kafka2011.audit.scan import AuditScan
    from kafka2011.audit.table_report import TableReport
    from kafka2011.warehouse.loading.load_job import Count
    from kafka2011.warehouse.loading.table_reports import TimedEnds
    from kafka2011.warehouse.table.commits import Commit
    from kafka2011.warehouse.table.counted import CommitCounts
    from kafka2011.warehouse.table.topic_table import TopicTable
    from zk.client import ZkClient
    from zk.clock import Clock

logger = logging.getLogger(__name__)

LOOK_INTERVAL_S = 60.0
"""The shortest time between two looks at what all tiers have reported: loads may be much more frequent."""
_MOST_RECENT = 1_000_000
"""How many messages of its own reports a loader remembers, since brokers may not have flushed them yet."""


class LoadAudit:
    """Counts loads of one topic as a tier. `begin` a new account for each load.

    `replaces` is the id of a table whose place this one takes as the tier.
    """

    def __init__(
        self,
        topic: str,
        tier: str,
        zk_connect: str,
        windows: Windows | None = None,
        clock: Clock = SYSTEM_CLOCK,
        *,
        pipeline: Pipeline | None = None,
        replaces: str = "",
    ) -> None:
        self.topic = topic
        self.pipeline = pipeline
        self.zk_connect = zk_connect
        self.tier = tier
        self.reader = AuditReader()
        self.reporter = TableReporter(topic, tier, zk_connect, replaces)
        self.windows = windows or Windows()
        self._clock = clock
        self._looked_s = -LOOK_INTERVAL_S
        self._recent: deque[tuple[float, AuditReport | TableReport]] = deque()
        self._recent_messages = 0

    def begin(self, client: ZkClient, table: TopicTable) -> LoadAccount:
        """Return a new account of a table, which looks at what was reported unless one has done so lately.

        Whatever the table has come to is published first. Raises TierTakenError where another table reports as this
        tier, RolledBackError and other errors of `TopicTable.newest`.
        """
        now_s = self._clock.monotonic_s()
        is_due = now_s - self._looked_s >= LOOK_INTERVAL_S
        if is_due:
            self._looked_s = now_s
        account = LoadAccount(self, client, table, is_due)
        try:
            account.look()
        except BaseException:
            account.__exit__()
            raise
        return account

    def published(self, reports: Iterable[AuditReport | TableReport]) -> None:
        """Remember reports that were published just now."""
        now_s = self._clock.monotonic_s()
        for report in reports:
            self._recent.append((now_s, report))
            self._recent_messages += _messages(report)
        while self._recent and (
            self._recent_messages > _MOST_RECENT or now_s - self._recent[0][0] > 2 * LOOK_INTERVAL_S
        ):
            self._recent_messages -= _messages(self._recent.popleft()[1])

    def recent(self) -> list[AuditReport | TableReport]:
        """Return what was published lately, which cannot be read yet, maybe."""
        return [report for _, report in self._recent]

    def close(self) -> None:
        """Close the publisher."""
        self.reporter.close()


class LoadAccount:
    """The audit's knowledge at one load. A context manager."""

    def __init__(self, audit: LoadAudit, client: ZkClient, table: TopicTable, is_due: bool) -> None:
        self._audit = audit
        self._client = client
        self._table = table
        self._is_due = is_due
        self._stack = ExitStack()
        self._ledger = self._new_ledger()
        self._received = ReceivedReports()
        self._scan: AuditScan | None = None
        self._counts: RowCounts | None = None
        self._commit: CommitKey | None = None
        self._table_id = ""
        self._counted = 0
        self._from_ms: int | None = None
        self._read_ends: Mapping[tuple[int, int], int] = {}
        self._is_judged = False
        self._line = Line()
        self.newest: Commit | None = None
        """The newest commit of the table, which the load comes after."""
        self.before_ms: int | None = None
        """Up to when the table was complete, as far as that still holds."""

    def _new_ledger(self) -> Ledger:
        file = self._stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 (closed with the account)
        return Ledger(cast("BinaryIO", file), 0)

    def look(self) -> None:
        """Read what is reported by now, before anybody looks where partitions end, and publish what is not.

        Raises TierTakenError, and what `TopicTable.newest` raises.
        """
        audit, history = self._audit, self._table.seen()
        self._table_id = "" if history is None else history.table_id
        audit.reporter.check(self._client, self._table_id or None)
        failure: WarehouseError | None = None
        head = None
        if history is not None:
            try:
                with self._table.translated_errors():
                    self.newest = newest = self._table.newest_in(history)
                    self._line = line_of(history, int(self._table.clock.wall_s() * 1000))
                self.before_ms = complete_before(newest, self._line)
                head = newest and (newest.number, newest.attempt, frozenset(self._line.removals))
            except WarehouseError as error:  # the audit is to know
                failure = error
        self._from_ms = None if self.before_ms is None else self.before_ms - AGAIN_MS
        if self._is_due:
            self._read()
        if history is not None and (head is None or head != audit.reporter.stated):
            self.report()
        if failure is not None:
            raise failure

    def _read(self) -> None:
        audit, holder, is_all = self._audit, self._audit.reporter.holder, False
        try:
            if not has_audit(self._client):
                holder.is_informed = True
                return
            judged_ends = None if self.newest is None else audit_ends_in(self.newest)
            if judged_ends is None:  # it was judged by a release that did not say how far it had read
                self._from_ms = None
            audit.reader.judge_again(judged_ends or {}, self._from_ms)
            self._read_reports()
            if self._late_ms() is not None:
                self._from_ms = None
                self._read_reports()
                self._take_back(audit.reader.scan.since_ms)
            self._scan, self._read_ends = audit.reader.scan, audit.reader.place.ends
            is_all = not self._scan.faults
        except KafkaError as error:
            logger.warning("topic %s: its watermark is unknown now: %s", audit.topic, error)
        holder.note(self._received.tables_of(audit.topic, audit.tier), is_all=is_all)
        self._add(audit.recent())

    def _read_reports(self) -> None:
        """Read the reports of windows from `_from_ms` on. Raises KafkaError."""
        audit = self._audit
        self._ledger, self._received = self._new_ledger(), ReceivedReports()
        if audit.pipeline is not None:
            expected = expect(self._client, audit.pipeline, audit.zk_connect)
            expected.asking, expected.is_partial = audit.tier, self.before_ms is not None
            self._received.expected = expected
        for report in audit.reader.read(self._client, [audit.topic], self._from_ms, self._received):
            self._ledger.add(report)

    def _late_ms(self) -> int | None:
        """Return the first window on which a source has reported since the time was judged up to which all is there."""
        return self._audit.reader.late.first_ms({tier for tier, _ in self._received.sources_of(self._audit.topic)})

    def _take_back(self, since_ms: int | None) -> None:
        """Say that the table was complete only up to the first window on which reports came late.

        Of windows before `since_ms` reports were removed, so nothing is known of them.
        """
        late_ms = self._late_ms()
        if late_ms is not None and since_ms is not None and late_ms < since_ms:
            self._from_ms = late_ms
        if late_ms is not None and self.before_ms is not None:
            logger.warning(
                "topic %s was reported complete up to %d ms, and a source has since reported on %d ms: its clock is"
                " far behind",
                *(self._audit.topic, self.before_ms, late_ms),
            )
            self.before_ms = min(self.before_ms, late_ms)

    def report(self, timed_ends: TimedEnds | None = None) -> None:
        """Publish the counts of commits that were not published, and what is in the table now.

        What cannot be published now is logged, and published by the next load. Raises TierTakenError.
        """
        try:
            reports = self._audit.reporter.report(self._client, self._table, timed_ends)
        except TierTakenError:
            raise
        except KafkaError as error:
            logger.warning("topic %s: the audit learns of its table later: %s", self._audit.topic, error)
            return
        self._audit.published(reports)
        self._add(reports)

    @property
    def is_due(self) -> bool:
        """Whether this account looks at what was reported."""
        return self._is_due

    def begin(self, number: int, attempt: str) -> None:
        """Begin to count an attempt at a commit."""
        store = CountsStore(self._table.files, self._table.path)
        self._commit = CommitKey(self._table_id, number, attempt)
        self._counts = RowCounts(store, self._audit.topic, number, attempt, self._audit.windows)

    def count(self, counts: Iterable[Count]) -> None:
        """Count rows that were written for the commit. Raises OSError."""
        assert self._counts is not None
        self._take(self._counts.add(counts))

    def counted(self) -> CommitCounts:
        """Return what the commit keeps of its counts, which are all on disk then. Raises OSError."""
        assert self._counts is not None
        self._take(self._counts.flush())
        return self._counts.named(self._line, self._audit.reporter.published)

    def abandon(self) -> None:
        """Remove what an attempt that failed has counted. Raises OSError."""
        if self._counts is not None:
            self._counts.abandon()

    def through_ms(self, seen_ms: int, before_ms: int | None) -> int | None:
        """Say up to when the topic is complete in the table once the commit is there; None where nobody can tell.

        The ends of all partitions that the table has reached were seen at `seen_ms`.
        """
        if self._scan is None or not seen_ms:
            return None
        audit = self._audit
        tables = self._received.tables_of(audit.topic, audit.tier)
        commit = None if self._commit is None else ListedCommit(self._commit.number, self._commit.attempt)
        holder = audit.reporter.holder
        self._received.add(as_committed(tables, holder, self._table_id, self._line, commit, self._scan))
        completeness = watermark(
            self._ledger,
            self._received,
            audit.topic,
            audit.tier,
            self._scan,
            read_ms=seen_ms,
            from_ms=self._from_ms,
            before_ms=before_ms,
        )
        if completeness is None:
            return None
        self._is_judged = True
        if completeness.missing:
            logger.warning(
                "topic %s: %d messages are missing in the window that begins at %d ms",
                *(audit.topic, completeness.missing, completeness.through_ms),
            )
        if before_ms is not None and completeness.through_ms is not None and completeness.through_ms < before_ms:
            why = "; ".join(unknown.why for unknown in completeness.unknowns) or "messages are missing"
            logger.warning(
                "topic %s was reported complete up to %d ms, and is complete only up to %d ms: %s",
                *(audit.topic, before_ms, completeness.through_ms, why),
            )
        return completeness.through_ms

    def audit_ends(self) -> dict[str, dict[str, int]]:
        """Return what the commit says of how far the topic `audit` was read when its time was judged."""
        if self._is_judged:
            ends = {TopicPartition(AUDIT_TOPIC, *place).znode_name: end for place, end in self._read_ends.items()}
            return {AUDIT_ENDS: ends}
        known = {} if self.newest is None else self.newest.extra
        return {AUDIT_ENDS: known[AUDIT_ENDS]} if AUDIT_ENDS in known else {}

    def _take(self, parts: Sequence[CountedPart]) -> None:
        """Take parts of the commit as if it were there and they were published."""
        if not self._is_due or self._commit is None:
            return
        numbers = [(self._counted + place, None) for place in range(len(parts))]
        self._counted += len(parts)
        for report in reports_of(parts, numbers, self._audit.tier, self._commit):
            self._ledger.add(report)

    def _add(self, reports: Iterable[AuditReport | TableReport]) -> None:
        for report in reports if self._is_due else ():
            self._received.add(report)
            if isinstance(report, AuditReport) and (self._from_ms is None or report.start_ms >= self._from_ms):
                self._ledger.add(report)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def audit_ends_in(commit: Commit) -> dict[tuple[int, int], int] | None:
    """Return where the partitions of the topic `audit` ended when a commit's time was judged; None if it is unknown."""
    if AUDIT_ENDS not in commit.extra:
        return None
    ends = {
        TopicPartition.from_znode_name(AUDIT_TOPIC, name): int(end) for name, end in commit.extra[AUDIT_ENDS].items()
    }
    return {(where.broker_id, where.partition): end for where, end in ends.items()}


def _messages(report: AuditReport | TableReport) -> int:
    return report.count if isinstance(report, AuditReport) else 0
