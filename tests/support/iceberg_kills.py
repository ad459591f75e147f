"""Kills a process that commits to Iceberg, and says what is in the table then."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

from kafka2011.warehouse.table.iceberg.iceberg_table import IcebergTable
from tests.support.iceberg_dying import BEFORE_MS
from tests.support.iceberg_tables import load, offsets_in
from tests.support.tables import FIRST_MS, HOUR_MS, TOPIC

ROOT = Path(__file__).parent.parent.parent
TIMEOUT_S = 60
ROWS = 4


def prepared(warehouse: Path) -> IcebergTable:
    """Return a table of two loads."""
    table = IcebergTable(warehouse, TOPIC)
    for _ in range(2):
        load(table, [FIRST_MS, FIRST_MS + HOUR_MS])
    return table


def steps_of(warehouse: Path, what: str) -> list[str]:
    """Let a process do all of it, and return the names of its steps."""
    prepared(warehouse)
    names: list[str] = json.loads(_run(warehouse, what, 0).stdout.splitlines()[-1])
    return names


def kill_and_check(warehouse: Path, what: str, step: int) -> bool:
    """Kill a process before a step; return whether it has committed. All or nothing is there, and work goes on."""
    table = prepared(warehouse)
    done = _run(warehouse, what, step)
    assert done.returncode == -signal.SIGKILL, done.stderr
    newest = table.newest()
    assert newest is not None
    has_committed = newest.number == 3
    rows = ROWS + (2 if what == "load" and has_committed else 0)
    assert newest.number in {2, 3}
    assert list(newest.offsets.values()) == [100 * rows]
    assert offsets_in(table) == [100 * number for number in range(rows)]
    load(table, [FIRST_MS])
    table.compact(before_ms=BEFORE_MS)
    table.clean(older_than_s=-1)  # as if it all were old
    assert offsets_in(table) == [100 * number for number in range(rows + 1)]
    assert {path.parent for path in _parquet(table)} == {
        Path(str(task.file.file_path).removeprefix("file://")).parent
        for snapshot in table.iceberg().snapshots()
        for task in table.iceberg().scan(snapshot_id=snapshot.snapshot_id).plan_files()
    }
    return has_committed


def _parquet(table: IcebergTable) -> list[Path]:
    return list(Path(table.iceberg().location().removeprefix("file://")).rglob("*.parquet"))


def _run(warehouse: Path, what: str, step: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.support.iceberg_dying", str(warehouse), what, str(step)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
