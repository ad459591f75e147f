"""A cleaning beside loads and compactions: whatever age is asked for, no row that was committed is removed."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import CommitProperties

from kafka2011.warehouse.errors import GivenUpError, WarehouseError
from kafka2011.warehouse.table import compaction
from kafka2011.warehouse.table.cleaning import RUNNING_S, clean
from kafka2011.warehouse.table.compaction import compact
from kafka2011.warehouse.table.topic_table import TopicTable
from tests.support.tables import FIRST_MS, TOPIC, commit_of, load, offsets_in, staged

if TYPE_CHECKING:
    from collections.abc import Callable

COMMITS = 40
TIMEOUT_S = 60


@pytest.fixture
def table(tmp_path: Path) -> TopicTable:
    """Give a table of two loads."""
    table = TopicTable(tmp_path, TOPIC)
    for _ in range(2):
        load(table, [FIRST_MS])
    return table


def another(table: TopicTable) -> TopicTable:
    """Return the same table, as another process has it."""
    return TopicTable(table.warehouse, TOPIC)


def clean_all(table: TopicTable) -> int:
    """Clean without regard to anything that may run; return how many files went."""
    return clean(another(table), older_than_s=-1, at_rest=True).files


def age(directory: str, old_s: float) -> None:
    when = time.time() - old_s
    for path in (Path(directory), *Path(directory).rglob("*")):
        os.utime(path, (when, when))


def before(monkeypatch: pytest.MonkeyPatch, table: TopicTable, method: str, work: Callable[[], object]) -> None:
    """Have something done before the first call of a method."""
    original = getattr(table, method)
    waiting = [work]

    def call(*args: object, **more: object) -> object:
        while waiting:
            waiting.pop()()
        return original(*args, **more)

    monkeypatch.setattr(table, method, call)


def test_a_load_that_was_given_up_does_not_commit(table: TopicTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files were there when it checked, and are removed before its entry; that would name what is not there."""
    staging = staged(table, 3, [FIRST_MS], 2)
    before(monkeypatch, table, "_commit_once", lambda: clean_all(table))
    with pytest.raises(GivenUpError, match="Load again"):
        table.commit(staging, commit_of(3, 300, rows=1))
    assert offsets_in(table) == [0, 100]
    load(table, [FIRST_MS])
    assert offsets_in(table) == [0, 100, 200]


def test_a_cleaning_spares_what_is_committed_meanwhile(table: TopicTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """It saw a table without these files, and reads it again before it removes any."""
    staging = staged(table, 3, [FIRST_MS], 2)
    dead = staged(table, 3, [FIRST_MS], 2)
    cleaner = another(table)
    before(monkeypatch, cleaner, "write_entry", lambda: table.commit(staging, commit_of(3, 300, rows=1)))
    assert clean(cleaner, older_than_s=-1, at_rest=True).files == 1
    assert offsets_in(table) == [0, 100, 200]
    assert not Path(dead).exists()


def test_a_compaction_that_was_given_up_changes_nothing(table: TopicTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it leave its files."""
    before(monkeypatch, table, "write_entry", lambda: clean_all(table))
    with pytest.raises(GivenUpError):
        compact(table)
    assert offsets_in(table) == [0, 100]
    assert len(list(Path(table.path, "data").iterdir())) == 2
    assert compact(table) == compaction.Rewritten(2, 1)


def test_who_was_given_up_stays_so(table: TopicTable) -> None:
    """However many cleanings come after, and where what they said is no longer in the log."""
    first = staged(table, 3, [FIRST_MS], 2)
    files = table.staged(first)
    clean_all(table)
    for _ in range(3):
        staged(table, 3, [FIRST_MS], 2)
        clean_all(table)
    actions = [file.action for file in files]
    with pytest.raises(GivenUpError):
        table.write_entry(table.delta(), actions, CommitProperties(max_commit_retries=0))
    delta = table.delta()
    entries = sorted(Path(table.path, "_delta_log").glob("*.json"))
    holding = [path for path in entries if "kafka2011.given_up" in path.read_text(encoding="utf-8")]
    assert len(holding) == 4
    holding[1].unlink()
    with pytest.raises(GivenUpError):
        table.write_entry(delta, actions, CommitProperties(max_commit_retries=0))


def test_what_runs_is_spared_for_an_hour(table: TopicTable) -> None:
    """All files of an attempt to which something was written in that time, whatever age is asked for."""
    running, long, dead = (staged(table, 3, [FIRST_MS], 2) for _ in range(3))
    empty = table.begin()
    for staging in (long, dead):
        age(staging, RUNNING_S + 60)
    (Path(long) / "date=2011-06-12" / "part-00001.parquet").write_bytes(b"written just now")
    assert clean(table, older_than_s=0).files == 1
    assert [Path(each).exists() for each in (running, long, dead, empty)] == [True, True, False, True]
    table.commit(running, commit_of(3, 300, rows=1))
    assert offsets_in(table) == [0, 100, 200]
    assert clean_all(table) == 2
    assert [Path(each).exists() for each in (long, empty)] == [False, False]


def test_a_cleaning_writes_no_entry_unless_it_gives_up_an_attempt(table: TopicTable) -> None:
    """What a compaction has replaced was committed once, and never will be again."""
    compact(table)
    version = table.delta().version()
    assert clean(table, older_than_s=0).files == 2
    assert clean(table, older_than_s=0).files == 0
    assert table.delta().version() == version


def test_many_commits_beside_continuous_cleaning(table: TopicTable) -> None:
    """Each load tries until it succeeds, as `load --follow` does; every committed row can be read, and no other."""
    ended = threading.Event()
    cleaned: list[int] = []
    failures: list[Exception] = []

    def keep_cleaning() -> None:
        try:
            while not ended.is_set():
                cleaned.append(clean_all(table))
        except Exception as error:  # noqa: BLE001 (the test fails for it)
            failures.append(error)

    cleaner = threading.Thread(target=keep_cleaning)
    cleaner.start()
    try:
        loader, lost, deadline_s = another(table), 0, time.monotonic() + TIMEOUT_S
        while (newest := loader.newest()) is None or newest.number < COMMITS:
            assert time.monotonic() < deadline_s
            try:
                load(loader, [FIRST_MS])
            except (WarehouseError, OSError):
                lost += 1
    finally:
        ended.set()
        cleaner.join(TIMEOUT_S)
    assert failures == []
    assert offsets_in(table) == [100 * number for number in range(COMMITS)]
    assert [file for file in table.paths_in(table.delta()) if not Path(file).exists()] == []
    assert len(cleaned) > 1
