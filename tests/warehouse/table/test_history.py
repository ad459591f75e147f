"""Where commits are found in a table's log, whatever others have written there, and after a rollback."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from kafka2011.warehouse.errors import MalformedCommitError, OvertakenError, RolledBackError, WarehouseError
from kafka2011.warehouse.table.commits import Operation
from kafka2011.warehouse.table.compaction import compact
from kafka2011.warehouse.table.history import APPLICATION, COMMIT
from kafka2011.warehouse.table.topic_table import TopicTable
from tests.support.tables import FIRST_MS, TOPIC, commit_of, load, offsets_in, staged

if TYPE_CHECKING:
    from kafka2011.warehouse.table.commits import Commit


@pytest.fixture
def table(tmp_path: Path) -> TopicTable:
    """Give a table of three commits, of the versions 1 to 3, with the offsets 0, 100 and 200."""
    table = TopicTable(tmp_path / "warehouse", TOPIC)
    for _ in range(3):
        load(table, [FIRST_MS])
    return table


def number_and_end(commit: Commit | None) -> tuple[int, int]:
    assert commit is not None
    return commit.number, sum(commit.offsets.values())


def append_foreign(table: TopicTable) -> None:
    """Add rows, as somebody else's tool might."""
    rows = DeltaTable(table.path).to_pyarrow_dataset().head(1)
    write_deltalake(table.path, rows, mode="append")


def forget(table: TopicTable, *versions: int) -> None:
    """Remove entries of the log, which a checkpoint makes up for."""
    table.delta().create_checkpoint()
    for version in versions:
        Path(table.path, "_delta_log", f"{version:020d}.json").unlink()


def test_others_may_rewrite_and_delete_rows(table: TopicTable) -> None:
    """That moves no offset; nor does a change of the table's properties."""
    table.delta().optimize.compact()
    assert number_and_end(table.newest()) == (3, 300)
    table.delta().delete("kafka2011_offset < 200")
    table.delta().delete()
    table.delta().vacuum(0, dry_run=False, enforce_retention_duration=False)
    table.delta().alter.set_table_properties({"owner": "us"}, raise_if_not_exists=False)
    assert number_and_end(table.newest()) == (3, 300)
    load(table, [FIRST_MS])
    assert offsets_in(table) == [300]
    assert [each.number for each in table.commits()] == [1, 2, 3, 4]


def test_the_newest_commit_is_that_of_the_version_that_was_opened(table: TopicTable) -> None:
    """Though others go on: the library's own history goes on with them."""
    opened = table.delta()
    load(table, [FIRST_MS])
    assert number_and_end(table.history(opened).newest()) == (3, 300)
    assert [each.number for each in table.history(opened).commits()] == [1, 2, 3]


