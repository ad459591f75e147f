"""Reports of tables: what a loader states of the commits in its table's history, after them and never before.

The counts of a commit are written with it, to files of the table, and published once it is there. They name the commit.
A *table report* then names the commits whose rows are in the newest snapshot of the table. A commit's counts hold while
the newest report of the table names that commit, directly or through older reports: each lists a few commits, newest
first, and so which commit came after which.

    report 7 of the table: 12 11 10      report 6: 11 10 9      report 5: 10 9 8, which is the first

A commit has a number and an attempt. A table that was restored from an older copy uses numbers again, never attempts.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kafka2011.audit.progress_report import Ends, Reported

LISTED_COMMITS = 8
"""How many commits a table report lists: it is joined to older ones though some of those were lost."""
_NAMESPACE = uuid.UUID("5c8d0c0e-6a0b-4f0e-9d0f-2f0a4f3c7a11")


class CommitKey(NamedTuple):
    """One commit of the table with this id."""

    table: str
    number: int
    attempt: str


class CommitPart(NamedTuple):
    """The place of a report among those of its commit, which are in the order of their windows.

    `number` counts from 0; `before_ms` is the window of the part before, None for the first.
    """

    commit: CommitKey
    number: int
    before_ms: int | None


class ListedCommit(NamedTuple):
    """A commit as a table report names it, with the number of its parts and the window of the last one."""

    number: int
    attempt: str
    parts: int = 0
    last_ms: int | None = None


class TableDoubt(NamedTuple):
    """Rows that the table may have or lack without a count, all of events published before `until_ms`.

    `name` is what an operator may accept. `is_removal`: rows were removed that earlier reports counted.
    """

    name: str
    until_ms: int
    why: str
    is_removal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReport:
    """What a loader states of its table, at `at_ms` by ZooKeeper's clock, in the order of `sequence`.

    `generation` grows each time that another table takes over the tier. `commits` are the newest ones in the table;
    with `is_whole`, nothing came before the last of them. The table has read each partition up to the offset in
    `reported`; up to those in `earlier` a release counted that did not name commits. Partitions ended at `ends` when
    they were looked up, at `ends_at_ms`. `clock_ms` is as in other reports.
    """

    tier: str
    topic: str
    table: str
    generation: int
    sequence: int
    at_ms: int
    home: str = ""
    version: int = 0
    commits: tuple[ListedCommit, ...] = ()
    is_whole: bool = True
    doubts: tuple[TableDoubt, ...] = ()
    reported: tuple[Reported, ...] = ()
    earlier: tuple[Reported, ...] = ()
    ends_at_ms: int | None = None
    ends: tuple[Ends, ...] = ()
    clock_ms: int | None = None
    report_id: str = field(default_factory=lambda: str(uuid.uuid4()))


def part_id(tier: str, topic: str, commit: CommitKey, number: int) -> str:
    """Return the id of the report of a part, which is the same however often it is published."""
    return str(uuid.uuid5(_NAMESPACE, "/".join((tier, topic, *map(str, commit), str(number)))))
