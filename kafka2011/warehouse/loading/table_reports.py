"""Which table may report as a tier, in which order its reports come, and what they say. Pure.

The tier's claim in ZooKeeper says which table reports as that tier, and orders the table reports. A loader reads the
claim, then the table, and writes the claim as it was read, with the next sequence. So of two reports the one with the
larger sequence has seen the table later, whatever clocks say. ZooKeeper may lose the claim, or go back to an older one,
so what the reports in the topic `audit` say counts as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.audit.counts_file import reports_of, windows_before
from kafka2011.audit.progress_report import Ends, Reported
from kafka2011.audit.table_report import CommitKey, TableDoubt, TableReport
from kafka2011.warehouse.errors import TierTakenError, WarehouseError
from kafka2011.warehouse.table.commits import Operation, since_swap
from kafka2011.warehouse.table.counted import Line
from kafka2011.warehouse.table.line import line_of, listed
from zk.audit import TierClaim

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kafka2011.audit.counts_file import CountedPart
    from kafka2011.audit.report import AuditReport
    from kafka2011.audit.reported_tables import ReportedTables
    from kafka2011.audit.scan import AuditScan
    from kafka2011.audit.table_report import ListedCommit
    from kafka2011.warehouse.table.commits import Commit
    from kafka2011.warehouse.table.counted import CountsFile
    from kafka2011.warehouse.table.line import CommitLog
    from zk.cluster import TopicPartition


class TimedEnds(NamedTuple):
    """Where partitions ended when they were looked up, at a time; None for those whose broker is unavailable.

    A load found nothing to read behind the commit of this number and attempt, `read_by`.
    """

    at_ms: int
    ends: Mapping[TopicPartition, int | None]
    read_by: tuple[int, str] | None = None


class Seen(NamedTuple):
    """What is in a table: its newest commit, and the line that led to it."""

    newest: Commit | None
    line: Line


@dataclass(slots=True)
class TierHolder:
    """Decides which table reports one topic as one tier. `replaces` is the id of a table whose place another takes."""

    topic: str
    tier: str
    replaces: str = ""
    is_informed: bool = False
    """Whether all reports were read that may say which table reports, and what its last sequence is."""
    last_sequence: int = 0
    generations: dict[str, int] = field(default_factory=dict)
    """By table, the largest generation that was read."""

    def note(self, tables: ReportedTables, *, is_all: bool) -> None:
        """Take note of reports that were read, of all there are or not."""
        self.is_informed |= is_all
        self.last_sequence = max(self.last_sequence, tables.last_sequence)
        for table, generation in tables.generations().items():
            self.generations[table] = max(generation, self.generations.get(table, 0))

    def check(self, claimed: str, table_id: str | None) -> None:
        """Raise TierTakenError where another table than this one, None for one that is not there yet, has the tier."""
        if claimed in {table_id, self.replaces}:
            return
        raise TierTakenError(
            f"topic {self.topic}: table {claimed} reports as tier {self.tier} of the audit, and this one is"
            f" {table_id or 'new'}. Give this one another name with --audit; or, if it takes the place of that table,"
            f" say so with --audit-replaces {claimed}"
        )

    def claim(self, known: TierClaim | None, table_id: str) -> TierClaim:
        """Return the claim to write in place of one, with the next sequence. Raises TierTakenError."""
        claim = TierClaim(table_id, 0) if known is None else known
        own = self.generations.get(table_id, 0)
        others = {table: generation for table, generation in self.generations.items() if table != table_id}
        if claim.table == table_id:
            own = max(own, claim.generation)
        else:
            others[claim.table] = max(claim.generation, others.get(claim.table, 0))
        rival = max(others, key=lambda table: others[table], default="")
        if rival and others[rival] >= own:
            self.check(rival, table_id)
            own = others[rival] + 1
        if claim.table != table_id:
            claim = TierClaim(table_id, own, claim.sequence, version=claim.version)
        sequence = max(claim.sequence, self.last_sequence) + 1
        return claim._replace(generation=max(own, 1), sequence=sequence)


def seen_in(history: CommitLog, now_ms: int) -> Seen:
    """Return what is in a table: where nobody knows, nothing but that doubt."""
    try:
        return Seen(history.present(), line_of(history, now_ms))
    except WarehouseError as error:
        why = str(error).partition(": ")[2] or str(error)
        doubt = TableDoubt(f"{history.table_id}@{history.version}", now_ms, why, is_removal=True)
        return Seen(None, Line(doubts=(doubt,)))


def commits_since(history: CommitLog, newest: Commit | None, claim: TierClaim) -> Sequence[Commit]:
    """Return the commits in a table from the one on whose counts a claim says were the last to be published."""
    if newest is None or (newest.number, newest.attempt) == (claim.number, claim.attempt):
        return ()
    commits = history.commits(after=claim.number - 1) if claim.number else ()
    if not commits or (commits[0].number, commits[0].attempt) != (claim.number, claim.attempt):
        commits = history.commits()
    return since_swap(commits)


def unpublished_of(commits: Sequence[Commit], claim: TierClaim) -> list[Commit]:
    """Return those of the commits since a claim whose counts are to be published."""
    return [
        commit
        for commit in commits
        if commit.counts is not None
        and commit.counts.files
        and (commit.number, commit.attempt) != (claim.number, claim.attempt)
    ]


def joined(line: Line, commits: Sequence[Commit]) -> Line:
    """Return a line that lists all commits since the last that was reported, so that it is joined to older reports."""
    if len(commits) <= len(line.commits):
        return line
    known = [commit for commit in commits if commit.operation is not Operation.FORGOTTEN]
    is_whole = known[0].number == 1 or known[0].operation is Operation.SWAP
    return replace(line, commits=tuple(map(listed, reversed(known))), is_whole=is_whole)


def counts_of(
    commit: Commit, table_id: str, tier: str, read: Callable[[CountsFile], list[CountedPart]]
) -> Iterator[list[AuditReport]]:
    """Yield the reports of each file of a commit's counts. Raises what `read` raises."""
    assert commit.counts is not None
    files, key = commit.counts.files, CommitKey(table_id, commit.number, commit.attempt)
    first = read(files[0])
    windows = [[part.start_ms for part in (read(file) if place else first)] for place, file in enumerate(files)]
    for place, numbers in enumerate(windows_before(windows)):
        yield reports_of(read(files[place]) if place else first, numbers, tier, key)