def test_few_entries_are_read_to_find_it(table: TopicTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Back to the newest commit, however many there are before, and those of the versions that were newest before."""
    compact(table)
    read: list[str] = []
    real = table.files.read

    def counted(path: str) -> bytes:
        read.append(Path(path).name)
        return real(path)

    monkeypatch.setattr(table.files, "read", counted)
    assert number_and_end(table.newest()) == (3, 300)
    assert read[-2:] == [f"{4:020d}.json", f"{3:020d}.json"]
    assert sorted(read) == [f"{3:020d}.json"] * 2 + [f"{4:020d}.json"] * 2


def test_a_commit_whose_entry_is_gone_is_not_guessed(table: TopicTable) -> None:
    """Its offsets are nowhere else, unless a cleaning has removed the entry."""
    table.delta().optimize.compact()
    forget(table, 0, 1, 2, 3)
    with pytest.raises(WarehouseError, match=r"views.*the entry of commit 3 is no longer in the log"):
        table.newest()


def test_rows_without_offsets_are_fatal(table: TopicTable) -> None:
    """Nobody knows which messages they are. The way out is named, and works."""
    append_foreign(table)
    with pytest.raises(WarehouseError, match=r"views.*version 4 .*rows without offsets.*restore version 3"):
        table.newest()
    with pytest.raises(WarehouseError, match="without offsets"):
        table.commit(staged(table, 4, [FIRST_MS], 3), commit_of(4, 400, rows=1))
    with pytest.raises(WarehouseError, match="without offsets"):
        compact(table)
    table.delta().restore(3)
    assert number_and_end(table.newest()) == (3, 300)
    load(table, [FIRST_MS])
    assert offsets_in(table) == [0, 100, 200, 300]


def test_rows_without_offsets_are_fatal_where_nothing_else_is(tmp_path: Path) -> None:
    """A table that somebody else has filled is none to load into."""
    table = TopicTable(tmp_path, TOPIC)
    write_deltalake(table.path, pa.table({"time": [1], "date": ["2011-06-12"]}), partition_by=["date"])
    with pytest.raises(WarehouseError, match=r"version 0 .*load into another table"):
        table.newest()


def test_what_is_no_commit_is_named(table: TopicTable) -> None:
    """Somebody has written where our commits are."""
    table.delta().create_write_transaction(
        [],
        "append",
        table.delta().schema(),
        ["date"],
        commit_properties=CommitProperties({COMMIT: "{}"}, app_transactions=[Transaction(APPLICATION, 4)]),
    )
    with pytest.raises(MalformedCommitError, match=r"views: version 4 is not what a load writes"):
        table.newest()


def test_an_entry_that_says_nothing_of_itself_is_foreign(table: TopicTable) -> None:
    """The format does not ask it to."""
    entry = Path(table.path, "_delta_log", f"{4:020d}.json")
    entry.write_text(json.dumps({"txn": {"appId": "another", "version": 1}}))
    with pytest.raises(WarehouseError, match="version 4"):
        table.newest()


@pytest.mark.parametrize("content", [b"", b'{"commitInfo": {"opera'])
def test_an_entry_that_a_power_cut_has_emptied_is_refused(table: TopicTable, content: bytes) -> None:
    """In one line that names the table; without it loads go on."""
    entry = Path(table.path, "_delta_log", f"{3:020d}.json")
    entry.write_bytes(content)
    with pytest.raises(WarehouseError, match=r"^topic views, table .*$") as refused:
        table.newest()
    assert "\n" not in str(refused.value)
    entry.unlink()
    load(table, [FIRST_MS])
    assert offsets_in(table) == [0, 100, 200]


def test_a_rollback_is_refused_with_the_ways_on(table: TopicTable) -> None:
    """Loading on could mean two things, and nothing says which; it can be undone."""
    table.delta().restore(1)
    with pytest.raises(RolledBackError, match=r"from commit 3 to 1\..*settle again.*settle skip"):
        table.newest()
    with pytest.raises(RolledBackError):
        table.commit(staged(table, 2, [FIRST_MS], 1), commit_of(2, 200, rows=1))
    table.delta().restore(3)
    assert number_and_end(table.newest()) == (3, 300)
    assert offsets_in(table) == [0, 100, 200]
    assert [each.number for each in table.commits()] == [1, 2, 3]


def test_what_was_rolled_back_can_be_loaded_again(table: TopicTable) -> None:
    """Offsets are those of the version, and no number comes twice."""
    table.delta().restore(1)
    commit = table.settle_rollback(again=True)
    assert (commit.operation, commit.number, commit.replaces) == (Operation.ROLLBACK, 4, (2, 3))
    assert table.newest() == commit
    assert number_and_end(commit) == (4, 100)
    load(table, [FIRST_MS] * 2)
    assert number_and_end(table.newest()) == (5, 300)
    assert offsets_in(table) == [0, 100, 200]
    assert [each.number for each in table.commits()] == [1, 4, 5]


def test_what_was_rolled_back_can_be_left_out(table: TopicTable) -> None:
    """Loading goes on where the last load ended."""
    table.delta().restore(1)
    assert number_and_end(table.settle_rollback(again=False)) == (4, 300)
    load(table, [FIRST_MS])
    assert offsets_in(table) == [0, 300]


def test_only_a_rollback_is_settled_and_only_once(table: TopicTable) -> None:
    """Whoever asks without need is told."""
    with pytest.raises(WarehouseError, match="was not rolled back"):
        table.settle_rollback(again=True)
    table.delta().restore(1)
    table.settle_rollback(again=True)
    with pytest.raises(WarehouseError, match="was not rolled back"):
        table.settle_rollback(again=True)


def test_a_rollback_by_time_or_of_a_rollback_leads_to_the_same(table: TopicTable) -> None:
    """The log says when each version was written, and what a restored one was made of."""
    said = Path(table.path, "_delta_log", f"{2:020d}.json").read_bytes().splitlines()[0]
    moment_ms = json.loads(said)["commitInfo"]["timestamp"]
    table.delta().restore(datetime.fromtimestamp(moment_ms / 1000, UTC))
    with pytest.raises(RolledBackError, match="from commit 3 to 2"):
        table.newest()
    table.delta().restore(1)
    table.delta().alter.set_table_properties({"owner": "us"}, raise_if_not_exists=False)
    table.delta().restore(5)
    with pytest.raises(RolledBackError, match="from commit 3 to 1"):
        table.newest()
    entry = {"timestamp": moment_ms + 999_999, "operation": "RESTORE"}
    for time in (str(moment_ms), f"{moment_ms / 1000:.3f}"):
        restored = entry | {"operationParameters": {"version": None, "timestamp": time}}
        path = Path(table.path, "_delta_log", f"{table.delta().version() + 1:020d}.json")
        path.write_text(json.dumps({"commitInfo": restored}))
        with pytest.raises(WarehouseError, match="from commit 3 to 2" if time.isdecimal() else "do not say which"):
            table.newest()


def test_a_rollback_to_before_the_first_commit_is_one_too(tmp_path: Path) -> None:
    """All that was ever loaded is taken out."""
    table = TopicTable(tmp_path, TOPIC)
    load(table, [FIRST_MS])
    table.delta().restore(0)
    with pytest.raises(RolledBackError, match="from commit 1 to before the first"):
        table.newest()
    commit = table.settle_rollback(again=True)
    assert (commit.number, commit.offsets, commit.replaces) == (2, {}, (1,))


def test_a_loader_that_is_overtaken_by_a_rollback_fails(table: TopicTable) -> None:
    """Its number follows one that is no longer there."""
    table.delta().restore(1)
    table.settle_rollback(again=True)
    with pytest.raises(OvertakenError):
        table.commit(staged(table, 4, [FIRST_MS], 3), commit_of(4, 400, rows=1))
