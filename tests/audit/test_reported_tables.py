"""Which counts of tables hold, and what is unknown of them, alone; tests/models/audit tries all of it together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka2011.audit.reported_tables import ReportedTables, TableMark
from kafka2011.audit.table_report import CommitKey, CommitPart, ListedCommit, TableDoubt, TableReport

MARGIN_MS = 100


def listed(*numbers: int, parts: int = 0, last_ms: int | None = None) -> tuple[ListedCommit, ...]:
    return tuple(ListedCommit(number, f"a{number}", parts, last_ms) for number in numbers)


def report(
    sequence: int, *numbers: int, is_whole: bool = False, table: str = "one", generation: int = 1
) -> TableReport:
    return TableReport(
        tier="load",
        topic="views",
        table=table,
        generation=generation,
        sequence=sequence,
        at_ms=1000 + sequence,
        commits=listed(*numbers),
        is_whole=is_whole,
    )


def tables_of(*reports: TableReport) -> ReportedTables:
    tables = ReportedTables("load")
    for each in reversed(reports):  # in any order
        tables.add(each)
    return tables


def live(tables: ReportedTables) -> set[int]:
    newest = tables.newest({})
    assert newest is not None
    return {key.number for key in tables.live(newest)}


def whys(tables: ReportedTables, from_ms: int | None = None, **accepted: int) -> list[str]:
    return [unknown.why for unknown in tables.unknowns(accepted, from_ms, MARGIN_MS)]


def test_commits_are_joined_through_older_reports() -> None:
    """The newest one names few; each report says which commit came after which."""
    tables = tables_of(report(1, 1, is_whole=True), report(2, 2, 1, is_whole=True), report(3, 4, 3, 2))
    assert live(tables) == {1, 2, 3, 4}
    assert whys(tables) == []


def test_commits_that_were_rolled_back_do_not_count() -> None:
    """Nor those of a copy that was replaced by an older one, whose numbers come again."""
    tables = tables_of(report(1, 3, 2, 1, is_whole=True), report(2, 4, 1, is_whole=True))
    assert live(tables) == {1, 4}
    again = replace(report(3, 1, is_whole=True), commits=(ListedCommit(2, "other"), *listed(1)))
    tables.add(again)
    newest = tables.newest({})
    assert newest is not None
    assert tables.live(newest) == {CommitKey("one", 2, "other"), CommitKey("one", 1, "a1")}


def test_what_became_of_a_commit_is_unknown_where_reports_are_missing() -> None:
    """Between the newest report and those that were read."""
    tables = tables_of(report(1, 2, 1, is_whole=True), report(9, 20, 19))
    tables.add_part(CommitPart(CommitKey("one", 2, "a2"), 0, None), 500)
    assert whys(tables) == ["table one: 1 report of its commits is missing"]
    assert whys(tables, from_ms=500) == ["table one: 1 report of its commits is missing"]
    assert whys(tables, from_ms=501) == []


@pytest.mark.parametrize(
    ("parts", "from_ms", "lost"),
    [
        ({0: (10, None), 1: (20, 10), 2: (30, 20)}, None, 0),
        ({0: (10, None), 2: (30, 20)}, None, 1),
        ({0: (10, None), 2: (30, 20)}, 21, 0),  # the missing one is of an earlier window
        ({0: (10, None), 2: (30, 20)}, 20, 1),
        ({0: (10, None), 1: (20, 10)}, 21, 1),
        ({0: (10, None), 1: (20, 10)}, 31, 0),
        ({}, None, 3),
    ],
)
def test_missing_reports_of_a_commit_are_missed(
    parts: dict[int, tuple[int, int | None]], from_ms: int | None, lost: int
) -> None:
    """Those that may count events of the windows that are judged."""
    newest = replace(report(1, is_whole=True), commits=listed(1, parts=3, last_ms=30))
    tables = tables_of(newest)
    for number, (start_ms, before_ms) in parts.items():
        tables.add_part(CommitPart(CommitKey("one", 1, "a1"), number, before_ms), start_ms)
    assert tables.missing(newest, from_ms) == lost


def test_two_tables_of_one_name_are_both_named() -> None:
    """Until one of them takes over, or an operator accepts that one reports no more."""
    tables = tables_of(report(1, 1), report(2, 1, table="two"))
    assert tables.newest({}) is None
    assert whys(tables) == ["tables one and two report as tier load at once"]
    assert whys(tables, one=1001) == []
    tables.add(report(3, 1, table="two", generation=2))
    assert live(tables) == {1}
    assert tables.rivals({}) == ["two"]


def test_what_is_doubtful_is_so_up_to_a_time() -> None:
    """And as long as nobody accepts it."""
    doubtful = replace(report(1, is_whole=True), doubts=(TableDoubt("one@7", 500, "DELETE has removed rows", True),))
    tables = tables_of(doubtful)
    assert whys(tables) == whys(tables, 599) == ["table one: DELETE has removed rows"]
    assert whys(tables, 600) == []
    assert list(tables.unknowns({"one@7": 1}, None, MARGIN_MS)) == []
    assert tables.names() == {"one", "one@7"}


def test_an_audit_notices_that_less_counts_than_before() -> None:
    """Commits that are gone, rows that were removed, another table; not that more has come."""
    mark = TableMark("one", 3, "a3")
    assert not tables_of(report(1, 3, 2), report(2, 4, 3)).has_gone_back(mark, {})
    assert tables_of(report(1, 3, 2), report(2, 4, 2)).has_gone_back(mark, {})
    assert tables_of(report(1, 3), report(2, 3, table="two", generation=2)).has_gone_back(mark, {})
    removed = replace(report(2, 4, 3), doubts=(TableDoubt("one@7", 500, "", True),))
    assert tables_of(removed).has_gone_back(mark, {})
    assert not tables_of(removed).has_gone_back(mark._replace(removals=("one@7",)), {})
    uncounted = replace(report(2, 4, 3), doubts=(TableDoubt("one/4", 500, ""),))
    assert not tables_of(uncounted).has_gone_back(mark, {})
    assert not tables_of().has_gone_back(mark, {})
