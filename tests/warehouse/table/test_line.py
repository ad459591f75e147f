"""Which commits have their rows in a table, as its log says, whatever was done to it."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.loading.row_counts import count_rows
from kafka2011.warehouse.table.cleaning import ORPHAN_LIFETIME_S, clean
from kafka2011.warehouse.table.commits import WATERMARK, Commit, unpublished
from kafka2011.warehouse.table.compaction import compact
from kafka2011.warehouse.table.counts_store import CountsStore
from kafka2011.warehouse.table.forgetting import summary_of
from kafka2011.warehouse.table.line import complete_before, line_of
from kafka2011.warehouse.table.status import status_of
from kafka2011.warehouse.table.swapping import swap
from kafka2011.warehouse.table.topic_table import TopicTable
from tests.support.counted_loads import load_counted
from tests.support.tables import FIRST_MS, PARTITION, TOPIC, commit_of, load, staged

if TYPE_CHECKING:
    from kafka2011.warehouse.table.counted import Line

NOW_MS = 5_000
OLD_S = ORPHAN_LIFETIME_S + 60


@pytest.fixture
def table(tmp_path: Path) -> TopicTable:
    """Give a table of three counted commits, of the versions 1 to 3, complete through 10, 20 and 30 ms."""
    table = TopicTable(tmp_path / "warehouse", TOPIC)
    for number in range(1, 4):
        load_counted(table, [FIRST_MS], number - 1, complete_through_ms=10 * number)
    return table


def line(table: TopicTable) -> Line:
    history = table.seen()
    assert history is not None
    return line_of(history, NOW_MS)


def numbers(table: TopicTable) -> list[int]:
    return [commit.number for commit in line(table).commits]


def complete_through(table: TopicTable) -> int | None:
    [status] = status_of(table.warehouse, [TOPIC])
    newest = table.newest()
    assert status.complete_through_ms == complete_before(newest, line(table))
    return status.complete_through_ms


def age(table: TopicTable) -> None:
    when = time.time() - OLD_S
    for path in Path(table.path).rglob("*"):
        os.utime(path, (when, when))


def test_a_line_has_all_commits_and_nothing_is_doubtful(table: TopicTable) -> None:
    """Each with the number of its reports; a compaction changes nothing."""
    before = line(table)
    assert (numbers(table), before.is_whole, before.doubts) == ([3, 2, 1], True, ())
    assert [(commit.parts, commit.last_ms) for commit in before.commits] == [(1, FIRST_MS)] * 3
    assert compact(table).files_before == 3
    assert line(table) == replace(before, version=4)
    assert complete_through(table) == 30


def test_a_line_goes_on_through_many_commits(table: TopicTable) -> None:
    """It lists the newest ones, and says that more came before."""
    for _ in range(7):
        load_counted(table, [FIRST_MS])
    assert (numbers(table), line(table).is_whole) == ([10, 9, 8, 7, 6, 5, 4, 3], False)


def test_few_entries_are_read_behind_a_counted_commit(table: TopicTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit knows what came before it."""
    read: list[str] = []
    real = table.files.read

    def counted(path: str) -> bytes:
        read.append(Path(path).name)
        return real(path)

    history = table.seen()
    monkeypatch.setattr(table.files, "read", counted)
    assert history is not None
    line_of(history, NOW_MS)
    assert read == [f"{3:020d}.json"]


def test_a_restore_takes_commits_out_and_brings_them_back(table: TopicTable) -> None:
    """Before and after somebody has said how loading goes on."""
    table.delta().restore(1)
    assert numbers(table) == [1]
    table.delta().restore(3)
    assert numbers(table) == [3, 2, 1]
    table.delta().restore(2)
    table.settle_rollback(again=False)
    assert numbers(table) == [4, 2, 1]
    load_counted(table, [FIRST_MS])
    assert (numbers(table), line(table).doubts) == ([5, 4, 2, 1], ())


def test_rows_that_others_delete_are_doubtful(table: TopicTable) -> None:
    """Of all events that it has counted, and those published by now; the table is no longer complete."""
    table.delta().delete("kafka2011_offset < 100")
    [doubt] = line(table).doubts
    assert (doubt.until_ms, doubt.is_removal, doubt.why) == (FIRST_MS, True, "DELETE has removed rows in its version 4")
    assert complete_through(table) is None
    load_counted(table, [FIRST_MS])
    assert [each.name for each in line(table).doubts] == [doubt.name]
    assert complete_through(table) is None
    load_counted(table, [FIRST_MS], complete_through_ms=40)
    assert complete_through(table) == 40


def test_a_deletion_between_a_look_and_its_commit_is_seen(table: TopicTable) -> None:
    """The commit says which version its line describes; what came behind that is read."""
    history = table.seen()
    assert history is not None
    known = line_of(history, NOW_MS)
    newest = table.newest()
    assert newest is not None
    assert newest.counts is not None
    staging = staged(table, 4, [FIRST_MS], 3)
    table.delta().delete("kafka2011_offset < 100")
    commit = commit_of(4, 400, start=300, rows=1)
    table.commit(staging, replace(commit, counts=replace(newest.counts, line=known), complete_through_ms=40))
    assert len(line(table).doubts) == 1
    assert complete_through(table) is None


def test_rows_that_nobody_counted_are_doubtful(table: TopicTable) -> None:
    """All that was published before the commit was written, which the next commits repeat."""
    load(table, [FIRST_MS])
    load_counted(table, [FIRST_MS])
    [doubt] = line(table).doubts
    history = table.seen()
    assert history is not None
    assert doubt == (f"{history.table_id}/4", FIRST_MS, "nobody counted the rows of its commit 4", False)
    assert numbers(table) == [5, 4, 3, 2, 1]


