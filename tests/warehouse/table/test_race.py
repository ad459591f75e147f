"""Two loaders at once, a hundred times: each number goes to one of them, whole."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import TYPE_CHECKING

from kafka2011.warehouse.errors import OvertakenError
from kafka2011.warehouse.table.parquet.parquet_table import ParquetTable
from tests.support.tables import TOPIC, commit_of

if TYPE_CHECKING:
    from multiprocessing.synchronize import Barrier

RACES = 100
TIMEOUT_S = 60


def racer(warehouse: str, who: int, barrier: Barrier) -> None:
    """Commit every number, as the other one does at the same moment, and write down which ones succeeded."""
    won = []
    for number in range(1, RACES + 1):
        table = ParquetTable(warehouse, TOPIC)
        staging = table.begin()
        Path(staging, f"rows-{who}").touch()
        commit = commit_of(number, who)
        barrier.wait(TIMEOUT_S)
        try:
            table.commit(staging, commit)
            won.append(number)
        except OvertakenError:
            table.abandon(staging)
        barrier.wait(TIMEOUT_S)  # the next number follows this one
    Path(warehouse, f"{who}.json").write_text(json.dumps(won))


def test_of_two_loaders_one_succeeds(tmp_path: Path) -> None:
    """Nobody's rename goes over, into or beside the other's."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2)
    racers = [context.Process(target=racer, args=(str(tmp_path / "warehouse"), who, barrier)) for who in (1, 2)]
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
    won = {who: json.loads((tmp_path / "warehouse" / f"{who}.json").read_text()) for who in (1, 2)}
    assert sorted(won[1] + won[2]) == list(range(1, RACES + 1))
    table = ParquetTable(tmp_path / "warehouse", TOPIC)
    for commit in table.commits():
        [end] = commit.offsets.values()
        assert commit.number in won[end]
        names = sorted(each.name for each in Path(table.directory(commit.number)).iterdir())
        assert names == ["_offsets.json", f"rows-{end}"]
    assert list(Path(table.staging).iterdir()) == []
