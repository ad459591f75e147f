"""The loaders of a tier: they count into files, commit, publish what was committed, and judge; any of them may die."""

from __future__ import annotations

import io
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kafka2011.audit.cluster_clock import earlier_ms
from kafka2011.audit.compare import Ledger
from kafka2011.audit.complete import watermark
from kafka2011.audit.counts_file import reports_of
from kafka2011.audit.progress_report import ProgressReport
from kafka2011.audit.received import ReceivedReports
from kafka2011.audit.report import AUDIT_TOPIC, AuditReport, Places
from kafka2011.audit.scan import AuditScan
from kafka2011.audit.table_report import CommitKey, ListedCommit, TableReport
from kafka2011.warehouse.errors import TierTakenError
from kafka2011.warehouse.loading.load_job import Count
from kafka2011.warehouse.loading.row_counts import RowCounts
from kafka2011.warehouse.loading.table_reports import (
    TierHolder,
    TimedEnds,
    as_committed,
    commits_since,
    counts_of,
    joined,
    report_of,
    seen_in,
    unpublished_of,
)
from kafka2011.warehouse.table.line import complete_before, line_of
from tests.models.audit.clusters import BROKERS, VIEWS, AuditRead
from tests.models.audit.tables import Claims, Table

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from kafka2011.audit.complete import Complete
    from kafka2011.audit.counts_file import CountedPart
    from kafka2011.audit.expected import ExpectedReports
    from kafka2011.warehouse.table.commits import Commit
    from kafka2011.warehouse.table.counted import Line
    from tests.models.audit.clusters import Cluster
    from tests.models.audit.world import World
    from zk.cluster import TopicPartition

    Step = Generator[None, None, None]

TIER = "load"


class Stated(NamedTuple):
    """What a table report states, for those who know better: the rows of the table that it has seen."""

    order: int
    report: TableReport
    rows: frozenset[int]


class Basis(NamedTuple):
    """What a loader judges by: reports, how they were read, and up to when the table was complete before."""

    found: Sequence[Any]
    scan: AuditScan
    from_ms: int | None
    ends: Mapping[tuple[int, int], int]
    before_ms: int | None


