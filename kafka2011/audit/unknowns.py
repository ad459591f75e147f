"""Finds what the reports that were received leave unknown, as of one scan. Pure.

A tier has every event of a topic published before T when it lacks nothing that producers have counted, and none of
these is unknown:

    a   the topic audit was read to its ends as of R, and T is at least a margin before R. Reports of another
        cluster's instances arrive by a mirror, so the mirror's progress counts: "copied to its ends of R"
    b   every instance that has begun is through T or has closed, and none of its numbers is missing
    c   every partition that the tier reads from is reported to its end as of a time R, a margin after T

Each unknown holds from some time on. The margin allows for clocks that differ and brokers that flush late; an instance
whose clock is further off is discovered only when its reports are read, and may then undo an earlier result.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, TypeVar

from kafka2011.audit.instance_reports import ReportedOffsets
from kafka2011.audit.progress_report import ProgressReport
from kafka2011.audit.put_back import before_put_back
from kafka2011.audit.reads import ClusterReads, PassedOffsets, Read
from kafka2011.audit.scan import AGAIN_MS, DEFAULT_RULES, REMOVED, Unknown
from kafka2011.audit.table_report import TableReport

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from kafka2011.audit.progress_report import Ends
    from kafka2011.audit.received import ReaderPlace, ReceivedReports
    from kafka2011.audit.reported_tables import ReportedTables
    from kafka2011.audit.scan import AuditScan, Rules
    from zk.cluster import TopicPartition

_Said = TypeVar("_Said", ProgressReport, TableReport)
_NOT_READ = "tier {tier} has not said that it has read all of topic {topic}{where}"


class Unknowns:
    """Says what is unknown of topics, by the reports that a scan has received and by rules."""

    def __init__(self, received: ReceivedReports, scan: AuditScan, rules: Rules = DEFAULT_RULES) -> None:
        self._received = received
        self._scan = scan
        self._rules = rules

    def of_topic(self, topic: str, tiers: Iterable[str], from_ms: int | None = None) -> list[Unknown]:
        """Return what is unknown about a topic in some tiers, for events published at `from_ms` or later."""
        received = self._received
        if from_ms is None:
            from_ms = self._scan.since_ms
        return [
            *self._of_scan(from_ms),
            *self._of_copies(topic),
            *self._of_sources(topic, from_ms),
            *(
                unknown
                for tier in tiers
                if received.expected is None or tier in received.tiers_of(topic)  # else that is said with its cluster
                for unknown in self.of_tier(topic, tier, from_ms)
            ),
            *(() if received.expected is None else received.expected.unknowns(topic, received)),
        ]

    def of_tier(self, topic: str, tier: str, from_ms: int | None = None) -> list[Unknown]:
        """Return only what is unknown about a tier's reading: messages missing before them are lost."""
        received = self._received
        if from_ms is None:
            from_ms = self._scan.since_ms
        tables = received.tables_of(topic, tier)
        if tables.is_reported:
            read_ms = max(map(_at, self._of_table(tables)), default=None)
            not_read = Unknown(self._margin_before(read_ms), _NOT_READ.format(tier=tier, topic=topic, where=""))
            return [*self.of_table(topic, tier, from_ms), not_read]
        if any(reports.is_source for reports in received.instances_of(topic) if reports.tier == tier):
            return []
        readers = received.readers(topic).get(tier)
        if not readers:
            return [Unknown(None, f"tier {tier} has said nothing of topic {topic}")]
        return list(self._of_readers(topic, tier, readers))

    def of_table(self, topic: str, tier: str, from_ms: int | None = None) -> list[Unknown]:
        """Return what is unknown about the table that a tier reports: of its counts, not how far it has read."""
        tables = self._received.tables_of(topic, tier)
        if not tables.is_reported:
            return []
        found = tables.unknowns(self._received.accepted, from_ms, self._rules.margin_ms)
        return [Unknown(None, unknown.why, unknown.accept) for unknown in found]

    def reads_of(self, topic: str) -> list[ClusterReads]:
        """Return what each tier has read of a topic in each cluster, as reports prove by now."""
        received = self._received
        ids = {name: home for home, names in received.copied.items() for name in names}
        found: list[ClusterReads] = []
        for tier, readers in received.readers(topic).items():
            for (name, home), said in readers.items():
                progress_reports = self._told(said)
                reads = map(PassedOffsets(progress_reports).read_of, self._reached(progress_reports))
                found.append(ClusterReads(tier, ids.get(name, "") if name else home, home, reads))
        for tier, tables in received.tables(topic).items():
            reached = self._of_table(tables)
            for home in tables.homes:
                of_home = (report for report in reached if report.home == home)
                every = [Read(_at(report), report.clock_ms or 0) for report in of_home]
                found.append(ClusterReads(tier, home, home, every))
        return found

    # Inside ----------------------------------------------------------------------------------------------------------

    def _margin_before(self, at_ms: int | None) -> int | None:
        return None if at_ms is None else at_ms - self._rules.margin_ms

    def _of_scan(self, from_ms: int | None) -> Iterator[Unknown]:
        """Yield the unknowns of (a) about the cluster itself."""
        scan = self._scan
        for fault in scan.faults:
            yield Unknown(None, fault)
        if scan.since_ms is not None and from_ms is not None and from_ms < scan.since_ms:
            oldest_ms = scan.since_ms - AGAIN_MS
            if self._received.accepted.get(REMOVED, oldest_ms - 1) < oldest_ms:
                yield Unknown(None, "reports were removed before they were read", REMOVED)
        yield Unknown(scan.at_ms - self._rules.margin_ms, "the topic audit was read then")

    def _of_copies(self, topic: str) -> Iterator[Unknown]:
        """Yield the unknowns of (a) about clusters whose reports come by a mirror."""
        received, scan = self._received, self._scan
        homes = {reports.home for reports in received.instances_of(topic) if reports.home} | received.copies.keys()
        homes |= {home for tables in received.tables(topic).values() for home in tables.homes}
        for home in sorted(homes - {scan.home}):
            if home not in received.copies:
                yield Unknown(None, f"reports of cluster {home} come by no mirror that says so", home)
                continue
            if self._has_ended(home):
                continue
            copied_ms = self._copied_ms(home)
            why = f"reports of cluster {home} are copied by a mirror"
            if before_put_back(received.copies[home], received.accepted.get(home)).is_put_back:
                why = f"the topic audit of cluster {home} was put back, and reports may be lost with it"
            yield Unknown(self._margin_before(copied_ms), why, home)

    def _of_sources(self, topic: str, from_ms: int | None) -> Iterator[Unknown]:
        """Yield the unknowns of (b)."""
        accepted, silent_since_ms = self._received.accepted, self._scan.at_ms - self._rules.dead_after_ms
        sources = [reports for reports in self._received.instances_of(topic) if reports.is_source]
        followed = frozenset[str]().union(*(reports.follows for reports in sources))
        for reports in sources:
            if reports.instance in followed:
                continue  # its successor sends and reports again whatever it has not reported
            last_ms = -1 if reports.last_ms is None else reports.last_ms
            if accepted.get(reports.instance, last_ms - 1) >= last_ms:
                continue
            if not reports.is_numbered:
                yield Unknown(None, f"{reports.instance} does not number its reports", reports.instance)
            elif not reports.has_closed(from_ms):
                through_ms = reports.through_ms(from_ms)
                if through_ms is None and reports.first_ms is not None:  # its `begun` was not read, and may be earlier
                    through_ms = reports.first_ms - AGAIN_MS
                lost = reports.missing(from_ms)
                if lost:
                    why = f"{lost} of its reports are missing"
                elif last_ms < silent_since_ms:
                    why = "died"
                else:
                    why = "has said nothing since"
                yield Unknown(through_ms, f"{reports.instance} {why}", reports.instance)

    def _of_readers(
        self, topic: str, tier: str, readers: Mapping[ReaderPlace, Collection[ProgressReport]]
    ) -> Iterator[Unknown]:
        """Yield the unknowns of (c)."""
        for (name, home), said in sorted(readers.items(), key=lambda reader: reader[0]):
            cluster = name or (home if len(readers) > 1 else "")
            read_ms = max(map(_at, self._reached(self._told(said))), default=None)
            where = f" in {cluster}" if cluster else ""
            yield Unknown(self._margin_before(read_ms), _NOT_READ.format(tier=tier, topic=topic, where=where))

    def _has_ended(self, home: str) -> bool:
        """Say whether it was accepted that no more reports of a cluster come."""
        newest_ms = max(progress.at_ms for progress in self._received.copies[home])
        return self._received.accepted.get(home, newest_ms - 1) >= newest_ms

    def _copied_ms(self, home: str, seen: frozenset[str] = frozenset()) -> int | None:
        """Return the time as of which all reports of another cluster are copied; None if there is none."""
        if home not in self._received.copies or home in seen:
            return None
        every = self._told(self._received.copies[home], seen | {home})
        told = before_put_back(every, self._received.accepted.get(home))
        return max(map(_at, self._reached(told.progress_reports)), default=None)

    def _told(self, every: Collection[_Said], seen: frozenset[str] = frozenset()) -> list[_Said]:
        """Return what was said a margin before the scan: what it speaks of was on its way, or in partitions just read.

        What was said in another cluster has to be as much older than what is copied from there.
        """
        until: dict[str, int | None] = {}
        for home in {progress.home for progress in every} - {self._scan.home, ""}:
            has_ended = home in self._received.copies and self._has_ended(home)
            until[home] = self._scan.at_ms if has_ended else self._copied_ms(home, seen)
        return [progress for progress in every if _is_older(progress, self._scan, until, self._rules)]

    def _of_table(self, tables: ReportedTables) -> list[TableReport]:
        """Return the reports of a tier's table that name ends of all partitions up to which it has read by now."""
        accepted = self._received.accepted
        newest = tables.newest(accepted)
        if newest is None:
            return []
        told = self._told(tables.reports(newest.table))
        named = {ends.where for report in told for ends in report.ends}
        wanted = {where for where in named if str(where) not in accepted}
        reached = {reported.where: reported.end for reported in newest.reported}
        return [report for report in told if _is_reached(report, wanted, reached)]

    def _reached(self, progress_reports: Collection[ProgressReport]) -> list[ProgressReport]:
        """Return those that name ends of all partitions up to which everything is reported by now."""
        spans: dict[TopicPartition, ReportedOffsets] = defaultdict(ReportedOffsets)
        named: set[TopicPartition] = set()
        for progress in progress_reports:
            named.update(ends.where for ends in progress.ends)
            named.update(reported.where for reported in progress.reported)
            reports = self._received.instance_of(progress)
            is_proven = bool(progress.reported) and reports.has_all(progress.first, progress.number)
            for reported in progress.reported:
                spans[reported.where].add(reported, is_proven=is_proven)
        accepted = {where for where in named if str(where) in self._received.accepted}
        reached = {where: offsets.end(skips_gaps=where in accepted) for where, offsets in spans.items()}
        wanted = named - accepted
        return [progress for progress in progress_reports if _is_reached(progress, wanted, reached)]


