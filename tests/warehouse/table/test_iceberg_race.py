"""Two loaders at once, into Iceberg: each number goes to one of them, whole."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import TYPE_CHECKING

from kafka2011.warehouse.errors import OvertakenError
from kafka2011.warehouse.table.iceberg.iceberg_table import IcebergTable
from tests.support.iceberg_tables import offsets_in, staged
from tests.support.tables import FIRST_MS, TOPIC, commit_of

if TYPE_CHECKING:
    from multiprocessing.synchronize import Barrier

RACES = 8
TIMEOUT_S = 60


def racer(warehouse: str, who: int, barrier: Barrier) -> None:
    """Commit every number, as the other one does at the same moment, and write down which ones succeeded."""
    barrier.wait(TIMEOUT_S)
    table = IcebergTable(warehouse, TOPIC)  # both make the catalogue and the table
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


def test_of_two_loaders_one_succeeds(tmp_path: Path) -> None:
    """Nobody's rows are added behind the other's."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2)
    racers = [context.Process(target=racer, args=(str(tmp_path), who, barrier)) for who in (1, 2)]
    try:
        for each in racers:
            each.start()
        for each in racers:
            each.join(TIMEOUT_S)
    finally:
        for each in racers:
            each.kill()
            each.join()
    assert [each.exitcode for each in racers] == [0, 0]
    won = {who: json.loads((tmp_path / f"{who}.json").read_text()) for who in (1, 2)}
    assert sorted(won[1] + won[2]) == list(range(1, RACES + 1))
    table = IcebergTable(tmp_path, TOPIC)
    ends = {commit.number: next(iter(commit.offsets.values())) // 100 for commit in table.commits()}
    assert ends == {number: who for who in won for number in won[who]}
    assert offsets_in(table) == sorted(100 * (1000 * who + number) for who in won for number in won[who])
    assert table.clean(older_than_s=-1).directories == 0
