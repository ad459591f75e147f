"""Hundreds of commits beside continuous cleaning and compaction, on a directory and in S3: committed rows stay."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from kafka2011.warehouse import open_table
from kafka2011.warehouse.errors import GivenUpError, OvertakenError, WarehouseError
from kafka2011.warehouse.table.cleaning import clean
from kafka2011.warehouse.table.compaction import compact
from kafka2011.warehouse.table.topic_table import TopicTable
from tests.support.s3_server import s3_server
from tests.support.tables import FIRST_MS, TOPIC, load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

COMMITS = int(os.environ.get("CLEANING_COMMITS", "500"))
TIMEOUT_S = 1500

pytestmark = pytest.mark.timeout(2 * TIMEOUT_S)


@pytest.fixture(params=["directory", "s3"])
def warehouse(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with ExitStack() as stack:
        if request.param == "s3":
            for name, value in stack.enter_context(s3_server()).environment().items():
                monkeypatch.setenv(name, value)
            yield "s3://bucket/warehouse"
        else:
            yield str(tmp_path)


@pytest.mark.parametrize("at_rest", [False, True])
def test_commits_beside_continuous_cleaning_and_compaction_keep_their_rows(warehouse: str, at_rest: bool) -> None:
    """Of any age. What is spared for an hour lets every load succeed; without that they fail and load again."""
    ended = threading.Event()
    load(TopicTable(warehouse, TOPIC), [FIRST_MS])

    def again_and_again(work: Callable[[TopicTable], object]) -> int:
        done = 0
        while not ended.is_set():
            try:
                work(TopicTable(warehouse, TOPIC))
                done += 1
            except (GivenUpError, OvertakenError):
                continue
            except (WarehouseError, OSError):
                if not at_rest:  # then a compaction may lose its files at any step
                    raise
        return done

    def load_all() -> int:
        failed = 0
        table = TopicTable(warehouse, TOPIC)
        while (newest := table.newest()) is None or newest.number < COMMITS:
            try:
                load(table, [FIRST_MS])
            except (WarehouseError, OSError):
                failed += 1
        return failed

    with ThreadPoolExecutor(3) as threads:
        loads = threads.submit(load_all)
        cleanings = threads.submit(again_and_again, lambda table: clean(table, older_than_s=0, at_rest=at_rest))
        compactions = threads.submit(again_and_again, compact)
        try:
            failed = loads.result(TIMEOUT_S)
        finally:
            ended.set()
        done = f"{failed} loads failed, {cleanings.result()} cleanings, {compactions.result()} compactions"
    print(f"{COMMITS} commits: {done}")  # noqa: T201
    assert failed == 0 or at_rest
    rows = open_table(warehouse, TOPIC).to_table(columns=["kafka2011_offset"])
    assert sorted(rows["kafka2011_offset"].to_pylist()) == [100 * number for number in range(COMMITS)]
