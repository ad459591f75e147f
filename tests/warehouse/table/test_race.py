"""Two loaders at once: each number goes to one of them, whole."""

from __future__ import annotations

import json
import multiprocessing
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kafka2011.warehouse.errors import OvertakenError
from kafka2011.warehouse.table.cleaning import clean
from kafka2011.warehouse.table.compaction import compact
from kafka2011.warehouse.table.topic_table import TopicTable
from tests.support.tables import FIRST_MS, TOPIC, commit_of, load, offsets_in, staged

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.synchronize import Barrier

RACES = 8
TIMEOUT_S = 60


def racer(warehouse: str, who: int, barrier: Barrier) -> None:
    """Commit every number, as the other one does at the same moment, and write down which ones succeeded."""
    barrier.wait(TIMEOUT_S)
    table = TopicTable(warehouse, TOPIC)  # both make the table
    won = []
    for number in range(1, RACES + 1):
        staging = staged(table, number, [FIRST_MS], first=who * 1000 + number)
        barrier.wait(TIMEOUT_S)
        try:
            table.commit(staging, commit_of(number, 100 * who, rows=1))
            won.append(number)
        except OvertakenError:
            table.abandon(staging)
        barrier.wait(TIMEOUT_S)  # the next number follows this one
    Path(warehouse, f"{who}.json").write_text(json.dumps(won))


def run(works: Sequence[tuple[Callable[..., None], tuple[int, ...]]], warehouse: Path) -> None:
    """Let processes do these at once."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(len(works))
    processes = [context.Process(target=work, args=(str(warehouse), *args, barrier)) for work, args in works]
    try:
        for each in processes:
            each.start()
        for each in processes:
            each.join(TIMEOUT_S)
    finally:
        for each in processes:
            each.kill()
            each.join()
    assert [each.exitcode for each in processes] == [0] * len(works)


def test_of_two_loaders_one_succeeds(tmp_path: Path) -> None:
    """Nobody's rows are added behind the other's."""
    run([(racer, (1,)), (racer, (2,))], tmp_path)
    won = {who: json.loads((tmp_path / f"{who}.json").read_text()) for who in (1, 2)}
    assert sorted(won[1] + won[2]) == list(range(1, RACES + 1))
    table = TopicTable(tmp_path, TOPIC)
    ends = {commit.number: next(iter(commit.offsets.values())) // 100 for commit in table.commits()}
    assert ends == {number: who for who in won for number in won[who]}
    assert offsets_in(table) == sorted(100 * (1000 * who + number) for who in won for number in won[who])
    assert clean(table, older_than_s=-1).files == 0


def compactor(warehouse: str, barrier: Barrier) -> None:
    """Compact again and again, as another one does at the same moments."""
    table = TopicTable(warehouse, TOPIC)
    for _ in range(RACES):
        barrier.wait(TIMEOUT_S)
        with suppress(OvertakenError):
            compact(table)


def loader(warehouse: str, barrier: Barrier) -> None:
    """Load at these moments, and once more."""
    table = TopicTable(warehouse, TOPIC)
    for _ in range(RACES):
        barrier.wait(TIMEOUT_S)
        load(table, [FIRST_MS])
        load(table, [FIRST_MS])


def test_two_compactions_and_a_loader_lose_and_repeat_no_row(tmp_path: Path) -> None:
    """Whoever comes first; every load succeeds."""
    table = TopicTable(tmp_path, TOPIC)
    for _ in range(4):
        load(table, [FIRST_MS])
    run([(compactor, ()), (compactor, ()), (loader, ())], tmp_path)
    newest = table.newest()
    assert newest is not None
    assert newest.number == 4 + 2 * RACES
    assert offsets_in(table) == [100 * number for number in range(4 + 2 * RACES)]
    compact(table)
    assert len(table.delta().file_uris()) == 1
    assert offsets_in(table) == [100 * number for number in range(4 + 2 * RACES)]