def _is_reached(
    progress_report: ProgressReport | TableReport,
    wanted: Iterable[TopicPartition],
    reached: Mapping[TopicPartition, int],
) -> bool:
    """Say whether all partitions were reported to the ends that a progress report names."""
    if progress_report.ends_at_ms is None:
        return False
    ends = {partition_ends.where: partition_ends for partition_ends in progress_report.ends}
    return all(where in ends and _is_all(ends[where], reached.get(where, 0)) for where in wanted)


def _is_all(ends: Ends, reached: int) -> bool:
    return ends.end is not None and (ends.end == ends.start or reached >= ends.end)


def _is_older(
    progress: ProgressReport | TableReport, scan: AuditScan, until: Mapping[str, int | None], rules: Rules
) -> bool:
    """Say whether it was said a margin before a scan, or `until` when its home is copied.

    That is by the same ZooKeeper's time, if it is known.
    """
    if progress.home in until:
        until_ms = until[progress.home]
        if until_ms is None or progress.clock_ms is None:
            return until_ms is not None and progress.at_ms <= until_ms - rules.margin_ms
        return progress.clock_ms <= until_ms - rules.visible_ms
    if progress.clock_ms is not None and scan.clock_ms is not None:
        return progress.clock_ms <= scan.clock_ms - rules.visible_ms
    return progress.at_ms <= scan.at_ms - rules.margin_ms


def _at(progress_report: ProgressReport | TableReport) -> int:
    assert progress_report.ends_at_ms is not None
    return progress_report.ends_at_ms
