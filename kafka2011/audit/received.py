"""The reports received from all instances, and what they leave unknown.

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
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from kafka2011.audit.instance_reports import InstanceReports, ReportedOffsets
from kafka2011.audit.progress_report import Acceptance, ProgressReport
from kafka2011.audit.put_back import before_put_back
from kafka2011.audit.reads import ClusterReads, PassedOffsets, Read
from kafka2011.audit.report import AUDIT_TOPIC, AuditReport
from kafka2011.audit.reported_tables import ReportedTables, belief_of
from kafka2011.audit.table_report import TableReport

Said = TypeVar("Said", ProgressReport, TableReport)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from kafka2011.audit.compare import Counted
    from kafka2011.audit.progress_report import Ends
    from kafka2011.audit.reported_tables import TableMark
    from zk.cluster import TopicPartition

DEFAULT_MARGIN_MS = 60_000
DEFAULT_DEAD_AFTER_MS = 3_600_000
DEFAULT_FLUSH_MS = 10_000
"""Brokers flush every three seconds unless told otherwise, and at once where somebody waits to read."""
REMOVED = "removed reports"
"""The name that an operator accepts when reports were deleted from the topic audit before they were read."""
AGAIN_MS = 1_800_000
"""How far back complete windows are checked again: an instance whose clock is behind may be discovered late."""


_NOT_READ = "tier {tier} has not said that it has read all of topic {topic}{where}"


class Unknown(NamedTuple):
    """Why events published at `since_ms` or later (None: any events) cannot be judged.

    `accept` is the name that an operator may accept to end it; empty if only time or a repair ends it.
    """

    since_ms: int | None
    why: str
    accept: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditScan:
    """One scan of the topic audit: begun at `at_ms`, up to the ends of all partitions that could be read.

    That is the earlier of two times: by the clock of who scans, and by the cluster's ZooKeeper, which is `clock_ms`.
    `home` is the id of the cluster. `faults` say what could not be read. Reports of instances that last reported more
    than half an hour before `since_ms` may have been deleted; None: none were.
    """

    at_ms: int
    clock_ms: int | None = None
    home: str = ""
    faults: tuple[str, ...] = ()
    since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """How far apart clocks may be, and how long an instance may be silent before it counts as dead.

    Among times of one ZooKeeper only `flush_ms` matters, the time until what was sent can be read, and never more than
    the margin.
    """

    margin_ms: int = DEFAULT_MARGIN_MS
    dead_after_ms: int = DEFAULT_DEAD_AFTER_MS
    flush_ms: int = DEFAULT_FLUSH_MS

    @property
    def visible_ms(self) -> int:
        """How long it may take, by one clock, until what was sent can be read."""
        return min(self.flush_ms, self.margin_ms)


DEFAULT_RULES = Rules()


class Expected(Protocol):
    """What should report, as far as it is declared; `expected.ExpectedReports` is one."""

    @property
    def sources(self) -> Collection[str]:
        """The names of the tiers that publish events, and read none."""

    def topics(self, chosen: Collection[str], received: ReceivedReports) -> list[str]:
        """Return the declared topics among those chosen or, if there are none, those that exist or are reported on."""

    def tiers_of(self, topic: str) -> list[str]:
        """Return the names of the tiers that a topic passes, in order."""

    def was_counted(self, topic: str) -> bool:
        """Say whether a declared source has ever reported on a topic, as far as that is known."""

    def unmatched(self, topics: Collection[str]) -> list[str]:
        """Return the patterns that none of the topics matches."""

    def unknowns(self, topic: str, received: ReceivedReports) -> Iterable[Unknown]:
        """Return what is declared for a topic and has not reported."""


_Place = tuple[str, str]
"""The name that a reader gives to the cluster that it reads from, empty if it reports there; and where it reports."""


@dataclass(slots=True)
class _Reader:
    """A tier's progress reports about the partitions of one topic in one cluster."""

    progress_reports: dict[tuple[str, int], ProgressReport] = field(default_factory=dict)


