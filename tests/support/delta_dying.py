"""A process that loads into Delta, or compacts; `delta_kills` kills it.

python -m tests.support.delta_dying WAREHOUSE load|compact
"""

from __future__ import annotations

import sys

from kafka2011.warehouse.table.delta.compaction import compact
from kafka2011.warehouse.table.delta.delta_table import TopicTable
from tests.support.delta_tables import load
from tests.support.tables import FIRST_MS, HOUR_MS, TOPIC


def main() -> None:
    """Do what is to be interrupted."""
    warehouse, what = sys.argv[1:]
    table = TopicTable(warehouse, TOPIC)
    if what == "load":
        load(table, [FIRST_MS, FIRST_MS + HOUR_MS])
    else:
        compact(table)


if __name__ == "__main__":
    main()
