"""Kills a process that changes a table, and says what is in the table then."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from kafka2011.warehouse.table.cleaning import clean
from kafka2011.warehouse.table.compaction import compact
from kafka2011.warehouse.table.dataset import live_files
from kafka2011.warehouse.table.topic_table import TopicTable
from tests.support.dying import environment, steps_in
from tests.support.tables import FIRST_MS, HOUR_MS, TOPIC, load, offsets_in

ROOT = Path(__file__).parent.parent.parent
TIMEOUT_S = 60
LOADS = 8
"""The next entry of the log comes with a checkpoint."""
ROWS = 2 * LOADS


def prepared(warehouse: Path) -> TopicTable:
    """Return a table of a few loads."""
    table = TopicTable(warehouse, TOPIC)
    for _ in range(LOADS):
        load(table, [FIRST_MS, FIRST_MS + HOUR_MS])
    return table


def steps_of(warehouse: Path, what: str) -> list[str]:
    """Let a process do all of it, and return its steps."""
    prepared(warehouse)
    done = _run(warehouse, what, 0)
    assert done.returncode == 0, done.stderr
    return steps_in(_steps(warehouse))


def kill_and_check(warehouse: Path, what: str, step: int) -> bool:
    """Kill a process before a step; return whether it has committed. All or nothing is there, and work goes on."""
    table = prepared(warehouse)
    before = table.delta().version()
    done = _run(warehouse, what, step)
    assert done.returncode == -signal.SIGKILL, done.stderr
    has_committed = table.delta().version() > before
    newest = table.newest()
    assert newest is not None
    loads = LOADS + (what == "load" and has_committed)
    rows = 2 * loads
    assert newest.number == loads
    assert list(newest.offsets.values()) == [100 * rows]
    assert offsets_in(table) == [100 * number for number in range(rows)]
    load(table, [FIRST_MS])
    compact(table)
    clean(table, older_than_s=-1, at_rest=True)  # as if it all were old
    load(table, [FIRST_MS])
    assert offsets_in(table) == [100 * number for number in range(rows + 2)]
    live = {f"{table.path}/{each.path}" for each in live_files(table.delta())}
    assert {str(path) for path in Path(table.path, "data").rglob("*.parquet")} == live
    assert not list(Path(table.path).rglob("*#*"))
    return has_committed


def _steps(warehouse: Path) -> Path:
    return warehouse.with_name(f"{warehouse.name}-steps")


def _run(warehouse: Path, what: str, step: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.support.table_dying", str(warehouse), what]
    environ = environment(_steps(warehouse), warehouse, step)
    return subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