def test_a_swap_begins_a_new_line(table: TopicTable) -> None:
    """Of what stood before nothing counts, and nobody counted the rows that are there now."""
    other = TopicTable(table.warehouse, TOPIC, name="again")
    load(other, [FIRST_MS])
    swap(table.warehouse, TOPIC, "again")
    found = line(table)
    assert (numbers(table), found.is_whole, len(found.doubts)) == ([4], True, 1)
    assert complete_through(table) is None
    table.delta().restore(3)
    assert numbers(table) == [3, 2, 1]


def test_a_swap_counts_the_rows_of_the_last_week(table: TopicTable) -> None:
    """In a table that is counted: what older rows are stays unknown."""
    other = TopicTable(table.warehouse, TOPIC, name="again")
    now_ms = int(time.time() * 1000)
    load(other, [now_ms, now_ms])
    swap(table.warehouse, TOPIC, "again", count_rows)
    [swapped] = line(table).commits
    assert (swapped.number, swapped.parts, line(table).doubts) == (4, 1, ())
    newest = table.newest()
    assert newest is not None
    assert newest.counts is not None
    [part] = CountsStore(table.files, table.path).read(newest.counts.files[0], TOPIC)
    assert part.places.offsets.tolist() == [0, 100]
    load(other, [FIRST_MS])
    swap(table.warehouse, TOPIC, "again", count_rows)
    [doubt] = line(table).doubts
    assert (doubt.name.rpartition("/")[2], doubt.is_removal) == ("5", False)
    assert now_ms - 8 * 86_400_000 < doubt.until_ms < now_ms - 6 * 86_400_000


def test_a_swap_counts_nothing_in_a_table_that_is_not_counted(tmp_path: Path) -> None:
    """So it did before there was an audit."""
    table, other = TopicTable(tmp_path, TOPIC), TopicTable(tmp_path, TOPIC, name="again")
    for each in (table, other):
        load(each, [FIRST_MS])
    swap(str(tmp_path), TOPIC, "again", count_rows)
    newest = table.newest()
    assert newest is not None
    assert newest.counts is None


def test_commits_of_earlier_releases_count_as_they_did(tmp_path: Path) -> None:
    """Up to the offsets that the newest one of them had reached; without an audit they were not counted."""
    table = TopicTable(tmp_path, TOPIC)
    commit = commit_of(1, 100, rows=1)
    table.commit(staged(table, 1, [FIRST_MS]), replace(commit, was_counted=True, extra={WATERMARK: {}}))
    load_counted(table, [FIRST_MS])
    found = line(table)
    assert (found.earlier, found.doubts, found.is_whole) == ({PARTITION: 100}, (), False)
    text = (
        commit.to_json().replace('"counts": null', '"other": null').replace('"extra": {}', '"extra": {"seen_ms": {}}')
    )
    assert Commit.from_json(text, "there").was_counted
    assert not Commit.from_json(commit.to_json(), "there").was_counted


def test_a_commit_comes_back_with_its_counts(table: TopicTable) -> None:
    table.delta().delete("kafka2011_offset < 100")
    newest = load_counted(table, [FIRST_MS], 2)
    assert Commit.from_json(newest.to_json(), "there") == newest


def test_a_file_of_counts_that_is_not_the_one_named_is_refused(table: TopicTable) -> None:
    """Damaged, or another one."""
    newest = table.newest()
    assert newest is not None
    assert newest.counts is not None
    [file] = newest.counts.files
    store = CountsStore(table.files, table.path)
    assert [part.places.offsets.tolist() for part in store.read(file, TOPIC)] == [[200]]
    with pytest.raises(WarehouseError, match="not the file of counts that its commit names"):
        store.read(file._replace(digest="0"), TOPIC)
    with pytest.raises(WarehouseError, match="cannot be read"):
        store.read(file._replace(name="missing"), TOPIC)


def test_cleaning_removes_counts_that_were_published_and_those_of_the_dead(table: TopicTable) -> None:
    """Once they are old; what is not published stays, and what a running load may commit."""
    compact(table)  # so that the directories of the commits go as well
    store = CountsStore(table.files, table.path)
    store.write(9, "dead", 0, b"")
    running = table.begin().rpartition("/")[2]
    store.write(9, running, 0, b"")
    clean(table)
    assert len(store.stored()) == 5
    age(table)
    os.utime(f"{table.path}/data/{running}")
    clean(table, older_than_s=-1)
    newest = table.newest()
    assert newest is not None
    assert {(file.number, file.attempt) for file in store.stored()} == {(3, newest.attempt), (9, running)}


def test_cleaning_keeps_counts_while_nobody_says_what_was_published(table: TopicTable) -> None:
    """A load that does not count knows nothing of it."""
    load(table, [FIRST_MS])
    age(table)
    clean(table)
    assert len(CountsStore(table.files, table.path).stored()) == 3


def test_commits_whose_counts_are_not_published_are_kept_when_their_entries_go(table: TopicTable) -> None:
    """So that the next load publishes them."""
    commits = table.commits()
    assert [commit.number for commit in unpublished(commits)] == [3]
    assert [commit.number for commit in summary_of(commits) if commit.counts is not None] == [3]
    load_counted(table, [FIRST_MS], 3)
    assert [commit.number for commit in summary_of(table.commits()) if commit.counts is not None] == [4]
