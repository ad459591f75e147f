"""A process that loads into Iceberg, or compacts, and kills itself before a chosen one of its steps.

    python -m tests.support.iceberg_dying WAREHOUSE load|compact STEP

A step is a call that writes: a directory, a file, a statement or a commit of the catalogue. With step 0 it lives on,
and prints the names of all steps.
"""

from __future__ import annotations

import json
import sys

from kafka2011.warehouse.table.iceberg.iceberg_table import IcebergTable
from tests.support import iceberg_tables
from tests.support.dying import Steps
from tests.support.iceberg_tables import load
from tests.support.tables import FIRST_MS, HOUR_MS, TOPIC

BEFORE_MS = FIRST_MS + 10 * HOUR_MS


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
    steps.before(iceberg_tables, "write_rows")
    steps.before_commits()
    work(IcebergTable(warehouse, TOPIC), what)
    print(json.dumps(steps.names))  # noqa: T201


if __name__ == "__main__":
    main()
