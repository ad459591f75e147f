"""Which table may report as a tier, and in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from deltalake import write_deltalake

from kafka2011.audit.reported_tables import ReportedTables
from kafka2011.audit.table_report import ListedCommit, TableReport
from kafka2011.warehouse.errors import TierTakenError
from kafka2011.warehouse.loading.table_reports import (
    TierHolder,
    TimedEnds,
    commits_since,
    counts_of,
    joined,
    report_of,
    seen_in,
    unpublished_of,
)
from kafka2011.warehouse.table.counts_store import CountsStore
from kafka2011.warehouse.table.topic_table import TopicTable
from tests.support.counted_loads import load_counted
from tests.support.tables import FIRST_MS, PARTITION, TOPIC
from zk.audit import TierClaim

if TYPE_CHECKING:
    from pathlib import Path


def reported(table: str, generation: int, sequence: int) -> ReportedTables:
    tables = ReportedTables("load")
    tables.add(
        TableReport(tier="load", topic=TOPIC, table=table, generation=generation, sequence=sequence, at_ms=sequence)
    )
    return tables


def test_each_claim_has_the_next_sequence() -> None:
    """Also after a ZooKeeper that has lost the claim, or gone back to an older one."""
    holder = TierHolder(TOPIC, "load")
    first = holder.claim(None, "one")
    assert (first.table, first.generation, first.sequence, first.version) == ("one", 1, 1, -1)
    assert holder.claim(first._replace(version=0, sequence=7), "one") == first._replace(version=0, sequence=8)
    holder.note(reported("one", 1, 20), is_all=True)
    assert holder.claim(None, "one").sequence == 21
    assert holder.claim(first._replace(sequence=7), "one").sequence == 21


def test_another_table_of_that_name_is_refused() -> None:
    """Whether ZooKeeper says so or only reports do; both are named, and what to do."""
    holder = TierHolder(TOPIC, "load")
    words = "table one reports as tier load of the audit, and this one is two.*--audit-replaces one"
    with pytest.raises(TierTakenError, match=words):
        holder.claim(TierClaim("one", 1, 5), "two")
    holder.note(reported("one", 1, 20), is_all=True)
    with pytest.raises(TierTakenError, match=words):
        holder.claim(None, "two")
    with pytest.raises(TierTakenError, match="this one is new"):
        holder.check("one", None)
    holder.check("one", "one")


def test_a_table_that_takes_the_place_of_another_outranks_it() -> None:
    """For good: the option may stay, and the other one is refused from then on."""
    holder = TierHolder(TOPIC, "load", replaces="one")
    taken = holder.claim(TierClaim("one", 3, 5, 9, "a9", 4), "two")
    assert taken == TierClaim("two", 4, 6, version=4)
    assert holder.claim(taken._replace(version=5), "two").generation == 4
    with pytest.raises(TierTakenError):
        TierHolder(TOPIC, "load").claim(taken, "one")


def test_nobody_reports_before_all_reports_were_read_once() -> None:
    """What could not be read may have a larger sequence."""
    holder = TierHolder(TOPIC, "load")
    holder.note(reported("one", 1, 20), is_all=False)
    assert not holder.is_informed
    holder.note(reported("one", 1, 20), is_all=True)
    assert holder.is_informed


def test_what_was_not_published_is_published_from_the_table(tmp_path: Path) -> None:
    """All that came behind the commit of the claim, or all, where the table does not have that one."""
    table = TopicTable(tmp_path, TOPIC)
    commits = [load_counted(table, [FIRST_MS + number]) for number in range(3)]
    history = table.seen()
    assert history is not None
    second, newest = commits[1], commits[2]
    claims = {
        TierClaim("one", number=3, attempt=newest.attempt): [],
        TierClaim("one", number=2, attempt=second.attempt): [3],
        TierClaim("one", number=2, attempt="of another copy"): [1, 2, 3],
        TierClaim("one", number=9, attempt="rolled back"): [1, 2, 3],
        TierClaim("one"): [1, 2, 3],
    }
    for claim, numbers in claims.items():
        since = commits_since(history, newest, claim)
        assert [commit.number for commit in unpublished_of(since, claim)] == numbers
    store = CountsStore(table.files, table.path)
    [[report]] = counts_of(second, "one", "load", lambda file: store.read(file, TOPIC))
    assert report.part is not None
    assert (report.part.commit, report.count, report.where) == (("one", 2, second.attempt), 1, PARTITION)


def test_a_table_report_lists_all_that_was_not_reported(tmp_path: Path) -> None:
    """However many: what it does not name is joined by no older report."""
    table = TopicTable(tmp_path, TOPIC)
    commits = [load_counted(table, [FIRST_MS]) for _ in range(10)]
    history = table.seen()
    assert history is not None
    holder, seen = TierHolder(TOPIC, "load"), seen_in(history, 0)
    assert len(seen.line.commits) == 8
    claim = holder.claim(None, history.table_id)
    seen = seen._replace(line=joined(seen.line, commits_since(history, seen.newest, claim)))
    ends = TimedEnds(5, {PARTITION: 1000}, (10, commits[-1].attempt))
    said = report_of(holder, history, seen, claim, ends)
    assert said.commits[-1] == ListedCommit(1, commits[0].attempt, 1, FIRST_MS)
    assert (len(said.commits), said.is_whole, said.reported) == (10, True, ((PARTITION, 0, 1000),))
    assert (said.ends_at_ms, said.ends) == (5, ((PARTITION, 0, 1000),))


def test_nothing_counts_of_a_table_that_nobody_understands(tmp_path: Path) -> None:
    """Such as one that another tool has written to."""
    table = TopicTable(tmp_path, TOPIC)
    load_counted(table, [FIRST_MS])
    delta = table.delta()
    write_deltalake(table.path, delta.to_pyarrow_dataset().head(1), mode="append")
    history = table.seen()
    assert history is not None
    seen = seen_in(history, 7)
    assert (seen.newest, seen.line.commits, len(seen.line.removals)) == (None, (), 1)