class Loaders:
    """All loaders of a walk, their tables, and what befalls these."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.tables = [Table("one")]
        self.claims = Claims()
        self.stated: list[Stated] = []
        self._attempts = count(1)
        self._processes = {"one": self.loading(self.table)}
        self._known: dict[str, set[str]] = {}  # by attempt, the instances that it had heard of
        self.newest: Complete | None = None

    @property
    def table(self) -> Table:
        """The table that the tier was declared to have last."""
        return self.tables[-1]

    @property
    def is_damaged(self) -> bool:
        """Whether it may be that not all is complete in the end."""
        return len(self.tables) > 1 or self.table.is_damaged

    def go_on(self) -> None:
        """Let each process of a loader take a step."""
        for process in list(self._processes.values()):
            next(process)

    def restart(self, table: Table, replaces: str = "") -> None:
        """Let the process that loads a table die, if there is one, and begin another."""
        self._processes[table.id] = self.loading(table, replaces)

    def stop(self, table: Table) -> None:
        """Let the process that loads a table end for good."""
        self._processes.pop(table.id, None)

    def begin_rival(self, *, is_declared: bool = False) -> Table:
        """Begin to load another table as the same tier, declared as a replacement or not, and return it."""
        before, rival = self.table, Table("two")
        self.restart(rival, before.id if is_declared else "")
        self.tables.insert(len(self.tables) if is_declared else 0, rival)
        return rival

    def stated_since(self, cluster: Cluster, began_ms: int) -> list[Stated]:
        """Return what the tier's table had in its newest report that could be read at a time, and has had since.

        Where two tables report at once, nothing is known.
        """
        visible = {
            entry.payload.report_id
            for broker in BROKERS
            for entry in cluster.logs[AUDIT_TOPIC, broker]
            if isinstance(entry.payload, TableReport) and entry.seen_ms <= began_ms
        }
        stated = [each for each in self.stated if each.report.report_id in visible]
        generation = max((each.report.generation for each in stated), default=0)
        of_tier = [each for each in stated if each.report.generation == generation]
        if len({each.report.table for each in of_tier}) > 1:
            return []
        order = of_tier[-1].order if of_tier else 0
        return [each for each in self.stated[order:] if not of_tier or each.report.generation >= generation]

    def attempt(self) -> str:
        return f"a{next(self._attempts)}"

    def loading(self, table: Table, replaces: str = "") -> Step:
        """Load again and again, and say up to when all is there, as one process."""
        world, holder = self._world, TierHolder(VIEWS, TIER, replaces)
        stated: object = None
        own: list[Any] = []
        while True:
            yield
            try:
                if self.claims.now is not None:
                    holder.check(self.claims.now.table, table.id if table.log else None)
                history = table.history()
                newest, line = history.present(), line_of(history, world.zk_ms())
                before_ms = complete_before(newest, line)
                self.check_table(table)
                clock_ms = world.zk_ms()
                scan = AuditScan(at_ms=earlier_ms(world.loader_ms(), clock_ms), clock_ms=clock_ms, home="O")
                basis = yield from self.read(newest, before_ms, scan)
                received = received_of(basis.found)
                holder.note(received.tables_of(VIEWS, TIER), is_all=not basis.scan.faults)
                head = newest and (newest.number, newest.attempt, frozenset(line.removals))
                if head != stated and table.log:
                    stated = yield from self.report(table, holder, None, own)
                if history.is_rolled_back:
                    continue
                basis = basis._replace(found=[*basis.found, *own])
                ends = yield from self.load(table, holder, newest, line, basis)
                if ends is not None:
                    stated = yield from self.report(table, holder, ends, own)
            except TierTakenError:
                continue

    def read(self, newest: Commit | None, before_ms: int | None, scan: AuditScan) -> Generator[None, None, Basis]:
        """Read reports from a time on, and all if some are late: then only what was before them is complete still."""
        world, judged_ends = self._world, newest.extra.get("audit") if newest else None
        judged_ms = None if before_ms is None or judged_ends is None else before_ms - world.again_ms
        from_ms = judged_ms
        while True:
            found, faults, read = list[Any](), list[str](), AuditRead(judged_ends or {}, judged_ms)
            yield from world.read_reports(from_ms, found, faults, read)
            late_ms = read.late.first_ms({tier for tier, _ in received_of(found).sources_of(VIEWS)})
            if late_ms is None or from_ms is None:
                break
            from_ms = None
        if late_ms is not None and before_ms is not None:
            before_ms = min(before_ms, late_ms)
        return Basis(found, replace(scan, faults=tuple(faults)), from_ms, read.ends, before_ms)

    def load(
        self,
        table: Table,
        holder: TierHolder,
        newest: Commit | None,
        line: Line,
        basis: Basis,
    ) -> Generator[None, None, TimedEnds | None]:
        """Load what is new, as one commit, and return where partitions ended."""
        world = self._world
        looked_ms = earlier_ms(world.loader_ms(), world.zk_ms())
        ends = world.ends(world.offline, VIEWS)
        offsets = dict(newest.offsets) if newest else {}
        seen = {where: int(at_ms) for where, at_ms in (newest.extra.get("seen", {}) if newest else {}).items()}
        seen = dict.fromkeys((f"{broker}" for broker in BROKERS), 0) | seen
        attempt, rows = self.attempt(), set[int]()
        counts = RowCounts(table, VIEWS, (newest.number if newest else 0) + 1, attempt, world.windows)
        parts: list[CountedPart] = []
        for where, each in ends.items():
            if each is None:
                continue
            seen[f"{where.broker_id}"] = looked_ms
            start = max(offsets.get(where, 0), world.offline.first.get(where.broker_id, 0))
            events = [entry.payload for entry in world.offline.logs[VIEWS, where.broker_id][start : each[1]]]
            rows.update(event.number for event in events)
            parts += counts.add([_count_of(where, events, start)])
            if world.table_chance.random() < 0.3:
                parts += counts.flush()
            offsets[where] = each[1]
            yield
        timed = TimedEnds(looked_ms, {where: each and each[1] for where, each in ends.items()})
        parts += counts.flush()
        yield
        before_ms = basis.before_ms
        commit = table.next_commit(newest, offsets, rows, looked_ms, attempt, before_ms)
        said = self.judge(table, holder, basis, parts, commit, line, min(seen.values()))
        if newest is not None and offsets == newest.offsets and (said is None or said.through_ms == before_ms):
            return timed._replace(read_by=(newest.number, newest.attempt))
        if said is not None:
            commit = replace(commit, complete_through_ms=said.through_ms)
        yield
        published = self.claims.now.number if self.claims.now and self.claims.now.table == table.id else 0
        known = newest.extra.get("audit") if newest else None
        extra = {"seen": seen, "audit": known if said is None else basis.ends}
        commit = replace(commit, extra=extra, counts=counts.named(line, published))
        is_there = table.commit(commit, rows)
        self._known[attempt] = {each.instance for each in basis.found if isinstance(each, ProgressReport)}
        if is_there:
            self.check_table(table)
        return timed if is_there else None

    def judge(
        self,
        table: Table,
        holder: TierHolder,
        basis: Basis,
        parts: Sequence[CountedPart],
        commit: Commit,
        line: Line,
        read_ms: int,
    ) -> Complete | None:
        """Say up to when all is in the table once a commit is there."""
        if not read_ms:
            return None
        from_ms, before_ms, scan = basis.from_ms, basis.before_ms, basis.scan
        received, ledger = _read(basis.found, from_ms, self._world.expected(before_ms is not None))
        key = CommitKey(table.id, commit.number, commit.attempt)
        for each in reports_of(parts, [(number, None) for number in range(len(parts))], TIER, key):
            ledger.add(each)
        listed = ListedCommit(commit.number, commit.attempt)
        received.add(as_committed(received.tables_of(VIEWS, TIER), holder, table.id, line, listed, scan))
        options: dict[str, Any] = {"from_ms": from_ms, "before_ms": before_ms, "rules": self._world.rules}
        said = watermark(ledger, received, VIEWS, TIER, scan, read_ms=read_ms, **options)
        self.newest = said or self.newest
        return said

    def report(
        self, table: Table, holder: TierHolder, timed: TimedEnds | None, own: list[Any]
    ) -> Generator[None, None, object]:
        """Publish what is committed and not published, then what is in the table; return the commit that was stated."""
        world = self._world
        for _ in range(3):
            known = self.claims.now
            yield
            history = table.history()
            if not table.log:
                return None
            if known is None:
                found, faults = list[Any](), list[str]()
                yield from world.read_reports(None, found, faults, AuditRead())
                received = received_of(found)
                holder.note(received.tables_of(VIEWS, TIER), is_all=not faults)
            if not holder.is_informed:
                return None
            claim = holder.claim(known, table.id)
            seen = seen_in(history, world.zk_ms())
            commits = commits_since(history, seen.newest, claim)
            seen = seen._replace(line=joined(seen.line, commits))
            for commit in unpublished_of(commits, claim):
                for reports in counts_of(commit, table.id, TIER, table.read):
                    yield from world.publish(world.offline, reports)
                    own += reports
            number, attempt = (seen.newest.number, seen.newest.attempt) if seen.newest else (0, "")
            said = report_of(holder, history, seen, claim, timed)
            yield
            if self.claims.write(claim._replace(number=number, attempt=attempt)):
                holder.last_sequence = claim.sequence
                said = replace(said, at_ms=world.zk_ms(), home="O")
                self.stated.append(Stated(len(self.stated), said, history.rows))
                yield from world.publish(world.offline, [said])
                own.append(said)
                del own[:-50]
                return (number, attempt, frozenset(seen.line.removals))
        return None

    def check_table(self, table: Table) -> None:
        """Look whether the table has all that was published before the time up to which it says it is complete."""
        history = table.history()
        newest = history.present()
        if table is self.table and not history.is_rolled_back and newest is not None:
            through_ms = complete_before(newest, line_of(history, 0))
            said_by = next((each for each in reversed(history.commits()) if each.attempt in self._known), newest)
            self._world.check(through_ms, history.rows, self._known.get(said_by.attempt, set()))


def received_of(found: Sequence[Any]) -> ReceivedReports:
    received = ReceivedReports()
    for each in found:
        received.add(each)
    return received


def _read(
    found: Sequence[Any], from_ms: int | None, expected: ExpectedReports | None
) -> tuple[ReceivedReports, Ledger]:
    received, ledger = ReceivedReports(expected), Ledger(io.BytesIO())
    for item in found:
        received.add(item)
        if isinstance(item, AuditReport) and (from_ms is None or item.start_ms >= from_ms):
            ledger.add(item)
    return received, ledger


def _count_of(where: TopicPartition, events: Sequence[Any], start: int) -> Count:
    return Count(
        where,
        np.array([event.stamped_us for event in events], np.int64),
        np.array([event.number for event in events], np.uint64),
        Places(np.arange(start, start + len(events), dtype=np.int64), np.zeros(len(events), np.int32)),
    )
