"""The table reports that were received: which counts of tables hold, and what is unknown of them."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.audit.table_report import CommitKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kafka2011.audit.compare import Counted
    from kafka2011.audit.table_report import CommitPart, ListedCommit, TableReport
    from zk.cluster import TopicPartition

    Commits = dict[tuple[int, str], ListedCommit]


class TableMark(NamedTuple):
    """How far a tier's table had come at an audit, and the names of what was removed from it by then."""

    table: str
    number: int
    attempt: str
    removals: tuple[str, ...] = ()


class TableUnknown(NamedTuple):
    """What is unknown of a table, and the name that an operator may accept to end it; empty if there is none."""

    why: str
    accept: str = ""


@dataclass(slots=True)
class ReportedTables:
    """The reports of all tables that one tier has loaded one topic into, in any order, and more than once."""

    tier: str
    _reports: dict[str, dict[int, TableReport]] = field(default_factory=lambda: defaultdict(dict))
    """By table and sequence."""
    _parts: dict[CommitKey, dict[int, tuple[int, int | None]]] = field(default_factory=lambda: defaultdict(dict))
    """By commit and number of the part: its window, and that of the part before."""

    def add(self, report: TableReport) -> None:
        """Add a table report; of two with one number, as after a ZooKeeper that went back, the later one stays."""
        known = self._reports[report.table].get(report.sequence)
        if known is None or (known.generation, known.at_ms) <= (report.generation, report.at_ms):
            self._reports[report.table][report.sequence] = report

    def add_part(self, part: CommitPart, start_ms: int) -> None:
        """Add that a part of a commit's counts was received, of the window that begins then."""
        self._parts[part.commit][part.number] = (start_ms, part.before_ms)

    @property
    def is_reported(self) -> bool:
        """Whether any table was reported: then nothing else is believed of the tier."""
        return bool(self._reports)

    @property
    def homes(self) -> set[str]:
        """The clusters that tables were reported to."""
        return {report.home for reports in self._reports.values() for report in reports.values()}

    @property
    def last_sequence(self) -> int:
        """The largest sequence of all reports, 0 without any."""
        return max((sequence for reports in self._reports.values() for sequence in reports), default=0)

    def generations(self) -> dict[str, int]:
        """Return the largest generation in the reports of each table."""
        return {table: max(each.generation for each in self.reports(table)) for table in self._reports}

    def last_said(self) -> dict[str, int]:
        """Return when each table was last reported, by ZooKeeper's clock."""
        return {table: max(each.at_ms for each in self.reports(table)) for table in self._reports}

    def names(self) -> set[str]:
        """Return the names that may be accepted: tables, and what is doubtful of them."""
        doubts = {
            doubt.name for reports in self._reports.values() for report in reports.values() for doubt in report.doubts
        }
        return {*self._reports, *doubts}

    def rivals(self, accepted: Mapping[str, int]) -> list[str]:
        """Return the tables that report as this tier at once, sorted: one, unless a name is used twice.

        A table whose name was accepted since its newest report counts no more.
        """
        newest = {table: self._newest_of(table) for table in self._reports}
        heard = [report for report in newest.values() if accepted.get(report.table, -1) < report.at_ms]
        generation = max((report.generation for report in heard), default=0)
        return sorted(report.table for report in heard if report.generation == generation)

    def newest(self, accepted: Mapping[str, int]) -> TableReport | None:
        """Return the newest report of the tier's table; None without any, or where several tables claim the tier."""
        rivals = self.rivals(accepted)
        return self._newest_of(rivals[0]) if len(rivals) == 1 else None

    def reports(self, table: str) -> list[TableReport]:
        """Return all reports of a table."""
        return list(self._reports[table].values())

    def unknowns(self, accepted: Mapping[str, int], from_ms: int | None, margin_ms: int) -> Iterator[TableUnknown]:
        """Yield what is unknown of the counts of events published at `from_ms` or later (None: ever)."""
        newest, rivals = self.newest(accepted), self.rivals(accepted)
        if newest is None and rivals:
            yield TableUnknown(f"tables {' and '.join(rivals)} report as tier {self.tier} at once", rivals[0])
        elif newest is None:
            yield TableUnknown(f"no table is expected to report as tier {self.tier}")
        if newest is None:
            return
        for doubt in newest.doubts:
            if doubt.name not in accepted and (from_ms is None or from_ms < doubt.until_ms + margin_ms):
                yield TableUnknown(f"table {newest.table}: {doubt.why}", doubt.name)
        lost = self.missing(newest, from_ms)
        if lost:
            are_missing = "report of its commits is missing" if lost == 1 else "reports of its commits are missing"
            yield TableUnknown(f"table {newest.table}: {lost} {are_missing}")

    def missing(self, newest: TableReport, from_ms: int | None) -> int:
        """Return how many reports are missing that may count events published at `from_ms` or later.

        One that says what became of a commit counts too.
        """
        line, is_whole = self._line(newest)
        lost = sum(self._missing_of(newest.table, commit, from_ms) for commit in line.values())
        if not is_whole:
            first = min((number for number, _ in line), default=0)
            lost += sum(
                from_ms is None or max(start_ms for start_ms, _ in parts.values()) >= from_ms
                for key, parts in self._parts.items()
                if key.table == newest.table and key.number < first
            )
        return lost

    def live(self, newest: TableReport) -> set[CommitKey]:
        """Return the commits whose counts hold: those that the newest report names, and those that led to them."""
        line, _ = self._line(newest)
        return {CommitKey(newest.table, *place) for place in line}

    def has_gone_back(self, mark: TableMark, accepted: Mapping[str, int]) -> bool:
        """Say whether what counted at an earlier audit may count no more."""
        if not self._reports:
            return False
        newest = self.newest(accepted)
        if newest is None or newest.table != mark.table:
            return True
        line, _ = self._line(newest)
        removals = {doubt.name for doubt in newest.doubts if doubt.is_removal}
        return (mark.number, mark.attempt) not in line or not removals <= set(mark.removals)

    def mark(self, accepted: Mapping[str, int]) -> TableMark | None:
        """Return how far the table has come; None where that is unknown, or it has no commit."""
        newest = self.newest(accepted)
        if newest is None or not newest.commits:
            return None
        removals = tuple(doubt.name for doubt in newest.doubts if doubt.is_removal)
        return TableMark(newest.table, newest.commits[0].number, newest.commits[0].attempt, removals)

    def _newest_of(self, table: str) -> TableReport:
        reports = self._reports[table]
        return reports[max(reports)]

    def _line(self, newest: TableReport) -> tuple[Commits, bool]:
        """Return the commits that led to the newest one, and whether the first of them is known."""
        before: dict[tuple[int, str], tuple[int, str] | None] = {}
        commits: Commits = {}
        for report in self._reports[newest.table].values():
            places = [(commit.number, commit.attempt) for commit in report.commits]
            commits.update(zip(places, report.commits, strict=True))
            before.update(itertools.pairwise(places))
            if places and report.is_whole:
                before[places[-1]] = None
        line: Commits = {}
        place = (newest.commits[0].number, newest.commits[0].attempt) if newest.commits else None
        while place is not None and place not in line:
            line[place] = commits[place]
            if place not in before:
                return line, False
            place = before[place]
        return line, True

    def _missing_of(self, table: str, commit: ListedCommit, from_ms: int | None) -> int:
        """Return how many parts of a commit are missing that may be of windows from a time on."""
        if from_ms is not None and (commit.last_ms is None or commit.last_ms < from_ms):
            return 0
        parts = self._parts.get(CommitKey(table, commit.number, commit.attempt), {})
        if from_ms is None:
            return commit.parts - sum(number < commit.parts for number in parts)
        number = commit.parts - 1
        while number >= 0 and number in parts:
            start_ms, before_ms = parts[number]
            if start_ms < from_ms or before_ms is None or before_ms < from_ms:
                return 0
            number -= 1
        return 1 if number >= 0 else 0


def belief_of(
    every: Mapping[tuple[str, str], ReportedTables], accepted: Mapping[str, int]
) -> Callable[[Counted], bool]:
    """Return what says whether a report counts, given the tables of tiers, by topic and tier."""
    rules: dict[tuple[str, str], tuple[set[CommitKey], dict[TopicPartition, int]]] = {}
    for place, tables in every.items():
        if tables.is_reported:
            newest = tables.newest(accepted)
            earlier = {} if newest is None else {reported.where: reported.end for reported in newest.earlier}
            rules[place] = (set() if newest is None else tables.live(newest), earlier)

    def is_believed(counted: Counted) -> bool:
        if (counted.topic, counted.tier) not in rules:
            return counted.commit is None
        live, earlier = rules[counted.topic, counted.tier]
        if counted.commit is not None:
            return counted.commit in live
        return counted.where is not None and counted.last_offset < earlier.get(counted.where, 0)

    return is_believed