class ReceivedReports:
    """The numbers of all reports, all progress and acceptances; `add` them in any order, repeatedly too.

    Without `expected`, only who has reported is judged.
    """

    def __init__(self, expected: Expected | None = None) -> None:
        self.expected = expected
        self._instances: dict[str, dict[tuple[str, str], InstanceReports]] = defaultdict(
            dict
        )  # by topic; tier and instance
        self._readers: dict[tuple[str, str], dict[_Place, _Reader]] = defaultdict(dict)  # by topic and tier
        self._copies: dict[str, _Reader] = {}  # by the home cluster of the copied reports
        self._accepted: dict[str, int] = {}
        self._tables: dict[tuple[str, str], ReportedTables] = {}  # by topic and tier

    def add(self, report: AuditReport | ProgressReport | Acceptance | TableReport) -> None:
        """Add a report or acceptance."""
        if isinstance(report, Acceptance):
            self._accepted[report.accepted] = max(report.at_ms, self._accepted.get(report.accepted, report.at_ms))
            return
        if isinstance(report, TableReport):
            self._table(report).add(report)
            return
        if isinstance(report, AuditReport) and report.part is not None:
            self._table(report).add_part(report.part, report.start_ms)
            return
        reports = self._instances[report.topic].setdefault(
            (report.tier, report.instance), InstanceReports(report.tier, report.instance)
        )
        if isinstance(report, AuditReport):
            reports.add_report(report)
            return
        reports.add_progress_report(report)
        if report.copies:
            reader = self._copies.setdefault(report.copies, _Reader())
        elif report.through_ms is None:
            reader = self._readers[report.topic, report.tier].setdefault((report.cluster, report.home), _Reader())
        else:
            return
        reader.progress_reports[report.instance, report.number] = report

    @property
    def topics(self) -> set[str]:
        """All topics in reports, except the topic audit itself."""
        return (self._instances.keys() | {topic for topic, _ in self._tables}) - {AUDIT_TOPIC}

    def tables_of(self, topic: str, tier: str) -> ReportedTables:
        """Return what was received of the tables that a tier has loaded a topic into."""
        return self._tables.get((topic, tier)) or ReportedTables(tier)

    def belief(self) -> Callable[[Counted], bool]:
        """Return what says whether a report counts, by all that was received until now.

        Reports of a tier that reports its table count while their commit is in the table, as its newest report says.
        """
        return belief_of(self._tables, self._accepted)

    def marks(self) -> dict[tuple[str, str], TableMark]:
        """Return how far each table has come, by topic and tier."""
        found = ((place, tables.mark(self._accepted)) for place, tables in self._tables.items())
        return {place: mark for place, mark in found if mark is not None}

    def gone_back(self, marks: Mapping[tuple[str, str], TableMark]) -> list[str]:
        """Return the tiers in which something may count no more that did when these marks were made."""
        found = ((place[1], self.tables_of(*place), mark) for place, mark in marks.items())
        return sorted(tier for tier, tables, mark in found if tables.has_gone_back(mark, self._accepted))

    def tiers_of(self, topic: str) -> list[str]:
        """Return the tiers that reported on a topic, sorted."""
        return sorted(
            {reports.tier for reports in self._of(topic)} | {tier for of, tier in self._tables if of == topic}
        )

    @property
    def homes(self) -> set[str]:
        """The ids of the clusters that reports were published to first."""
        of_tables = {home for tables in self._tables.values() for home in tables.homes}
        return of_tables | {reports.home for every in self._instances.values() for reports in every.values()}

    @property
    def copied(self) -> dict[str, set[str]]:
        """The names that mirrors give to the clusters whose reports they copy, by their ids."""
        return {
            home: {progress.cluster for progress in reader.progress_reports.values()}
            for home, reader in self._copies.items()
        }

    def sources_of(self, topic: str) -> set[tuple[str, str]]:
        """Return the tiers that publish a topic, each with the id of a cluster that it reports to."""
        return {(reports.tier, reports.home) for reports in self._of(topic) if reports.is_source}

    def readers_of(self, topic: str) -> dict[str, set[tuple[str, str]]]:
        """Return the tiers that read a topic: the name that each gives to a cluster, and the id of where it reports."""
        found = {tier: set(readers) for (name, tier), readers in self._readers.items() if name == topic}
        for (name, tier), tables in self._tables.items():
            if name == topic and tables.is_reported:
                found[tier] = {("", home) for home in tables.homes}
        return found

    def names(self) -> set[str]:
        """Return the names that may be accepted: instances, partitions, and clusters whose reports come by a mirror."""
        instances = {reports.instance for every in self._instances.values() for reports in every.values()}
        homes = self.homes | self._copies.keys()
        readers = [reader for by_cluster in self._readers.values() for reader in by_cluster.values()] + list(
            self._copies.values()
        )
        partitions = {
            str(partition_ends.where)
            for reader in readers
            for progress_report in reader.progress_reports.values()
            for partition_ends in progress_report.ends
        }
        tables = {name for tables in self._tables.values() for name in tables.names()}
        return instances | homes | partitions | tables | {REMOVED}

    def last_said(self) -> dict[str, int]:
        """Return when instances, and mirrors of clusters, last reported their progress, by their own clocks, by name.

        An operator who accepts one accepts what was said until then, whatever clock he has.
        """
        said = [
            (reports.instance, reports.last_ms)
            for every in self._instances.values()
            for reports in every.values()
            if reports.last_ms is not None
        ]
        said += [entry for tables in self._tables.values() for entry in tables.last_said().items()]
        said += [
            (home, each.at_ms) for home, reader in self._copies.items() for each in reader.progress_reports.values()
        ]
        last: dict[str, int] = {}
        for name, at_ms in said:
            last[name] = max(at_ms, last.get(name, at_ms))
        return last

    def is_counted(self, topic: str) -> bool:
        """Say whether any source, such as a producer, has reported on a topic."""
        return any(reports.is_source for reports in self._of(topic))

    def lost_reports(self, topic: str, tier: str, from_ms: int | None = None) -> int:
        """Return how many numbers of a tier's instances are missing in a topic."""
        tables = self._tables.get((topic, tier))
        newest = None if tables is None else tables.newest(self._accepted)
        of_table = 0 if tables is None or newest is None else tables.missing(newest, from_ms)
        return of_table + sum(reports.missing(from_ms) for reports in self._of(topic) if reports.tier == tier)

    def unknowns(
        self,
        topic: str,
        tiers: Iterable[str],
        scan: AuditScan,
        from_ms: int | None = None,
        rules: Rules = DEFAULT_RULES,
    ) -> list[Unknown]:
        """Return what is unknown about a topic in some tiers, for events published at `from_ms` or later."""
        if from_ms is None:
            from_ms = scan.since_ms
        return [
            *self._of_scan(scan, from_ms, rules),
            *self._of_copies(topic, scan, rules),
            *self._of_sources(topic, scan, from_ms, rules),
            *(
                unknown
                for tier in tiers
                if self.expected is None or tier in self.tiers_of(topic)  # else that is said with its cluster
                for unknown in self.unknowns_of_tier(topic, tier, scan, rules, from_ms)
            ),
            *(() if self.expected is None else self.expected.unknowns(topic, self)),
        ]

    def reads_of(self, topic: str, scan: AuditScan, rules: Rules = DEFAULT_RULES) -> list[ClusterReads]:
        """Return what each tier has read of a topic in each cluster, as reports prove by now."""
        ids = {name: home for home, names in self.copied.items() for name in names}
        found: list[ClusterReads] = []
        for (of_topic, tier), readers in self._readers.items():
            if of_topic == topic:
                for (name, home), reader in readers.items():
                    progress_reports = self._told(reader.progress_reports.values(), scan, rules)
                    reads = map(PassedOffsets(progress_reports).read_of, self._reached(progress_reports))
                    found.append(ClusterReads(tier, ids.get(name, "") if name else home, home, reads))
        for (of_topic, tier), tables in self._tables.items():
            if of_topic == topic:
                reached = self._of_table(tables, scan, rules)
                for home in tables.homes:
                    of_home = (report for report in reached if report.home == home)
                    every = [Read(_at(report), report.clock_ms or 0) for report in of_home]
                    found.append(ClusterReads(tier, home, home, every))
        return found

    # Inside ----------------------------------------------------------------------------------------------------------

    def _table(self, report: AuditReport | TableReport) -> ReportedTables:
        return self._tables.setdefault((report.topic, report.tier), ReportedTables(report.tier))

    def _of(self, topic: str) -> list[InstanceReports]:
        return list(self._instances.get(topic, {}).values())

    def _of_scan(self, scan: AuditScan, from_ms: int | None, rules: Rules) -> Iterator[Unknown]:
        """Yield the unknowns of (a) about the cluster itself."""
        for fault in scan.faults:
            yield Unknown(None, fault)
        if scan.since_ms is not None and from_ms is not None and from_ms < scan.since_ms:
            oldest_ms = scan.since_ms - AGAIN_MS
            if self._accepted.get(REMOVED, oldest_ms - 1) < oldest_ms:
                yield Unknown(None, "reports were removed before they were read", REMOVED)
        yield Unknown(scan.at_ms - rules.margin_ms, "the topic audit was read then")

    def _of_copies(self, topic: str, scan: AuditScan, rules: Rules) -> Iterator[Unknown]:
        """Yield the unknowns of (a) about clusters whose reports come by a mirror."""
        homes = {reports.home for reports in self._of(topic) if reports.home} | self._copies.keys()
        homes |= {home for (of, _), tables in self._tables.items() if of == topic for home in tables.homes}
        for home in sorted(homes - {scan.home}):
            reader = self._copies.get(home)
            if reader is None:
                yield Unknown(None, f"reports of cluster {home} come by no mirror that says so", home)
                continue
            if self._has_ended(home, reader):
                continue
            copied_ms = self._copied_ms(home, scan, rules)
            why = f"reports of cluster {home} are copied by a mirror"
            if before_put_back(reader.progress_reports.values(), self._accepted.get(home)).is_put_back:
                why = f"the topic audit of cluster {home} was put back, and reports may be lost with it"
            yield Unknown(None if copied_ms is None else copied_ms - rules.margin_ms, why, home)

    def _of_sources(self, topic: str, scan: AuditScan, from_ms: int | None, rules: Rules) -> Iterator[Unknown]:
        """Yield the unknowns of (b)."""
        sources = [reports for reports in self._of(topic) if reports.is_source]
        followed = frozenset[str]().union(*(reports.follows for reports in sources))
        for reports in sources:
            if reports.instance in followed:
                continue  # its successor sends and reports again whatever it has not reported
            last_ms = -1 if reports.last_ms is None else reports.last_ms
            if self._accepted.get(reports.instance, last_ms - 1) >= last_ms:
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
                elif scan.at_ms - last_ms > rules.dead_after_ms:
                    why = "died"
                else:
                    why = "has said nothing since"
                yield Unknown(through_ms, f"{reports.instance} {why}", reports.instance)

    def unknowns_of_tier(
        self, topic: str, tier: str, scan: AuditScan, rules: Rules = DEFAULT_RULES, from_ms: int | None = None
    ) -> list[Unknown]:
        """Return only what is unknown about a tier's reading: messages missing before them are lost."""
        if from_ms is None:
            from_ms = scan.since_ms
        if self.tables_of(topic, tier).is_reported:
            read = self._of_table(self.tables_of(topic, tier), scan, rules)
            read_ms = max(map(_at, read), default=None)
            until_ms = None if read_ms is None else read_ms - rules.margin_ms
            not_read = Unknown(until_ms, _NOT_READ.format(tier=tier, topic=topic, where=""))
            return [*self.unknowns_of_table(topic, tier, rules, from_ms), not_read]
        if any(reports.is_source for reports in self._of(topic) if reports.tier == tier):
            return []
        readers = self._readers.get((topic, tier))
        if not readers:
            return [Unknown(None, f"tier {tier} has said nothing of topic {topic}")]
        return list(self._of_readers(topic, tier, readers, scan, rules))

    def _of_readers(
        self, topic: str, tier: str, readers: Mapping[_Place, _Reader], scan: AuditScan, rules: Rules
    ) -> Iterator[Unknown]:
        """Yield the unknowns of (c)."""
        for (name, home), reader in sorted(readers.items()):
            cluster = name or (home if len(readers) > 1 else "")
            read_ms = max(
                map(_at, self._reached(self._told(reader.progress_reports.values(), scan, rules))), default=None
            )
            where = f" in {cluster}" if cluster else ""
            why = _NOT_READ.format(tier=tier, topic=topic, where=where)
            yield Unknown(None if read_ms is None else read_ms - rules.margin_ms, why)

    def _has_ended(self, home: str, reader: _Reader) -> bool:
        """Say whether it was accepted that no more reports of a cluster come."""
        newest_ms = max(progress.at_ms for progress in reader.progress_reports.values())
        return self._accepted.get(home, newest_ms - 1) >= newest_ms

    def _copied_ms(self, home: str, scan: AuditScan, rules: Rules, seen: frozenset[str] = frozenset()) -> int | None:
        """Return the time as of which all reports of another cluster are copied; None if there is none."""
        reader = self._copies.get(home)
        if reader is None or home in seen:
            return None
        every = self._told(reader.progress_reports.values(), scan, rules, seen | {home})
        told = before_put_back(every, self._accepted.get(home))
        return max(map(_at, self._reached(told.progress_reports)), default=None)

    def _told(
        self, every: Collection[Said], scan: AuditScan, rules: Rules, seen: frozenset[str] = frozenset()
    ) -> list[Said]:
        """Return what was said a margin before a scan: what it speaks of was on its way, or in partitions just read.

        What was said in another cluster has to be as much older than what is copied from there.
        """
        until: dict[str, int | None] = {}
        for home in {progress.home for progress in every} - {scan.home, ""}:
            has_ended = home in self._copies and self._has_ended(home, self._copies[home])
            until[home] = scan.at_ms if has_ended else self._copied_ms(home, scan, rules, seen)
        return [progress for progress in every if _is_older(progress, scan, until, rules)]

    def unknowns_of_table(
        self, topic: str, tier: str, rules: Rules = DEFAULT_RULES, from_ms: int | None = None
    ) -> list[Unknown]:
        """Return what is unknown about the table that a tier reports: of its counts, not how far it has read."""
        tables = self.tables_of(topic, tier)
        if not tables.is_reported:
            return []
        found = tables.unknowns(self._accepted, from_ms, rules.margin_ms)
        return [Unknown(None, unknown.why, unknown.accept) for unknown in found]

    def _of_table(self, tables: ReportedTables, scan: AuditScan, rules: Rules) -> list[TableReport]:
        """Return the reports of a tier's table that name ends of all partitions up to which it has read by now."""
        newest = tables.newest(self._accepted)
        if newest is None:
            return []
        told = self._told(tables.reports(newest.table), scan, rules)
        named = {ends.where for report in told for ends in report.ends}
        wanted = {where for where in named if str(where) not in self._accepted}
        reached = {reported.where: reported.end for reported in newest.reported}
        return [report for report in told if _is_reached(report, wanted, reached)]

    def _reached(self, progress_reports: Sequence[ProgressReport]) -> list[ProgressReport]:
        """Return those that name ends of all partitions up to which everything is reported by now."""
        spans: dict[TopicPartition, ReportedOffsets] = defaultdict(ReportedOffsets)
        named: set[TopicPartition] = set()
        for progress in progress_reports:
            named.update(ends.where for ends in progress.ends)
            named.update(reported.where for reported in progress.reported)
            reports = self._instances[progress.topic][progress.tier, progress.instance]
            is_proven = bool(progress.reported) and reports.has_all(progress.first, progress.number)
            for reported in progress.reported:
                spans[reported.where].add(reported, is_proven=is_proven)
        accepted = {where for where in named if str(where) in self._accepted}
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