def report_of(
    holder: TierHolder, history: CommitLog, seen: Seen, claim: TierClaim, timed_ends: TimedEnds | None = None
) -> TableReport:
    """Return what a loader states of its table, but for when and to which cluster."""
    ends = {} if timed_ends is None else timed_ends.ends
    offsets: dict[TopicPartition, int] = {}
    if seen.newest is not None:
        if timed_ends is not None and timed_ends.read_by == (seen.newest.number, seen.newest.attempt):
            offsets.update((where, end) for where, end in ends.items() if end is not None)
        offsets.update(seen.newest.offsets)
    return TableReport(
        tier=holder.tier,
        topic=holder.topic,
        table=history.table_id,
        generation=claim.generation,
        sequence=claim.sequence,
        at_ms=0,
        version=history.version,
        commits=seen.line.commits,
        is_whole=seen.line.is_whole,
        doubts=seen.line.doubts,
        reported=tuple(Reported(where, 0, end) for where, end in sorted(offsets.items())),
        earlier=tuple(Reported(where, 0, end) for where, end in sorted(seen.line.earlier.items())),
        ends_at_ms=timed_ends.at_ms if timed_ends is not None and ends else None,
        ends=tuple(Ends(where, None if end is None else 0, end) for where, end in sorted(ends.items())),
    )


def as_committed(
    tables: ReportedTables,
    holder: TierHolder,
    table_id: str,
    line: Line,
    commit: ListedCommit | None,
    scan: AuditScan,
) -> TableReport:
    """Return what a table would report behind the reports of a scan, once a commit is there, if there is one.

    It is for the loader alone, who has the counts of that commit.
    """
    generations = tables.generations()
    after = line if commit is None else line.followed_by(commit)
    return TableReport(
        tier=holder.tier,
        topic=holder.topic,
        table=table_id,
        generation=generations.get(table_id, max(generations.values(), default=0) + 1),
        sequence=tables.last_sequence + 1,
        at_ms=scan.at_ms,
        home=scan.home,
        commits=after.commits,
        is_whole=after.is_whole,
        doubts=after.doubts,
        earlier=tuple(Reported(where, 0, end) for where, end in sorted(after.earlier.items())),
    )
