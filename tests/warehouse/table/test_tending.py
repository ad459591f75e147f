"""Tables stay small while they are loaded, within a share of the time, and no load fails for it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from kafka2011.warehouse.errors import OvertakenError, WarehouseError
from kafka2011.warehouse.table import compaction, tending
from kafka2011.warehouse.table.cleaning import Cleaned
from kafka2011.warehouse.table.compaction import MANY, QUIET_MS, Rewritten, compact_some
from kafka2011.warehouse.table.dataset import live_files
from kafka2011.warehouse.table.tending import CLEAN_EVERY_S, Tending
from kafka2011.warehouse.table.topic_table import TopicTable
from tests.support.clocks import ManualClock
from tests.support.tables import FIRST_MS, HOUR_MS, TOPIC, load, offsets_in

if TYPE_CHECKING:
    from pathlib import Path

DAY_MS = 24 * HOUR_MS


@pytest.fixture
def table(tmp_path: Path) -> TopicTable:
    return TopicTable(tmp_path, TOPIC)


def sizes(table: TopicTable) -> list[int]:
    return [each.rows for each in live_files(table.delta())]


def test_files_of_one_size_are_rewritten_together(table: TopicTable) -> None:
    """Once there are many, and not with one that has become large: each row is rewritten a few times at most."""
    for number in range(MANY - 1):
        load(table, [FIRST_MS + number])
    assert compact_some(table) == Rewritten()
    load(table, [FIRST_MS + number for number in range(20_000)])
    assert compact_some(table) == Rewritten()
    load(table, [FIRST_MS])
    assert compact_some(table) == (MANY, 1)
    assert sorted(sizes(table)) == [MANY, 20_000]
    assert len(offsets_in(table)) == MANY + 20_000


def test_the_small_files_of_a_date_that_is_over_become_one(table: TopicTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """One date at a time, that with most of them; then nothing is left to do."""
    for times in ([FIRST_MS], [FIRST_MS, FIRST_MS + DAY_MS], [FIRST_MS + DAY_MS, FIRST_MS]):
        load(table, times)
    assert compact_some(table) == Rewritten()
    monkeypatch.setattr(compaction, "QUIET_MS", -QUIET_MS)
    assert compact_some(table) == (3, 1)
    assert compact_some(table) == (2, 1)
    assert compact_some(table) == Rewritten()
    assert sorted(sizes(table)) == [2, 3]


class Work:
    """Stands for compaction and cleaning, which take time."""

    def __init__(self, clock: ManualClock, takes_s: float) -> None:
        self.clock = clock
        self.takes_s = takes_s
        self.due = 0
        self.compactions = 0
        self.cleanings = 0

    def compact_some(self, table: TopicTable, target_bytes: int) -> Rewritten:
        if not self.due:
            return Rewritten()
        self.due -= 1
        self.compactions += 1
        self.clock.sleep(self.takes_s)
        return Rewritten(MANY, 1)

    def clean(self, table: TopicTable) -> Cleaned:
        self.cleanings += 1
        self.clock.sleep(self.takes_s)
        return Cleaned()


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    made = Work(ManualClock(), 2.0)
    monkeypatch.setattr(tending, "compact_some", made.compact_some)
    monkeypatch.setattr(tending, "clean", made.clean)
    return made


def test_upkeep_takes_its_share_of_the_time_and_no_more(table: TopicTable, work: Work) -> None:
    """However much is due."""
    tended = Tending(0.1, clock=work.clock)
    work.due = 10_000
    began_s = work.clock.monotonic_s()
    for _ in range(2000):
        work.clock.sleep(3.0)
        tended.tend(table, has_loaded=True)
    spent_s = work.takes_s * (work.compactions + work.cleanings)
    share = spent_s / (work.clock.monotonic_s() - began_s)
    assert 0.09 < share < 0.11
    assert work.cleanings > 1


def test_what_was_saved_up_is_limited(table: TopicTable, work: Work) -> None:
    """After a quiet night no load waits for a long time."""
    tended = Tending(0.1, clock=work.clock)
    work.due = 10_000
    work.clock.sleep(12 * 3600)
    tended.tend(table, has_loaded=True)
    assert 15 <= work.takes_s * (work.compactions + work.cleanings) <= 20


def test_a_pause_is_not_made_up_for(table: TopicTable, work: Work) -> None:
    """A machine that sleeps during a piece of work for hours goes on soon after."""
    tended = Tending(0.1, clock=work.clock)
    work.clock.sleep(100)
    work.takes_s = 12 * 3600.0
    tended.tend(table, has_loaded=True)
    assert (work.cleanings, work.compactions) == (1, 0)
    work.takes_s, work.due = 2.0, 10
    work.clock.sleep(700)
    tended.tend(table, has_loaded=True)
    assert work.compactions + work.cleanings > 1


def test_nothing_is_looked_at_where_nothing_was_loaded(table: TopicTable, work: Work) -> None:
    """Nor after each load; cleaning comes once an hour."""
    tended = Tending(0.1, clock=work.clock)
    work.clock.sleep(100)
    tended.tend(table, has_loaded=False)
    work.clock.sleep(100)
    tended.tend(table, has_loaded=True)
    assert work.cleanings == 1
    work.due = 1
    for _ in range(MANY - 1):
        work.clock.sleep(100)
        tended.tend(table, has_loaded=True)
        tended.tend(table, has_loaded=False)
    assert work.compactions == 0
    tended.tend(table, has_loaded=True)
    assert work.compactions == 1
    work.clock.sleep(CLEAN_EVERY_S)
    tended.tend(table, has_loaded=False)
    assert work.cleanings == 2


@pytest.mark.parametrize(
    ("error", "level"), [(OvertakenError("late"), logging.INFO), (WarehouseError("no"), logging.WARNING)]
)
def test_no_load_fails_for_it(
    table: TopicTable,
    work: Work,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    level: int,
) -> None:
    """Another one may be at it too; that it failed is said, and it is tried again later."""

    def fail(*_: object) -> Rewritten:
        raise error

    monkeypatch.setattr(tending, "compact_some", fail)
    tended = Tending(0.1, clock=work.clock)
    work.clock.sleep(100)
    with caplog.at_level(logging.INFO):
        tended.tend(table, has_loaded=True)
    assert [each.levelno for each in caplog.records] == [level]


def test_two_loaders_may_both_tend_a_table(table: TopicTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that comes second finds its files gone, and no row is lost or doubled."""
    for number in range(MANY):
        load(table, [FIRST_MS + number])
    real = compaction.rewrite

    def rewrite(*args: object) -> int:
        monkeypatch.undo()
        clock = ManualClock()
        other = Tending(clock=clock)
        clock.sleep(100)
        other.tend(TopicTable(tmp_path, TOPIC), has_loaded=True)
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(compaction, "rewrite", rewrite)
    clock = ManualClock()
    tended = Tending(clock=clock)
    clock.sleep(100)
    tended.tend(table, has_loaded=True)
    assert sizes(table) == [MANY]
    assert offsets_in(table) == [100 * number for number in range(MANY)]
