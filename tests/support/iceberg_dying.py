"""A process that loads into Iceberg, or compacts, and kills itself before a chosen one of its steps.

    python -m tests.support.iceberg_dying WAREHOUSE load|compact STEP

A step is a call that writes: a directory, a file, a statement or a commit of the catalogue. With step 0 it lives on,
and prints the names of all steps.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.sql import SqlCatalog
from sqlalchemy import event
from sqlalchemy.engine import Engine

from kafka2011.warehouse.iceberg.storage import Storage
from kafka2011.warehouse.iceberg.synced_io import SyncedFile
from kafka2011.warehouse.iceberg_table import IcebergTable
from tests.support import iceberg_tables
from tests.support.iceberg_tables import load
from tests.support.tables import FIRST_MS, HOUR_MS, TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable

BEFORE_MS = FIRST_MS + 10 * HOUR_MS


class Steps:
    """Counts what the process does, and ends it before the one that is its last."""

    def __init__(self, last: int) -> None:
        self.names: list[str] = []
        self._last = last

    def step(self, name: str) -> None:
        """Say what comes next."""
        self.names.append(name)
        if len(self.names) == self._last:
            os.kill(os.getpid(), signal.SIGKILL)

    def before(self, owner: Any, name: str, *, after: bool = False) -> None:
        """Make a step of each call of a function, and of its return."""
        real: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(real)
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.step(name)
            returned = real(*args, **kwargs)
            if after:
                self.step(f"after {name}")
            return returned

        setattr(owner, name, counted)


def work(table: IcebergTable, what: str) -> None:
    """Do what is to be interrupted."""
    if what == "load":
        load(table, [FIRST_MS, FIRST_MS + HOUR_MS])
    else:
        table.compact(before_ms=BEFORE_MS)


def main() -> None:
    """Run it."""
    warehouse, what, last = sys.argv[1:]
    steps = Steps(int(last))
    for owner, name in (
        (Storage, "make_directory"),
        (Storage, "mark"),
        (SyncedFile, "create"),
        (iceberg_tables, "write_rows"),
    ):
        steps.before(owner, name)
    steps.before(SqlCatalog, "commit_table", after=True)

    def on_statement(_: object, __: object, statement: str, *___: object) -> None:
        if not statement.startswith(("SELECT", "PRAGMA")):
            steps.step(statement.split(maxsplit=1)[0])

    event.listen(Engine, "before_cursor_execute", on_statement)
    event.listen(Engine, "commit", lambda _: steps.step("commit"))
    work(IcebergTable(warehouse, TOPIC), what)
    print(json.dumps(steps.names))  # noqa: T201


if __name__ == "__main__":
    main()
