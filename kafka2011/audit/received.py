"""Holds the reports received from all instances, in any order; `unknowns` says what they leave unknown. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Protocol

from kafka2011.audit.instance_reports import InstanceReports
from kafka2011.audit.progress_report import Acceptance, ProgressReport
from kafka2011.audit.report import AUDIT_TOPIC, AuditReport
from kafka2011.audit.reported_tables import ReportedTables, belief_of
from kafka2011.audit.scan import REMOVED
from kafka2011.audit.table_report import TableReport

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from kafka2011.audit.compare import Counted
    from kafka2011.audit.reported_tables import TableMark
    from kafka2011.audit.scan import Unknown

ReaderPlace = tuple[str, str]
"""The name that a reader gives to the cluster that it reads from, empty if it reports there; and where it reports."""


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
        """Say whether a declared source is known to have reported on a topic."""

    def unmatched(self, topics: Collection[str]) -> list[str]:
        """Return the patterns that none of the topics matches."""

    def unknowns(self, topic: str, received: ReceivedReports) -> Iterable[Unknown]:
        """Return what is declared for a topic and has not reported."""


_Said = dict[tuple[str, int], ProgressReport]
"""Progress reports about the partitions of one topic in one cluster, by instance and number."""


class ReceivedReports:
    """Collects the numbers of all reports, progress and acceptances; `add` them in any order, also repeatedly.

    Without `expected`, only who has reported is judged.
    """

    def __init__(self, expected: Expected | None = None) -> None:
        self.expected = expected
        self._instances: dict[str, dict[tuple[str, str], InstanceReports]] = defaultdict(
            dict
        )  # by topic; tier and instance
        self._readers: dict[tuple[str, str], dict[ReaderPlace, _Said]] = defaultdict(dict)  # by topic and tier
        self._copies: dict[str, _Said] = {}  # by the home cluster of the copied reports
        self.accepted: dict[str, int] = {}
        """By name, up to when an operator accepted what was said."""
        self._tables: dict[tuple[str, str], ReportedTables] = {}  # by topic and tier

    def add(self, report: AuditReport | ProgressReport | Acceptance | TableReport) -> None:
        """Add a report or acceptance."""
        if isinstance(report, Acceptance):
            self.accepted[report.accepted] = max(report.at_ms, self.accepted.get(report.accepted, report.at_ms))
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
            said = self._copies.setdefault(report.copies, {})
        elif report.through_ms is None:
            said = self._readers[report.topic, report.tier].setdefault((report.cluster, report.home), {})
        else:
            return
        said[report.instance, report.number] = report

    @property
    def topics(self) -> set[str]:
        """Return all topics that reports name, except the topic audit itself."""
        return (self._instances.keys() | {topic for topic, _ in self._tables}) - {AUDIT_TOPIC}

    def tables_of(self, topic: str, tier: str) -> ReportedTables:
        """Return what was received of the tables that a tier has loaded a topic into."""
        return self._tables.get((topic, tier)) or ReportedTables(tier)

    def belief(self) -> Callable[[Counted], bool]:
        """Return what says whether a report counts, by all that was received until now.

        Reports of a tier that reports its table count while their commit is in the table, as its newest report says.
        """
        return belief_of(self._tables, self.accepted)

    def marks(self) -> dict[tuple[str, str], TableMark]:
        """Return how far each table has come, by topic and tier."""
        found = ((place, tables.mark(self.accepted)) for place, tables in self._tables.items())
        return {place: mark for place, mark in found if mark is not None}

    def gone_back(self, marks: Mapping[tuple[str, str], TableMark]) -> list[str]:
        """Return the tiers in which something may count no more that did when these marks were made."""
        found = ((place[1], self.tables_of(*place), mark) for place, mark in marks.items())
        return sorted(tier for tier, tables, mark in found if tables.has_gone_back(mark, self.accepted))

    def tiers_of(self, topic: str) -> list[str]:
        """Return the tiers that reported on a topic, sorted."""
        return sorted(
            {reports.tier for reports in self.instances_of(topic)} | {tier for of, tier in self._tables if of == topic}
        )

    @property
    def homes(self) -> set[str]:
        """The ids of the clusters that reports were published to first."""
        of_tables = {home for tables in self._tables.values() for home in tables.homes}
        return of_tables | {reports.home for every in self._instances.values() for reports in every.values()}

    @property
    def copied(self) -> dict[str, set[str]]:
        """The names that mirrors give to the clusters whose reports they copy, by their ids."""
        return {home: {progress.cluster for progress in said.values()} for home, said in self._copies.items()}

    def sources_of(self, topic: str) -> set[tuple[str, str]]:
        """Return the tiers that publish a topic, each with the id of a cluster that it reports to."""
        return {(reports.tier, reports.home) for reports in self.instances_of(topic) if reports.is_source}

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
        of_readers = [said for readers in self._readers.values() for said in readers.values()]
        of_readers += self._copies.values()
        partitions = {
            str(partition_ends.where)
            for said in of_readers
            for progress_report in said.values()
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
        said += [(home, each.at_ms) for home, of_home in self._copies.items() for each in of_home.values()]
        last: dict[str, int] = {}
        for name, at_ms in said:
            last[name] = max(at_ms, last.get(name, at_ms))
        return last

    def is_counted(self, topic: str) -> bool:
        """Say whether any source, such as a producer, has reported on a topic."""
        return any(reports.is_source for reports in self.instances_of(topic))

    def lost_reports(self, topic: str, tier: str, from_ms: int | None = None) -> int:
        """Return how many numbers of a tier's instances are missing in a topic."""
        tables = self._tables.get((topic, tier))
        newest = None if tables is None else tables.newest(self.accepted)
        of_table = 0 if tables is None or newest is None else tables.missing(newest, from_ms)
        return of_table + sum(reports.missing(from_ms) for reports in self.instances_of(topic) if reports.tier == tier)

    # What they leave unknown is found by these -----------------------------------------------------------------------

    @property
    def copies(self) -> Mapping[str, Collection[ProgressReport]]:
        """What mirrors say of the reports that they copy, by the id of the cluster that these come from."""
        return {home: said.values() for home, said in self._copies.items()}

    def readers(self, topic: str) -> dict[str, dict[ReaderPlace, Collection[ProgressReport]]]:
        """Return what the tiers that read a topic say of its partitions, by tier and by where each reads."""
        return {
            tier: {place: said.values() for place, said in readers.items()}
            for (of, tier), readers in self._readers.items()
            if of == topic
        }

    def tables(self, topic: str) -> dict[str, ReportedTables]:
        """Return what was received of the tables that a topic is loaded into, by tier."""
        return {tier: tables for (of, tier), tables in self._tables.items() if of == topic}

    def instances_of(self, topic: str) -> list[InstanceReports]:
        """Return the reports of each instance about a topic."""
        return list(self._instances.get(topic, {}).values())

    def instance_of(self, progress: ProgressReport) -> InstanceReports:
        """Return the reports of the instance that has made a progress report, about the same topic."""
        return self._instances[progress.topic][progress.tier, progress.instance]

    # Inside ----------------------------------------------------------------------------------------------------------

    def _table(self, report: AuditReport | TableReport) -> ReportedTables:
        return self._tables.setdefault((report.topic, report.tier), ReportedTables(report.tier))
