"""A loader, compactions that are killed again and again, and a reader, in processes of their own."""

from __future__ import annotations

import multiprocessing
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from kafka2011.warehouse import open_table
from kafka2011.warehouse.errors import OvertakenError
from kafka2011.warehouse.table.parquet.compact import compact
from kafka2011.warehouse.table.parquet.parquet_table import ParquetTable
from tests.support.tables import FIRST_MS, ROW_BYTES, TOPIC, load

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event
    from pathlib import Path

ROWS = 3
GRACE_S = 0.5
LOADS = 25
KILL_AFTER_S = (0.3, 0.1, 0.02, 0.2, 0.05)
TIMEOUT_S = 60
NEVER_MS = FIRST_MS**2


def loader(warehouse: str) -> None:
    """Load so often; a compaction may take the number first."""
    loads = 0
    while loads < LOADS:
        with suppress(OvertakenError):
            load(ParquetTable(warehouse, TOPIC), [FIRST_MS] * ROWS)
            loads += 1


def compactor(warehouse: str, begun: Event) -> None:
    """Rewrite whatever there is, again and again, until it is killed."""
    begun.set()
    while True:
        compact(ParquetTable(warehouse, TOPIC), before_ms=NEVER_MS, grace_s=GRACE_S, sleep=lambda s: None)


def test_a_reader_sees_whole_loads_once_each(tmp_path: Path) -> None:
    """Whatever moment it comes at; in the end all is there, in one file."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])  # so that each start is quick
    table = ParquetTable(tmp_path, TOPIC)
    load(table, [FIRST_MS] * ROWS)
    loading = context.Process(target=loader, args=(str(tmp_path),))
    processes = [loading]
    loading.start()
    deadline_s = time.monotonic() + TIMEOUT_S
    seen = looks = kills = 0
    try:
        while loading.is_alive():
            assert time.monotonic() < deadline_s, "the loads came to no end"
            begun = context.Event()
            compacting = context.Process(target=compactor, args=(str(tmp_path), begun))
            processes.append(compacting)
            compacting.start()
            assert begun.wait(TIMEOUT_S)
            compacting.join(KILL_AFTER_S[kills % len(KILL_AFTER_S)])
            rows = open_table(tmp_path, TOPIC)
            with suppress(FileNotFoundError):  # where this process stood still for longer than the grace
                offsets = rows.to_table(columns=["kafka2011_offset"])["kafka2011_offset"].to_pylist()
                assert sorted(offsets) == list(range(0, ROW_BYTES * len(offsets), ROW_BYTES))
                assert len(offsets) % ROWS == 0
                assert len(offsets) >= seen
                seen = len(offsets)
                looks += 1
            assert compacting.exitcode is None, "it failed"
            compacting.kill()
            compacting.join()
            kills += 1
        assert loading.exitcode == 0
    finally:
        for each in processes:
            each.kill()
            each.join()
    assert looks
    compact(table, before_ms=NEVER_MS, grace_s=0, sleep=lambda s: None)
    assert open_table(tmp_path, TOPIC).count_rows() == (1 + LOADS) * ROWS
    assert len(list(tmp_path.joinpath(TOPIC).rglob("*.parquet"))) == 1
