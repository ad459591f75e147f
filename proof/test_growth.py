"""A table as after a year of loads: a commit, and reading the newest rows, cost at most twice what they first did.

GROWTH_COMMITS loads (50,000) bring rows of 365 days, one day after the other, with the upkeep of `load --follow` beside
them. A year is run through in two hours or so, so what upkeep knows as an hour is seconds here. With GROWTH_DIRECTORY
the table stays there, and a run that was stopped goes on where it was.
"""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kafka2011.warehouse import open_table
from kafka2011.warehouse.table import compaction, tending, topic_table
from kafka2011.warehouse.table.cleaning import MOST_ENTRIES, clean
from kafka2011.warehouse.table.compaction import MANY
from kafka2011.warehouse.table.dataset import live_files
from kafka2011.warehouse.table.status import status_of
from kafka2011.warehouse.table.tending import Tending
from kafka2011.warehouse.table.topic_table import TopicTable
from tests.support.tables import FIRST_MS, HOUR_MS, TOPIC, load

if TYPE_CHECKING:
    from collections.abc import Callable

COMMITS = int(os.environ.get("GROWTH_COMMITS", "50000"))
DAYS = 365
QUIET_MS = 100 * COMMITS // DAYS
"""About as long as the loads of a day take here; no more rows come to it then."""
DAY_MS = 24 * HOUR_MS
WINDOW = 200
"""So many commits are measured, and between them every tenth time a read."""
FIRST = 100
"""By then a table has had its first compactions."""
ROWS = 20


class Cost(NamedTuple):
    """Milliseconds, the median: by the clock, and of the processor."""

    wall_ms: float
    cpu_ms: float


class Window(NamedTuple):
    """What commits and reads cost for a while, and what there was by the end of it."""

    commit: Cost
    read: Cost
    live_files: int
    entries: int


def timed(calls: int, call: Callable[[int], object]) -> Cost:
    wall_ms, cpu_ms = [], []
    for number in range(calls):
        began = time.perf_counter(), time.process_time()
        call(number)
        wall_ms.append(1000 * (time.perf_counter() - began[0]))
        cpu_ms.append(1000 * (time.process_time() - began[1]))
    return Cost(round(median(wall_ms), 1), round(median(cpu_ms), 1))


class Year:
    """A table that grows."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.table = TopicTable(directory, TOPIC)
        self.tending = Tending(0.5)
        self.notes = directory / "first.json"

    @property
    def number(self) -> int:
        newest = self.table.newest()
        return newest.number if newest else 0

    def load(self, number: int) -> None:
        load(self.table, [self._day_ms(number) + n for n in range(ROWS)])

    def grow(self, to: int) -> None:
        for number in range(self.number + 1, to + 1):
            self.load(number)
            self.tending.tend(self.table, has_loaded=True)

    def read(self, _: int) -> None:
        """Read the rows of the newest day."""
        rows = open_table(self.directory, TOPIC)
        since = datetime.fromtimestamp(self._day_ms(self.number) / 1000, UTC)
        newest = pc.field("time") >= pa.scalar(since, pa.timestamp("us", tz="UTC"))
        assert rows.to_table(filter=newest).num_rows >= ROWS

    def measure(self) -> Window:
        numbers = count(self.number + 1)
        commits, reads = [], []
        for number in range(WINDOW):
            commits.append(timed(1, lambda _: self.load(next(numbers))))
            self.tending.tend(self.table, has_loaded=True)
            if number % 10 == 0:
                reads.append(timed(1, self.read))
        live = live_files(self.table.delta())
        entries = len(list(Path(self.table.path, "_delta_log").glob("*.json")))
        return Window(_median(commits), _median(reads), len(live), entries)

    def _day_ms(self, number: int) -> int:
        return FIRST_MS + number * DAYS // COMMITS * DAY_MS


def _median(costs: list[Cost]) -> Cost:
    return Cost(*(round(median(each), 1) for each in zip(*costs, strict=True)))


@pytest.mark.timeout(6 * 3600)
def test_after_a_year_commits_and_reads_cost_at_most_twice_as_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By processor time, in one run; and no small files are left of days that are over."""
    monkeypatch.setattr(compaction, "QUIET_MS", QUIET_MS)
    monkeypatch.setattr(tending, "clean", partial(clean, older_than_s=0))
    short = {"delta.deletedFileRetentionDuration": "interval 30 seconds"}
    monkeypatch.setattr(topic_table, "PROPERTIES", topic_table.PROPERTIES | short)
    directory = Path(os.environ.get("GROWTH_DIRECTORY", tmp_path))
    directory.mkdir(exist_ok=True)
    year = Year(directory)
    if not year.notes.exists():
        year.grow(FIRST)
        year.notes.write_text(json.dumps(year.measure()))
    commit, read, *others = json.loads(year.notes.read_text())
    first = Window(Cost(*commit), Cost(*read), *others)
    for stop in range(year.number, COMMITS, 2000):
        year.grow(min(stop + 2000, COMMITS))
        print(f"{year.number}: {year.measure()}", flush=True)  # noqa: T201
    last = year.measure()
    print(f"first {first}\nlast  {last} after {year.number} commits")  # noqa: T201
    assert last.commit.cpu_ms <= 2 * first.commit.cpu_ms
    assert last.read.cpu_ms <= 2 * first.read.cpu_ms
    assert last.live_files <= DAYS + 10 * MANY
    assert last.entries <= 2 * MOST_ENTRIES
    [status] = status_of(str(directory))
    assert (status.loads, status.rows) == (year.number, ROWS * year.number)
    assert open_table(directory, TOPIC).count_rows() == ROWS * year.number
